# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""The bytes of a run in which some commands were changed, put together in one piece.

``put`` copies into space that stays, and ``take`` returns one object: a list of pieces would be three objects for each
command, and a join.
"""

from proxy.commands.keys import KeyFinder
from proxy.wire.request import Request

_FIRST_CAPACITY = 16384
_KEPT_CAPACITY = 1 << 20
_LONGEST_LINE = 32
_DOLLAR, _ZERO, _CR, _LF = ord("$"), ord("0"), ord("\r"), ord("\n")
_INTERPRETED = __file__.endswith((".py", ".pyc"))


class Splice:
    """Space for the run that is put together now; it is empty between runs. What was put begins at ``target``."""

    def __init__(self) -> None:
        self.size = 0
        self._capacity = 0
        self._space = bytearray()
        self.target = self._space
        self._make(_FIRST_CAPACITY)

    def _make(self, capacity: int) -> None:
        space = bytearray(capacity)
        if self.size > 0:
            space[: self.size] = self._space[: self.size]
        self._space = space
        self.target = self._space
        self._capacity = capacity

    def cut(self, size: int) -> None:
        """Keep the first ``size`` bytes: a run that broke off is no part of the next one, which may be another
        client's."""
        self.size = size

    def put_behind(self, kept: int, p: bytes, start: int, end: int) -> int:
        """Keep the first ``kept`` bytes, and add these behind them."""
        if kept + end - start > self._capacity:
            self.size = kept
            self._make(2 * (kept + end - start))
        self.size = self._copy(kept, p, start, end)
        return 0

    def put(self, p: bytes, start: int, end: int) -> int:
        """Add these bytes."""
        return self.put_behind(self.size, p, start, end)

    def put_prefixed(self, p: bytes, start: int, request: Request, keys: KeyFinder, found: int, prefix: bytes) -> int:
        """Add the bytes from ``start`` on, with ``prefix`` before each of the ``found`` keys of this request, up to the
        last one; return where that begins."""
        added = len(prefix)
        # One check of the capacity for all keys, and no object for any: MGET has many.
        most = self.size + request.end - start + found * (added + _LONGEST_LINE)
        if most > self._capacity:
            self._make(2 * most)
        name = prefix
        at = self.size
        i = 0
        while i < found:
            index = keys.indexes[i]
            begin = request.starts[index]
            at = self._copy(at, p, start, request.ends[index - 1] + 2)
            at = self._line(at, request.ends[index] - begin + added)
            at = self._copy(at, name, 0, added)
            start = begin
            i += 1
        self.size = at
        return start

    def _copy(self, at: int, p: bytes, start: int, end: int) -> int:
        # To a place with enough space behind it; the place behind.
        if _INTERPRETED:
            self.target[at : at + end - start] = p[start:end]
        else:
            # C's own, which the .pxd imports: without it, each byte is copied by itself.
            memcpy(self.target + at, p + start, end - start)  # type: ignore[name-defined, operator]  # noqa: F821  # not Python's
        return at + end - start

    def _line(self, at: int, size: int) -> int:
        # The line of a bulk string, in the same way.
        digits = 1
        bound = 10
        while size >= bound:
            bound *= 10
            digits += 1
        last = at + digits
        self.target[at] = _DOLLAR
        self.target[last + 1] = _CR
        self.target[last + 2] = _LF
        at = last
        while digits > 0:
            self.target[at] = _ZERO + size % 10
            size //= 10
            at -= 1
            digits -= 1
        return last + 3

    def fill(self, byte: int, count: int) -> None:
        """Add the same byte, so many times."""
        at = self.size
        if at + count > self._capacity:
            self._make(2 * (at + count))
        while count > 0:
            self.target[at] = byte
            at += 1
            count -= 1
        self.size = at

    def take(self) -> bytes:
        """All that was put since the last call."""
        if _INTERPRETED:
            taken = bytes(self._space[: self.size])
        else:
            # To make bytes of them would call a method of theirs.
            taken = self.target[: self.size]  # type: ignore[assignment]  # compiled, these are bytes already
        self.size = 0
        if self._capacity > _KEPT_CAPACITY:
            self._make(_FIRST_CAPACITY)
        return taken
