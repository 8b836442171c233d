"""The rows of docs/cluster.md's table about commands that go to all nodes, are about a client's connection, or go
nowhere, tried as `tests.cluster.rows` says."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import cast

from proxy.commands.over_nodes import Destination, Join
from proxy.commands.table import STANDARD
from tests.cluster.rows import ROWS, TAGS, Stage, row
from tests.engines import Engine
from tests.resp import Failure, Value, Wire, eventually

SCRIPT = "return 'of rows'"
SHA = hashlib.sha1(SCRIPT.encode(), usedforsecurity=False).hexdigest()
LIBRARY = """#!lua name=rows
redis.register_function('seven', function() return 7 end)
redis.register_function('endless', function() while true do end end)"""
PAUSE_MS = 600_000
"""Longer than any test waits."""


def subscribed(stage: Stage, verb: str, name: str) -> list[Wire]:
    """A client of each primary that has subscribed there."""
    wires = [stage.direct(node) for node in stage.primaries]
    for wire in wires:
        wire.ask(verb, name)
    return wires


@row(Destination.ALL_PRIMARIES, Join.SUM)
def sums(stage: Stage) -> None:
    keys = stage.fill()
    assert stage.ask("DBSIZE") == len(keys)
    stage.told("CONFIG", "SET", "latency-monitor-threshold", 1)
    stage.told("DEBUG", "SLEEP", "0.01")
    assert stage.ask("LATENCY", "RESET", "command") == 3
    stage.told("CONFIG", "SET", "latency-monitor-threshold", 0)
    subscribed(stage, "PSUBSCRIBE", "x*")
    assert stage.ask("PUBSUB", "NUMPAT") == 3


@row(Destination.ALL_PRIMARIES, Join.MIN)
def the_least(stage: Stage) -> None:
    stage.told("SAVE", of=stage.primaries[1:2])  # the others have never been saved since they were started
    told = cast("list[int]", stage.told("LASTSAVE"))
    assert stage.ask("LASTSAVE") == min(told) < max(told)


@row(Destination.ALL_PRIMARIES, Join.LOGICAL_AND)
def one_where_all_say_one(stage: Stage) -> None:
    assert stage.ask("SCRIPT", "EXISTS", SHA, "0" * 40) == [0, 0]
    stage.told("SCRIPT", "LOAD", SCRIPT, of=stage.primaries[:2])
    assert stage.ask("SCRIPT", "EXISTS", SHA, "0" * 40) == [0, 0]
    stage.told("SCRIPT", "LOAD", SCRIPT)
    assert stage.ask("SCRIPT", "EXISTS", SHA, "0" * 40) == [1, 0]


@row(Destination.ALL_PRIMARIES, Join.ALL_SUCCEEDED)
def all_must_succeed(stage: Stage) -> None:
    assert stage.ask("FUNCTION", "LOAD", LIBRARY) == b"rows"
    payload = cast("bytes", stage.ask("FUNCTION", "DUMP"))
    assert [b"rows" in str(told).encode() for told in stage.told("FUNCTION", "LIST")] == [True] * 3
    assert stage.ask("FUNCTION", "DELETE", "rows") == b"OK"
    assert stage.told("FUNCTION", "LIST") == [[], [], []]
    assert stage.ask("FUNCTION", "RESTORE", payload) == b"OK"
    assert [stage.ask("FCALL", "seven", 1, f"{{{tag}}}") for tag in TAGS] == [7, 7, 7]
    again = cast("Failure", stage.ask("FUNCTION", "RESTORE", payload)).text
    assert b"already exists" in again
    assert b" ran on " not in again, "it has run nowhere"
    assert stage.ask("FUNCTION", "RESTORE", payload, "REPLACE") == b"OK"
    stage.told("FUNCTION", "FLUSH", of=stage.primaries[1:2])
    assert cast("Failure", stage.ask("FUNCTION", "RESTORE", payload)).text.endswith(
        b"(FUNCTION RESTORE ran on n2, and not on n1, n3)"
    )
    assert stage.ask("FUNCTION", "FLUSH") == b"OK"
    assert stage.told("FUNCTION", "LIST") == [[], [], []]
    pause(stage)
    for verb in ("FLUSHDB", "FLUSHALL"):
        stage.fill()
        assert stage.ask(verb) == b"OK"
        assert stage.told("DBSIZE", of=stage.cluster.nodes[:3]) == [0, 0, 0]
    stage.fill()
    assert stage.ask("SAVE") == b"OK"
    assert [node.info("persistence")["rdb_changes_since_last_save"] for node in stage.primaries] == ["0"] * 3
    stage.fill()
    assert stage.ask("BGSAVE") == b"Background saving started"
    for node in stage.primaries:
        node.await_info("persistence", "rdb_changes_since_last_save", "0")
        node.await_info("persistence", "rdb_bgsave_in_progress", "0")
    assert cast("bytes", stage.ask("BGREWRITEAOF")).startswith(b"Background append only file rewriting")
    for node in stage.primaries:
        node.await_info("persistence", "aof_rewrite_in_progress", "0")
    assert stage.ask("MEMORY", "PURGE") == b"OK"


def pause(stage: Stage) -> None:
    """Writes of all nodes are held, and go on when another client says so."""
    writers = [stage.client() for _ in TAGS]
    assert stage.ask("CLIENT", "PAUSE", PAUSE_MS, "WRITE") == b"OK"
    try:
        for tag, wire in zip(TAGS, writers, strict=True):
            stage.say("SET", f"{{{tag}}}held", tag, by=wire)
        for node in stage.primaries:
            node.await_info("clients", "blocked_clients", "1")
        assert stage.ask("CLIENT", "UNPAUSE", by=stage.client()) == b"OK"
    finally:
        stage.told("CLIENT", "UNPAUSE")
    assert [wire.frame() for wire in writers] == [b"+OK\r\n"] * 3
    assert stage.ask("MGET", *(f"{{{tag}}}held" for tag in TAGS)) == [tag.encode() for tag in TAGS]


@row(Destination.ALL_PRIMARIES, Join.ONE_SUCCEEDED)
def one_must_succeed(stage: Stage) -> None:
    stage.told("CONFIG", "SET", "lua-time-limit", 20)
    stage.told("FUNCTION", "LOAD", LIBRARY)
    for kind, command in (("SCRIPT", ("EVAL", "while true do end")), ("FUNCTION", ("FCALL", "endless"))):
        assert cast("Failure", stage.ask(kind, "KILL")).text.startswith(b"NOTBUSY")
        for node, tag in zip(stage.primaries, TAGS, strict=True):
            kill(stage, node, kind, [*command, "1", f"{{{tag}}}"])
    stage.told("FUNCTION", "FLUSH")
    shown = stage.ask("SCRIPT", "SHOW", SHA)
    stage.told("SCRIPT", "LOAD", SCRIPT, of=stage.primaries[1:2])
    assert isinstance(shown, Failure)
    assert stage.ask("SCRIPT", "SHOW", SHA) == (SCRIPT.encode() if stage.is_valkey else shown)


def kill(stage: Stage, node: Engine, kind: str, endless: Sequence[str]) -> None:
    """End a command that one node runs, while the others are not busy."""
    runner = stage.client()
    with stage.direct(node) as direct:
        stage.say(*endless, by=runner)
        try:
            eventually(lambda: direct.ask("GET", endless[-1]).startswith(b"-BUSY"))
            assert stage.ask(kind, "KILL", by=stage.client()) == b"OK"
        finally:
            direct.ask(kind, "KILL")
    assert b"killed by user" in runner.frame()


@row(Destination.ALL_PRIMARIES, Join.ARRAYS)
def arrays(stage: Stage) -> None:
    keys = stage.fill()
    assert sorted(cast("list[bytes]", stage.ask("KEYS", "*"))) == sorted(key.encode() for key in keys)
    assert stage.ask("KEYS", "*c*0") == [b"{c}:0"]


@row(Destination.ALL_PRIMARIES, Join.DISTINCT)
def equal_ones_once(stage: Stage) -> None:
    stage.told("FUNCTION", "LOAD", LIBRARY)
    assert stage.ask("FUNCTION", "LIST") == stage.primaries[0].do("FUNCTION", "LIST")
    stage.told("FUNCTION", "FLUSH")
    subscribed(stage, "SUBSCRIBE", "everywhere")
    stage.direct(stage.primaries[1]).ask("SUBSCRIBE", "there")
    assert sorted(cast("list[bytes]", stage.ask("PUBSUB", "CHANNELS"))) == [b"everywhere", b"there"]
    for node, tag in zip(stage.primaries, TAGS, strict=True):
        stage.direct(node).ask("SSUBSCRIBE", tag)
    assert sorted(cast("list[bytes]", stage.ask("PUBSUB", "SHARDCHANNELS"))) == [b"a", b"b", b"c"]


@row(Destination.ALL_PRIMARIES, Join.SUM_BY_NAME)
def sums_by_name(stage: Stage) -> None:
    subscribed(stage, "SUBSCRIBE", "everywhere")
    stage.direct(stage.primaries[2]).ask("SUBSCRIBE", "there")
    numbers = stage.ask("PUBSUB", "NUMSUB", "everywhere", "there", "nowhere")
    assert numbers == [b"everywhere", 3, b"there", 1, b"nowhere", 0]
    for node, tag in zip(stage.primaries, TAGS, strict=True):
        stage.direct(node).ask("SSUBSCRIBE", tag)
    assert stage.ask("PUBSUB", "SHARDNUMSUB", "a", "b", "c", "d") == [b"a", 1, b"b", 1, b"c", 1, b"d", 0]


@row(Destination.ALL_PRIMARIES, Join.NOT_NULL)
def a_random_key(stage: Stage) -> None:
    assert stage.ask("RANDOMKEY") is None
    for tag in TAGS:
        assert stage.ask("SET", f"{{{tag}}}", "x") == b"OK"
        assert {stage.ask("RANDOMKEY") for _ in range(5)} == {f"{{{tag}}}".encode()}
        assert stage.ask("DEL", f"{{{tag}}}") == 1


# Replicas, too

WITHOUT_A_FILE = [
    *("ACL LOAD", "ACL SAVE"),
    *("MODULE LOAD /no/such.so", "MODULE LOADEX /no/such.so", "MODULE UNLOAD nothing"),
]
"""What needs a file or a module, which is the same error on all nodes."""


@row(Destination.ALL_NODES, Join.ALL_SUCCEEDED)
def also_on_replicas(stage: Stage) -> None:
    nodes = stage.cluster.nodes
    before = stage.told("CONFIG", "GET", "hz", of=nodes)
    try:
        assert stage.ask("CONFIG", "SET", "hz", 23) == b"OK"
        assert stage.told("CONFIG", "GET", "hz", of=nodes) == [[b"hz", b"23"]] * 6
        assert stage.ask("CONFIG", "REWRITE") == b"OK"
        assert ["hz 23" in (node.folder / "engine.conf").read_text() for node in nodes] == [True] * 6
        assert stage.ask("ACL", "SETUSER", "rows", "on", ">secret") == b"OK"
        assert [told is not None for told in stage.told("ACL", "GETUSER", "rows", of=nodes)] == [True] * 6
        assert stage.ask("ACL", "DELUSER", "rows") == 1
        assert stage.told("ACL", "GETUSER", "rows", of=nodes) == [None] * 6
        assert stage.ask("SCRIPT", "LOAD", SCRIPT) == SHA.encode()
        assert stage.told("SCRIPT", "EXISTS", SHA, of=nodes) == [[1]] * 6
        assert stage.ask("SCRIPT", "FLUSH") == b"OK"
        assert stage.told("SCRIPT", "EXISTS", SHA, of=nodes) == [[0]] * 6
        stage.told("CONFIG", "SET", "slowlog-log-slower-than", 0, of=nodes)
        stage.told("PING", of=nodes)
        stage.told("CONFIG", "SET", "slowlog-log-slower-than", 10_000, of=nodes)
        assert stage.ask("SLOWLOG", "RESET") == b"OK"
        assert stage.told("SLOWLOG", "LEN", of=nodes) == [0] * 6
        assert stage.ask("CONFIG", "RESETSTAT") == b"OK"
        assert [node.calls("scard") for node in nodes] == [0] * 6
        for line in WITHOUT_A_FILE:
            assert cast("Failure", stage.ask(*line.split())).text == refused(stage, line)
        reset = stage.ask("COMMANDLOG", "RESET", "slow")
        assert reset == b"OK" if stage.is_valkey else isinstance(reset, Failure)
    finally:
        for node, told in zip(nodes, before, strict=True):
            node.do("CONFIG", "SET", *cast("list[bytes]", told))


def refused(stage: Stage, line: str) -> bytes:
    """The error of a node itself."""
    with stage.direct(stage.primaries[0]) as direct:
        return cast("Failure", direct.value(*line.split())).text


@row(Destination.PUBLISH, Join.SUM)
def published_once_and_counted_everywhere(stage: Stage) -> None:
    wires = subscribed(stage, "SUBSCRIBE", "news")
    assert stage.ask("PUBLISH", "news", "hello") == 3
    for wire in wires:
        assert b"hello" in wire.frame()
        assert wire.ask("PING").startswith(b"*2"), "once"


# The client's connection


@row(Destination.CONNECTION)
def what_later_commands_follow(stage: Stage) -> None:
    stage.told("ACL", "SETUSER", "rows", "on", ">secret", "~b*", "~{b}*", "+@all", of=stage.cluster.nodes)
    try:
        wire = stage.client()
        assert isinstance(stage.ask("AUTH", "rows", "wrong", by=wire), Failure)
        for login in (("AUTH", "rows", "secret"), ("HELLO", 3, "AUTH", "rows", "secret")):
            assert not isinstance(stage.ask(*login, by=wire), Failure)
            assert stage.ask("SET", "{b}1", "x", by=wire) == b"OK"
            for tag in TAGS[1:]:
                assert cast("Failure", stage.ask("GET", f"{{{tag}}}1", by=wire)).text.startswith(b"NOPERM")
            assert stage.ask("RESET", by=wire) == b"RESET"
            assert stage.ask("GET", "{c}1", by=wire) is None
        assert stage.ask("SELECT", 0, by=wire) == b"OK"
        assert stage.ask("SELECT", 1, by=wire) == refused_database(stage)
    finally:
        stage.told("ACL", "DELUSER", "rows", of=stage.cluster.nodes)


def refused_database(stage: Stage) -> Value:
    """The error of a node itself."""
    with stage.direct(stage.primaries[0]) as direct:
        return direct.value("SELECT", 1)


# What goes to no node


OF_KEYRAIL = {"cmdstat_cluster|info", "cmdstat_cluster|nodes", "cmdstat_cluster|slots"}
"""What Keyrail asks nodes at any time."""


def acknowledges(primary: Engine) -> bool:
    """Whether a replica has told it how far it is, as it does each second, since its figures were reset."""
    return primary.calls("replconf") > 0


@contextmanager
def unasked(stage: Stage) -> Iterator[None]:
    """No node runs a command of this block but those that Keyrail asks by itself."""
    for node in stage.primaries:
        eventually(partial(acknowledges, node))
    before = [node.info("commandstats") for node in stage.primaries]
    yield
    for node, ran in zip(stage.primaries, before, strict=True):
        new = {name for name in node.info("commandstats") if name not in ran}
        assert not (new - OF_KEYRAIL) & {f"cmdstat_{name.lower()}" for name in stage.asked}, new


@row(Destination.HERE)
def answered_here(stage: Stage) -> None:
    with unasked(stage):
        for line in OF_A_CLUSTER:
            assert not isinstance(stage.ask(*line.split(), by=stage.presented), Failure), line
        for line in (each for each in OF_A_CLUSTER if each.startswith("CLUSTER") and "KEYSLOT" not in each):
            refusal = cast("Failure", stage.ask(*line.split())).text
            assert refusal == b"ERR This instance has cluster support disabled", "clients see one plain Redis"
        for line in ("CLUSTER REPLICAS", "CLUSTER SLAVES", "CLUSTER COUNT-FAILURE-REPORTS"):
            own = cast("bytes", stage.ask("CLUSTER", "MYID", by=stage.presented))
            assert not isinstance(stage.ask(*line.split(), own, by=stage.presented), Failure), line
        for by in (None, stage.presented):
            assert stage.ask("CLIENT", "SETNAME", "rows", by=by) == b"OK"
            assert stage.ask("CLIENT", "GETNAME", by=by) == b"rows"
        named = stage.ask("CLIENT", "SETINFO", "LIB-NAME", "rows")
        assert named == b"OK" if stage.is_valkey else isinstance(named, Failure)
        stage.say("QUIT", by=(leaving := stage.client()))
        assert leaving.remaining() == [b"+OK\r\n"]


OF_A_CLUSTER = [
    *("ASKING", "READONLY", "READWRITE", "CLUSTER INFO", "CLUSTER KEYSLOT a", "CLUSTER LINKS", "CLUSTER MYID"),
    *("CLUSTER MYSHARDID", "CLUSTER NODES", "CLUSTER SHARDS", "CLUSTER SLOTS"),
]


def refuse(stage: Stage, destination: Destination) -> None:
    """Each command of this row is refused, with the reason of the row; clients that see one plain Redis hear of
    CLUSTER what that would say."""
    with unasked(stage):
        for spec in STANDARD.specs[1:]:
            if spec.over_nodes.destination is not destination or spec.display.endswith(" HELP"):
                continue
            words = [*spec.display.split(), *["1"] * (abs(spec.arity) - len(spec.display.split()))]
            told = (
                f"ERR keyrail: {spec.display} is not available with a cluster upstream: {destination.refusal}".encode()
            )
            assert stage.ask(*words, by=stage.presented) == Failure(told), words
            plain = stage.ask(*words, by=stage.client())
            disabled = words[0].startswith("CLUSTER")
            assert plain == Failure(b"ERR This instance has cluster support disabled" if disabled else told), words


for each in (Destination.REFUSED, Destination.ON_NODES, Destination.OF_ONE_CONNECTION):
    row(each)(partial(refuse, destination=each))

ALL_ROWS = ROWS
"""Those of `tests.cluster.rows`, too."""
