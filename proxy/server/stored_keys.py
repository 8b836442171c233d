"""What is known of the keys behind each route, for rules that depend on it: the last scan that the state folder keeps,
and what clients of all workers have written since it began.

What was written is kept for two days, so that a scan that ends now gets what came after its beginning. Beyond the
latest reports of workers it is kept by the minute, and the minute in which a scan began counts as a whole. What clients
wrote before this Keyrail started, or past it, is not known.
"""

import contextlib
import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from proxy.net.config.address import UpstreamAddress
from proxy.net.config.background_thread import BackgroundThread
from proxy.rules.shared_state import OwnedKeys, Stored, Written
from proxy.server.stored.kept import KeptScans, read_scan
from proxy.server.stored.model import TTL_BOUNDS, PatternRow, Scan

_MINUTE = 60.0
_KEPT_MINUTES = 2 * 24 * 60
_MOST_RECENT = 20_000
"""Reports of workers that are kept as they are."""
_LOOK_SECONDS = 1.0
_READ_SECONDS = 2.0
"""Less than a request may take (``requests``)."""

_NEVER = -math.inf
ByApp = Mapping[str, Written]


class WrittenSince:
    """What clients have written under one rule, by app, since a moment that moves on."""

    def __init__(self, now: float) -> None:
        self.counted_from = now
        self.since: dict[str, Written] = {}
        self._recent: deque[tuple[float, ByApp]] = deque()
        self._minutes: deque[tuple[float, dict[str, Written]]] = deque(maxlen=_KEPT_MINUTES)

    def add(self, written: ByApp, now: float) -> None:
        """Add what one worker has told. If the clock went back, it counts as told when it was before that."""
        if not written:
            return
        now = max(now, self._recent[-1][0]) if self._recent else now
        _add(self.since, written)
        self._recent.append((now, written))
        if len(self._recent) > _MOST_RECENT:
            told, sums = self._recent.popleft()
            minute = told - told % _MINUTE
            if not self._minutes or self._minutes[-1][0] != minute:
                self._minutes.append((minute, {}))
            _add(self._minutes[-1][1], sums)

    def begin(self, moment: float) -> None:
        """Count from this moment on."""
        self.since = {}
        for minute, written in self._minutes:
            if minute + _MINUTE > moment:
                _add(self.since, written)
        for told, recent in self._recent:
            if told >= moment:
                _add(self.since, recent)


class StoredKeys:
    """The last scan of each route's upstream, and what was written since, for each rule that has asked.

    A thread of its own looks for scans: a file system that is away stops no event loop.
    """

    def __init__(
        self,
        upstreams: Sequence[UpstreamAddress],
        state_dir: Path | None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._kept = None if state_dir is None else KeptScans(state_dir)
        self._clock = clock
        self._scans = [_LastScan([each] if each.seeds else [each, each.as_seed()]) for each in upstreams]
        self._written: list[dict[str, WrittenSince]] = [{} for _ in upstreams]
        self._thread = BackgroundThread("reads scans for rules")
        self._looked = -_LOOK_SECONDS

    async def exchange(self, routes: Sequence[Mapping[str, ByApp]]) -> tuple[Mapping[str, Stored], ...]:
        """Add what a worker's clients have written, by rule and app; return what is known, by rule."""
        now = self._clock()
        for rules, told in zip(self._written, routes, strict=True):
            for rule, written in told.items():
                rules.setdefault(rule, WrittenSince(now)).add(written, now)
        await self._look(now)
        return tuple({rule: self.stored(i, rule) for rule in told} for i, told in enumerate(routes))

    def stored(self, route: int, rule: str) -> Stored:
        """What is known for a rule of a route."""
        last = self._scans[route]
        written = self._written[route].get(rule) or WrittenSince(self._clock())
        if last.scanned == _NEVER:
            return Stored(missing=last.missing if self._kept else "there is no state folder: serve with --state-dir")
        return Stored(last.scanned, "", last.owners, dict(written.since), written.counted_from)

    async def _look(self, now: float) -> None:
        kept = self._kept
        if kept is None or abs(now - self._looked) < _LOOK_SECONDS:
            return
        self._looked = now
        try:
            newer = await self._thread.run(lambda: [each.look(kept) for each in self._scans], _READ_SECONDS)
        except OSError:
            return  # it did not answer in time, or cannot be read: what is known ages
        for last, found, rules in zip(self._scans, newer, self._written, strict=True):
            if found is not None and last.take(*found):
                for written in rules.values():
                    written.begin(last.scanned)


class _LastScan:
    """The figures of the last scan of one upstream, which may turn out to be a cluster."""

    def __init__(self, upstreams: Sequence[UpstreamAddress]) -> None:
        self.scanned = _NEVER
        self.owners: dict[str, OwnedKeys] = {}
        self.missing = f"the state folder has no scan of {upstreams[0]}"
        self._names = [str(each) for each in upstreams]
        self._file: Path | None = None

    def look(self, kept: KeptScans) -> tuple[Path, Scan | None] | None:
        """The newest file if it is another one than before, with the newest scan that can be used: no sample, and none
        of another version. Raises OSError."""
        files = sorted((each for name in self._names for each in kept.of(name)), key=lambda each: each.name)
        if not files or files[-1] == self._file:
            return None
        for file in reversed(files):
            with contextlib.suppress(ValueError):
                scan = read_scan(file)
                if scan.sample is None:
                    return files[-1], scan
        return files[-1], None

    def take(self, file: Path, scan: Scan | None) -> bool:
        """Use its figures, and say whether there are any; without them, those of the scan before get older."""
        self._file = file
        if scan is None:
            return False
        self.scanned = scan.started
        self.owners = {app: _owned(row) for app, row in scan.apps.items()}
        return True


def _owned(row: PatternRow) -> OwnedKeys:
    least = (0.0, *map(float, TTL_BOUNDS))
    return OwnedKeys(row.keys, row.bytes, tuple((ttl, keys) for ttl, keys in zip(least, row.ttls, strict=True) if keys))


def _add(to: dict[str, Written], written: ByApp) -> None:
    for app, more in written.items():
        to[app] = to.get(app, Written()) + more
