"""What an unfinished command counts, against the limit on its size, is no less than the memory that it takes."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from tests.hotpath.gathering import Client

PIECE = 1 << 16
ARGUMENTS = {
    "empty": b"$0\r\n\r\n",
    "a byte": b"$1\r\nx\r\n",
    "two and none": b"$2\r\nxy\r\n$0\r\n\r\n",
    "fifty": b"$50\r\n%b\r\n" % (b"x" * 50),
    "large": b"$9000\r\n%b\r\n" % (b"x" * 9000),
}
TOTAL = 600_000
UNCOUNTED = 1 << 20
"""Bytes: what a first read takes, and room that a buffer takes ahead."""


@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_memory_is_counted_whatever_the_arguments_are(arguments: str) -> None:
    client = Client()
    text = ARGUMENTS[arguments]
    data = b"*1000000\r\n$3\r\nDEL\r\n" + text * (TOTAL // len(text))
    pieces = [data[i : i + PIECE] for i in range(0, len(data), PIECE)]
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    try:
        for piece in pieces:
            client.intake.receive(piece)
            now, peak = tracemalloc.get_traced_memory()
            counted = client.sizes[-1] if client.sizes else 0
            assert max(now, peak) - before <= counted * 9 // 8 + UNCOUNTED
            tracemalloc.reset_peak()
    finally:
        tracemalloc.stop()
    assert client.sizes[-1] >= len(data)
