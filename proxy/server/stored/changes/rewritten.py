"""What was rewritten, or would be, and what was left alone and why."""

from collections import Counter
from dataclasses import dataclass, field

from proxy.rules.compress.stored_form import Left
from proxy.server.stored.changes.model import MOST_PLACES, MOST_SHOWN
from proxy.server.stored.model import OTHER, Place
from proxy.server.stored.totals import Judged

_MOST_REFUSALS = 20
_MOST_REASONS = 30
_OTHER_REASONS = Left("values compressed with further dictionaries")


@dataclass(slots=True)
class RewrittenRow:
    """The keys of one pattern and app: their ``values`` that were rewritten, strings and fields, and the bytes of these
    ``before`` and ``after``; ``shown`` has some of the keys."""

    keys: int = 0
    values: int = 0
    before: int = 0
    after: int = 0
    shown: list[bytes] = field(default_factory=list)

    def add(self, more: "RewrittenRow") -> None:
        """Add the figures of another row."""
        self.keys += more.keys
        self.values += more.values
        self.before += more.before
        self.after += more.after


@dataclass(slots=True)
class Rewritten:
    """The sums of one run. ``left`` counts why values or keys were left alone, and ``refusals`` the server's errors;
    ``unfinished`` keys were written by others each time that they were tried."""

    rows: dict[Place, RewrittenRow] = field(default_factory=dict)
    left: Counter[Left] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    unfinished: int = 0
    reached_limit: bool = False

    def add(self, judged: Judged, key: bytes, row: RewrittenRow) -> None:
        """Count what became of one key."""
        place = Place(judged.pattern, judged.app)
        if place not in self.rows and len(self.rows) >= MOST_PLACES:
            place = Place(OTHER, judged.app)
        its = self.rows.setdefault(place, RewrittenRow())
        its.add(row)
        if len(its.shown) < MOST_SHOWN:
            its.shown.append(key)

    def leave(self, why: Left) -> None:
        """A value or a key stays as it is. The names of dictionaries make many reasons; the first ones are kept."""
        known = why in self.left or len(self.left) < _MOST_REASONS
        self.left[why if known else _OTHER_REASONS] += 1

    def refuse(self, error: str) -> None:
        """The server has refused to read or write a key."""
        known = error in self.refusals or len(self.refusals) < _MOST_REFUSALS
        self.refusals[error if known else "other errors"] += 1

    @property
    def whole(self) -> RewrittenRow:
        """All rows together."""
        found = RewrittenRow()
        for row in self.rows.values():
            found.add(row)
        return found

    @property
    def has_failed(self) -> bool:
        """Whether keys were not rewritten that should have been."""
        return bool(self.refusals or self.unfinished)
