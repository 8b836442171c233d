"""Commands that nodes of a cluster refuse because of their slot: sent again in order, or answered without a node's
name."""

from __future__ import annotations

import gc
from dataclasses import replace
from random import Random
from typing import cast

import pytest

from proxy.commands.slots import slot_of
from proxy.commands.table import STANDARD, Lane, Table
from proxy.hotpath.upstream.in_flight import NOTE, InFlightEntry, ReplySink
from proxy.hotpath.upstream.outgoing import MOST_KEPT
from proxy.rules.own_scripts import OWN_SCRIPTS
from proxy.session.commands.switching import HELD_SECONDS
from tests.conftest import seeds
from tests.hotpath.test_split import arguments
from tests.policy.given import policy as policy_of
from tests.resp import FrameReader, decode
from tests.session.clustered import TAGS, Cluster, ClusterRoute, Routed
from tests.session.given import RULES, Client, FakeRoute, call
from tests.session.served import Served
from tests.simulation.table import TABLE

KEYS = [b"{%b}%d" % (tag.encode(), number) for tag in TAGS for number in range(3)]
SLOTS_OF_KEYS = sorted({slot_of(key) for key in KEYS})
NAMES = (b"-MOVED", b"-ASK ")
OWN_ERRORS = [
    b"-%b own" % word for word in (b"MOVED 5 127.0.0.1:7001", b"ASK 5 127.0.0.1:7001", b"TRYAGAIN", b"CLUSTERDOWN")
]
OWN_REPLIES = (b"+own", b"-TRYAGAIN own", b"-CLUSTERDOWN own", b"-ERR keyrail: the command answered")


