"""A request goes to the node that owns its keys' slot; a client's replies stay in order although its runs are split."""

from __future__ import annotations

from random import Random

import pytest
from hiredis import Reader
from hypothesis import given
from hypothesis import strategies as st

from proxy.commands.command import Command, KeysUnknownError
from proxy.commands.slots import SLOTS, slot_of
from proxy.commands.table import STANDARD
from proxy.commands.tenant_commands import goes_at_once
from proxy.hotpath.cluster.router import KEYLESS, KEYS_UNTOLD, SEVERAL_SLOTS, UNOWNED, Router
from proxy.hotpath.plan.plan import Plan
from proxy.wire.request import COMPLETE, Request, RequestLimits
from tests.hotpath.gathering import OK, command_id, pack
from tests.hotpath.routed import NAUGHTY, REFUSAL, Routed, owners
from tests.hotpath.test_reply_order import Node

LIMITS = RequestLimits(1 << 20, 1 << 29, 1 << 20)
keys = st.one_of(st.binary(max_size=40), st.text("ab{}", max_size=8).map(str.encode))


@given(keys, st.binary(max_size=3), st.binary(max_size=3), st.binary(max_size=20).filter(lambda each: b"{" not in each))
def test_a_slot_is_found_where_the_key_stands(key: bytes, before: bytes, behind: bytes, prefix: bytes) -> None:
    router = Router(list(range(SLOTS)))
    place = before + key + behind, len(before), len(before) + len(key)
    assert router.slot(*place, 0) == slot_of(key)
    assert router.slot(*place, router.seed_of(prefix)) == slot_of(prefix + key)


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300), st.integers(-4, 3)), max_size=12))
def test_slots_are_owned_from_the_first_to_the_last(changes: list[tuple[int, int, int]]) -> None:
    slots = owners(3)
    router = Router(slots)
    for first, count, node in changes:
        router.own(first, first + count - 1, node)
        slots[first : first + count] = [node] * count
    assert [router.owner(slot) for slot in range(700)] == slots[:700]
    assert router.owner(SLOTS - 1) == slots[-1]


COMMANDS = [
    [b"GET", b"%"],
    [b"MGET", b"%", b"%"],
    [b"MGET", b"%", b"%", b"%"],
    [b"MSET", b"%", b"v", b"%", b"v"],
    [b"BITOP", b"AND", b"%", b"%"],
    [b"EVAL", b"return 1", b"1", b"%"],
    [b"EVAL", b"return 1", b"x", b"%"],
    [b"EVAL", b"return 1", b"0"],
    [b"XREAD", b"STREAMS", b"%", b"%", b"0", b"0"],
    [b"PING"],
    [b"SORT", b"%", b"STORE", b"%"],
]


@given(st.sampled_from(COMMANDS), st.lists(keys, min_size=3, max_size=3), st.integers(1, 4))
def test_the_node_is_that_of_the_keys(command: list[bytes], names: list[bytes], nodes: int) -> None:
    words = list(command)
    for name in names:
        if b"%" in words:
            words[words.index(b"%")] = name
    slots = owners(nodes)
    slots[slot_of(b"lost")] = UNOWNED
    data = b"PING\r\n" + pack(*words)
    request = Request()
    assert request.scan(data, 6, LIMITS) == COMPLETE
    found = Router(slots).node(command_id(words[0].decode()), request, data, STANDARD.keys)
    spec = STANDARD.find(words[0].decode())
    assert spec is not None
    try:
        told = {slot_of(key.name) for key in Command(STANDARD, words, spec).keys}
    except KeysUnknownError:
        assert found == KEYS_UNTOLD
        return
    if len(told) == 1:
        assert found == slots[told.pop()]
    else:
        assert found == (SEVERAL_SLOTS if told else KEYLESS)


