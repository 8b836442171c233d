# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""How many commands clients have sent, by the id that one table of commands gives to each.

Clients that evidence does not tell apart share these counters, so that a count costs an addition and nothing else.
"""

from array import array


class CallCounts:
    """Counters for a table of ``size`` commands."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.numbers = array("Q", bytes(8 * size))

    def add(self, command_id: int) -> None:
        """Count one command; an id of another table, which this one may not have, is left out."""
        if command_id < self.size:
            self.numbers[command_id] += 1

    def take(self) -> list[tuple[int, int]]:
        """What was counted since the last call: ids, and the number of each."""
        taken = []
        i = 0
        while i < self.size:
            number = self.numbers[i]
            if number > 0:
                taken.append((i, int(number)))
                self.numbers[i] = 0
            i += 1
        return taken
