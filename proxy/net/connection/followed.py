"""Values built from files, rebuilt when one of the files has changed.

A thread looks at the files and reads them, since their file system may not answer. Whoever asks waits for it a moment,
so that a change counts at once; while a look takes longer, the last value is used.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Generic, TypeVar

from proxy.net.config.background_thread import BackgroundThread
from proxy.net.config.strict_url import Secret

_T = TypeVar("_T")
_Signature = tuple[tuple[int, int, int] | None, ...]

PATIENCE_SECONDS = 0.2
"""How long a loop waits for a look at files, which takes microseconds; once, until that look is over."""
_SECRET_SECONDS = 5.0

READER = BackgroundThread("reads files")
"""Reads what the settings name, but policies."""


class Followed(Generic[_T]):
    """The result of ``build``. New files that cannot be used are reported once, and the last good result stays."""

    def __init__(
        self,
        build: Callable[[], _T],
        files: Iterable[Path | None],
        report: Callable[[str], None],
        unusable: type[Exception],
    ) -> None:
        """Build for the first time. Raises what ``build`` raises; a later ``unusable`` goes to ``report``."""
        self._build = build
        self._files = tuple(file for file in files if file is not None)
        self._report = report
        self._unusable = unusable
        self._signature = self._sign()
        self._built = build()
        self._look: Future[tuple[_Signature, _T | Exception | None]] | None = None

    def current(self) -> _T:
        """The result for the current files, or for the last usable ones."""
        if self._look is None or self._look.done():
            self._take()
            self._look = READER.begin(self._look_at_files)
            wait([self._look], PATIENCE_SECONDS)
            if self._look.done():
                self._take()
        return self._built

    def _take(self) -> None:
        look, self._look = self._look, None
        if look is None:
            return
        self._signature, found = look.result()
        if isinstance(found, self._unusable):
            self._report(f"{found}; what was read before stays in use")
        elif isinstance(found, Exception):
            raise found
        elif found is not None:
            self._built = found

    def _look_at_files(self) -> tuple[_Signature, _T | Exception | None]:
        """In the thread: what the files are now, and what comes of them if they have changed."""
        signature = self._sign()
        if signature == self._signature:
            return signature, None
        try:
            return signature, self._build()
        except Exception as error:  # noqa: BLE001 - whoever asks gets it
            return signature, error

    def _sign(self) -> _Signature:
        return tuple(_sign(file) for file in self._files)


async def secret_of(secret: Secret) -> str:
    """A secret as it is now. Raises OSError or ValueError."""
    return secret.read() if secret.file is None else await READER.run(secret.read, _SECRET_SECONDS)


def _sign(file: Path) -> tuple[int, int, int] | None:
    """Numbers that change when a file is replaced or written; None while it is missing."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
