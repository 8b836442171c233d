"""Commands that go to several nodes are answered in the client's order, whenever the nodes answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest

from proxy.cluster.fan_out import fan_out
from proxy.cluster.own_slots import KnownMarks
from proxy.cluster.scan_rounds import Asked, Rounds
from proxy.cluster.scan_walk import scan
from proxy.cluster.sending import send_fan_out, send_rounds, send_split
from proxy.commands.command import Command
from proxy.commands.slots import SLOTS
from proxy.commands.table import STANDARD
from proxy.hotpath.cluster.router import Router
from proxy.hotpath.cluster.split import split
from proxy.hotpath.order.join import Join
from proxy.wire.request import Request, RequestLimits
from tests.cluster.test_scan_walk import IDS, KEYS, Model, page
from tests.conftest import seeds
from tests.hotpath.gathering import Client, pack
from tests.hotpath.routed import owners
from tests.hotpath.test_reply_order import Node
from tests.hotpath.test_split import arguments

ROUTER = Router(owners(3))
LIMITS = RequestLimits(1 << 20, 1 << 29, 1 << 20)
NAMES = ["n1", "n2", "n3"]


class Asking(Client):
    """A client of three nodes that answer as a model of a cluster does."""

    def __init__(self) -> None:
        super().__init__()
        self.connections = [Node() for _ in range(3)]
        self.model = Model(KEYS)
        self.heard = b""
        self.sender.write = self.hear
        self.answers_of: dict[bytes, list[bytes]] = {}

    def hear(self, data: bytes) -> None:
        self.heard += data

    def upstream_of(self, number: int) -> Node | None:
        return self.connections[number] if self.connections[number].usable else None

    def split(self, *words: bytes, edit: object = None) -> None:
        command, request, raw = Command(STANDARD, words), Request(), pack(*words)
        request.scan(raw, 0, LIMITS)
        parts = split(command.spec.id, request, raw, STANDARD.keys, ROUTER)
        assert parts is not None
        send_split(self.sender, command, parts, [self.connections[number] for number in parts.nodes], edit)  # type: ignore[arg-type]  # they are pipelines

    def fan(self, *words: bytes) -> None:
        command = Command(STANDARD, words)
        send_fan_out(self.sender, fan_out(command, NAMES, 2, 0.0), self.connections, None)

    def walk(self, cursor: bytes) -> bytes | None:
        return send_rounds(self.sender, scan([b"SCAN", cursor], IDS, 0, known=KnownMarks()), self.upstream_of, None)

    def serve(self, random: Random, most: int = 1000) -> None:
        """Nodes answer what they have been sent, in pieces, until nothing is pending."""
        while self.sender.pending_replies > 0:
            number = random.randrange(3)
            node = self.connections[number]
            chunk, node.outgoing = b"".join(node.outgoing), []
            for argv in arguments(chunk):
                scripted = self.answers_of.get(argv[0], [])
                node.will_say(scripted[number] if scripted else self.model.answer(number, argv))
            node.says(random.randint(1, most))
        assert (self.sender.order, [node.faults for node in self.connections]) == (None, [[]] * 3)


@pytest.mark.parametrize("seed", seeds(10))
def test_all_kinds_in_one_pipeline(seed: int) -> None:
    client = Asking()
    client.answers_of = {
        b"MGET": [b"*1\r\n$2\r\nn1\r\n", b"*1\r\n$2\r\nn2\r\n", b"*1\r\n$2\r\nn3\r\n"],
        b"DEL": [b":1\r\n"] * 3,
        b"DBSIZE": [b":1\r\n", b":2\r\n", b":3\r\n"],
        b"MSET": [b"+OK\r\n"] * 3,
    }
    client.fan(b"DBSIZE")
    client.split(b"MGET", b"{a}1", b"{b}1", b"{c}1")
    assert client.walk(b"0") is None
    client.split(b"DEL", b"a", b"b", b"c", edit=lambda frame: b"*1\r\n" + frame)
    client.split(b"MSET", b"a", b"1", b"b", b"2")
    client.serve(Random(seed), most=1 + seed * 7)
    beginning = b":6\r\n*3\r\n$2\r\nn3\r\n$2\r\nn1\r\n$2\r\nn2\r\n"
    assert client.heard.startswith(beginning)
    assert client.heard.endswith(b"*1\r\n:3\r\n+OK\r\n")
    cursor, keys = page(client.heard[len(beginning) : -len(b"*1\r\n:3\r\n+OK\r\n")])
    assert (cursor != b"0", len(keys)) == (True, 3)


@pytest.mark.parametrize("seed", seeds(5))
def test_a_whole_walk(seed: int) -> None:
    client, random = Asking(), Random(seed)
    cursor = b"0"
    seen: list[bytes] = []
    while not seen or cursor != b"0":
        assert client.walk(cursor) is None
        client.serve(random, 50)
        cursor, keys = page(client.heard)
        client.heard = b""
        seen += keys
    assert sorted(seen) == sorted(KEYS)


def nothing_then(reply: bytes, first: bool) -> Rounds:
    if not first:
        yield [Asked(0, (b"CLUSTER", b"NODES"))]
    assert (yield []) == []
    assert (yield []) == []
    return reply


@pytest.mark.parametrize("apart", [False, True])
def test_a_round_that_asks_nothing_goes_on_at_once(apart: bool) -> None:
    def ask(number: int, questions: Sequence[Sequence[bytes]], answered: Callable[[Sequence[bytes]], None]) -> None:
        answered([client.model.answer(number, argv) for argv in questions])

    client = Asking()
    for first in (True, False):
        rounds = nothing_then(b"+end\r\n", first)
        reply = send_rounds(client.sender, rounds, client.upstream_of, None, ask if apart else None)
        assert reply == (b"+end\r\n" if first else None)
    client.serve(Random(0))
    assert client.heard == b"+end\r\n"


def test_a_join_of_nothing_is_refused() -> None:
    """Nothing would ever complete it."""
    with pytest.raises(AssertionError):
        Join(Asking().sender.begin_order().place(), 0, lambda frames: b"")


def test_an_answer_without_asking_is_for_the_caller() -> None:
    client = Asking()
    assert client.walk(b"x") == b"-ERR invalid cursor\r\n"
    client.connections[1].usable = False
    assert client.walk(b"0") == b"-CLUSTERDOWN keyrail: a node of the cluster is not connected\r\n"
    assert (client.sender.order, client.sender.pending_replies) == (None, 0)


def test_a_node_that_is_lost_between_two_rounds() -> None:
    client = Asking()
    assert client.walk(b"0") is None
    client.connections[1].usable = False  # it has first to be scanned: ids are in another order
    client.serve(Random(1))
    assert client.heard == b"-CLUSTERDOWN keyrail: a node of the cluster is not connected\r\n"


FAILED = b"-OOM command not allowed\r\n"


@pytest.mark.parametrize(
    ("words", "frames", "expected"),
    [
        (
            [b"MSET", b"b", b"1", b"a", b"2"],
            [b"+OK\r\n", b"", FAILED],
            b"(MSET ran for 1 of 2 keys, and not for arguments 3)",
        ),
        ([b"DEL", b"b", b"a"], [b":1\r\n", b"", FAILED], b"(DEL ran for 1 of 2 keys, and not for arguments 2)"),
        ([b"EXISTS", b"b", b"a"], [b":1\r\n", b"", FAILED], b"-OOM command not allowed\r\n"),
        ([b"MGET", b"b", b"a"], [b"*1\r\n$-1\r\n", b"", b"-MOVED 1 127.0.0.1:7000\r\n"], b"-CLUSTERDOWN keyrail: "),
        ([b"FLUSHALL"], [b"+OK\r\n", b"+OK\r\n", FAILED], b"(FLUSHALL ran on n1, n2, and not on n3)"),
    ],
    ids=lambda each: each[0].decode() if isinstance(each, list) else "",
)
def test_errors(words: list[bytes], frames: Sequence[bytes], expected: bytes) -> None:
    client = Asking()
    client.answers_of = {words[0]: list(frames)}
    if len(words) == 1:
        client.fan(*words)
    else:
        client.split(*words)
    client.serve(Random(1))
    assert client.heard.startswith(b"-")
    assert expected in client.heard
    assert b"7000" not in client.heard


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize(
    "lie", [b"+x\r\n", b":5\r\n", b"*-1\r\n", b"*0\r\n", b"*1\r\n:1\r\n", b"$1\r\nx\r\n", b"*2\r\n+x\r\n:1\r\n"]
)
@pytest.mark.parametrize("asked", [b"SCAN", b"COUNTKEYSINSLOT", b"GETKEYSINSLOT", b"NODES", b"TYPE"])
def test_a_walk_whose_nodes_answer_nonsense_ends(asked: bytes, lie: bytes, apart: bool) -> None:
    """With an error or a page; nobody waits."""

    class Lying(Model):
        def answer(self, node: int, argv: Sequence[bytes]) -> bytes:
            return lie if asked in argv else super().answer(node, argv)

    client = Asking()
    client.model = Lying(KEYS)

    def ask(number: int, questions: Sequence[Sequence[bytes]], answered: Callable[[Sequence[bytes]], None]) -> None:
        answered([client.model.answer(number, argv) for argv in questions])

    for cursor in (b"0", b"%d" % ((SLOTS - 64 << 28) | 3)):
        argv = [b"SCAN", cursor, b"TYPE", b"hash", b"COUNT", b"50"]
        rounds = scan(argv, IDS, 0, known=KnownMarks())
        reply = send_rounds(client.sender, rounds, client.upstream_of, None, ask if apart else None)
        client.serve(Random(0))
        assert reply is None
        assert client.heard
        client.heard = b""
