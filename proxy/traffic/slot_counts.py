"""Uses of hash slots, by slot: a dictionary for few slots, an array of 64 KB for many."""

from array import array
from collections.abc import Iterator, Mapping

from proxy.commands.slots import SLOTS

_FEW = 450
"""The number of slots with which the dictionary takes as much memory as the array."""
_MOST = (1 << 32) - 1


class SlotCounts(Mapping[int, int]):
    """How often each slot was used; unused slots are left out and count 0."""

    __slots__ = ("_all", "_few")

    def __init__(self) -> None:
        self._few: dict[int, int] = {}
        self._all: array[int] | None = None

    def add(self, slot: int, weight: int) -> None:
        """Count ``weight`` uses of a slot."""
        if self._all is not None:
            self._all[slot] = min(_MOST, self._all[slot] + weight)
            return
        self._few[slot] = self._few.get(slot, 0) + weight
        if len(self._few) > _FEW:
            self._all = array("I", bytes(4 * SLOTS))
            for known, uses in self._few.items():
                self._all[known] = min(_MOST, uses)
            self._few = {}

    def merge(self, more: "SlotCounts") -> None:
        """Add the other's counts."""
        for slot, weight in more.items():
            self.add(slot, weight)

    def __getitem__(self, slot: int) -> int:
        return self._few.get(slot, 0) if self._all is None else self._all[slot]

    def __iter__(self) -> Iterator[int]:
        return iter(self._few) if self._all is None else (slot for slot, uses in enumerate(self._all) if uses)

    def __len__(self) -> int:
        return len(self._few) if self._all is None else sum(map(bool, self._all))

    def memory(self) -> int:
        """About how many bytes it takes."""
        return 150 * len(self._few) if self._all is None else 4 * SLOTS
