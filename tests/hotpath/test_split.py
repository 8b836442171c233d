"""Commands with keys of several slots are split by slot, and the parts' replies become the reply of one Redis.

The oracle is one dictionary that answers MGET, EXISTS, DEL and MSET; the nodes are simulated, and answer each part as a
node does that has the keys of its slots only, in pieces of any size, in any order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.commands.slots import slot_of
from proxy.commands.table import STANDARD
from proxy.hotpath.cluster.router import UNOWNED, Router
from proxy.hotpath.cluster.split import Split, split
from proxy.hotpath.order.join import Join, SumJoin, ValuesJoin
from proxy.wire.request import Request, RequestLimits
from tests.hotpath.gathering import Client, command_id, pack
from tests.hotpath.routed import owners
from tests.hotpath.test_reply_order import Node
from tests.resp import FrameReader, decode

LIMITS = RequestLimits(1 << 20, 1 << 29, 1 << 20)
NODES = 3
OWNERS = owners(NODES)
ROUTER = Router(OWNERS)


def split_of(*words: bytes, router: Router = ROUTER, before: bytes = b"") -> Split | None:
    request = Request()
    data = before + pack(*words)
    request.scan(data, len(before), LIMITS)
    return split(command_id(words[0].decode().upper()), request, data, STANDARD.keys, router)


def parts_of(*words: bytes) -> Split:
    found = split_of(*words)
    assert found is not None
    return found


def arguments(chunk: bytes) -> list[list[bytes]]:
    """The commands in the bytes that a node is sent."""
    reader = FrameReader()
    reader.feed(chunk)
    commands = []
    while (frame := reader.frame()) is not None:
        commands.append(cast("list[bytes]", decode(frame)))
    return commands


def test_each_node_gets_a_command_for_each_of_its_slots() -> None:
    found = split_of(b"mget", b"{a}1", b"{b}1", b"{a}2", b"{c}1", before=b"*1\r\n$4\r\nPING\r\n")
    assert found is not None
    # The slots of a, b and c are 15495, 3300 and 7365.
    assert found.nodes == [2, 0, 1]
    assert [arguments(chunk) for chunk in found.chunks] == [
        [[b"mget", b"{a}1", b"{a}2"]],
        [[b"mget", b"{b}1"]],
        [[b"mget", b"{c}1"]],
    ]
    assert (found.counts, found.places) == ([1, 1, 1], [[0, 2], [1], [3]])
    assert found.command([0, 2]) == pack(b"mget", b"{a}1", b"{a}2"), "it can be sent again"


def test_values_go_with_their_keys() -> None:
    found = parts_of(b"MSET", b"{a}1", b"1", b"{b}1", b"", b"{a}2", b"3")
    assert [arguments(chunk) for chunk in found.chunks] == [
        [[b"MSET", b"{a}1", b"1", b"{a}2", b"3"]],
        [[b"MSET", b"{b}1", b""]],
    ]


def test_a_slot_without_a_node_is_told() -> None:
    slots = owners(NODES)
    slots[slot_of(b"b")] = UNOWNED
    found = split_of(b"DEL", b"a", b"b", router=Router(slots))
    assert found is not None
    assert found.nodes == [2, UNOWNED]


@pytest.mark.parametrize(
    "words",
    [
        [b"MSET", b"a", b"1", b"b"],
        [b"MGET"],
        [b"GET", b"a", b"b"],
        [b"BITOP", b"AND", b"a", b"b"],
        [b"ZUNION", b"2", b"a", b"b"],
        [b"PING"],
        [b"EVAL", b"return 1", b"2", b"a", b"b"],
    ],
    ids=lambda words: words[0].decode(),
)
def test_other_arguments_are_not_split(words: list[bytes]) -> None:
    assert split_of(*words) is None


# The joined reply


class Data(dict[bytes, bytes]):
    """What one Redis would answer."""

    def answer(self, words: Sequence[bytes]) -> bytes:
        name, keys = words[0].upper(), words[1:]
        if name == b"MGET":
            return b"*%d\r\n" % len(keys) + b"".join(self.value(key) for key in keys)
        if name == b"MSET":
            self.update(zip(keys[::2], keys[1::2], strict=True))
            return b"+OK\r\n"
        there = sum(key in self for key in keys)
        if name == b"DEL":
            there = sum(self.pop(key, None) is not None for key in keys)
        return b":%d\r\n" % there

    def value(self, key: bytes) -> bytes:
        return b"$%d\r\n%b\r\n" % (len(self[key]), self[key]) if key in self else b"$-1\r\n"


def first_error(frames: Sequence[bytes]) -> bytes:
    return next((frame for frame in frames if frame.startswith(b"-")), b"+OK\r\n")


class Splitting(Client):
    """A client whose session splits each command over simulated nodes."""

    def __init__(self, data: Data) -> None:
        super().__init__()
        self.connections = [Node() for _ in range(NODES)]
        self.data = data
        self.heard = b""
        self.expected = b""
        self.joins: list[Join] = []
        self.sender.write = self.hear

    def hear(self, data: bytes) -> None:
        self.heard += data

    def ask(self, words: list[bytes], faults: Iterable[bytes] = ()) -> None:
        """Send a command in parts; `faults` are what the first parts are answered instead."""
        oracle = Data(self.data)
        parts = parts_of(*words)
        place = self.sender.begin_order().place()
        if words[0] == b"MGET":
            join: Join = ValuesJoin(place, parts.places, len(parts.keys), first_error)
        elif words[0] == b"MSET":
            join = Join(place, len(parts.places), first_error)
        else:
            join = SumJoin(place, len(parts.places), first_error)
        wrong = list(faults)
        self.expected += wrong[0] if wrong else oracle.answer(words)
        index = 0
        for number, chunk, count in zip(parts.nodes, parts.chunks, parts.counts, strict=True):
            self.sender.send_part(join, self.connections[number], chunk, index, count)
            index += count
            for command in arguments(chunk):
                assert {number} == {OWNERS[slot_of(key)] for key in command[1 :: parts.width]}
                assert len({slot_of(key) for key in command[1 :: parts.width]}) == 1
                self.connections[number].will_say(wrong.pop(0) if wrong else self.data.answer(command))
        self.joins.append(join)

    def finish(self, random: Random, most: int) -> None:
        while waiting := [node for node in self.connections if node.under_way]:
            random.choice(waiting).says(random.randint(1, most))
            assert self.expected.startswith(self.heard)
        assert self.heard == self.expected
        assert (self.sender.pending_replies, self.sender.order) == (0, None)
        assert [node.faults for node in self.connections] == [[]] * NODES


KEYS = [b"k%d" % number for number in range(12)] + [b"{t}%d" % number for number in range(4)] + [b"", b"\r\n", b"{}x"]
values = st.one_of(st.binary(max_size=20), st.just(b"*1\r\n$1\r\n"), st.just(b"x" * 3000))
commands = st.one_of(
    st.lists(st.sampled_from(KEYS), min_size=2, max_size=12).map(lambda keys: [b"MGET", *keys]),
    st.lists(st.sampled_from(KEYS), min_size=2, max_size=12).map(lambda keys: [b"EXISTS", *keys]),
    st.lists(st.sampled_from(KEYS), min_size=2, max_size=12, unique=True).map(lambda keys: [b"DEL", *keys]),
    st.dictionaries(st.sampled_from(KEYS), values, min_size=2).map(
        lambda pairs: [b"MSET", *(word for pair in pairs.items() for word in pair)]
    ),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(commands, max_size=8), st.randoms(use_true_random=False), st.sampled_from([1, 7, 100, 10_000]))
def test_the_reply_is_that_of_one_redis(program: list[list[bytes]], random: Random, most: int) -> None:
    client = Splitting(Data({key: key * 3 for key in KEYS[::2]}))
    for words in program:
        client.ask(words)
    client.finish(random, most)


@pytest.mark.parametrize("words", [[b"MGET", *KEYS], [b"DEL", *KEYS], [b"MSET", b"a", b"1", b"b", b"2", b"c", b"3"]])
def test_an_error_of_one_part_is_the_reply(words: list[bytes]) -> None:
    client = Splitting(Data())
    client.ask(words, [b"-LOADING Redis is loading the dataset in memory\r\n"])
    client.ask([b"MGET", b"a", b"b"])
    client.finish(Random(1), 5)


def test_a_node_that_answers_for_other_keys_is_no_reply() -> None:
    for frame in (b"*2\r\n:1\r\n:2\r\n", b"+OK\r\n", b"*-1\r\n", b"*1\r\n", b":1\r\n"):
        client = Splitting(Data())
        client.ask([b"MGET", b"{a}1", b"b"], [])
        client.expected = b"-ERR keyrail: a node has answered for another number of keys than it was asked for\r\n"
        client.connections[2].under_way = frame if frame != b"*1\r\n" else b"*0\r\n"
        client.finish(Random(1), 100)


def test_no_more_is_kept_than_the_limit() -> None:
    client = Splitting(Data({b"a": b"x" * 60_000, b"b": b"x" * 60_000}))
    client.ask([b"MGET", b"a", b"b"])
    client.ask([b"EXISTS", b"a", b"b"])
    client.joins[0].most = 100_000
    client.expected = b"-ERR keyrail: the reply is larger than 100000 bytes: ask for less at a time\r\n:2\r\n"
    client.finish(Random(1), 5000)


def test_a_join_may_be_followed_by_another_one_in_its_place() -> None:
    client = Splitting(Data({b"a": b"1", b"b": b"2"}))
    place = client.sender.begin_order().place()

    def again(frames: Sequence[bytes]) -> bytes:
        second = Join(place, 1, lambda last: b"".join([*frames, *last]))
        client.sender.send_part(second, client.connections[1], pack("PING"), 0, 1)
        client.connections[1].will_say(b"+PONG\r\n")
        return b""

    first = Join(place, 1, again)
    client.sender.send_part(first, client.connections[0], pack("ECHO", "x"), 0, 1)
    client.connections[0].will_say(b"+x\r\n")
    client.ask([b"MGET", b"a", b"b"])
    client.expected = b"+x\r\n+PONG\r\n" + client.expected
    client.finish(Random(3), 2)


def test_the_joined_reply_is_edited() -> None:
    client = Splitting(Data({b"a": b"1", b"b": b"2"}))
    client.ask([b"EXISTS", b"a", b"b"])
    client.joins[0].edit = lambda frame: b"*1\r\n" + frame
    client.expected = b"*1\r\n:2\r\n"
    client.finish(Random(3), 2)
