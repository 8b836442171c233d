"""Commands with keys of several slots that the intake splits by itself: all is as when the session splits them."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator, Sequence
from random import Random
from typing import cast

import pytest

from proxy.commands.slots import slot_of
from proxy.hotpath.order.join import JoinPart
from proxy.hotpath.upstream.in_flight import InFlightEntry
from proxy.wire.encode import encode_bulk
from tests.conftest import seeds
from tests.hotpath.routed import owners
from tests.hotpath.test_split import arguments
from tests.policy.given import policy as policy_of
from tests.resp import FrameReader, decode
from tests.session.clustered import ClusterRoute, Routed
from tests.session.given import RULES, Upstream, call

TAGGED = [b"{%b}%d" % (tag, number) for tag in (b"a", b"b", b"c") for number in range(4)]
KEYS = [b"k%d" % number for number in range(40)] + TAGGED
ODD_KEYS = [b"", b"\r\n", b"{}x", b"*2\r\n$3\r\nGET\r\n"]
WINDOW = 64
CROSSES = ("MGET", "DEL", "UNLINK", "EXISTS", "TOUCH")


class Nodes:
    """Three nodes with the same data as one Redis. Slots have moved since the client's map, or are moving now."""

    def __init__(self, random: Random, *, faults: bool) -> None:
        self.owners = owners(3)
        self.asked: set[int] = set()
        self.data = {key: bytes(random.choice([0, 3, 50, 5000])) for key in KEYS if random.random() < 0.7}
        self.wrong: dict[bytes, bytes] = {}
        self.sent: list[list[list[bytes]]] = [[], [], []]
        if faults:
            moving = random.sample([slot_of(key) for key in KEYS], 12)
            for slot in moving:
                self.owners[slot] = random.randrange(3)
            self.asked = set(moving[:4])
            self.wrong = dict.fromkeys(random.sample(KEYS, random.choice([0, 1, 3])), b"-NOPERM not for you\r\n")

    def answer(self, node: int, argv: list[bytes], asking: bool) -> bytes:
        """What this node says; the owner of an open slot has passed on all of its keys."""
        self.sent[node].append(argv)
        keys = argv[1:2] if argv[0] in (b"SET", b"GET") else argv[1:]
        slot = slot_of(keys[0])
        assert {slot_of(key) for key in keys} == {slot}, "a node refuses keys of several slots"
        owner = self.owners[slot]
        target = (owner + 1) % 3 if slot in self.asked else owner
        if node != target or (target != owner and not asking):
            word, place = (b"ASK", target) if node == owner else (b"MOVED", owner)
            return b"-%b %d 127.0.0.1:700%d\r\n" % (word, slot, place)
        error = next((self.wrong[key] for key in keys if key in self.wrong), b"")
        return error or self._run(argv[0].upper(), keys, argv)

    def _run(self, name: bytes, keys: Sequence[bytes], argv: Sequence[bytes]) -> bytes:
        data = self.data
        if name == b"SET":
            data[keys[0]] = argv[2]
            return b"+OK\r\n"
        if name == b"GET":
            return encode_bulk(data[keys[0]]) if keys[0] in data else b"$-1\r\n"
        if name == b"MGET":
            return b"*%d\r\n" % len(keys) + b"".join(
                encode_bulk(data[key]) if key in data else b"$-1\r\n" for key in keys
            )
        there = sum(key in data for key in keys)
        if name in (b"DEL", b"UNLINK"):
            there = sum(data.pop(key, None) is not None for key in keys)
        return b":%d\r\n" % there


class Served:
    """One connection to a node."""

    def __init__(self, nodes: Nodes, upstream: Upstream) -> None:
        self.nodes = nodes
        self.upstream = upstream
        self.requests = FrameReader()
        self.replies = b""
        self.asking = False

    def step(self) -> bool:
        self.requests.feed(self.upstream.taken())
        frame = self.requests.frame()
        if frame is None:
            return False
        argv = cast("list[bytes]", decode(frame))
        asking, self.asking = self.asking, argv == [b"ASKING"]
        self.replies += b"+OK\r\n" if self.asking else self.nodes.answer(self.upstream.key.node.number, argv, asking)
        return True

    def arrive(self, most: int) -> bool:
        piece, self.replies = self.replies[:most], self.replies[most:]
        if piece:
            self.upstream.answer(piece)
        return bool(piece)