class Interleaved:
    """A client, three nodes, and chance: which of all that can happen happens next."""

    def __init__(self, seed: int, *, transactions: bool, allows_multi: bool = True, mostly_reads: bool = False) -> None:
        self.random = Random(seed)
        self.mostly_reads = mostly_reads
        self.transactions = transactions
        self.route = ClusterRoute(window=64)
        self.client = Routed(self.route)
        self.cluster = Cluster()
        self.allows_multi = allows_multi
        self.sent: list[tuple[bytes, ...]] = []
        self.frames: list[bytes] = []
        self.reader = FrameReader()
        self.served: dict[int, Served] = {}
        for node in self.cluster.nodes:
            node.server.forbidden = set() if allows_multi else {"multi"}
            node.server.valkey = seed % 4 > 1
        for key in KEYS:
            if self.random.random() < 0.7:
                self.cluster.owner(slot_of(key)).server.databases[0].values[key] = [b""]

    def run(self, steps: int = 250) -> None:
        """So many things happen, then all that is left."""
        acts = [self.ask, self.step, self.arrive, self.migrate, self.learn, self.wait, self.fail, self.other_writes]
        for _ in range(steps):
            self.random.choices(acts, [3, 8, 8, 2, 1, 1, *((1, 4) if self.mostly_reads else (0.3, 1))])[0]()
        for node in self.cluster.nodes:
            node.ok = True
        self.client.nodes.lost.clear()
        for slot in SLOTS_OF_KEYS:
            self.cluster.close_slot(slot)
        self.learn()
        while sum(bool(each.step()) + each.arrive() for each in self.connections()) or self.wait():
            pass
        self.hear()

    # What can happen

    def ask(self) -> None:
        data = b"".join(self.command() for _ in range(self.random.randint(1, 6)))
        cut = 0 if b"MULTI" in data else self.random.randint(0, len(data))
        self.client.send(data[:cut])
        self.client.send(data[cut:])

    def command(self) -> bytes:
        chance = self.random.random()
        tag = self.random.choice(TAGS).encode()
        mine = [key for key in KEYS if key.startswith(b"{%b}" % tag)]
        if self.transactions and chance < 0.2:
            return self.said(b"MULTI") + self.single(mine) + self.single(mine) + self.said(b"EXEC")
        if chance < 0.8:
            return self.single(mine)
        keys = self.random.sample(mine if chance < 0.9 else KEYS, 2)
        if chance < 0.85:
            return self.said(b"MSET", keys[0], b"?", keys[1], b"?")
        return self.said(b"MGET", *keys)

    def single(self, keys: list[bytes]) -> bytes:
        key = self.random.choice(keys)
        script = (b"EVAL", self.random.choice([b"+own", *OWN_ERRORS]), b"1", key, b"?")
        words = [(b"RPUSH", key, b"?"), (b"LRANGE", key, b"0", b"?"), (b"ECHO", b"?"), script]
        return self.said(*self.random.choices(words, [1, 20, 1, 0] if self.mostly_reads else [4, 3, 1, 1])[0])

    def said(self, *words: bytes) -> bytes:
        number = b"%d" % len(self.sent)
        words = tuple(number if word == b"?" else word for word in words)
        self.sent.append(words)
        return call(*words)

    def connections(self) -> list[Served]:
        for upstream in self.route.all_upstreams():
            if id(upstream) not in self.served:
                self.served[id(upstream)] = self.cluster.serve(upstream)
        return list(self.served.values())

    def step(self) -> None:
        for each in self.connections():
            if self.random.random() < 0.5:
                each.step()

    def arrive(self) -> None:
        for each in self.connections():
            if self.random.random() < 0.5:
                each.arrive(self.random.choice([1, 7, 60, 1000]))
        self.hear()

    def hear(self) -> None:
        self.reader.feed(self.client.heard())
        while (frame := self.reader.frame()) is not None:
            self.frames.append(frame)

    def migrate(self) -> None:
        slot = self.random.choice(SLOTS_OF_KEYS)
        {
            0: lambda: self.cluster.open_slot(slot, self.random.choice(self.cluster.nodes)),
            1: lambda: self.cluster.move_key(self.random.choice(KEYS)),
            2: lambda: self.cluster.close_slot(slot),
        }[self.random.choice([0, 1, 1, 1, 2])]()

    def learn(self) -> None:
        self.client.learn(self.cluster)
        looking, self.client.nodes.looking = self.client.nodes.looking, []
        for waiter in looking:
            waiter.arrived()

    def wait(self) -> bool:
        self.route.moment += 0.02
        timers, self.route.timers = self.route.timers, []
        for act in timers:
            act()
        return bool(timers)

    def fail(self) -> None:
        node = self.random.choice(self.cluster.nodes)
        node.ok = not node.ok
        self.client.nodes.lost ^= {self.random.randrange(3)} if self.random.random() < 0.3 else set()

    def other_writes(self) -> None:
        key = self.random.choice(KEYS)
        for node in self.cluster.nodes:
            if node.holds(key):
                node.server.databases[0].values[key].append(b"other")

    # What must hold

    def check(self) -> None:
        """Each reply in its place, nothing run twice or out of order, no node named, no value older than one before."""
        assert not self.client.gone
        assert len(self.frames) == len(self.sent)
        assert not any(frame.startswith(NAMES) for frame in self.frames)
        numbers = [number for number, _ in self.cluster.ran]
        assert len(numbers) == len(set(numbers))
        ran = set(numbers)
        unit: list[int] = []
        for number, (words, frame) in enumerate(zip(self.sent, self.frames, strict=True)):
            assert words[0] == b"EVAL" or b"may have run" not in frame, (words, frame)
            if words[0] == b"MULTI" or unit:
                unit.append(number)
                if words[0] == b"EXEC":
                    assert {each in ran for each in unit[1:-1]} == {frame.startswith(b"*2\r\n")}, frame
                    unit = []
            elif words[0] in (b"RPUSH", b"MSET", b"LRANGE"):
                assert (number in ran) == (not frame.startswith(b"-")), (words, frame)
            elif words[0] == b"EVAL":
                own = frame.startswith(OWN_REPLIES)
                assert number not in ran or own, (words, frame)
                assert number in ran or not own or not self.allows_multi, (words, frame)
            elif words[0] == b"ECHO":
                assert frame == b"$%d\r\n%b\r\n" % (len(words[1]), words[1])
        self.check_order()
        self.check_values()

    def check_values(self) -> None:
        known = dict.fromkeys(KEYS, b"")
        for words, frame in zip(self.sent, self.frames, strict=True):
            if words[0] not in (b"LRANGE", b"MGET") or not frame.startswith(b"*"):
                continue
            for key, value in zip(TABLE[words[0]].keys_of(words), cast("list[bytes]", decode(frame)), strict=True):
                assert value.startswith(known[key]), f"{words} read {value!r} behind {known[key]!r}"
                known[key] = value

    def check_order(self) -> None:
        last: dict[int, int] = {}
        read: dict[int, int] = {}
        for number, name in self.cluster.ran:
            words, writes = self.sent[number], name != "lrange"
            for slot in {slot_of(key) for key in TABLE[words[0]].keys_of(words)}:
                before = max(last.get(slot, -1), read.get(slot, -1) if writes else -1)
                assert number > before, f"{words} ran behind {self.sent[before]}"
                (last if writes else read)[slot] = max(number, (last if writes else read).get(slot, -1))


