"""Finds a worker that hangs: it lives, and has told the supervisor nothing for long.

Workers report about each second. While the supervisor itself stood still (the machine was suspended, or has too little
CPU for all), it read no reports: that time is no worker's silence.
"""

from collections.abc import Collection

from proxy.server.member import Member

SILENT_SECONDS = 5.0
TURN_SECONDS = 1.0
"""Between two looks."""
_LATE = 0.25
"""Seconds by which a look may be late before the delay counts as a pause."""


class HungWorkers:
    """Looks at the workers of a crew that should be ``workers`` strong."""

    def __init__(self, workers: int, now: float) -> None:
        self._workers = workers
        self._looked = now

    def look(self, members: Collection[Member], now: float) -> Member | None:
        """The worker to replace now: one at a time, and none while another one is missing."""
        pause = now - self._looked - TURN_SECONDS
        self._looked = now
        if pause > _LATE:
            for member in members:
                member.forgiven += pause
        if len(members) < self._workers or not all(member.serving for member in members):
            return None
        silent = [member for member in members if silence(member, now) > SILENT_SECONDS]
        return max(silent, key=lambda member: silence(member, now), default=None)


def silence(member: Member, now: float) -> float:
    """Seconds without a word of a worker, without the supervisor's own pauses."""
    return now - member.heard - member.forgiven