class World:
    """A client, the three nodes, and chance; ``fast`` if the intake may split."""

    def __init__(self, seed: int, *, fast: bool, faults: bool = False, policy: str = "") -> None:
        self.random = Random(seed)
        self.route = ClusterRoute(policy_of(policy), window=WINDOW) if policy else ClusterRoute(window=WINDOW)
        self.client = Routed(self.route)
        if not fast:
            self.client.intake.config.split_commands = None
        self.nodes = Nodes(self.random, faults=faults)
        self.served: dict[int, Served] = {}
        self.heard = b""

    def connections(self) -> list[Served]:
        for upstream in self.route.all_upstreams():
            self.served.setdefault(id(upstream), Served(self.nodes, upstream))
        return list(self.served.values())

    def go_on(self) -> bool:
        """Something happens at each connection; False if nothing is left to happen."""
        found = False
        for each in self.connections():
            for _ in range(self.random.choice([1, 1, 5, 30])):
                found = each.step() or found
            found = each.arrive(self.random.choice([1, 3, 40, 300, 10_000])) or found
        self.heard += self.client.heard()
        self.route.moment += 0.02
        timers, self.route.timers = self.route.timers, []
        for act in timers:
            act()
        return found or bool(timers)

    def send(self, pieces: Sequence[bytes]) -> World:
        for piece in pieces:
            self.client.send(piece)
            for _ in range(self.random.choice([0, 0, 1, 5])):
                self.go_on()
        idle = 0
        while idle < 5:
            idle = 0 if self.go_on() else idle + 1
        assert (self.client.sender.pending_replies, self.client.sender.order) == (0, None)
        assert not self.client.gone
        for upstream in self.route.all_upstreams():
            assert (upstream.complaints, upstream.kept, upstream.head) == ([], 0, None)
        return self


def program(random: Random, size: int) -> Iterator[bytes]:
    for _ in range(size):
        name = random.choice([*CROSSES, "MGET", "SET", "GET", "mget", "Exists"])
        if name in ("SET", "GET"):
            yield call(name, random.choice(KEYS), *(["v" * random.choice([0, 9])] if name == "SET" else []))
        else:
            most = random.choice([2, 5, 30, 45])
            keys = random.choices([*KEYS, *ODD_KEYS] if random.random() < 0.2 else KEYS, k=random.randint(2, most))
            yield call(name, *keys)


def cut(random: Random, data: bytes) -> list[bytes]:
    cuts = sorted(random.choices(range(len(data)), k=random.choice([0, 1, 6])))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


@pytest.mark.parametrize("seed", seeds(120))
def test_nodes_and_the_client_get_what_they_get_from_the_session(seed: int) -> None:
    random = Random(seed)
    pieces = cut(random, b"".join(program(random, random.choice([1, 4, 20]))))
    policy = RULES if seed % 3 == 0 else ""
    fast = World(seed, fast=True, policy=policy).send(pieces)
    slow = World(seed, fast=False, policy=policy).send(pieces)
    assert fast.heard == slow.heard
    assert fast.nodes.sent == slow.nodes.sent
    assert fast.nodes.data == slow.nodes.data
    assert fast.route.calls == slow.route.calls


@pytest.mark.parametrize("seed", seeds(150))
def test_moved_slots_and_errors_change_nothing_for_the_client(seed: int) -> None:
    random = Random(seed)
    pieces = cut(random, b"".join(program(random, random.choice([1, 4, 20]))))
    fast = World(seed, fast=True, faults=True).send(pieces)
    slow = World(seed, fast=False, faults=True).send(pieces)
    assert fast.heard == slow.heard
    assert fast.nodes.data == slow.nodes.data
    assert b"-MOVED" not in fast.heard
    assert b"-ASK" not in fast.heard


def test_a_read_may_end_at_every_byte() -> None:
    data = call("MGET", "k1", "{a}1", "k2", "{a}2") + call("DEL", "k1", "k2") + call("EXISTS", "k1", "k3")
    expected = World(1, fast=False).send([data]).heard
    for end in range(len(data)):
        assert World(1, fast=True).send([data[:end], data[end:]]).heard == expected


def started(rules: str = "") -> tuple[ClusterRoute, Routed]:
    """A client that has a connection to each node."""
    route = ClusterRoute(policy_of(rules), window=WINDOW) if rules else ClusterRoute(window=WINDOW)
    client = Routed(route)
    for number, tag in enumerate("bca"):
        client.say("GET", f"{{{tag}}}:1")
        client.at(number).taken()
        client.at(number).answer(b"$-1\r\n")
    assert client.heard() == b"$-1\r\n" * 3
    return route, client


def entries(client: Routed) -> list[list[InFlightEntry]]:
    return [list(client.at(number).entries()) for number in range(3)]


