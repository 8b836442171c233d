"""Clients that hinder others are told apart from those who wait behind them: seconds of made-up clients of one server,
whose commands are sampled, and which of them is an incident."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter, defaultdict
from dataclasses import dataclass, replace

import pytest

from proxy.hotpath.counting.counter_snapshot import CounterSnapshot
from proxy.traffic.advice import InForce
from proxy.traffic.alerts import USUAL
from proxy.traffic.client_ids import id_of, name_of, named
from proxy.traffic.hotspots import CLIENT_KINDS, IncidentKind
from proxy.traffic.incidents import Incident, IncidentEvent, Lookout
from proxy.traffic.interval_stats import IntervalStats
from proxy.traffic.labels import Client
from proxy.traffic.redaction import Redact, Redaction
from proxy.traffic.shapes import shape
from proxy.traffic.time_series import TimeSeries
from tests.conftest import seeds
from tests.traffic.given import READ

WAY = 0.0003
"""Seconds to Redis and back."""
SAMPLED = 7
"""One command of so many is traced."""


@dataclass
class Made:
    """A client with connections that each send the next command `idle` seconds after a reply; one takes `work` seconds
    at Redis. With `reconnects` each has a connection of its own."""

    name: str
    command: str
    connections: int
    work: float
    idle: float
    reconnects: bool = False
    size: int = 10

    @property
    def client(self) -> Client:
        return ("shop", "default", self.name, "lib 1", "10.0.0.1")


BYSTANDERS = [
    Made("web", "GET", 40, 0.00002, 0.02),
    Made("batch", "HSET", 8, 0.00005, 0.004),
    Made("jobs", "EVALSHA", 20, 0.0002, 0.05),
    Made("feed", "LRANGE", 20, 0.0001, 0.02, size=400),
    Made("cron", "GET", 2, 0.00002, 0.5, reconnects=True),
    Made("keeper", "KEYS", 1, 0.004, 5.0),
]
CULPRITS: dict[str, tuple[Made, set[IncidentKind]]] = {
    "nobody": (Made("calm", "SET", 5, 0.00002, 0.01), set()),
    "walker": (Made("walker", "KEYS", 1, 0.03, 0.2), {IncidentKind.KEYS_LOOP}),
    "all the time": (Made("walker", "KEYS", 3, 0.03, 0.0), {IncidentKind.KEYS_LOOP, IncidentKind.BUSY_CLIENT}),
    "script": (Made("lua", "EVAL", 2, 0.05, 0.0), {IncidentKind.BUSY_CLIENT}),
    "large": (Made("reader", "LRANGE", 4, 0.01, 0.001, size=100_000), {IncidentKind.BUSY_CLIENT}),
    "flapper": (Made("flapper", "GET", 3, 0.00002, 0.01, reconnects=True), {IncidentKind.RECONNECTS}),
}


class World:
    """One server that runs one command after the other, second by second."""

    def __init__(
        self, clients: list[Made], chance: random.Random, *, tells: bool = True, measured: bool = True
    ) -> None:
        self.tells = tells
        self.measured = measured
        self.chance = chance
        self.now = 0.0
        self.free = 0.0
        self.due: list[tuple[float, int, Made]] = []
        self.numbers = itertools.count()
        for each in clients:
            for _ in range(each.connections):
                self.send(each, chance.random() * (each.idle + 0.01))

    def send(self, by: Made, at: float) -> None:
        heapq.heappush(self.due, (at, next(self.numbers), by))

    def second(self, began: float) -> IntervalStats:
        """What Keyrail has noted."""
        interval = IntervalStats(began, 1.0)
        took_of: dict[str, float] = defaultdict(float)
        calls_of = Counter[str]()
        while self.due and self.due[0][0] < self.now + 1.0:
            at, _, by = heapq.heappop(self.due)
            work = by.work * self.chance.uniform(0.8, 1.2)
            self.free = max(self.free, at) + work
            took_of[by.command] += work
            calls_of[by.command] += 1
            took = self.free - at + WAY * self.chance.uniform(1.0, 2.0)
            if by.command in ("KEYS", "EVAL", "EVALSHA"):
                self.note(interval, by, took, 1)
            elif self.chance.randrange(SAMPLED) == 0:
                self.note(interval, by, took, SAMPLED)
            if by.reconnects:
                interval.see_ended(by.client, 1, 4)
            self.send(by, at + took + by.idle * self.chance.uniform(0.5, 1.5))
        self.now += 1.0
        interval.counter_snapshots = [CounterSnapshot(10, 0, ())]
        costs = {command: took_of[command] / calls for command, calls in calls_of.items()}
        interval.close(costs if self.tells else {})
        return interval

    def note(self, interval: IntervalStats, by: Made, took: float, count: int) -> None:
        who = (*by.client[1:4], f"{by.client[4]}:{self.chance.randrange(1000, 60_000)}")
        trace = replace(
            READ, command=by.command, app="shop", who=who, at_redis=took if self.measured else 0.0, bytes_out=by.size
        )
        interval.see_time(trace, count)


def live(clients: list[Made], chance: random.Random, seconds: int, lookout: Lookout, in_force: list[InForce]) -> None:
    world, series, now = World(clients, chance), TimeSeries(), 1_000_000.0
    for _ in range(seconds):
        series.add(world.second(now))
        now += 1.0
        lookout.look(series, now, USUAL, Redaction(Redact.NONE), shape, in_force)


@pytest.mark.parametrize(
    ("keys", "measured", "loops"),
    [
        (Made("dashboard", "KEYS", 1, 0.0002, 0.3), True, False),
        (Made("dashboard", "KEYS", 1, 0.0002, 0.3), False, False),
        (Made("walker", "KEYS", 1, 0.05, 0.3), True, True),
        (Made("walker", "KEYS", 1, 0.0002, 0.001), True, True),
        (Made("walker", "KEYS", 1, 0.0002, 0.02), False, True),
    ],
)
def test_where_redis_does_not_tell_how_long_commands_take(keys: Made, measured: bool, loops: bool) -> None:
    watching, series, now = lookout(), TimeSeries(), 1_000_000.0
    world = World([*BYSTANDERS[:2], keys], random.Random(1), tells=False, measured=measured)
    for _ in range(12):
        series.add(world.second(now))
        now += 1.0
        watching.look(series, now, USUAL, Redaction(Redact.NONE), shape)
    assert told(watching).keys() == ({IncidentKind.KEYS_LOOP} if loops else set())


def lookout() -> Lookout:
    return Lookout("default", "", itertools.count(9).__next__)


def told(watching: Lookout) -> dict[IncidentKind, Incident]:
    found = [each for each in watching.open if each.event is IncidentEvent.BEGUN]
    assert len({each.kind for each in found}) == len(found), "one client each"
    return {each.kind: each for each in found}


@pytest.mark.parametrize("culprit", CULPRITS)
@pytest.mark.parametrize("seed", seeds(1, 20))
def test_who_hinders_others_is_an_incident_and_nobody_else(culprit: str, seed: int) -> None:
    chance = random.Random(f"{culprit} {seed}")
    made, kinds = CULPRITS[culprit]
    others = chance.sample(BYSTANDERS, chance.randrange(0, len(BYSTANDERS) + 1))
    watching = lookout()
    live([*others, made], chance, 12, watching, [])
    found = told(watching)
    assert found.keys() == kinds, {kind: each.lines for kind, each in found.items()}
    for kind, incident in found.items():
        assert kind in CLIENT_KINDS
        assert (incident.client, incident.subject) == (made.client, f"{made.name} at 10.0.0.1")
        ident = id_of(name_of(made.client))
        assert incident.about == ident
        assert incident.lines[1].startswith(f"id {ident}, app shop, lib 1")
        assert incident.lines[-1].startswith(f"remedy: keyrail remedy --client {ident} --")


TEXT = "remedy-4 refuses it"


@pytest.mark.parametrize(
    ("about", "silenced"),
    [
        (InForce(TEXT, client=("default", "walker", "10.0.0.1")), True),
        (InForce(TEXT, client=("default", "walker", "10.0.0.1"), command="KEYS"), True),
        (InForce(TEXT, client=("default", "walker", "10.0.0.1"), command="GET"), False),
        (InForce(TEXT, client=("default", "web", "10.0.0.1")), False),
        (InForce(TEXT, command="KEYS"), True),
        (InForce(TEXT, app="shop"), True),
        (InForce(TEXT, app="web"), False),
        (InForce(TEXT, key=b"k"), False),
    ],
    ids=str,
)
def test_a_remedy_in_force_is_not_advised_again(about: InForce, silenced: bool) -> None:
    watching = lookout()
    live([CULPRITS["walker"][0]], random.Random(1), 12, watching, [about])
    lines = told(watching)[IncidentKind.KEYS_LOOP].lines
    assert any(line.startswith(("advice: ", "remedy: ")) for line in lines) is not silenced
    assert (f"in force: {TEXT}" in lines) is silenced


def test_a_client_is_found_by_its_id_whatever_is_known_of_it() -> None:
    series, clients = TimeSeries(), [("shop", "default", name, "", "10.0.0.9") for name in ("a", "b", "c")]
    interval = IntervalStats(1_000_000.0, 1.0)
    interval.see(replace(READ, who=("default", "a", "", "10.0.0.9:1")), frozenset())
    interval.see_ended(clients[1], 1, 1)
    interval.see_time(replace(READ, who=("default", "c", "", "10.0.0.9:1")), 1)
    interval.close()
    series.add(interval)
    for client in clients:
        assert named(series, id_of(name_of(client)), 1_000_001.0) == name_of(client)
    assert named(series, "c00000000", 1_000_001.0) is None
