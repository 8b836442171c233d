"""No client goes back, each reads its own writes, and nothing is older than allowed: simulated, with all delays drawn.

A primary counts its writes. A replica applies them later, loses its connection, begins anew. Looks take time, and so do
commands, which a client sends in pipelines, to the primary or where its `ReaderPlace` says. Each read returns the count
that the server has at that moment, so a history of counts shows what a client has seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from proxy.hotpath.replicas.client_reads import ClientReads
from proxy.hotpath.replicas.reader_place import ReaderPlace, Replica, ReplicaGroup
from proxy.hotpath.upstream.in_flight import ReplySink
from proxy.net.config.endpoint import Endpoint
from proxy.net.replicas.replica_history import Told
from proxy.net.replicas.watched_replicas import WatchedPrimary, WatchedReplica
from proxy.session.ports.pool_key import Node
from tests.conftest import seeds
from tests.hotpath.gathering import Upstream

MAX_LAG = 1.0
LOOK_SECONDS = 0.5
CLIENTS = 6


@dataclass
class Server:
    """A replica: it has applied so many of its primary's writes. While it is stalled it answers nothing, while slow
    it applies nothing."""

    watched: WatchedReplica
    connection: Upstream
    applied: int = 0
    stalled_until: float = 0.0
    slow_until: float = 0.0


@dataclass
class Reader:
    """A client: what it has seen at most, what it has written, and the replies that it awaits, in their order."""

    sink: ReplySink
    place: ReaderPlace
    seen: int = 0
    written: int = 0
    pending: list[tuple[float, str, Any]] = field(default_factory=list)
    from_replicas: int = 0


class World:
    """Servers, clients, and the looks of one worker, driven by `random`."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now = 0.0
        self.primary = 0
        self.stream = "a"
        self.written_at = [0.0]
        self.watched = WatchedPrimary(Node(0))
        self.servers = [self.server(number) for number in (1, 2)]
        self.clients = [self.client() for _ in range(CLIENTS)]
        self.look: list[tuple[float, Any]] = []
        self.next_look = 0.0

    def server(self, number: int) -> Server:
        watched = WatchedReplica(Node(number), Endpoint("r", number), Replica())
        self.watched.replicas[watched.endpoint] = watched
        return Server(watched, Upstream([]))

    def client(self) -> Reader:
        sink = ReplySink()
        return Reader(sink, ReaderPlace(sink, self.watched.group))

    # What happens

    def step(self) -> None:
        self.now += self.random.expovariate(200.0)
        self.replicate()
        while self.look and self.look[0][0] <= self.now:
            self.look.pop(0)[1]()
        if not self.look and self.now >= self.next_look:
            self.begin_look()
        for client in self.clients:
            self.answer(client)
        chance = self.random.random()
        if chance < 0.0015:
            self.restart(self.random.choice(self.servers))
        elif chance < 0.003:
            server = self.random.choice(self.servers)
            server.stalled_until = self.now + self.random.choice((0.1, 0.7, 3.0))
        elif chance < 0.005:
            self.random.choice(self.servers).slow_until = self.now + self.random.choice((0.3, 4.0))
        elif chance < 0.0055:
            self.fail_over()
        elif chance < 0.3:
            self.write()
        self.act(self.random.choice(self.clients))

    def write(self) -> int:
        self.primary += 1
        self.written_at.append(self.now)
        return self.primary

    def replicate(self) -> None:
        for server in self.servers:
            if self.now >= max(server.stalled_until, server.slow_until) and server.applied < self.primary:
                server.applied = min(self.primary, server.applied + self.random.choice((0, 1, 5, 1000)))

    def restart(self, server: Server) -> None:
        # It loads an old copy of the data. Its connections are lost; clients choose anew, and reads are sent again.
        server.applied = max(0, server.applied - 50)
        self.lose(server)

    def lose(self, server: Server) -> None:
        server.connection.usable = False
        server.connection = Upstream([])
        server.watched.readable.leave()
        server.watched.readable = Replica()
        server.watched.applied = -1
        self.watched.group.changed()
        for client in self.clients:
            again = max([at for at, _, source in client.pending if source is None], default=self.now) + self.delay()
            for place, (_, kind, source) in enumerate(client.pending):
                if source is server:
                    client.pending[place] = (again, kind, None)

    def fail_over(self) -> None:
        # Nothing is lost here: a replica that has everything is promoted. The stream has another name then.
        for server in self.servers:
            server.applied = self.primary
        self.stream += "b"

    def delay(self) -> float:
        return self.random.choice((0.0002, 0.001, 0.02))

    # A look, with the time that each answer takes

    def begin_look(self) -> None:
        number, at = self.watched.group.begin_look(), self.now
        self.next_look = self.now + LOOK_SECONDS
        asked, answered = self.now + self.delay(), self.now + 0.03
        told: list[Told] = []

        def primary_runs() -> None:
            told.append(Told(False, self.stream, 100 + self.primary))

        def primary_answers() -> None:
            self.watched.told(number, at, told[0])

        self.look = [(asked, primary_runs), (answered, primary_answers)]
        for server in self.servers:
            self.look += self.replica_asked(server, answered)
        self.look.sort(key=lambda each: each[0])

    def replica_asked(self, server: Server, since: float) -> list[tuple[float, Any]]:
        said: list[Told] = []
        runs = since + 0.0001 + self.delay()

        def replica_runs() -> None:
            said.append(Told(True, self.stream, 100 + server.applied))

        def replica_answers() -> None:
            answers = self.now >= server.stalled_until
            self.watched.measured(server.watched, said[0] if answers else None, self.now)
            if not answers:
                self.lose(server)

        return [(runs, replica_runs), (runs + 0.02, replica_answers)]

    # A client

    def act(self, client: Reader) -> None:
        if client.place.group is not self.watched.group:
            client.place.attach(self.watched.group)
        if client.place.version != client.place.group.version:
            self.choose(client)
        for _ in range(self.random.choice((1, 1, 1, 4))):
            away = any(kind == "replica" for _, kind, _ in client.pending)
            if self.random.random() < 0.05:
                if away:
                    return
                client.place.note(True)
                self.send(client, "write", None)
                return
            if client.place.reader(MAX_LAG, self.now) is None:
                if away:
                    return
                client.place.note(False)
                self.send(client, "primary", None)
            else:
                server = next(each for each in self.servers if each.watched.readable is client.place.replica)
                self.send(client, "replica", server)

    def choose(self, client: Reader) -> None:
        fit = [each for each in self.servers if each.watched.readable.covered >= 0]
        stays = [each for each in fit if each.connection is client.place.upstream]
        if not fit:
            client.place.choose(None, None)
            return
        server = (stays or [self.random.choice(fit)])[0]
        client.place.choose(server.watched.readable, server.connection)

    def send(self, client: Reader, kind: str, server: Server | None) -> None:
        # On one connection, commands run in their order.
        earliest = max([at for at, _, source in client.pending if source is server], default=self.now)
        client.pending.append((max(earliest, self.now) + self.delay(), kind, server))
        client.sink.pending_replies += 1

    def answer(self, client: Reader) -> None:
        for place, (at, kind, source) in enumerate(client.pending):
            if at <= self.now and not isinstance(source, tuple):
                client.pending[place] = (at, kind, self.run(client, kind, source))
        while client.pending and isinstance(client.pending[0][2], tuple):
            _, kind, (count, ran_at) = client.pending.pop(0)
            client.sink.pending_replies -= 1
            self.check(client, kind, count, ran_at)

    def run(self, client: Reader, kind: str, source: Any) -> tuple[int, float]:
        if kind == "write":
            return self.write(), self.now
        if source is None:
            return self.primary, self.now
        client.from_replicas += 1
        return source.applied, self.now

    def check(self, client: Reader, kind: str, count: int, ran_at: float) -> None:
        if kind == "write":
            client.written = count
        assert count >= client.seen, "the client goes back"
        assert count >= client.written, "the client misses a write of its own"
        if count < len(self.written_at) - 1:
            assert ran_at - self.written_at[count + 1] <= MAX_LAG + 1.0, "too old"
        client.seen = max(client.seen, count)


