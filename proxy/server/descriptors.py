"""Open files that the supervisor hands to a worker process, over their socket, before the first message.

They are not inherited, since a worker process is started before they are open (``worker_process``).
"""

import errno
import os
import socket
from collections.abc import Sequence

_MOST = 200
"""Descriptors in one message; Linux takes 253 (SCM_MAX_FD)."""
_MORE, _LAST = b"+", b"."


def hand_over(control: socket.socket, descriptors: Sequence[int]) -> None:
    """Send copies of the open files. Raises OSError."""
    portions = [descriptors[first : first + _MOST] for first in range(0, len(descriptors), _MOST)] or [()]
    for portion in portions:
        socket.send_fds(control, [_LAST if portion is portions[-1] else _MORE], portion)


def take_over(control: socket.socket) -> list[int] | None:
    """Wait for open files and return their descriptors, in the same order; None if the supervisor has ended. Raises
    OSError if this process may not have so many."""
    found: list[int] = []
    while True:
        try:
            kind, received, flags, _ = socket.recv_fds(control, 1, _MOST)
        except ConnectionError:
            kind, received, flags = b"", [], 0
        found += received
        if flags & socket.MSG_CTRUNC:
            _close(found)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        if kind == _LAST:
            return found
        if not kind:
            _close(found)
            return None


def _close(descriptors: Sequence[int]) -> None:
    for each in descriptors:
        os.close(each)
