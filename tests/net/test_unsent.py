"""What a closing connection has not sent is taken back; one that is closed already is left alone."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest
import uvloop

from proxy.net.connection.unsent import discard_unsent


class Closing(asyncio.Protocol):
    def __init__(self) -> None:
        self.lost = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_connection_that_is_closed_already(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def close_twice() -> None:
        here, there = socket.socketpair()
        with there:
            transport, protocol = await asyncio.get_running_loop().create_connection(Closing, sock=here)
            discard_unsent(transport)
            transport.abort()
            await protocol.lost.wait()
            discard_unsent(transport)

    loop = new_loop()
    try:
        loop.run_until_complete(close_twice())
    finally:
        loop.close()


def test_before_there_is_one() -> None:
    discard_unsent(None)
