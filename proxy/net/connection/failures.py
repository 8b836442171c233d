"""Failures that a peer can cause repeatedly: counted by reason, and logged once a minute for each reason."""

import logging
import math
from collections import Counter, defaultdict
from collections.abc import Callable

_LOGGED_EVERY = 60.0
"""Seconds."""
_MOST_REASONS = 50
_OTHER = "other"

_log = logging.getLogger("keyrail.failures")


class Failures:
    """The failures of one route by kind and reason; ``now`` is a clock in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._logged: dict[tuple[str, str], float] = {}
        self._unlogged: Counter[tuple[str, str]] = Counter()

    def note(self, kind: str, reason: str, message: str) -> None:
        """Count a failure, and log the message with the number of those that were not logged."""
        counts = self._counts[kind]
        if reason not in counts and len(counts) >= _MOST_REASONS:
            reason = _OTHER
        counts[reason] += 1
        of = kind, reason
        now = self._now()
        if now - self._logged.get(of, -math.inf) < _LOGGED_EVERY:
            self._unlogged[of] += 1
            return
        self._logged[of] = now
        unlogged = self._unlogged.pop(of, 0)
        _log.warning("%s%s", message, f" ({unlogged} more since the last such line)" if unlogged else "")

    def figures(self) -> dict[str, dict[str, int]]:
        """Failures since the start, by kind and reason."""
        return {kind: dict(counts) for kind, counts in self._counts.items()}
