"""Periodic work continues after a failure, which is counted each time and logged once."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from proxy.net.connection.periodic import Periodic
from proxy.net.pool.latency_probe import LatencyProbe
from proxy.net.pool.pools import Pools
from proxy.rules.memory import Memory
from proxy.rules.shared_state import ObservingState
from proxy.session.ports.pool_key import PoolKey


class Loop:
    """A loop on which time passes when a test says so."""

    def __init__(self) -> None:
        self.timers: list[Callable[[], object]] = []

    def call_later(self, _seconds: float, act: Callable[..., object], *arguments: object) -> Any:
        turn: Any = lambda: act(*arguments)  # noqa: E731 - a handle that can be cancelled
        turn.cancel = lambda: self.timers.remove(turn)
        self.timers.append(turn)
        return turn

    def time(self) -> float:
        return 0.0

    def turn(self) -> None:
        (timer,) = self.timers
        self.timers.clear()
        timer()


NAMES = ("first", "second", "third")


@pytest.mark.parametrize("failing", [set(each) for size in range(4) for each in itertools.combinations(NAMES, size)])
def test_whichever_steps_fail_the_others_and_the_next_turn_come(
    failing: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    loop: Any = Loop()
    done: Counter[str] = Counter()
    events: Counter[str] = Counter()

    def step(name: str) -> Callable[[], None]:
        def run() -> None:
            done[name] += 1
            if name in failing:
                raise ValueError(f"{name} cannot")

        return run

    periodic = Periodic(loop, 1.0, {name: step(name) for name in NAMES}, lambda event: events.update((event,)))
    periodic.begin()
    for _ in range(3):
        loop.turn()
    assert done == dict.fromkeys(NAMES, 3)
    assert events["periodic_failures"] == 3 * len(failing)
    assert sorted(record.getMessage().split()[0] for record in caplog.records) == sorted(failing)
    assert all(f"{name} cannot" in caplog.text for name in failing), "the cause is told"
    periodic.end()
    assert loop.timers == []


def test_a_breaker_that_cannot_be_fed_once_is_fed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    loop: Any = Loop()
    memory = Memory()
    events: Counter[str] = Counter()
    topology: Any = None
    probe = LatencyProbe(
        loop,
        memory,
        Pools(PoolKey(None, 0, 2)),
        topology,
        lambda: False,
        lambda: 0.0,
        lambda event: events.update((event,)),
    )
    fed: list[object] = []

    def observe(*_: object) -> None:
        fed.append(None)
        if len(fed) == 1:
            raise ZeroDivisionError

    monkeypatch.setattr(probe, "_observe", observe)
    monkeypatch.setattr(memory, "each", lambda kind: {"breaker": object()} if kind is ObservingState else {})
    probe.begin()
    loop.turn()
    loop.turn()
    assert (len(fed), events["periodic_failures"]) == (2, 1)
