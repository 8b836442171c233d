"""Whenever reads of clients move from a connection that is held up to another one, and whatever comes in between: each
client gets its replies in the order of its commands, as if it were alone with Redis, and each write runs once.

The histories are made from seeds: some clients on shared connections to a simulated server, which pauses writes now and
then; connections on which it answers at its own pace, in pieces; and connections that are given up for others, held or
not. Each client has keys of its own, so its replies follow from its own commands; those of one key, which all read and
one of them counts up, never go back.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from proxy.commands.table import Lane
from proxy.hotpath.upstream.in_flight import InFlightEntry, ReplySink
from proxy.net.pool import held_reads
from proxy.net.pool.held_reads import HeldReads
from proxy.policy.model import TRANSPARENT
from proxy.session.ports.pool_key import SOLE_NODE, PoolKey
from proxy.session.replicas import moved_reads, sent_again
from tests.conftest import seeds
from tests.policy.given import policy as policy_of
from tests.resp import FrameReader
from tests.session.given import HOME, Client, FakeRoute, Upstream, call
from tests.session.served import Served, server
from tests.simulation.connection import Connection

Break = Callable[[pytest.MonkeyPatch], None]
STEPS = 150
ROUNDS = 300
"""So often everything comes on at the end. What is not answered then never is."""
POLICIES = [
    TRANSPARENT,
    policy_of("defaults: {mode: enforce}\nrules:\n  no: {refuse: [DBSIZE]}\n  unlink: {replace: {DEL: UNLINK}}\n"),
    policy_of("defaults: {mode: enforce}\nrules:\n  lifetime: {lifetime: {default: 5m}}\n"),
]
READS = (
    *("get K", "get K", "get K", "mget K K", "exists K", "ping V", "ping", "echo V", "strlen K", "lrange L 0 -1"),
    *("get shared", "get shared", "info", "time", "script exists 0", "keys N*", "dbsize", "get"),
    *("config get maxmemory", "config get maxmemory"),
)
WRITES = ("set K V", "set K V", "incr C", "rpush L V", "del K", "eval E 1 K", "multi", "pfcount nothing")
UNIT = ("multi", "get K", "set K V", "incr C", "get K", "exec")
SCRIPT = "return redis.call('INCR', KEYS[1])"


class Reader(Client):
    """A client, what it has sent, and the replies so far."""

    __slots__ = ("asked", "frames", "name", "replies")

    def __init__(self, route: FakeRoute, name: str) -> None:
        super().__init__(route)
        self.name = name
        self.asked: list[list[str]] = []
        self.frames = FrameReader()
        self.replies: list[bytes] = []

    def listen(self) -> None:
        self.frames.feed(self.heard())
        while (frame := self.frames.frame()) is not None:
            self.replies.append(frame)

    def check(self) -> None:
        """Where its pending replies are, the world checks."""


@dataclass(eq=False)
class Member:
    """A connection as the pools know it."""

    pipeline: Upstream
    lane: Lane
    head_blocked: bool = False
    closed: bool = False
    retiring: bool = False
    key: PoolKey = HOME


class World:
    """Clients, connections and the server. ``lines`` tell what has happened."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.route = FakeRoute(
            self.chance.choice(POLICIES), traces=self.chance.choice((0, 0, 3)), window=self.chance.choice((4, 1024))
        )
        self.server = server()
        self.served: dict[Upstream, Served] = {}
        self.members: dict[Upstream, Member] = {}
        self.soon: list[Callable[[], object]] = []
        self.clients = [Reader(self.route, f"c{number}") for number in range(self.chance.randint(2, 5))]
        self.numbers = 0
        self.route.upstream(), self.route.upstream(lane=Lane.SLOW)
        pool: Any = SimpleNamespace(shared=self._shared)
        self.connections: Any = SimpleNamespace(
            pools=SimpleNamespace(of=lambda _key: pool),
            supply=SimpleNamespace(ensure=lambda _pool, _lane: None),
            topology=SimpleNamespace(nodes=(SOLE_NODE,)),
        )

    def _member(self, upstream: Upstream, lane: Lane) -> Member:
        if upstream not in self.members:
            self.members[upstream] = Member(upstream, lane)
        return self.members[upstream]

    def _shared(self, lane: Lane) -> Member | None:
        found = self.route.upstream(HOME, lane)
        return self._member(found, lane) if found.usable else None

    # What happens

    def step(self) -> None:
        happens = self.chance.choices(
            (self.speaks, self.answers, self.pauses, self.gives_up, self.calls, self.leaves), (35, 40, 6, 12, 6, 0.3)
        )[0]
        happens()
        shared = {*self.route.pools.values(), *self.members}
        for client in self.clients:
            client.listen()
            owing = [each for each in shared if any(entry.sink.client() is client for entry in each.entries())]
            assert len(owing) <= 1, f"{client.name} has commands in flight on two shared connections"

    def speaks(self) -> None:
        client = self.chance.choice(self.clients)
        writes = self.chance.random() < 0.35
        commands: list[list[str]] = []
        for _ in range(self.chance.choice((1, 1, 2, 5))):
            line = self.chance.choice(WRITES if writes and self.chance.random() < 0.5 else READS)
            lines = UNIT if line == "multi" else (line,)
            commands += [[self._word(client, word) for word in each.split()] for each in lines]
        if client.name == "c0" and writes:
            commands.append(["incr", "shared"])
        if not client.gone:
            client.asked += commands
            client.send(b"".join(call(*words) for words in commands))

    def _word(self, client: Reader, word: str) -> str:
        self.numbers += 1
        own = {"K": self.chance.choice("ab"), "L": "list", "C": "count", "N*": "*"}
        if word in own:
            return f"{client.name}:{own[word]}"
        return {"V": str(self.numbers), "E": SCRIPT}.get(word, word)

    def living(self) -> list[Served]:
        for upstream in (*self.route.all_upstreams(), *self.route.idle, *self.members):
            if upstream not in self.served:
                self.served[upstream] = Served(upstream, Connection(self.server))
        return [each for each in self.served.values() if not each.upstream.closed]

    def answers(self) -> None:
        living = self.living()
        for served in self.chance.sample(living, self.chance.randint(1, len(living))):
            for _ in range(self.chance.choice((0, 1, 2, 8))):
                served.step()
            size = len(served.replies)
            served.arrive(self.chance.choice((size, size, self.chance.randint(0, size))))
            self._reopen(served.upstream)

    def _reopen(self, upstream: Upstream) -> None:
        member = self.members.get(upstream)
        if member is not None and member.head_blocked and upstream.head is None:
            member.head_blocked, upstream.usable = False, True

    def pauses(self) -> None:
        if self.server.paused_until:
            self.server.end_pause()
        else:
            self.server.pause_writes(1e9)

    def gives_up(self) -> None:
        """A connection takes no more commands, another one comes, sooner or later, and reads move there."""
        lane = self.chance.choice((Lane.FAST, Lane.FAST, Lane.SLOW))
        source = self.route.upstream(HOME, lane)
        if source.head is None or not source.usable:
            return
        member = self._member(source, lane)
        member.head_blocked, source.usable = True, False
        found = [each for each, known in self.members.items() if each.usable and known.lane is lane]
        self.route.pools[HOME, lane] = self.chance.choice(found) if found else self.route.connect(HOME)
        self._member(self.route.pools[HOME, lane], lane)
        self.soon.append(partial(self.moves, HeldReads(self.connections, cast("Any", member))))
        if self.chance.random() < 0.7:
            self.calls()

    def moves(self, held: HeldReads) -> None:
        """A portion of the clients moves."""
        target = held._target() if held._waits() else None
        if target is not None and held.move_some(target):
            self.soon.append(partial(self.moves, held))

    def calls(self) -> None:
        """What was to come soon comes."""
        soon, self.soon[:] = [*self.soon], []
        for act in soon:
            act()
        self.route.feed()
        for client in self.clients:
            if client.awaited is not None:
                client.arrived()

    def leaves(self) -> None:
        client = self.chance.choice(self.clients)
        if client.name != "c0" and not client.gone:
            client.connection_lost()

    # What must hold

    def settle(self) -> None:
        self.server.end_pause()
        for _ in range(ROUNDS):
            self.calls()
            for served in self.living():
                while served.step():
                    pass
                served.arrive()
                self._reopen(served.upstream)
        for client in self.clients:
            client.listen()

    def verify(self) -> None:
        for client in self.clients:
            expected = alone(client.asked, refuses=self.route._effective_policy.compiled.policy is POLICIES[1])
            replies = client.replies
            if not client.gone:
                assert len(replies) == len(expected), f"{client.name}: {len(replies)} of {len(expected)} replies"
                assert client.sender.pending_replies == 0
            shared = 0
            for words, reply, wanted in zip(client.asked, replies, expected, strict=False):
                if words[0] == "get" and words[-1] == "shared" and reply.startswith((b"$", b"+")):
                    if reply.startswith(b"$") and reply != b"$-1\r\n":
                        now = int(reply.split(b"\r\n")[1])
                        assert now >= shared, f"{client.name}: {words} went back to {now} from {shared}"
                        shared = now
                elif wanted is not None:
                    assert reply == wanted, f"{client.name}: {words}"
        for name, key in (("c0", "shared"), *((each.name, f"{each.name}:count") for each in self.clients)):
            client = next(each for each in self.clients if each.name == name)
            asked = sum(words[:2] == ["incr", key] for words in client.asked)
            ran = int(self.server.databases[0].values.get(key.encode(), b"0"))
            assert ran == asked if not client.gone else ran <= asked, f"{key}: {ran} of {asked}"


