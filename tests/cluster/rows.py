"""What each row of docs/cluster.md's table of commands over nodes says, tried on a real cluster through Keyrail.

`ROWS` has a function for each decision. It sends the row's commands by `Stage.ask` and looks at the nodes themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import cast

from proxy.commands.command import Command
from proxy.commands.over_nodes import Destination, Join, OverNodes
from proxy.commands.slots import slot_of
from proxy.commands.table import STANDARD
from tests.cluster.nodes import RealCluster
from tests.commands.invocations import INVOCATIONS, split
from tests.engines import Engine
from tests.keyrail_process import Keyrail
from tests.resp import Address, Failure, Value, Wire, decode, eventually

TAGS = ("b", "c", "a")
"""A hash tag of each primary, in the order of their slots."""

UNTRIED = {"PFSELFTEST"}
"""It keeps its node busy for so long that others doubt that it lives."""

Row = Callable[["Stage"], None]
ROWS: dict[OverNodes, Row] = {}


def row(destination: Destination, join: Join = Join.NONE) -> Callable[[Row], Row]:
    """The function tries this row."""

    def register(function: Row) -> Row:
        ROWS[OverNodes(destination, join)] = function
        return function

    return register


class Stage:
    """A cluster that is empty, and Keyrails before it: a plain one, one whose policy splits MSET, and one address of a
    cluster of Keyrails. ``asked`` are the commands that were sent to them."""

    def __init__(self, cluster: RealCluster, plain: Keyrail, splitting: Keyrail, presented: Address) -> None:
        self.cluster = cluster
        self.plain = plain
        self.asked: set[str] = set()
        self._open = ExitStack()
        self.splitting, self.presented = self._wire(splitting.address), self._wire(presented)
        self._main = self._wire(plain.address)

    def _wire(self, address: Address) -> Wire:
        return self._open.enter_context(Wire(address))

    def client(self) -> Wire:
        """One more client of the plain Keyrail."""
        return self._wire(self.plain.address)

    def direct(self, node: Engine) -> Wire:
        """A client of a node."""
        return self._wire(node.address)

    @property
    def primaries(self) -> Sequence[Engine]:
        return self.cluster.nodes[:3]

    @property
    def is_valkey(self) -> bool:
        return self.cluster.kind.is_valkey

    def ask(self, *words: str | bytes | int, by: Wire | None = None) -> Value:
        """What Keyrail answers."""
        self.say(*words, by=by)
        return decode((by or self._main).frame())

    def say(self, *words: str | bytes | int, by: Wire | None = None) -> None:
        """Send a command to Keyrail."""
        self.asked.add(
            STANDARD.spec_of([word if isinstance(word, bytes) else str(word).encode() for word in words]).name
        )
        (by or self._main).say(*words)

    def fill(self) -> list[str]:
        """Three keys of each primary, which are their own values."""
        keys = [f"{{{tag}}}:{number}" for number in range(3) for tag in TAGS]
        for key in keys:
            assert self.ask("SET", key, key) == b"OK"
        return keys

    def told(self, *words: str | bytes | int, of: Sequence[Engine] | None = None) -> list[Value]:
        """What the primaries, or these nodes, answer themselves."""
        return [node.do(*words) for node in (self.primaries if of is None else of)]

    def close(self) -> None:
        """Close all clients."""
        self._open.close()


# One node


@row(Destination.SLOT)
def to_the_slot_of_the_keys(stage: Stage) -> None:
    for argv in of_several_slots():
        reply = stage.ask(*argv)
        assert isinstance(reply, Failure), argv
        unknown = reply.text.startswith(b"ERR unknown command")  # to this engine
        assert unknown or reply.text == b"CROSSSLOT Keys in request don't hash to the same slot", argv
    assert stage.told("DBSIZE") == [0, 0, 0], "nothing of these has run"
    for node, tag in zip(stage.primaries, TAGS, strict=True):
        assert stage.ask("SET", f"{{{tag}}}1", tag) == b"OK"
        assert stage.ask("RENAME", f"{{{tag}}}1", f"{{{tag}}}2") == b"OK"
        assert stage.ask("MSETNX", f"{{{tag}}}3", "x", f"{{{tag}}}4", "y") == 1
        assert stage.ask("SADD", f"{{{tag}}}s", "a", "b") == 2
        assert stage.ask("SUNIONSTORE", f"{{{tag}}}u", f"{{{tag}}}s", f"{{{tag}}}none") == 2
        assert stage.ask("EVAL", "return redis.call('incr', KEYS[1])", 1, f"{{{tag}}}n") == 1
        assert node.do("DBSIZE") == 6
        assert stage.ask("SPUBLISH", tag, "nobody hears it") == 0
    assert stage.ask("EVAL", "return 5", 0) == 5


def of_several_slots() -> list[list[bytes]]:
    """Real invocations with keys of several slots, of commands that go to one."""
    found = []
    for line, _ in INVOCATIONS:
        command = Command(STANDARD, split(line))
        slots = {slot_of(key.name) for key in command.known_keys}
        if len(slots) > 1 and command.spec.over_nodes == (Destination.SLOT, Join.NONE):
            found.append(command.argv)
    assert len(found) > 30
    return found


@row(Destination.SLOT_NUMBER)
def to_the_slot_of_the_argument(stage: Stage) -> None:
    """Clients of a cluster of Keyrails have these."""
    stage.fill()
    for tag in TAGS:
        slot = slot_of(tag.encode())
        assert stage.ask("CLUSTER", "COUNTKEYSINSLOT", slot, by=stage.presented) == 3
        keys = stage.ask("CLUSTER", "GETKEYSINSLOT", slot, 10, by=stage.presented)
        assert sorted(cast("list[bytes]", keys)) == [f"{{{tag}}}:{number}".encode() for number in range(3)]


@row(Destination.ANY)
def to_any_primary(stage: Stage) -> None:
    assert stage.ask("ECHO", "x") == b"x"
    assert stage.ask("PING") == b"PONG"
    assert stage.ask("ACL", "WHOAMI") == b"default"
    assert stage.ask("COMMAND", "GETKEYS", "MGET", "a", "b") == [b"a", b"b"]
    assert stage.ask("SUBSCRIBE", "x", by=(subscriber := stage.client())) == [b"subscribe", b"x", 1]
    assert stage.ask("UNSUBSCRIBE", "x", by=subscriber) == [b"unsubscribe", b"x", 0]
    assert stage.ask("PSUBSCRIBE", "x*", by=subscriber) == [b"psubscribe", b"x*", 1]
    assert stage.ask("PUNSUBSCRIBE", "x*", by=subscriber) == [b"punsubscribe", b"x*", 0]
    swapped = stage.ask("SWAPDB", 0, 1)
    assert isinstance(swapped, Failure)
    with stage.direct(stage.primaries[0]) as direct:
        for words in ALIKE:
            assert type(stage.ask(*words.split())) is type(direct.value(*words.split())), words
    for web in ("POST", "HOST:"):
        stage.say(web, by=(browser := stage.client()))
        assert browser.remaining() == [], "a web page is closed, as by Redis"


ALIKE = [
    *("ACL CAT", "ACL DRYRUN default get a", "ACL GENPASS", "ACL GETUSER default", "ACL LIST", "ACL USERS"),
    *("COMMAND COUNT", "COMMAND DOCS get", "COMMAND GETKEYSANDFLAGS get a", "COMMAND INFO get", "COMMAND LIST"),
    *("CLIENT CAPA redirect", "FUNCTION DUMP", "LOLWUT", "MODULE LIST", "TIME"),
]


@row(Destination.ONE_NODE)
def to_the_first_primary(stage: Stage) -> None:
    first = stage.primaries[0]
    before = first.do("CONFIG", "GET", "hz")
    first.do("CONFIG", "SET", "hz", 37)
    first.do("CONFIG", "SET", "slowlog-log-slower-than", 0)
    try:
        assert stage.ask("CONFIG", "GET", "hz") == [b"hz", b"37"]
        assert cast("int", stage.ask("SLOWLOG", "LEN")) > 0
        assert b"run_id:" + first.info("server")["run_id"].encode() in cast("bytes", stage.ask("INFO", "server"))
        blocked = stage.direct(first)
        number = blocked.value("CLIENT", "ID")
        blocked.say("BLPOP", "{b}list", 0)
        eventually(lambda: stage.ask("CLIENT", "UNBLOCK", cast("int", number)) == 1)
        assert stage.ask("CLIENT", "KILL", "ID", cast("int", number)) == 1
        for words in OF_ONE:
            assert type(stage.ask(*words.split())) is type(decode(stage.direct(first).ask(*words.split()))), words
    finally:
        first.do("CONFIG", "SET", "hz", cast("list[bytes]", before)[1])
        first.do("CONFIG", "SET", "slowlog-log-slower-than", 10_000)
        first.do("SLOWLOG", "RESET")


OF_ONE = [
    *("ACL LOG", "CLIENT GETREDIR", "CLIENT ID", "CLIENT INFO", "CLIENT LIST", "CLIENT TRACKINGINFO", "FUNCTION STATS"),
    *("COMMANDLOG GET 1 slow", "COMMANDLOG LEN slow", "LATENCY DOCTOR", "LATENCY GRAPH command", "LATENCY HISTOGRAM"),
    *("LATENCY HISTORY command", "LATENCY LATEST", "MEMORY DOCTOR", "MEMORY MALLOC-STATS", "MEMORY STATS", "ROLE"),
    "SLOWLOG GET",
]


# By keys of several slots


@row(Destination.SPLIT, Join.BY_KEY)
def values_in_the_order_of_the_keys(stage: Stage) -> None:
    keys = stage.fill()
    assert stage.ask("MGET", *keys, "none", keys[0]) == [*(key.encode() for key in keys), None, keys[0].encode()]


@row(Destination.SPLIT, Join.SUM)
def sums_of_keys(stage: Stage) -> None:
    keys = stage.fill()
    for verb in ("EXISTS", "TOUCH"):
        assert stage.ask(verb, *keys, "none") == len(keys)
    assert stage.ask("DEL", *keys[:6], "none") == 6
    assert stage.told("DBSIZE") == [1, 1, 1]
    assert stage.ask("UNLINK", *keys) == 3
    assert stage.told("DBSIZE") == [0, 0, 0]


@row(Destination.SPLIT_IF_ALLOWED, Join.ALL_SUCCEEDED)
def split_where_the_policy_says_so(stage: Stage) -> None:
    pairs = [word for tag in TAGS for word in (f"{{{tag}}}1", tag)]
    refused = stage.ask("MSET", *pairs)
    assert refused == Failure(b"CROSSSLOT Keys in request don't hash to the same slot")
    assert stage.told("DBSIZE") == [0, 0, 0]
    assert stage.ask("MSET", *pairs, by=stage.splitting) == b"OK"
    assert stage.told("DBSIZE") == [1, 1, 1]
    assert stage.ask("MSET", "{b}1", "x", "{b}2", "y") == b"OK"
    assert stage.ask("MGET", "{b}1", "{b}2", "{c}1") == [b"x", b"y", b"c"]


@row(Destination.TRANSACTION)
def a_transaction_of_one_node(stage: Stage) -> None:
    for tag in TAGS:
        wire = stage.client()
        assert stage.ask("WATCH", f"{{{tag}}}w", by=wire) == b"OK"
        assert stage.ask("MULTI", by=wire) == b"OK"
        assert stage.ask("INCR", f"{{{tag}}}n", by=wire) == b"QUEUED"
        assert stage.ask("EXEC", by=wire) == [1]
        assert stage.ask("WATCH", f"{{{tag}}}w", by=wire) == b"OK"
        assert stage.ask("SET", f"{{{tag}}}w", "x") == b"OK"
        assert stage.ask("MULTI", by=wire) == b"OK"
        assert stage.ask("INCR", f"{{{tag}}}n", by=wire) == b"QUEUED"
        assert stage.ask("EXEC", by=wire) is None
        assert stage.ask("WATCH", f"{{{tag}}}w", by=wire) == b"OK"
        assert stage.ask("UNWATCH", by=wire) == b"OK"
        assert stage.ask("MULTI", by=wire) == b"OK"
        assert stage.ask("INCR", f"{{{tag}}}n", by=wire) == b"QUEUED"
        assert stage.ask("DISCARD", by=wire) == b"OK"
        assert stage.ask("GET", f"{{{tag}}}n", by=wire) == b"1"
    assert stage.ask("MULTI") == b"OK"
    assert stage.ask("SET", "{b}x", "x") == b"QUEUED"
    assert cast("Failure", stage.ask("SET", "{c}x", "x")).text.startswith(b"CROSSSLOT")
    assert cast("Failure", stage.ask("EXEC")).text.startswith(b"EXECABORT")
    assert stage.ask("EXISTS", "{b}x", "{c}x") == 0


@row(Destination.WALK)
def one_cursor_over_all(stage: Stage) -> None:
    keys, cursor, found = stage.fill(), b"0", set[bytes]()
    while not found or cursor != b"0":
        cursor, page = cast("tuple[bytes, list[bytes]]", stage.ask("SCAN", cursor, "COUNT", 2))
        found.update(page)
    assert found == {key.encode() for key in keys}


@row(Destination.WAIT, Join.MIN)
def replicas_of_what_was_written(stage: Stage) -> None:
    stage.fill()
    assert stage.ask("WAIT", 1, 0) == 1
    waited = stage.ask("WAITAOF", 0, 0, 0)
    if stage.is_valkey:
        assert cast("list[int]", waited)[0] == 0, "nothing is on a disk"
    else:
        assert cast("Failure", waited).text.startswith(b"ERR unknown command")
