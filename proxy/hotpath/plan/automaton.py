# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""The walker over a schema's automaton: which entry owns a key, in one pass over its bytes.

All patterns are one deterministic automaton (``proxy.schema.automaton`` makes it), so the number of patterns does not
matter: each byte of the key is one look-up. The bytes fall into classes that no pattern tells apart. A state is a row
of ``width`` numbers: for each class where the row of the next state begins, and last the owner of a key that ends
there. Row 0 is the state that no key leaves again; its owner is nobody. The rows from ``settled`` on are of states that
no key leaves either: the rest of the key is not looked at.

Most bytes of a key leave the state as it is. That is a jump, which the processor foresees, so it does not wait for one
look-up before it begins the next one. What names must be like is an automaton too: walked one after the other, each in
this way, the two take three quarters of the time that they would take side by side (measured: 69 and 90 ns, call
included).
"""

from array import array
from collections.abc import Sequence

# Under two names each: C integers in here, Python's for everybody else.
_NOBODY = -1
_MISNAMED = -2
NOBODY = _NOBODY
MISNAMED = _MISNAMED


class Automaton:
    """`classes` has the class of each of the 256 bytes; `rows` the states' rows, of which the one at `start` is
    where every key begins. Rows that have been `checked` once need not be again."""

    def __init__(self, classes: bytes, rows: Sequence[int], start: int, checked: bool = False) -> None:
        if len(classes) != 256:
            raise ValueError("every byte has a class")
        self.classes = classes
        known = rows if isinstance(rows, array) else array("i", rows)
        self.rows: array[int] = known
        self.width = max(classes) + 2
        self.start = start
        self.settled = _first_settled(known, self.width)
        if checked:
            return
        steps = [*rows, start]
        del steps[self.width - 1 : len(rows) : self.width]
        if len(rows) % self.width or min(steps) < 0 or max(steps) >= len(rows):
            raise ValueError("a row leads out of the automaton")

    def __reduce__(self) -> tuple[type["Automaton"], tuple[bytes, Sequence[int], int, bool]]:
        """Workers are handed their policies by pickle, which cannot see into the compiled form by itself."""
        return Automaton, (self.classes, array("i", self.rows), self.start, True)

    @property
    def states(self) -> int:
        """How many states there are."""
        return len(self.rows) // self.width

    def owner(self, key: bytes) -> int:
        """The number of the entry that owns the key; NOBODY if none does."""
        return self.find(key, 0, len(key))

    def find(self, p: bytes, start: int, end: int) -> int:
        """The owner of the key between the offsets."""
        return self._walk(p, start, end, self.classes)

    def find_named(self, names: "Automaton", p: bytes, start: int, end: int) -> int:
        """The owner of the key between the offsets; MISNAMED if ``names`` has none for it."""
        if names._walk(p, start, end, names.classes) == _NOBODY:
            return _MISNAMED
        return self._walk(p, start, end, self.classes)

    def _walk(self, p: bytes, start: int, end: int, classes: bytes) -> int:
        row = self.start
        settled = self.settled
        i = start
        while i < end and row < settled:
            step = self.rows[row + classes[p[i]]]
            i += 1
            if step == row:
                continue
            if step == 0:
                return _NOBODY
            row = step
        return self.rows[row + self.width - 1]


def _first_settled(rows: "array[int]", width: int) -> int:
    end = len(rows)
    while end > width:
        row = end - width
        if rows[row : end - 1].count(row) < width - 1:
            break
        end = row
    return end