class Answering(Node):
    """A node that has every key of its slots; its replies name them."""

    def __init__(self, number: int, slots: list[int]) -> None:
        super().__init__()
        self.number = number
        self.slots = slots
        self.reader = Reader()
        self.write = self.read

    def read(self, data: bytes) -> None:
        self.reader.feed(data)
        while (words := self.reader.gets()) is not False:
            self.will_say(self._reply(words))

    def _reply(self, words: list[bytes]) -> bytes:
        if words[0] == b"PING":
            return b"+PONG\r\n"
        assert {self.slots[slot_of(key)] for key in words[1:]} == {self.number}, "a command of another node's"
        values = [b"$%d\r\n<%b>\r\n" % (len(key) + 2, key) for key in words[1:]]
        return values[0] if words[0] == b"GET" else b"*%d\r\n" % len(values) + b"".join(values)


def program(random: Random, size: int) -> tuple[bytes, bytes]:
    """Commands, and what a client must hear."""
    asked = heard = b""
    for number in range(size):
        kind = random.choice(["GET", "GET", "GET", "MGET", "PING", NAUGHTY, "KEYRAIL"])
        names = [b"%d:%d" % (number, random.randint(0, 99)) for _ in range(1 if kind == "GET" else 3)]
        values = [b"$%d\r\n<%b>\r\n" % (len(name) + 2, name) for name in names]
        if kind in ("GET", "MGET"):
            asked += pack(kind, *names)
            heard += values[0] if kind == "GET" else b"*3\r\n" + b"".join(values)
        elif kind == "KEYRAIL":
            asked += pack(kind, "own")
            heard += b"+own\r\n"
        else:
            asked += pack(kind)
            heard += REFUSAL if kind == NAUGHTY else b"+PONG\r\n"
    return asked, heard


@pytest.mark.parametrize("nodes", [1, 2, 3])
@pytest.mark.parametrize("most", [3, 40, 1000, 100_000])
def test_replies_come_in_order_at_every_split(nodes: int, most: int) -> None:
    random = Random(nodes * most)
    slots = owners(nodes)
    answering = [Answering(number, slots) for number in range(nodes)]
    client = Routed(answering, slots)
    asked, expected = program(random, 300)
    while asked or any(node.under_way or node.outgoing for node in answering):
        size = random.randint(1, most)
        client.intake.receive(asked[:size])
        asked = asked[size:]
        for node in answering:
            if random.random() < 0.5:
                node.flush()
                node.says(random.randint(0, most))
        assert expected.startswith(client.heard)
    assert client.heard == expected
    assert (client.sender.pending_replies, client.sender.order) == (0, None)


def test_each_node_gets_its_commands_of_one_read_in_one_run() -> None:
    slots = owners(2)
    answering = [Answering(number, slots) for number in range(2)]
    client = Routed(answering, slots)
    first = next(b"%d" % i for i in range(100) if slots[slot_of(b"%d" % i)] == 0)
    second = next(b"%d" % i for i in range(100) if slots[slot_of(b"%d" % i)] == 1)
    client.intake.receive(b"".join(pack("GET", key) for key in (first, first, first, second, second, first)))
    assert [[entry.due for entry in node.entries()] for node in answering] == [[4], [2]]
    assert [len(node.outgoing) for node in answering] == [1, 1]
    assert OK not in client.heard


def test_a_tenants_keys_are_at_the_nodes_of_their_whole_names() -> None:
    slots = owners(3)
    answering = [Answering(number, slots) for number in range(3)]
    client = Routed(answering, slots)
    client.intake.config.plan = Plan(len(STANDARD.specs))
    client.intake.config.plan.keep_to_tenant(bytes(goes_at_once(spec.name) for spec in STANDARD.specs))
    client.intake.prefix = b"acme:"
    names = [b"", b"{a}", b"{}a", b"a{b}c", b"acme:", *(b"%d" % number for number in range(60))]
    client.intake.receive(b"".join(pack("GET", name) + pack("MGET", name, name) for name in names))
    for node in answering:
        node.flush()
        assert node.under_way
        node.says(len(node.under_way))
    values = [b"$%d\r\n<acme:%b>\r\n" % (len(name) + 7, name) for name in names]
    assert client.heard == b"".join(b"%b*2\r\n%b%b" % (value, value, value) for value in values)
    assert client.intake.used_prefix
    assert not client.log, "nothing is judged"
