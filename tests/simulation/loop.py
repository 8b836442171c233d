"""An event loop whose time is virtual: it jumps to the next timer when nothing else is to be done.

What threads would do is done at once. So a run is a function of its seed.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.network import Network


class StandstillError(Exception):
    """Nothing will ever happen again."""


async def until(holds: Callable[[], object], pause: float = 0.01) -> None:
    """Look again and again."""
    for _ in count():
        if holds():
            return
        await asyncio.sleep(pause)


class VirtualLoop(asyncio.BaseEventLoop):
    """Its connections are those of the ``network``; they come from the ``host``."""

    network: Network
    host = "keyrail"

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.turns = 0
        self._clock_resolution = 1e-9
        self._selector = self

    def __del__(self) -> None:
        """It holds nothing that would have to be closed."""

    def time(self) -> float:
        return self.now

    def select(self, timeout: float | None) -> list[Any]:
        """Instead of a selector: time passes."""
        self.turns += 1
        if timeout is None:
            raise StandstillError
        self.now += timeout
        return []

    def _process_events(self, events: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]  # what a thread would do
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - whoever waits gets it
            done.set_exception(error)
        return done

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        """Names are those of the network."""
        await asyncio.sleep(0.001)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (self.network.names.get(host, host), port))]

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        protocol = protocol_factory()
        return await self.network.connect(self.host, (self.network.names.get(host, host), port), protocol), protocol
