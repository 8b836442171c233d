"""Values built from files, rebuilt when one of the files has changed."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Generic, TypeVar

_T = TypeVar("_T")
_Signature = tuple[tuple[int, int, int] | None, ...]


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

    def current(self) -> _T:
        """The result for the current files, or for the last usable ones."""
        signature = self._sign()
        if signature != self._signature:
            self._signature = signature
            try:
                self._built = self._build()
            except self._unusable as error:
                self._report(f"{error}; what was read before stays in use")
        return self._built

    def _sign(self) -> _Signature:
        return tuple(_sign(file) for file in self._files)


def _sign(file: Path) -> tuple[int, int, int] | None:
    """Numbers that change when a file is replaced or written; None while it is missing."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
