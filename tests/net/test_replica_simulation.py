"""No client goes back, each reads its own writes, and nothing is older than allowed: real sessions, all delays drawn.

A primary counts its writes (INCR). A replica applies them later. Each read returns the count that its server has when
it runs the read, and when that was. Servers run what their connections have brought, and answers arrive, each at a
moment of its own. Replicas lag, lose their connections, refuse single reads or all, hang and begin anew. Looks take
time; clients send pipelines of reads with and without a rule, writes and transactions.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import Any, cast

import pytest

from proxy.hotpath.replicas.reader_place import ReaderPlace, ReplicaGroup
from proxy.net.replicas.replica_history import Told
from proxy.net.replicas.watched_replicas import WatchedReplica
from proxy.session.replicas.read_retries import ReadRetries
from tests.conftest import rest_is_long, seeds
from tests.net.replica_stage import Connection, Stage
from tests.resp import FrameReader, decode
from tests.session.given import Client, Upstream, call

MAX_LAG = 1.0
LOOK_SECONDS = 0.5
HELD_SECONDS = 0.05
OFTEN = 4.0
"""Some breaks are found sooner if servers are in trouble so many times as often as usual."""
UNABLE = (b"-LOADING loading\r\n", b"-MASTERDOWN down\r\n")
REFUSALS = (b"-NOPERM no permission\r\n", b"-NOSCRIPT no script\r\n", *UNABLE)
OWN = {b"PING": b"+PONG\r\n", b"SCRIPT": b"$1\r\nx\r\n"}


@dataclass
class Server:
    """It has applied so many writes. While it is ``stalled`` it runs nothing, while ``slow`` it applies nothing, and
    while it ``refuses`` it runs no read."""

    replica: WatchedReplica | None = None
    applied: int = 0
    generation: int = 0
    stalled: float = 0.0
    slow: float = 0.0
    refuses: bytes = b""

    @property
    def process(self) -> str:
        return f"{0 if self.replica is None else self.replica.node.number}.{self.generation}"


@dataclass
class Line:
    """A connection to a server: what has been sent and not run, and what it has answered and has not arrived."""

    upstream: Upstream
    server: Server
    requests: FrameReader = field(default_factory=FrameReader)
    replies: deque[bytes] = field(default_factory=deque)
    queued: list[list[bytes]] | None = None


@dataclass
class Reader:
    """A client, the commands that it awaits, and the largest counts that it has seen and made. One that ``only_reads``
    asks for nothing but what replicas may answer."""

    client: Client
    only_reads: bool = False
    frames: FrameReader = field(default_factory=FrameReader)
    awaited: deque[bytes] = field(default_factory=deque)
    seen: int = 0
    written: int = 0
    answered: int = 0


class World:
    """A primary, two replicas, and clients of a real ``ReplicaConnections``, driven by ``random``. Servers are in
    trouble so many ``times`` as often as usual."""

    def __init__(self, seed: int, readers: int = 4, times: float = 1.0) -> None:
        self.random = Random(seed)
        random.seed(seed)  # by which clients choose
        self.times = times
        self.stage = Stage()
        self.primary = Server()
        self.written_at = [0.0]
        self.replicas = [Server(each) for each in self.stage.replicas]
        self.lines: dict[Any, Line] = {}
        for connection in list(self.stage.members.values()):
            connection.lose()
        self.readers = [Reader(Client(self.stage.route), number < readers // 2) for number in range(readers)]
        self.held: list[Client] = []
        self.timers: list[tuple[float, Any]] = []
        self.look: list[tuple[float, Any]] = []
        self.next_look = 0.0
        self.by_replicas = 0

    @property
    def now(self) -> float:
        return self.stage.now

    # What happens

    def step(self) -> None:
        self.stage.now += self.random.expovariate(400.0)
        self.timers += [(self.now + seconds, act) for seconds, act in self.stage.later]
        self.stage.later.clear()
        for timer in [each for each in self.timers if each[0] <= self.now]:
            self.timers.remove(timer)
            timer[1]()
        self.replicate()
        while self.look and self.look[0][0] <= self.now:
            self.look.pop(0)[1]()
        if not self.look and self.now >= self.next_look:
            self.hold()
        waits = any(each.sender.pending_replies for each in self.held) and self.now < self.next_look + HELD_SECONDS / 2
        if not self.look and self.now >= self.next_look and not waits:
            self.begin_look()
        self.meet_connections()
        for line in self.random.sample(list(self.lines.values()), len(self.lines)):
            if self.random.random() < 0.7:
                self.run(line)
            if self.random.random() < 0.7 and line.replies and not line.upstream.closed:
                line.upstream.answer(line.replies.popleft())
        self.trouble()
        for reader in self.readers:
            self.hear(reader)
        if self.random.random() < 0.2:
            self.act(self.random.choice(self.readers))

    def replicate(self) -> None:
        for server in self.replicas:
            if self.now >= max(server.stalled, server.slow) and server.applied < self.primary.applied:
                server.applied = min(self.primary.applied, server.applied + self.random.choice((0, 1, 5, 1000)))

    def trouble(self) -> None:
        chance, server = self.random.random() / self.times, self.random.choice(self.replicas)
        if chance < 0.0005:
            server.applied, server.generation = max(0, server.applied - 50), server.generation + 1
            self.lose(server)
        elif chance < 0.001:
            self.lose(server)
        elif chance < 0.0015:
            server.stalled = self.now + self.random.choice((0.1, 0.7, 3.0))
        elif chance < 0.0025:
            for each in self.random.choice(([server], self.replicas)):
                each.slow = self.now + self.random.choice((0.3, 4.0))
        elif chance < 0.006:
            server.refuses = self.random.choice((b"", b"", *REFUSALS))
        if self.random.random() < 0.1:
            self.write()

    def write(self) -> int:
        self.primary.applied += 1
        self.written_at.append(self.now)
        return self.primary.applied

    def lose(self, server: Server) -> None:
        for line in [line for line in self.lines.values() if line.server is server and not line.upstream.closed]:
            self.stage.members[line.upstream].lose()

    def meet_connections(self) -> None:
        # What is being opened is open, if it leads where it should.
        self.stage.opening.clear()
        for server in self.replicas:
            replica = server.replica
            assert replica is not None
            for slot in self.stage.readers._of(replica.node):
                if slot.opening and self.random.random() < 0.1:
                    slot.opening = False
                    if server.process == replica.process and self.now >= server.stalled:
                        self.open(slot, server, replica)
                    else:
                        self.stage.readers._pause(slot, 0.1)
        for upstream in self.stage.route.pools.values():
            self.lines.setdefault(upstream, Line(upstream, self.primary))
        for upstream in self.stage.route.lent:
            self.lines.setdefault(upstream, Line(upstream, self.primary))
        for upstream in [upstream for upstream in self.lines if upstream.closed]:
            del self.lines[upstream]

    def open(self, slot: Any, server: Server, replica: WatchedReplica) -> None:
        connection: Any = Connection(self.stage.readers, replica.node)
        connection.run_id = server.process.encode()
        self.stage.members[connection.pipeline] = connection
        slot.fill(connection)
        self.stage.readers._open_slots[connection] = slot
        slot.since = self.stage.readers._changed(replica)
        self.lines[connection.pipeline] = Line(connection.pipeline, server)

    # Servers

    def run(self, line: Line) -> None:
        line.requests.feed(line.upstream.taken())
        if self.now < line.server.stalled:
            return
        frame = line.requests.frame()
        if frame is not None:
            line.replies.append(self.reply(line, cast("list[bytes]", decode(frame))))

    def reply(self, line: Line, argv: list[bytes]) -> bytes:
        server, name = line.server, argv[0]
        if name in OWN:
            return OWN[name]
        if server.replica is not None and server.refuses and (server.refuses in UNABLE or self.random.random() < 0.5):
            return server.refuses
        if line.queued is not None and name not in (b"EXEC", b"DISCARD"):
            line.queued.append(argv)
            return b"+QUEUED\r\n"
        if name == b"MULTI":
            line.queued = []
        if name == b"EXEC":
            queued, line.queued = line.queued or [], None
            return b"*%d\r\n" % len(queued) + b"".join(self.reply(line, each) for each in queued)
        if name in (b"MULTI", b"WATCH", b"UNWATCH"):
            return b"+OK\r\n"
        if name == b"INCR":
            assert server is self.primary, "a write has left the primary"
            return self.value(self.write())
        assert name in (b"GET", b"MGET")
        assert server is self.primary or all(key.startswith(b"a:") for key in argv[1:]), "it has no rule"
        self.by_replicas += server is not self.primary
        values = [self.value(server.applied)] * (len(argv) - 1)
        return values[0] if name == b"GET" else b"*%d\r\n" % len(values) + b"".join(values)

    def value(self, count: int) -> bytes:
        text = b"%d@%.6f" % (count, self.now)
        return b"$%d\r\n%b\r\n" % (len(text), text)

    # A look, with the time that each answer takes

    def delay(self) -> float:
        return self.random.choice((0.0002, 0.001, 0.004))

    def hold(self) -> None:
        if not self.held:
            returning = {id(place.sender) for place in self.stage.primary.group.returning()}
            clients = [each.client for each in self.readers if id(each.client.sender) in returning]
            self.held = [each for each in clients if each.hold_reads()]
            self.timers.append((self.now + HELD_SECONDS, self.release))

    def begin_look(self) -> None:
        group = self.stage.primary.group
        at, number, told = self.now, group.begin_look(), list[int]()
        self.next_look = self.now + self.random.choice((0.05, LOOK_SECONDS))
        answered = self.now + 0.005
        self.look = [
            (self.now + self.delay(), lambda: told.append(self.primary.applied)),
            (answered, lambda: self.stage.primary.told(number, at, Told(False, "s", 100 + told[0]))),
        ]
        for server in self.replicas:
            self.look += self.replica_asked(server, answered + 0.0001)
        self.look.sort(key=lambda each: each[0])
        self.look.append((self.look[-1][0] + 0.001, self.release))

    def replica_asked(self, server: Server, since: float) -> list[tuple[float, Any]]:
        said: list[Told] = []
        replica = server.replica
        assert replica is not None

        def runs() -> None:
            said.append(Told(True, "s", 100 + server.applied, process=server.process))

        def answers() -> None:
            before = replica.readable
            answered = said[0] if self.now >= server.stalled else None
            self.stage.primary.measured(replica, answered, self.now, [MAX_LAG])
            if answered is None or replica.readable is not before:
                self.stage.readers.left(replica.node)

        runs_at = since + self.delay()
        return [(runs_at, runs), (runs_at + 0.002, answers)]

    def release(self) -> None:
        for client in self.held:
            client.release_reads()
        self.held = []

    # Clients

    def act(self, reader: Reader) -> None:
        if len(reader.awaited) > 12:
            return
        sent: list[tuple[str, ...]] = []
        for _ in range(self.random.choice((1, 1, 1, 4))):
            chance = 1.0 if reader.only_reads else self.random.random()
            if chance < 0.01:
                sent += [("MULTI",), ("GET", "a:1"), ("INCR", "a:1"), ("GET", "x"), ("EXEC",)]
            elif chance < 0.015:
                sent += [("WATCH", "a:1"), ("GET", "a:1"), ("UNWATCH",)]
            elif chance < 0.03:
                sent.append(("INCR", "a:1"))
            elif chance < 0.05:
                sent.append(("GET", "x"))
            elif chance < 0.06:
                sent.append(("MGET", "a:1", "x"))
            else:
                sent.append(self.random.choice((("GET", "a:1"), ("GET", "a:2"), ("MGET", "a:1", "a:2"))))
        reader.awaited += [words[0].encode() for words in sent]
        commands = [call(*words) for words in sent]
        for data in commands if self.random.random() < 0.5 else [b"".join(commands)]:
            reader.client.send(data)

    def hear(self, reader: Reader) -> None:
        assert not reader.client.gone, reader.client.cause
        reader.frames.feed(reader.client.heard())
        while (frame := reader.frames.frame()) is not None:
            name = reader.awaited.popleft()
            reader.answered += 1
            assert not frame.startswith(b"-"), frame
            told = decode(frame)
            values = told if isinstance(told, list) else [told]
            for place, value in enumerate(values):
                if isinstance(value, bytes) and b"@" in value:
                    self.check(reader, value, made=name == b"INCR" or (name == b"EXEC" and place == 1))

    def check(self, reader: Reader, value: bytes, *, made: bool) -> None:
        count, ran_at = int(value.partition(b"@")[0]), float(value.partition(b"@")[2])
        if made:
            reader.written = count
        assert count >= reader.written, "the client misses a write of its own"
        assert count >= reader.seen, "the client goes back"
        if count < len(self.written_at) - 1:
            assert ran_at - self.written_at[count + 1] <= MAX_LAG + 1.0, "too old"
        reader.seen = count


def played(seed: int, steps: int = 3000, times: float = 1.0) -> World:
    world = World(seed, times=times)
    for _ in range(steps):
        world.step()
    return world


@pytest.mark.parametrize("seed", seeds(6, 40))
def test_no_client_goes_back_or_misses_its_writes_or_sees_what_is_too_old(seed: int) -> None:
    world = played(seed)
    assert world.by_replicas > 10, "hardly a read was answered by a replica"
    assert min(reader.answered for reader in world.readers) > 50, "a client waits for ever"


def counts_the_look_before(group: ReplicaGroup) -> int:
    waiting = list(group.marked)
    number: int = BEGIN_LOOK(group)
    for place in waiting:
        if not place.marked:
            place.mark -= 1
    return number


def forgets_changes(place: ReaderPlace, replica: Any, upstream: Any) -> None:
    place.used, used = False, place.used
    CHOOSE(place, replica, upstream)
    place.used = used


def takes_the_refused_one(reads: ReadRetries) -> list[Any]:
    mine: list[Any] = THEIRS(reads)
    return mine[:1]


BEGIN_LOOK, CHOOSE, THEIRS = ReplicaGroup.begin_look, ReaderPlace.choose, ReadRetries._theirs
BROKEN: dict[str, tuple[type, str, Any]] = {
    "a look that is under way counts": (ReplicaGroup, "begin_look", counts_the_look_before),
    "changes of the replica are forgotten": (ReaderPlace, "choose", forgets_changes),
    "what a replica lacks is not asked": (ReaderPlace, "_is_behind", lambda place: place.marked),
    "age does not count": (ReaderPlace, "_is_near", lambda place, *_: place.upstream and place.upstream.usable),
    "a command behind a refused one stays": (ReadRetries, "_theirs", takes_the_refused_one),
}


@pytest.mark.source
@pytest.mark.parametrize("what", rest_is_long(*BROKEN))
def test_the_simulation_can_fail(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*BROKEN[what])
    with pytest.raises(AssertionError, match=r"back|own|old"):
        _ = [played(each, times=times) for each in range(200) for times in (1.0, OFTEN)]