@pytest.mark.parametrize("seed", seeds(100, 300))
def test_order_holds_in_every_interleaving(seed: int) -> None:
    case = Interleaved(seed, transactions=seed % 2 == 0)
    case.run()
    case.check()


@pytest.mark.parametrize("seed", seeds(30, 90))
def test_no_read_goes_back_in_time_in_any_interleaving(seed: int) -> None:
    case = Interleaved(seed, transactions=False, mostly_reads=True)
    case.run()
    case.check()


@pytest.mark.parametrize("seed", seeds(20, 60))
def test_nothing_runs_twice_where_nodes_refuse_multi(seed: int) -> None:
    case = Interleaved(seed, transactions=False, allows_multi=False)
    case.run()
    case.check()


def routed() -> tuple[ClusterRoute, Routed]:
    route = ClusterRoute()
    return route, Routed(route)


def test_asking_goes_in_one_piece_with_its_command() -> None:
    _, client = routed()
    client.say("GET", "a")
    client.at(2).taken()
    client.at(2).answer(b"-ASK 15495 127.0.0.1:7001\r\n")
    assert client.at(1).outgoing == [call("ASKING") + call("GET", "a")]
    client.at(1).answer(b"+OK\r\n$1\r\n1\r\n")
    assert client.heard() == b"$1\r\n1\r\n"


def test_a_transaction_goes_again_as_a_whole() -> None:
    _, client = routed()
    client.send(call("MULTI") + call("INCR", "a") + call("GET", "{a}2") + call("EXEC") + call("PING"))
    unit = client.at(2).taken()
    client.at(2).answer(b"+OK\r\n+QUEUED\r\n-ASK 15495 127.0.0.1:7001\r\n-EXECABORT Transaction discarded\r\n+PONG\r\n")
    assert client.heard() == b"+OK\r\n+QUEUED\r\n"
    assert client.at(1).outgoing == [call("ASKING") + unit.removesuffix(call("PING"))]
    client.at(1).answer(b"+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n$-1\r\n")
    assert client.heard() == b"+QUEUED\r\n*2\r\n:1\r\n$-1\r\n+PONG\r\n"
    assert client.sender.pending_replies == 0


OWN_MOVED = b"-MOVED 15495 127.0.0.1:7001\r\n"
MAY_HAVE_RUN = b"-ERR keyrail: the command answered with an error that begins with MOVED, and may have run\r\n"


@pytest.mark.parametrize(
    "words",
    [
        ("EVAL", "return 1", 1, "a"),
        ("EVALSHA", "0" * 40, 1, "a"),
        ("FCALL", "f", 1, "a"),
        ("EVAL_RO", "return 1", 1, "a"),
        ("EVALSHA_RO", "0" * 40, 1, "a"),
        ("FCALL_RO", "f", 1, "a"),
    ],
)
def test_an_error_of_the_script_is_told_from_that_of_the_node(words: tuple[str | int, ...]) -> None:
    _, client = routed()
    client.say(*words)
    unit = client.at(2, Lane.SLOW).taken()
    assert unit == call("MULTI") + call(*words) + call("EXEC")
    client.at(2, Lane.SLOW).answer(b"+OK\r\n+QUEUED\r\n*1\r\n" + OWN_MOVED)
    assert client.heard() == MAY_HAVE_RUN
    client.say(*words)
    client.at(2, Lane.SLOW).taken()
    client.at(2, Lane.SLOW).answer(b"+OK\r\n" + OWN_MOVED + b"-EXECABORT Transaction discarded\r\n")
    assert client.at(1, Lane.SLOW).taken() == unit
    client.at(1, Lane.SLOW).answer(b"+OK\r\n+QUEUED\r\n*1\r\n*2\r\n:1\r\n:2\r\n")
    assert client.heard() == b"*2\r\n:1\r\n:2\r\n"
    assert client.sender.pending_replies == 0


