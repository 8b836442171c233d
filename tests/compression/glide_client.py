"""Writes or reads values with valkey-GLIDE, whose compression is on: a program of its own, since GLIDE starts threads.

python -m tests.compression.glide_client PORT write|read COUNT: values are those of ``histories.value_of``. The exit
status is 1 if one that is read differs.
"""

from __future__ import annotations

import asyncio
import sys

from glide import (
    CompressionBackend,
    CompressionConfiguration,
    GlideClient,
    GlideClientConfiguration,
    NodeAddress,
)

from tests.compression.histories import value_of

_AT_ONCE = 500


async def run(port: int, verb: str, count: int) -> bool:
    right = True
    for part, backend in enumerate((CompressionBackend.ZSTD, CompressionBackend.LZ4)):
        configuration = CompressionConfiguration(enabled=True, backend=backend)
        address = [NodeAddress("127.0.0.1", port)]
        options = GlideClientConfiguration(address, request_timeout=60_000, compression=configuration)
        client = await GlideClient.create(options)
        numbers = range(part, count, 2)
        for start in range(0, len(numbers), _AT_ONCE):
            some = numbers[start : start + _AT_ONCE]
            if verb == "write":
                await asyncio.gather(*(client.set(f"doc:{number}", value_of(number)) for number in some))
            else:
                found = await asyncio.gather(*(client.get(f"doc:{number}") for number in some))
                right &= found == [value_of(number) for number in some]
        await client.close()
    return right


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(run(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))) else 1)
