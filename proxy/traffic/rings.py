"""What a route did lately: seconds for a minute, tens of seconds for ten minutes, minutes for an hour.

Workers hand in a digest for each second; what two of them say about the same second is added up. A window is the sum
of the digests that reach into it, so it moves by whole ones. Fixed memory, whatever happens.
"""

from collections import deque
from dataclasses import dataclass, field

from proxy.traffic.digest import Digest

WINDOWS = (10, 60, 600, 3600)
"""Seconds that can be asked about."""


@dataclass(slots=True)
class _Ring:
    """Digests of `seconds` each, for as long as `reach`; the newest is still growing."""

    seconds: int
    reach: int
    digests: deque[Digest] = field(default_factory=deque)

    def add(self, digest: Digest) -> None:
        began = digest.began // self.seconds * self.seconds
        newest = self.digests[-1].began if self.digests else began - 1
        if began > newest:
            self.digests.append(Digest(began, self.seconds))
            while self.digests[0].began < began - self.reach:
                self.digests.popleft()
        same = (known for known in reversed(self.digests) if known.began == began)
        # What comes so late that its time is gone still counts, for the newest.
        next(same, self.digests[-1]).add(digest)


class Rings:
    """One route's."""

    def __init__(self) -> None:
        self._rings = (_Ring(1, 60), _Ring(10, 600), _Ring(60, 3600))
        self.newest = 0.0
        """When the newest second ended, in seconds since the epoch."""

    def add(self, digest: Digest) -> None:
        """Take a worker's digest of about a second."""
        self.newest = max(self.newest, digest.began + digest.seconds)
        for ring in self._rings:
            ring.add(digest)

    def window(self, seconds: int, now: float) -> Digest:
        """The sum of the last so many seconds, at most 3,600."""
        ring = next((ring for ring in self._rings if seconds <= ring.reach), self._rings[-1])
        summed = Digest(now - seconds, seconds)
        for digest in ring.digests:
            if digest.began + ring.seconds > now - seconds:
                summed.add(digest)
        return summed

    def seconds(self) -> list[Digest]:
        """The last minute, second by second, the oldest first."""
        return list(self._rings[0].digests)

    def tens(self) -> list[Digest]:
        """The last ten minutes in tens of seconds, the oldest first."""
        return list(self._rings[1].digests)
