# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""The bytes of a run in which some commands were changed, put together in one piece.

``put`` copies into space that stays, and ``take`` returns one object: a list of pieces would be three objects for each
command, and a join.
"""

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
        self.size = kept
        self.put(p, start, end)
        return 0

    def put(self, p: bytes, start: int, end: int) -> None:
        """Add these bytes."""
        size = end - start
        at = self.size
        if at + size > self._capacity:
            self._make(2 * (at + size))
        if _INTERPRETED:
            self.target[at : at + size] = p[start:end]
        else:
            # C's own, which the .pxd imports: without it, each byte is copied by itself.
            memcpy(self.target + at, p + start, size)  # type: ignore[name-defined, operator]  # noqa: F821  # not Python's
        self.size = at + size

    def put_before_name(self, p: bytes, start: int, end: int, size: int, prefix: bytes, added: int) -> int:
        """Add these bytes, the line in front of a bulk string of ``size`` bytes, and the ``added`` bytes of ``prefix``
        with which the string begins."""
        self.put(p, start, end)
        self._put_line(size)
        self.put(prefix, 0, added)
        return 0

    def _put_line(self, size: int) -> int:
        # Without an object for the line, or a copy: a tenant's request has one for each key.
        if self.size + _LONGEST_LINE > self._capacity:
            self._make(2 * (self.size + _LONGEST_LINE))
        digits = 1
        bound = 10
        while size >= bound:
            bound *= 10
            digits += 1
        at = self.size
        last = at + digits
        self.target[at] = _DOLLAR
        self.target[last + 1] = _CR
        self.target[last + 2] = _LF
        self.size = last + 3
        while last > at:
            self.target[last] = _ZERO + size % 10
            size //= 10
            last -= 1
        return 0

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
