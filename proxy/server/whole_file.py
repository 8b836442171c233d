"""Replaces a file as a whole, so that no reader and no crash finds half of it."""

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path


def replace_file(file: Path, pieces: Iterable[bytes], mode: int = 0o600) -> None:
    """Write a new file beside it, and rename that. Raises OSError."""
    descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.writelines(pieces)
            out.flush()
            os.fsync(out.fileno())
        Path(name).chmod(mode)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
