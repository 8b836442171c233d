# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""What a schema lets pass unjudged, by the entry that owns a key.

For each entry there is a number of bytes, for reads and for writes apart: a request that is larger as a whole is
judged, so 0 stands for what is always judged and a very large number for what always passes. A value is never larger
than the request that brings it, which makes this the check of sizes too; so does a number of arguments that of members.
Place 0 is for keys that no entry owns, place n + 1 for entry n.

Where there are standards for names too, both are found in the same pass over a key: ``names`` owns all that are right.
"""

from array import array
from collections.abc import Sequence

from proxy.commands.keys import KeyFinder
from proxy.hotpath.plan.automaton import MISNAMED, NOBODY, Automaton
from proxy.wire.request import Request

_WRITE = 2


def _numbers(numbers: Sequence[int]) -> "array[int]":
    # An array is kept as it is, and programs may share it.
    return numbers if isinstance(numbers, array) else array("q", numbers)


class EntryProgram:
    """The bytes that a request may have where it only reads a key and where it may write it, and the arguments of one
    that may write it; and, with ``names``, how long keys may be. ``owner`` is whose the last key was."""

    def __init__(
        self,
        automaton: Automaton,
        reads: Sequence[int],
        writes: Sequence[int],
        arguments: Sequence[int],
        names: Automaton | None = None,
        min_length: int = 0,
        max_length: int = 0,
    ) -> None:
        if not len(reads) == len(writes) == len(arguments):
            raise ValueError("each entry has its place in all three")
        self.automaton = automaton
        self.reads, self.writes, self.arguments = map(_numbers, (reads, writes, arguments))
        self.names = names
        self.min_length = min_length
        self.max_length = max_length
        self.owner = NOBODY

    def passes(self, request: Request, data: bytes, keys: KeyFinder, found: int) -> bool:
        """Whether every one of the ``found`` keys lets the request pass; False says only that it must be judged."""
        size = request.end - request.start
        i = 0
        while i < found:
            index = keys.indexes[i]
            if not self._find(data, request.starts[index], request.ends[index]):
                return False
            place = self.owner + 1
            if keys.access[i] == _WRITE:
                if size > self.writes[place] or request.argc > self.arguments[place]:
                    return False
            elif size > self.reads[place]:
                return False
            i += 1
        return True

    def _find(self, data: bytes, start: int, end: int) -> bool:
        if self.names is None:
            self.owner = self.automaton.find(data, start, end)
            return True
        if end - start < self.min_length or end - start > self.max_length:
            return False
        self.owner = self.automaton.find_named(self.names, data, start, end)
        return self.owner != MISNAMED
