# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""Receiving, sending and waiting for sockets, at the cost of the system call: none of them ever blocks.

Compiled, these are calls of C, which stands in the ``.pxd``.
"""

import os
import select
import time
from array import array

_INTERPRETED = __file__.endswith((".py", ".pyc"))
_PIECE = 1 << 16
"""Bytes that are received at once, as plain Python. More would be taken from the system, and given back, each time."""


def receive(descriptor: int) -> bytes | None:
    """What has come to this non-blocking socket: nothing at the end of the stream, None if nothing has come yet.

    Raises OSError.
    """
    if not _INTERPRETED:
        return _receive(descriptor)  # type: ignore[name-defined,no-any-return]  # noqa: F821 - C, which the .pxd declares
    try:
        return os.read(descriptor, _PIECE)
    except BlockingIOError:
        return None


def send(descriptor: int, data: bytes, start: int) -> int:
    """Send ``data`` from ``start`` on; how many bytes the system has taken, which may be none. Raises OSError."""
    if not _INTERPRETED:
        return _send(descriptor, data, start, len(data))  # type: ignore[name-defined,no-any-return]  # noqa: F821 - C
    try:
        return os.write(descriptor, memoryview(data)[start:] if start else data)
    except BlockingIOError:
        return 0


def clock() -> float:
    """What ``time.monotonic`` tells."""
    if not _INTERPRETED:
        return _clock()  # type: ignore[name-defined,no-any-return]  # noqa: F821 - C
    return time.monotonic()


def wait(epoll: "select.epoll", descriptor: int, ready: "array[int]") -> int:
    """How many sockets are ready now. For each, ``ready`` gets the descriptor, times 2**32, and what it is ready for.

    ``descriptor`` is that of ``epoll``. Raises OSError.
    """
    if not _INTERPRETED:
        return _wait(descriptor, ready, len(ready))  # type: ignore[name-defined,no-any-return]  # noqa: F821 - C
    found = epoll.poll(0, len(ready))
    for index, (number, events) in enumerate(found):
        ready[index] = number << 32 | events
    return len(found)
