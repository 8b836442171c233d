"""Thousands of clients that wait: what comes for all of them comes in portions, and nobody is forgotten."""

from __future__ import annotations

from collections import Counter, deque
from functools import partial
from typing import Any

import pytest

from proxy.commands.table import Lane
from proxy.net.downstream.rounds import PORTION
from proxy.net.downstream.waiting import WaitingClients, bring_on
from proxy.net.pool.pool import Pool, Wait
from proxy.session.dispatcher import routing
from proxy.session.ports.pool_key import PoolKey
from proxy.session.state import Awaited
from tests.net.test_rounds import Loop
from tests.net.waiters import Waiter
from tests.session.given import Client, FakeRoute

MANY = 10_000


class Waiting(Waiter):
    """One of them; ``portions`` counts how many have gone on in each turn of the loop."""

    def __init__(self, portions: Counter[int], turns: list[int]) -> None:
        self.fails = False
        self.portions = portions
        self.turns = turns

    def arrived(self) -> None:
        assert not self.gone
        if self.fails:
            raise RuntimeError
        super().arrived()
        self.portions[self.turns[0]] += 1


def test_what_comes_for_all_comes_in_portions() -> None:
    loop: Any = Loop()
    portions: Counter[int] = Counter()
    turns = [0]
    waiting = [Waiting(portions, turns) for _ in range(MANY)]
    bring_on(loop, waiting)
    waiting[-1].gone = True
    goes_on = True
    while goes_on:
        turns[0] += 1
        goes_on = loop.turn()
    assert max(portions.values()) == PORTION
    assert [each.arrivals for each in waiting] == [1] * (MANY - 1) + [0]


def test_one_that_fails_keeps_nobody_else_waiting() -> None:
    loop: Any = Loop()
    waiting = [Waiting(Counter(), [0]) for _ in range(2 * PORTION)]
    waiting[3].fails = True
    with pytest.raises(RuntimeError):
        bring_on(loop, waiting)
    while loop.turn():
        pass
    assert [each.arrivals for each in waiting] == [1] * 3 + [0] + [1] * (2 * PORTION - 4)


def test_who_has_stopped_waiting_is_not_brought_on() -> None:
    """It may wait for something else by then, and would lose its place there."""
    loop: Any = Loop()
    pool = Pool(PoolKey(None, 0, 2))
    waiting = [Waiting(Counter(), [0]) for _ in range(PORTION + 2)]
    waits = [Wait(each, pool, Lane.FAST, 0.0) for each in waiting]
    bring_on(loop, pool.take_waiting(Lane.FAST))
    assert not pool.waiting_shared[Lane.FAST]
    waits[-1].end()
    while loop.turn():
        pass
    assert [each.arrivals for each in waiting] == [1] * (PORTION + 1) + [0]


@pytest.mark.parametrize("number", [0, 1, PORTION - 1, PORTION, PORTION + 1])
def test_any_number_of_them(number: int) -> None:
    loop: Any = Loop()
    waiting = [Waiting(Counter(), [0]) for _ in range(number)]
    bring_on(loop, waiting)
    while loop.turn():
        pass
    assert [each.arrivals for each in waiting] == [1] * number


def test_one_connection_for_ten_thousand_is_looked_at_by_one() -> None:
    pool = Pool(PoolKey(None, 0, 2))
    idle = deque([object()])
    looked = []

    class Taker(Waiter):
        def arrived(self) -> None:
            looked.append(self)
            if idle:
                idle.pop()
            else:
                Wait(self, pool, None, 0.0)

    for _ in range(MANY):
        Wait(Taker(), pool, None, 0.0)
    pool.wake(pool.waiting_private, partial(len, idle))
    assert len(looked) == 1
    assert len(pool.waiting_private) == MANY - 1


class Looking:
    """A route whose clients are looked at, and the commands that are examined."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        loop: Any = Loop()
        self.loop = loop
        self.route = FakeRoute()
        self.clients = [Client(self.route) for _ in range(3)]
        self.examined: list[object] = []
        self.waiting = WaitingClients(self.loop, self.clients, self.count)
        send = routing._send

        def noted(session: Any, item: Any) -> Any:
            self.examined.append(session)
            return send(session, item)

        patch.setattr(routing, "_send", noted)

    def count(self, event: str) -> None:
        raise AssertionError(event)

    def look(self) -> None:
        self.waiting._rounds.begin()
        while self.loop.turn():
            pass


def _awaited(client: Client) -> Awaited | None:
    return client.awaited


def test_a_client_that_nobody_tells_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another client asks whether the engine knows a command; that it has its answer is lost."""
    looking = Looking(monkeypatch)
    asks, waits, _ = looking.clients
    asks.say("NO.SUCH", "x")
    waits.say("NO.SUCH", "y")
    assert _awaited(waits) is Awaited.PROBE
    looking.route.probes[(b"NO.SUCH",)].clear()
    asks.own.answer(b"-ERR unknown command 'NO.SUCH', with args beginning with: 'x' \r\n")
    assert _awaited(waits) is Awaited.PROBE, "nobody has told it"
    looking.look()
    assert _awaited(waits) is None
    assert waits.sender.pending_replies == 1


def test_who_stands_in_line_keeps_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    looking = Looking(monkeypatch)
    looking.route.starving = True
    for each in looking.clients:
        each.say("BLPOP", "k", 0)
    before = [*looking.route.waiting]
    looking.examined.clear()
    looking.look()
    assert looking.examined == []
    assert looking.route.waiting == before
