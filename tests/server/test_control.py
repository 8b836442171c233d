"""The channel between supervisor and worker: what happens when the other end dies."""

import asyncio
import socket

import uvloop

from proxy.server.control import Channel, Serving
from tests.resp import PATIENCE_SECONDS


def test_what_is_sent_to_nobody_is_lost() -> None:
    """Else a worker whose supervisor was killed ends with a traceback."""

    async def main() -> None:
        here, there = socket.socketpair()
        channel = await Channel.over(here)
        there.close()
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await channel.receive() is None
            channel.send(Serving())
            await channel.close()
        channel.send(Serving())

    uvloop.run(main())
