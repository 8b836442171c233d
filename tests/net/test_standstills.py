"""A shared connection from which nothing comes is found within three looks, where its node answers meanwhile."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import Any, cast

import pytest

from proxy.net.connection.writing import Writing
from proxy.net.pool.standstills import Standstills
from proxy.session.ports.pool_key import SOLE_NODE, PoolKey
from tests.hotpath.listening import never

KEY = PoolKey(None, 0, 2, SOLE_NODE)
Act = Callable[[], object]


class Loop:
    """Time goes when it is told to; a process that sleeps calls late what was due."""

    def __init__(self) -> None:
        self.now = 50.0
        self.timers: list[tuple[float, int, Act]] = []
        self._numbers = count()

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, act: Act) -> Any:
        heapq.heappush(self.timers, (self.now + seconds, next(self._numbers), act))
        return SimpleNamespace(cancel=self.timers.clear)

    def passes(self, seconds: float, each: Act = lambda: None) -> None:
        end = self.now + seconds
        while self.timers and self.timers[0][0] <= end:
            due, _, act = heapq.heappop(self.timers)
            self.now = max(self.now, due)
            act()
            each()
        self.now = end


class Upstream:
    """A connection on which replies are pending, or none is."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.pipeline: Any = SimpleNamespace(head=None, closed=False, schedule=never)
        self.writing = Writing(cast("Any", self.pipeline))
        self.writing.begin(cast("Any", SimpleNamespace(write=self.written.append)))
        self.key, self.closed, self.shared, self.reading = KEY, False, True, True
        self.moved = 0

    def progress(self) -> tuple[object, ...]:
        return self.pipeline.head, self.moved

    def sends(self) -> None:
        self.pipeline.head = self.pipeline.head or object()
        self.pipeline.write(b"x")

    def answers(self) -> None:
        self.pipeline.head = None


class Bench:
    """A route with two connections, whose node answers a PING after a while, or never."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.pings: list[float] = []
        self.answers_in: float | None = 0.001
        self.upstreams = [Upstream(), Upstream()]
        self.found: list[tuple[float, list[Upstream]]] = []
        shared: list[Callable[[Upstream], object]] = []
        connections: Any = SimpleNamespace(
            loop=self.loop,
            all=SimpleNamespace(members=Members(self.upstreams), closing=False, on_share=shared.append),
            stuck=lambda _node, silent: self.found.append((round(self.loop.now - 50.0, 3), silent)),
        )
        liveness: Any = SimpleNamespace(of=lambda node: self if node is SOLE_NODE else None)
        self.standstills = Standstills(connections, liveness)
        for each in self.upstreams:
            shared[0](each)

    def answers_since(self, moment: float, now: float) -> bool:
        if self.pings and self.pings[-1] > moment:
            return self.answers_in is not None and now - self.pings[-1] >= self.answers_in + 0.02
        self.pings.append(now)
        return False


class Members(list[Upstream]):
    def get(self, pipeline: object) -> Upstream | None:
        return next((each for each in self if each.pipeline is pipeline), None)


def test_one_that_stands_still_is_found_and_told_once_a_second() -> None:
    bench = Bench()
    still, other = bench.upstreams

    def others_go_on() -> None:
        other.moved += 1

    still.sends()
    other.sends()
    bench.loop.passes(2.5, others_go_on)
    assert [at for at, _ in bench.found] == [0.2, 1.3, 2.4]
    assert {each for _, silent in bench.found for each in silent} == {still}
    still.moved += 1
    bench.loop.passes(0.35, others_go_on)
    assert [at for at, _ in bench.found][3:] == [2.7], "it has moved since, and stands still again"


def test_no_timer_runs_while_nothing_is_pending_and_writing_costs_nothing() -> None:
    bench = Bench()
    upstream = bench.upstreams[0]
    bench.loop.passes(1.0)
    assert not bench.loop.timers
    for _ in range(3):
        upstream.sends()
        assert upstream.pipeline.write == upstream.written.append, "straight to the transport"
        assert len(bench.loop.timers) == 1
        upstream.answers()
        bench.loop.passes(0.3)
        assert not bench.loop.timers
    assert upstream.written == [b"x"] * 3
    assert (bench.pings, bench.found) == ([], [])


def test_a_slow_command_leads_to_nothing_but_one_ping() -> None:
    bench = Bench()
    bench.answers_in = None
    for each in bench.upstreams:
        each.sends()
    bench.loop.passes(3.0)
    assert (len(bench.pings), bench.found) == (1, [])
    for each in bench.upstreams:
        each.answers()
    bench.answers_in = 0.0
    bench.loop.passes(1.0)
    assert bench.found == []


def test_what_keyrail_has_slept_through_is_no_silence() -> None:
    bench = Bench()
    bench.upstreams[0].sends()
    for _ in range(20):
        bench.loop.passes(0.05)
        bench.loop.now += 0.2  # nothing is called meanwhile
    assert (bench.pings, bench.found) == ([], [])


@pytest.mark.parametrize("change", [{"reading": False}, {"shared": False}, {"closed": True}])
def test_who_is_known_to_wait_is_not_found(change: dict[str, bool]) -> None:
    bench = Bench()
    upstream = bench.upstreams[0]
    upstream.sends()
    for name, value in change.items():
        setattr(upstream, name, value)
    bench.loop.passes(2.0)
    assert bench.found == []


def test_who_looks_at_what_is_written_still_does() -> None:
    bench = Bench()
    upstream, seen = bench.upstreams[0], list[bytes]()
    upstream.writing.go_through(seen.append)
    upstream.sends()
    assert (seen, bench.loop.timers) == ([b"x"], [])
    upstream.writing.go_through(None)
    upstream.sends()
    bench.loop.passes(0.5)
    assert len(bench.found) == 1