def test_the_session_sees_none_of_it() -> None:
    _, client = started()
    client.send(call("MGET", "a", "b", "c") + call("MGET", "a", "b") + call("GET", "a"))
    assert client.taken() == [[[b"MGET", b"b"]] * 2, [[b"MGET", b"c"]], [[b"MGET", b"a"]] * 2 + [[b"GET", b"a"]]]
    assert client.awaited is None
    client.at(0).answer(b"*1\r\n$1\r\nb\r\n*1\r\n$2\r\nbb\r\n")
    client.at(2).answer(b"*1\r\n$1\r\na\r\n*1\r\n_\r\n$1\r\na\r\n")
    assert client.heard() == b""
    client.at(1).answer(b"*1\r\n$-1\r\n")
    assert client.heard() == b"*3\r\n$1\r\na\r\n$1\r\nb\r\n$-1\r\n*2\r\n_\r\n$2\r\nbb\r\n$1\r\na\r\n"


def test_a_command_with_more_parts_than_half_a_window_is_the_session_s() -> None:
    _, client = started()
    client.say("MGET", *[f"k{number}" for number in range(WINDOW // 2 + 1)])
    assert client.awaited is not None


def test_a_part_that_fails_says_which_keys_it_was_about() -> None:
    _, client = started(RULES)
    client.say("DEL", "a", "{b}1", "c", "{b}2")
    assert client.awaited is None, "it is renamed on its way"
    assert client.taken() == [[[b"UNLINK", b"{b}1", b"{b}2"]], [[b"UNLINK", b"c"]], [[b"UNLINK", b"a"]]]
    client.at(0).answer(b"-NOPERM no\r\n")
    client.at(1).answer(b":1\r\n")
    client.at(2).answer(b":1\r\n")
    assert client.heard() == b"-NOPERM no (UNLINK ran for 2 of 4 keys, and not for arguments 2, 4)\r\n"


@pytest.mark.parametrize("frame", [b"*2\r\n:1\r\n:2\r\n", b"+OK\r\n", b"*-1\r\n", b"*0\r\n", b":1\r\n"])
def test_a_node_that_answers_for_other_keys_is_no_reply(frame: bytes) -> None:
    _, client = started()
    client.say("MGET", "a", "b")
    client.at(0).answer(frame)
    client.at(2).answer(b"*1\r\n$-1\r\n")
    assert client.heard().startswith(b"-ERR keyrail: a node has answered for another number of keys")


def test_a_rule_that_looks_at_the_keys_looks_at_them() -> None:
    rules = 'rules:\n  named: {names: {separator: ":", segments: 2}, mode: enforce}\n'
    _, client = started(rules)
    client.say("MGET", "{a}:1", "{b}:1")
    assert client.awaited is None
    assert [len(each) for each in client.taken()] == [1, 0, 1]
    for number in (0, 2):
        client.at(number).answer(b"*1\r\n$-1\r\n")
    client.say("MGET", "{a}:1", "b")
    assert client.taken() == [[], [], []]
    assert b"-DENIED" in client.heard()


def test_while_parts_are_pending_no_other_connection_to_their_nodes_is_taken() -> None:
    route, client = started()
    client.say("MGET", "a", "b")
    old = client.at(0)
    old.usable = False
    route.pools.clear()
    client.say("GET", "b")
    assert client.awaited is not None
    assert arguments(client.at(0).taken()) == []
    assert arguments(old.taken()) == [[b"MGET", b"b"]]


def test_parts_of_a_client_that_has_left_are_freed() -> None:
    _, client = started()
    client.say("MGET", "a", "b")
    entry = entries(client)[0][0]
    assert isinstance(entry.payload, JoinPart)
    join = weakref.ref(entry.payload.join) if hasattr(entry.payload.join, "__weakref__") else None
    client.connection_lost()
    del entry
    gc.disable()
    try:
        client.at(0).abandon()
        client.at(2).answer(b"*1\r\n$-1\r\n")
        assert client.sender.order is None or client.sender.order.first is None
        assert join is None or join() is None
    finally:
        gc.enable()


def test_each_connection_says_who_is_lost_with_it() -> None:
    _, client = started()
    client.say("MGET", "a", "b")
    assert [sink.client() for sink in client.at(0).abandon()] == [client]


def test_keys_are_counted_and_commands_too() -> None:
    route, client = started()
    before, forwarded = route.calls.total(), client.sender.forwarded
    client.say("EXISTS", "a", "b")
    assert client.awaited is None
    assert (route.calls.total() - before, client.sender.forwarded - forwarded) == (1, 1)
