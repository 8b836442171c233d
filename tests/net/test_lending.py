"""Who waits for an upstream in vain is closed, and so is who waits for that client to ask something on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from proxy.net.knowledge import Knowledge
from proxy.net.lending import Lending
from proxy.net.pool import Pool
from proxy.session.gate import PoolKey

KEY = PoolKey(None, 0, 2)


class Clock:
    """A loop on which time passes when the test says so."""

    def __init__(self) -> None:
        self.timers: list[Callable[[], object]] = []

    def call_later(self, _seconds: float, act: Callable[..., object], *arguments: object) -> None:
        self.timers.append(lambda: act(*arguments))

    def call_soon(self, act: Callable[[], object]) -> None:
        self.timers.append(act)


class Client:
    """A session that waits."""

    def __init__(self) -> None:
        self.gone = False
        self.cause = ""

    def arrived(self) -> None:
        raise AssertionError("there is nothing for it")

    def close(self, cause: str) -> None:
        self.gone, self.cause = True, cause


def test_a_crowd_that_wants_to_know_one_thing_gives_up_together() -> None:
    clock = Clock()
    loop = cast("asyncio.AbstractEventLoop", clock)
    pool = Pool(KEY)
    connections: Any = SimpleNamespace(
        pools=SimpleNamespace(of=lambda _key: pool),
        settings=SimpleNamespace(connect_timeout=5.0),
        loop=loop,
        open_private=lambda _pool: None,
        alive=lambda: False,
    )
    known = Knowledge(loop, "redis://nowhere", allow_cluster=False)
    lending = Lending(connections, known, cast("Any", None), ())
    asking, *others = (Client() for _ in range(5))
    known.begin_probe(asking, b"MY.OWN")
    for each in others:
        known.await_probe(each, b"MY.OWN")
    lending.await_private(asking, KEY)
    assert lending.private(KEY) is None
    for act in clock.timers[:]:
        act()
    known.end_probe(b"MY.OWN", lacking=False)
    for act in clock.timers[1:]:
        act()
    assert [each.cause for each in (asking, *others)] == ["no_upstream"] * 5
