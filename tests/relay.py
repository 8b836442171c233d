"""A byte relay in Keyrail's place, as the control of the experiment: one upstream connection per client, nothing is
read.

`python -m tests.relay PORT redis://127.0.0.1:PORT`
"""

from __future__ import annotations

import asyncio
import sys
from urllib.parse import urlsplit


async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Copy until the end, and pass the end on."""
    try:
        while data := await source.read(1 << 18):
            sink.write(data)
            await sink.drain()
        if sink.can_write_eof():
            sink.write_eof()
    except (ConnectionError, OSError):
        sink.close()


async def relay(port: int, upstream_port: int) -> None:
    async def accept(client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        try:
            server, to_server = await asyncio.open_connection("127.0.0.1", upstream_port)
        except OSError:
            to_client.close()
            return
        up = asyncio.create_task(pump(client, to_server))
        await pump(server, to_client)
        up.cancel()
        to_server.close()
        to_client.close()

    listener = await asyncio.start_server(accept, "127.0.0.1", port)
    print(f"keyrail: ready on redis://127.0.0.1:{port} (a byte relay)", file=sys.stderr, flush=True)
    async with listener:
        await listener.serve_forever()


if __name__ == "__main__":
    asyncio.run(relay(int(sys.argv[1]), urlsplit(sys.argv[2]).port or 6379))
