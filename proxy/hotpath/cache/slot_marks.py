# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""The slots of a cluster from whose keys replies may be kept: each has a mark, which is another one each time.

A reply is kept with the mark of its slot. Once a slot is closed, nothing of it is found, and what was kept is never
found again: when it is opened, it has a new mark. So a slot is closed at once, however many replies there are.
"""

from array import array

from proxy.commands.slots import SLOTS

_CLOSED = 0
CLOSED = _CLOSED
"""The mark of a slot of which nothing is kept or found."""


class SlotMarks:
    """Those of one database: all are closed at first."""

    def __init__(self) -> None:
        self._marks = array("q", bytes(8 * SLOTS))
        self._last = 0

    def of(self, slot: int) -> int:
        """The mark of this slot."""
        return self._marks[slot]

    def open(self, slot: int) -> None:
        """Replies of its keys are kept and found; it stays as it is if it is open."""
        if self._marks[slot] == _CLOSED:
            self._last += 1
            self._marks[slot] = self._last

    def close(self, slot: int) -> None:
        """They are not, and those that were kept are not found any more."""
        self._marks[slot] = _CLOSED