def alone(asked: Sequence[Sequence[str]], *, refuses: bool) -> list[bytes | None]:
    """What the commands of one client are answered where nobody else is; None where that does not follow."""
    connection, found = Connection(server()), list[bytes | None]()
    for words in asked:
        connection.run([word.encode() for word in words])
        reply = b"".join(connection.out)
        connection.out.clear()
        unsure = words[0] in ("info", "time", "dbsize") or "shared" in words
        found.append(None if unsure else reply)
    return found


def play(seed: int) -> World:
    world = World(seed)
    for _ in range(STEPS):
        world.step()
    world.settle()
    world.verify()
    return world


@pytest.mark.parametrize("seed", seeds(60, 2000))
def test_any_history(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_reads, "PORTION", 2)
    moved = count_moves(monkeypatch)
    play(seed)
    assert moved[0] > 0 or seed not in range(3), "the histories are about this"


BREAKS: dict[str, Break] = {
    "writes move": lambda patch: patch.setattr(moved_reads, "may_run_elsewhere", lambda _: True),
    "replies come from both": lambda patch: patch.setattr(moved_reads, "drop", lambda _: None),
    "the client stays there": lambda patch: patch.setattr(moved_reads, "_follow", lambda *_: None),
    "answers of Keyrail's own await a frame": lambda patch: patch.setattr(sent_again, "LOCAL", -1),
    "a part moves": lambda patch: patch.setattr(moved_reads, "move", _moves_a_part(moved_reads.move)),
}


def _moves_a_part(move: Any) -> Any:
    return lambda session, source, entries, target: move(session, source, entries[1:] or entries, target)


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_move_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BREAKS[name](monkeypatch)
    for seed in range(60):
        try:
            play(seed)
        except AssertionError:
            return
    pytest.fail("60 histories have found nothing")


def count_moves(patch: pytest.MonkeyPatch) -> list[int]:
    """How many entries have moved."""
    moved, send_again = [0], Upstream.send_again

    def counted(self: Upstream, entry: InFlightEntry, sender: ReplySink, sent: bytes) -> None:
        moved[0] += 1
        send_again(self, entry, sender, sent)

    patch.setattr(Upstream, "send_again", counted)
    return moved
