"""Writes files as a whole: replaces one, so that no reader and no crash finds half of it, or makes a new one, so that
none that is there already is lost."""

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


def write_new_file(file: Path, content: bytes) -> None:
    """Write a file that only its owner may read. Raises OSError, FileExistsError if there is one: it stays."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
    except BaseException:
        file.unlink(missing_ok=True)
        raise
