"""What other workers know is asked once for each script, however many clients wait, and nobody waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from proxy.net.script_exchange import ScriptExchange
from proxy.rules.script_memory import ScriptKey, ScriptMemory, script_key
from proxy.rules.script_text import ScriptCalls
from proxy.session.gate import Seeker

ONE, TWO = script_key(b"1"), script_key(b"2")


class Waiting(Seeker):
    """A client that waits."""

    def __init__(self) -> None:
        self.gone = False
        self.arrivals = 0

    def arrived(self) -> None:
        self.arrivals += 1

    def close(self, cause: str) -> None:
        raise AssertionError(cause)


class Clock:
    """A loop of which only the timers are used."""

    def __init__(self) -> None:
        self.timers: list[tuple[Callable[..., None], tuple[object, ...]]] = []

    def call_later(self, _seconds: float, act: Callable[..., None], *arguments: object) -> None:
        self.timers.append((act, arguments))

    def strike(self) -> None:
        for act, arguments in self.timers:
            act(*arguments)


class Exchange(ScriptExchange):
    """An exchange of a worker with others."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.asked: list[ScriptKey] = []
        self.memory = ScriptMemory()
        super().__init__(cast("asyncio.AbstractEventLoop", self.clock), self.asked.append, lambda: [self.memory])


def test_each_script_is_asked_about_once() -> None:
    exchange, first, second = Exchange(), Waiting(), Waiting()
    assert exchange.seek(first, frozenset({ONE, TWO}))
    assert exchange.seek(second, frozenset({ONE}))
    assert sorted(exchange.asked) == [ONE, TWO]
    exchange.found(ONE, ScriptCalls())
    assert (first.arrivals, second.arrivals) == (0, 1)
    exchange.found(TWO, None)
    assert first.arrivals == 1
    assert exchange.recall(ONE) == ScriptCalls()
    assert exchange.recall(TWO) is None


def test_one_that_does_not_answer_is_not_waited_for() -> None:
    exchange, client, gone = Exchange(), Waiting(), Waiting()
    exchange.seek(client, frozenset({ONE}))
    exchange.seek(gone, frozenset({ONE}))
    gone.gone = True
    exchange.clock.strike()
    assert (client.arrivals, gone.arrivals) == (1, 0)
    exchange.found(ONE, None)
    assert client.arrivals == 1
    exchange.seek(client, frozenset({ONE}))
    assert exchange.asked == [ONE, ONE]
    exchange.clock.timers[0][0](*exchange.clock.timers[0][1])
    assert client.arrivals == 1


def test_alone_there_is_nobody_to_ask() -> None:
    loop = cast("asyncio.AbstractEventLoop", Clock())
    assert not ScriptExchange(loop, None, list).seek(Waiting(), frozenset({ONE}))
    assert not Exchange().seek(Waiting(), frozenset())
