"""Policies are reloaded when their files change.

Once a second Keyrail checks the files of the policies in force and their folders: inode, time and size. It follows
symbolic links, since Kubernetes mounts a ConfigMap as links to a folder that it replaces. A reload begins after one
second without further changes. A file with errors changes nothing; Keyrail tries again after the next change. An
exception is counted as a failed reload and reported once for each kind, and Keyrail checks again a second later.
"""

import asyncio
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from proxy.server.notices import Level, notice
from proxy.server.reload import Reloader

POLL_SECONDS = 1.0

Signature = tuple[tuple[str, ...], ...]


class PolicyFileWatcher:
    """Checks the files again and again; cancel ``run`` to end it."""

    def __init__(self, reloader: Reloader, poll_seconds: float = POLL_SECONDS) -> None:
        self._reloader = reloader
        self._poll_seconds = poll_seconds
        # Empty at first: the files may have changed since the policies were read, so they are read once more.
        self._acted_on: Signature = ()
        self._last: Signature = ()
        self._reported: set[type[Exception]] = set()

    async def run(self) -> None:
        """Reload whenever the files have changed."""
        while True:
            await asyncio.sleep(self._poll_seconds)
            try:
                await self._look()
            except Exception as error:  # noqa: BLE001 - whatever it is, the next look may go well
                self._fail(error)

    async def _look(self) -> None:
        now = await self._reloader.reader.run(partial(signature, self._reloader.files))
        if now == self._last != self._acted_on:
            await self._reloader.reload(asked=False)
            # Other files may belong to the policies now. Changes since the reload began are not loaded yet.
            seen = {entry[0]: entry for entry in now}
            now = await self._reloader.reader.run(partial(signature, self._reloader.files))
            self._acted_on = tuple(sorted(seen.get(entry[0], entry) for entry in now))
        self._last = now

    def _fail(self, error: Exception) -> None:
        self._reloader.failed()
        if type(error) not in self._reported:
            self._reported.add(type(error))
            notice(f"cannot reload changed policy files, trying again: {type(error).__name__}: {error}", Level.ERROR)


def signature(files: Iterable[str]) -> Signature:
    """The state of the files and their folders at this moment; two are equal if nothing has changed."""
    paths = {Path(file) for file in files}
    return tuple(sorted(_entry(path) for path in paths | {path.parent for path in paths}))


def _entry(path: Path) -> tuple[str, ...]:
    try:
        real = path.resolve()
        found = real.stat()
    except (OSError, RuntimeError):
        return (str(path), "missing")
    return (str(path), str(real), str(found.st_dev), str(found.st_ino), str(found.st_mtime_ns), str(found.st_size))
