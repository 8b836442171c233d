"""Where the result of `keyrail scan` goes. A scan may take hours, so places are checked before it."""

import errno
import os
import sys
from pathlib import Path


def is_writable(folder: Path | None, *, make: bool = False) -> bool:
    """Whether files can be made in the folder, or none is asked for; if not, say why. ``make``: make it if need be."""
    if folder is None:
        return True
    try:
        if make:
            folder.mkdir(mode=0o700, exist_ok=True)
        folder.stat()
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        print(f"keyrail: cannot write to {folder}: {error.strerror}", file=sys.stderr)
        return False
    return True


def show(text: str) -> bool:
    """Print the result; whether that went well. Raises BrokenPipeError."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"keyrail: cannot print the result: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes it when it ends
        return False
    return True