def test_a_script_of_a_user_without_multi_is_never_sent_again() -> None:
    _, client = routed()
    script = call("EVAL", "return 1", 1, "a")
    client.send(script)
    client.at(2, Lane.SLOW).taken()
    client.at(2, Lane.SLOW).answer(b"-LOADING a moment\r\n" * 3)
    assert client.heard() == b"-LOADING a moment\r\n"
    client.send(script)
    client.at(2, Lane.SLOW).taken()
    client.at(2, Lane.SLOW).answer(b"-NOPERM no MULTI\r\n" + OWN_MOVED + b"-ERR EXEC without MULTI\r\n")
    assert client.heard() == MAY_HAVE_RUN
    client.send(script)
    assert client.at(2, Lane.SLOW).taken() == script
    client.at(2, Lane.SLOW).answer(OWN_MOVED)
    assert client.heard() == MAY_HAVE_RUN
    assert not client.at(1, Lane.SLOW).taken()


@pytest.mark.parametrize("script", sorted(OWN_SCRIPTS))
def test_a_hidden_script_that_gives_a_lifetime_is_sent_again(script: bytes) -> None:
    _, client = routed()
    said: list[bytes] = []
    hidden = call("EVAL", script, 1, "a", 300)
    client.sender.issue(client.at(2), hidden, InFlightEntry(client.sender, 1, NOTE, said.append))
    client.at(2).answer(OWN_MOVED)
    assert client.at(1, Lane.SLOW).taken() == hidden
    client.at(1, Lane.SLOW).answer(b":1\r\n")
    assert said == [b":1\r\n"]


def test_a_transaction_of_which_something_has_run_is_not_sent_again() -> None:
    _, client = routed()
    client.send(call("MULTI") + call("INCR", "a") + call("GET", "{a}2") + call("EXEC"))
    client.at(2).taken()
    client.at(2).answer(b"-NOPERM no MULTI\r\n:1\r\n" + OWN_MOVED + b"-ERR EXEC without MULTI\r\n")
    assert client.heard() == b"-NOPERM no MULTI\r\n:1\r\n" + MAY_HAVE_RUN + b"-ERR EXEC without MULTI\r\n"
    assert not client.at(1).taken()


def test_the_command_of_a_module_is_never_sent_again() -> None:
    _, client = routed()
    module = replace(STANDARD.specs[client.effective_policy.table.spec_of([b"GET"]).id], own_errors=True)
    specs = [module if spec.id == module.id else spec for spec in STANDARD.specs]
    client.effective_policy = replace(client.effective_policy, table=Table(specs))
    client.say("GET", "a")
    client.at(2).taken()
    client.at(2).answer(OWN_MOVED)
    assert client.heard() == MAY_HAVE_RUN
    assert not client.at(1).taken()


def test_what_cannot_be_sent_in_time_is_answered_with_the_error() -> None:
    route, client = routed()
    client.send(call("GET", "a") + call("GET", "b"))
    assert client.at(2).taken() == call("GET", "a")
    client.at(0).answer(b"$1\r\nb\r\n")
    client.at(2).answer(b"-CLUSTERDOWN The cluster is down\r\n")
    client.say("GET", "c")
    for _ in range(200):
        if client.at(2).taken():
            client.at(2).answer(b"-CLUSTERDOWN The cluster is down\r\n")
        route.moment += HELD_SECONDS / 100
        timers, route.timers = route.timers, []
        for act in timers:
            act()
    client.at(1).answer(b"$1\r\nc\r\n")
    assert client.heard() == b"-CLUSTERDOWN The cluster is down\r\n$1\r\nb\r\n$1\r\nc\r\n"
    assert client.redirects is None


def test_behind_a_later_command_that_has_run_nothing_is_sent_again() -> None:
    _, client = routed()
    client.send(call("MSET", "{a}1", "x", "{a}2", "x") + call("SET", "{a}1", "y") + call("GET", "b"))
    client.at(2).taken()
    client.at(2).answer(b"-TRYAGAIN Multiple keys request during rehashing of slot\r\n+OK\r\n")
    client.at(0).answer(b"$-1\r\n")
    assert client.heard() == b"-TRYAGAIN Multiple keys request during rehashing of slot\r\n+OK\r\n$-1\r\n"
    assert not client.at(2).taken()


