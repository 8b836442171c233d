"""Reads files that settings and policies name: only regular ones, and no more of them than is useful.

A FIFO in the place of a file would stop whoever opens it, and a device would never end.
"""

import errno
import os
import stat
from pathlib import Path

MOST_BYTES = 16 << 20


class NotRegularError(OSError):
    """A FIFO, socket or device."""


class TooLargeError(OSError):
    """More bytes than such a file may have."""


def read_regular(path: Path, most: int = MOST_BYTES) -> bytes:
    """The content of a file. Raises OSError with the reason in ``strerror``."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise NotRegularError(errno.EINVAL, "it is a pipe, socket or device, and no regular file", str(path))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(most + 1)
    finally:
        os.close(descriptor)
    if len(content) > most:
        raise TooLargeError(errno.EFBIG, f"it has more than {most} bytes", str(path))
    return content
