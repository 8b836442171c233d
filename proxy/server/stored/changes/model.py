"""What is to be done with a key, what became of it, and what decides about both."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from proxy.rules.stored import StoredKey
from proxy.server.stored.page import Command
from proxy.server.stored.totals import Judged

MOST_SHOWN = 3
MOST_PLACES = 2_000


class Outcome(StrEnum):
    """What became of a key; ``TAKEN``: another one has its new name. Of these, ``UNKNOWN`` alone may have been changed,
    beside ``DONE``: the reply was lost."""

    DONE = "done"
    CHANGED = "changed"
    GONE = "gone"
    LATE = "late"
    MOVED = "moved"
    BUSY = "busy"
    REFUSED = "refused"
    TAKEN = "taken"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be done with a key, if it still has this type, and a PTTL from ``least`` to ``most`` (-1: none).

    With an ``idle``, if it was used by nobody for so many seconds; with an ``until``, if it is not later than that by
    the server's clock (milliseconds since the epoch); with an ``at``, if it expires then, in the same unit.
    """

    key: StoredKey
    command: Command
    least: int
    most: int
    idle: int | None = None
    until: int | None = None
    at: int | None = None

    @property
    def is_plain(self) -> bool:
        """Whether its type and PTTL alone are checked, which commands outside of a script can do, too."""
        return self.idle is self.until is self.at is None


class Change(Protocol):
    """What a verb does with keys. ``asks_idle`` and ``asks_time``: it has to know
    how long a key was not used, and the server's time."""

    asks_idle: bool
    asks_time: bool

    def concerns(self, database: int, name: bytes) -> bool:
        """Whether it is about the key, by its name. What is not, is never touched."""

    def picks(self, key: StoredKey, judged: Judged, left: Counter[str]) -> bool:
        """Whether the key is to be changed; ``left`` counts why keys are not that otherwise would be."""

    def wish(self, database: int, key: StoredKey, judged: Judged, now: int, idle: int) -> Wish | None:
        """What to do with a picked key. None if it was used too lately. ``now``: of the server, in milliseconds."""


@dataclass(slots=True)
class Changed:
    """What was done, or would be. ``sent`` of the wishes have left for a server; those without an outcome may have been
    done. ``left`` and ``refusals`` count reasons, ``shown`` has some names of each pattern and app."""

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    reached_limit: bool = False
    shown: dict[tuple[str, str], list[bytes]] = field(default_factory=dict)

    def show(self, pattern: str, app: str, key: bytes) -> None:
        """Keep the name, if there are few of this kind so far."""
        if (pattern, app) in self.shown or len(self.shown) < MOST_PLACES:
            names = self.shown.setdefault((pattern, app), [])
            if len(names) < MOST_SHOWN:
                names.append(key)

    @property
    def unknown(self) -> int:
        """So many keys may have been changed, or not."""
        return self.sent - sum(self.outcomes.values()) + self.outcomes[Outcome.UNKNOWN]