@pytest.mark.parametrize("refused", [b"-CLUSTERDOWN The cluster is down\r\n", b"-TRYAGAIN Multiple keys\r\n"])
@pytest.mark.parametrize("later", [call("STRLEN", "a"), call("MGET", "{a}3", "a"), call("EXISTS", "{a}3", "a")])
def test_no_read_is_sent_again_behind_a_later_one_of_its_key_that_has_run(refused: bytes, later: bytes) -> None:
    route, client = routed()
    client.send(call("GET", "a") + call("MGET", "{a}1", "{a}2") + later)
    client.at(2).taken()
    client.at(2).answer(refused * 2 + b":1\r\n")
    assert client.heard() == refused, "or the client would read what is newer, and then what is older"
    route.moment += 1.0
    timers, route.timers = route.timers, []
    for act in timers:
        act()
    assert client.at(2).taken() == call("MGET", "{a}1", "{a}2")
    client.at(2).answer(b"*2\r\n$-1\r\n$-1\r\n")
    assert client.heard() == b"*2\r\n$-1\r\n$-1\r\n:1\r\n"


def test_bytes_are_kept_up_to_a_bound_and_no_longer_than_needed() -> None:
    _, client = routed()
    commands = call("SET", "a", "x" * 40) * 5
    client.send(commands + call("GET", "b"))
    assert client.at(2).kept == len(commands)
    client.at(2).answer(b"+OK\r\n" * 5)
    assert client.at(2).kept == 0
    client.at(2).kept = MOST_KEPT
    client.say("GET", "a")
    client.at(0).answer(b"$-1\r\n")
    client.at(2).answer(b"-MOVED 15495 127.0.0.1:7001\r\n")
    assert client.heard().endswith(b"-CLUSTERDOWN keyrail: the slot is on its way to another node: try again\r\n")


def test_scripts_are_kept_up_to_the_bound_and_no_longer_than_needed() -> None:
    _, client = routed()
    script = call("EVAL", "x" * 40, "1", "a")
    slow = client.at(2, Lane.SLOW)
    for answers in (b"+OK\r\n+QUEUED\r\n*1\r\n:1\r\n", b"+OK\r\n+QUEUED\r\n-EXECABORT x\r\n"):
        client.send(script)
        assert slow.kept == len(slow.taken()) > len(script)
        slow.answer(answers)
        assert slow.kept == 0
    client.heard()
    slow.kept = MOST_KEPT
    client.send(script)
    assert slow.kept == MOST_KEPT
    slow.taken()
    slow.answer(b"+OK\r\n-MOVED 15495 127.0.0.1:7001\r\n-EXECABORT x\r\n")
    assert client.heard() == b"-CLUSTERDOWN keyrail: the slot is on its way to another node: try again\r\n"
    assert not client.at(1, Lane.SLOW).taken()


def test_a_client_that_leaves_before_replies_of_several_nodes_is_freed_without_the_garbage_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        others = sessions()
        _, client = routed()
        for each in "abcab":
            client.say("GET", each)
        nodes = [client.at(number) for number in range(3)]
        client.connection_lost()
        del client
        assert sessions() == others + 1, "its replies are read all the same"
        for upstream, count in zip(nodes, (2, 1, 2), strict=True):
            upstream.answer(b"$-1\r\n" * count)
            assert upstream.head is None
        assert sessions() == others
    finally:
        gc.enable()


def sessions() -> int:
    return sum(isinstance(each, Routed) for each in gc.get_objects())


def test_before_one_redis_its_errors_are_told() -> None:
    client = Client(FakeRoute())
    client.send(call("SET", "a", "x") + call("GET", "a"))
    client.route.upstream().answer(b"+OK\r\n-MOVED 15495 127.0.0.1:7001\r\n")
    assert client.heard() == b"+OK\r\n-MOVED 15495 127.0.0.1:7001\r\n"


def test_a_transaction_without_a_node_fails_as_a_whole() -> None:
    route, client = routed()
    client.nodes.lost = {2}
    client.send(call("MULTI") + call("INCR", "a") + call("EXEC") + call("ECHO", "x"))
    assert client.heard() == b""
    route.moment += HELD_SECONDS + 1
    looking, client.nodes.looking = client.nodes.looking, []
    for waiter in looking:
        waiter.arrived()
    client.at(0).answer(b"$1\r\nx\r\n")
    assert client.heard() == (
        b"+OK\r\n-CLUSTERDOWN Hash slot not served\r\n"
        b"-EXECABORT Transaction discarded because of previous errors.\r\n$1\r\nx\r\n"
    )
    assert not client.at(2).taken()