def played(seed: int, steps: int = 3000) -> World:
    world = World(seed)
    for _ in range(steps):
        world.step()
    return world


@pytest.mark.parametrize("seed", seeds(4))
def test_no_client_goes_back_or_misses_its_writes_or_sees_what_is_too_old(seed: int) -> None:
    world = played(seed)
    assert sum(client.from_replicas for client in world.clients) > 100, "hardly a read was answered by a replica"


@pytest.mark.parametrize("broken", ["marks", "changes", "coverage", "age"])
def test_the_simulation_can_fail(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(ReaderPlace):
        def note(self, wrote: bool) -> None:
            if broken != "marks" and not (broken == "changes" and not wrote):
                super().note(wrote)

        def reader(self, max_lag: float, now: float, hides_absence: bool = False) -> Any:
            if broken == "coverage":
                self.mark = 0
            if broken == "age" and self.replica is not None:
                self.replica.lag, self.replica.until = 0.0, 1e9
            return super().reader(max_lag, now)

    monkeypatch.setattr("tests.hotpath.test_client_reads.ReaderPlace", Broken)
    with pytest.raises(AssertionError, match=r"back|own|old"):
        _ = [played(seed) for seed in range(20)]


@pytest.mark.parametrize("learns", ["note", "choose", "attach", "another run", "other terms"])
def test_a_read_is_like_the_last_one_only_until_the_client_learns_something(learns: str) -> None:
    place = ReaderPlace(ReplySink(), ReplicaGroup())
    place.choose(Replica(), None)
    place.note_reader(1, 2, False)
    assert place.goes_on(1, 2, False)
    assert not place.goes_on(1, 2, True)
    if learns == "note":
        place.note(False)
    elif learns == "choose":
        place.choose(Replica(), None)
    elif learns == "attach":
        place.attach(ReplicaGroup())
    assert not place.goes_on(1 + (learns == "another run"), 2 + (learns == "other terms"), False)


# What is kept


@pytest.mark.parametrize("seed", seeds(10))
def test_nothing_is_kept_of_clients_that_have_gone(seed: int) -> None:
    random = Random(seed)
    unknown, primaries = ReplicaGroup(watched=False), [WatchedPrimary(Node(number)) for number in range(3)]
    groups = [unknown, *(each.group for each in primaries)]

    def choose(place: ReaderPlace) -> None:
        group = random.choice((unknown, primaries[place.number].group))
        if place.group is not group:
            place.attach(group)
        place.choose(random.choice((None, Replica())), None)

    clients: list[tuple[ReplySink, ClientReads]] = []
    for _ in range(500):
        sink = ReplySink()
        sink.requested = random.choice((0, 1))
        clients.append((sink, ClientReads(sink, unknown, lambda: 0.0, choose)))
        sink, reads = random.choice(clients)
        sink.pending_replies = random.choice((0, 1))
        act = random.randrange(6)
        if act == 0:
            reads.note(random.randrange(3), random.random() < 0.5)
        elif act == 1:
            reads.note_everywhere(random.random() < 0.5)
        elif act == 2:
            reads.place(random.randrange(3))
        elif act == 3:
            random.choice(primaries).group.begin_look()
        elif act == 4 and random.random() < 0.1:
            primary = random.choice(primaries)
            primary.leave()
            groups.append(primary.group)
        elif act == 5:
            reads.follow(random.randrange(2))
    for sink, _ in clients:
        sink.gone = True
    for primary in primaries:
        primary.group.begin_look()
    assert [len(group.marked) for group in groups] == [0] * len(groups)
