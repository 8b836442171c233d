"""How many keys tenants had a moment ago, as walks of this worker have counted them."""

from collections import OrderedDict
from typing import NamedTuple, TypeAlias

Place: TypeAlias = tuple[int, bytes, str]
"""A database, the prefix of a tenant, and the address of Keyrail: in a cluster of Keyrails, each tells of its part."""

_SHORT = 0.05
"""Seconds. What takes no longer is counted anew each time."""
_REST = 20
"""A count answers for so many times as long as its walk took."""
_MOST = 10_000


class _Counted(NamedTuple):
    number: int
    begun: float
    ended: float


class CountedKeys:
    """The last count of each place. Times are seconds since the epoch; ``age`` is the most that a count may have."""

    def __init__(self) -> None:
        self._counted: OrderedDict[Place, _Counted] = OrderedDict()

    def note(self, place: Place, number: int, begun: float, ended: float) -> None:
        """A walk has counted them."""
        self._counted[place] = _Counted(number, begun, ended)
        self._counted.move_to_end(place)
        if len(self._counted) > _MOST:
            self._counted.popitem(last=False)

    def forget(self, prefix: bytes) -> None:
        """The keys of this tenant may have gone."""
        for place in [place for place in self._counted if place[1] == prefix]:
            del self._counted[place]

    def recent(self, place: Place, now: float, age: float) -> int | None:
        """The last count, unless it is too old."""
        counted = self._counted.get(place)
        return None if counted is None or not 0 <= now - counted.begun <= age else counted.number

    def spared(self, place: Place, now: float, age: float) -> int | None:
        """The last count, while it is too early to walk again."""
        counted = self._counted.get(place)
        took = 0.0 if counted is None else counted.ended - counted.begun
        return self.recent(place, now, min(age, _REST * took)) if took > _SHORT else None