def test_a_command_goes_again_with_its_hidden_ones() -> None:
    route = ClusterRoute(policy_of(RULES))
    client = Routed(route)
    client.say("INCR", "a")
    unit = client.at(2).taken()
    assert [words[0] for words in arguments(unit)] == [b"MULTI", b"EXISTS", b"INCR", b"EXEC"]
    client.at(2).answer(b"+OK\r\n+QUEUED\r\n-MOVED 15495 127.0.0.1:7001\r\n-EXECABORT Transaction discarded\r\n")
    assert client.heard() == b""
    assert client.at(1).taken() == unit
    client.at(1).answer(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:0\r\n:1\r\n")
    assert client.at(2).taken() == b"", "the node that it was sent to first may have a copy of the key"
    assert arguments(client.at(1).taken()) == [[b"EXPIRE", b"a", b"300", b"NX"]]
    client.at(1).answer(b":1\r\n")
    assert client.heard() == b":1\r\n"
    assert client.sender.pending_replies == 0


@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("command", [["LPUSH", "a", "x"], ["INCR", "a"], ["APPEND", "a", "x"], ["HSET", "a", "f", "x"]])
@pytest.mark.parametrize("transaction", [False, True])
def test_what_follows_a_command_goes_where_that_has_run(transaction: bool, command: list[str], asks: bool) -> None:
    client = Routed(ClusterRoute(policy_of(RULES.replace("default: 5m", "default: 5m, types: all"))))
    client.send(call("MULTI") + call(*command) + call("EXEC") if transaction else call(*command))
    sent = client.at(2).taken()
    words = [each[0] for each in arguments(sent)]
    unit = words[0] == b"MULTI"
    refusal = b"-%b 15495 127.0.0.1:7001\r\n" % (b"ASK" if asks else b"MOVED")
    if unit:
        refusal = b"+OK\r\n" + refusal * (len(words) - 2) + b"-EXECABORT Transaction discarded\r\n"
    client.at(2).answer(refusal)
    assert client.at(1).taken() == (call("ASKING") if asks else b"") + sent
    replies = b"".join(
        b":0\r\n" if word == b"EXISTS" else b":1\r\n" for word in words if word not in (b"MULTI", b"EXEC")
    )
    if unit:
        replies = b"+OK\r\n" + b"+QUEUED\r\n" * (len(words) - 2) + b"*%d\r\n" % (len(words) - 2) + replies
    client.at(1).answer((b"+OK\r\n" if asks else b"") + replies)
    follow_up = call("EXPIRE", "a", 300, "NX")
    assert client.at(1).taken() == (call("ASKING") if asks else b"") + follow_up
    assert client.at(2).taken() == b""
    client.at(1).answer((b"+OK\r\n" if asks else b"") + b":1\r\n")
    assert client.sender.pending_replies == 0
    assert client.route.hits[-1][2] == "followed"


def test_where_exec_is_refused_for_too_long_the_client_gets_the_error_of_the_node() -> None:
    route = ClusterRoute(policy_of(RULES))
    client = Routed(route)
    client.say("INCR", "a")
    refused = b"+OK\r\n+QUEUED\r\n+QUEUED\r\n-TRYAGAIN Multiple keys\r\n"
    client.at(2).answer(refused)
    route.moment += HELD_SECONDS + 1
    timers, route.timers = route.timers, []
    for act in timers:
        act()
    assert client.heard() == b"-TRYAGAIN Multiple keys\r\n"
    assert not client.at(2).closed
    client.at(2).taken()
    client.say("INCR", "a")
    assert [words[0] for words in arguments(client.at(2).taken())] == [b"MULTI", b"EXISTS", b"INCR", b"EXEC"]


def test_keyrail_itself_is_told_what_its_own_commands_get() -> None:
    _, client = routed()
    said: list[bytes] = []
    own = ReplySink()
    client.at(0).expect(InFlightEntry(own, 1, NOTE, said.append))
    client.at(0).answer(b"-MOVED 15495 127.0.0.1:7001\r\n")
    assert said == [b"-MOVED 15495 127.0.0.1:7001\r\n"]
