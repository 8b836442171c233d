# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""Finds the arguments of one request in a client's bytes, in place.

A request is an array of bulk strings (``*2 $3 GET $1 k``) or an inline command (anything else, up to a line feed).
``Request.scan`` scans one request from its start and returns what it found: COMPLETE with the offsets of its arguments,
NEED_MORE, INLINE (a line for ``wire.inline``), EMPTY (``*0``, ``*-1``: Redis answers nothing), LARGE (a bulk string
over ``RequestLimits.large`` bytes that has not arrived whole), or MALFORMED with a code that ``wire.limits`` turns into
the engine's own error. A length is checked before any memory is allocated for it.

Numbers are read as strictly as in Redis (its ``string2ll``: no sign, no leading zero). Redis skips the two bytes after
each string without reading them; here anything but CR LF is an error. So the policy checks exactly what Redis runs.
"""

from array import array
from collections.abc import Sequence

# Each code has two names: a C integer for this module, a Python integer for other modules.
_NEED_MORE = 0
_COMPLETE = 1
_INLINE = 2
_EMPTY = 3
_LARGE = 4
_MALFORMED = 5
NEED_MORE = _NEED_MORE
COMPLETE = _COMPLETE
INLINE = _INLINE
EMPTY = _EMPTY
LARGE = _LARGE
MALFORMED = _MALFORMED

INVALID_MULTIBULK_LENGTH = 1
UNAUTHENTICATED_MULTIBULK_LENGTH = 2
TOO_BIG_MULTIBULK_COUNT = 3
EXPECTED_DOLLAR = 4
INVALID_BULK_LENGTH = 5
UNAUTHENTICATED_BULK_LENGTH = 6
TOO_BIG_BULK_COUNT = 7
TOO_BIG_INLINE = 8
EXPECTED_CRLF = 9
UNBALANCED_QUOTES = 10

_LINE_LIMIT = 65536
_FIRST_CAPACITY = 64
_KEPT_CAPACITY = 16384
_MOST_DIGITS = 18

ARGUMENT_BYTES = 64
"""The most memory that an argument takes beside its own bytes: two offsets, twice while their arrays grow, or an object
of Python's in a list."""


class RequestLimits:
    """What a client may announce: arguments in a request, bytes in a bulk string.

    If ``authenticated`` is false, the small limits apply (10 arguments, 16,384 bytes): Redis applies them before the
    login if it requires a password. ``large`` is the size in bytes over which a bulk string is streamed instead of
    collected. ``mixed_quotes`` is about inline commands (see ``wire.inline``).
    """

    def __init__(
        self, arguments: int, bulk: int, large: int, authenticated: bool = True, mixed_quotes: bool = False
    ) -> None:
        self.arguments = arguments
        self.bulk = bulk
        self.large = large
        self.authenticated = authenticated
        self.mixed_quotes = mixed_quotes


class Request:
    """The arguments of the last scanned request: argument ``i`` is ``data[starts[i]:ends[i]]``."""

    def __init__(self) -> None:
        self.data: bytes | bytearray = b""
        self.argc = 0
        self.starts = array("q", bytes(8 * _FIRST_CAPACITY))
        self.ends = array("q", bytes(8 * _FIRST_CAPACITY))
        self.capacity = _FIRST_CAPACITY
        self.start = 0
        self.header_end = 0
        self.end = 0
        self.position = 0
        self.expected = 0
        self.bulk = -1
        self.error = 0
        self.error_byte = 0

    @staticmethod
    def from_argv(argv: Sequence[bytes]) -> "Request":
        """Make a request from split arguments."""
        request = Request()
        request.load(argv)
        return request

    def load(self, argv: Sequence[bytes]) -> None:
        """Replace the scanned arguments by these."""
        end = 0
        self.argc = 0
        for argument in argv:
            self.add(end, end + len(argument))
            end += len(argument)
        self.data = b"".join(argv)
        self.end = end

    def argument(self, index: int) -> bytes:
        """A copy of argument ``index``. Raises IndexError if the request has fewer arguments."""
        if index < 0 or index >= self.argc:
            raise IndexError(f"argument {index} of {self.argc}")
        return bytes(self.data[self.starts[index] : self.ends[index]])

    def arguments(self) -> list[bytes]:
        """Copies of all arguments that have arrived whole."""
        data = self.data
        result = []
        i = 0
        while i < self.argc:
            result.append(bytes(data[self.starts[i] : self.ends[i]]))
            i += 1
        return result

    def add(self, start: int, end: int) -> None:
        """Record one more argument."""
        if self.argc >= self.capacity:
            self._grow(self.capacity * 2)
        self.starts[self.argc] = start
        self.ends[self.argc] = end
        self.argc += 1

    def _grow(self, capacity: int) -> None:
        starts = array("q", bytes(8 * capacity))
        ends = array("q", bytes(8 * capacity))
        i = 0
        while i < self.argc:
            starts[i] = self.starts[i]
            ends[i] = self.ends[i]
            i += 1
        self.starts = starts
        self.ends = ends
        self.capacity = capacity

    def scan(self, data: bytes | bytearray, start: int, limits: RequestLimits) -> int:
        """Scan the request that begins at ``start``; return one of the codes above."""
        return self.scan_in(data, data, len(data), start, limits)

    def scan_in(
        self, data: bytes | bytearray, p: bytes | bytearray, size: int, start: int, limits: RequestLimits
    ) -> int:
        """``scan`` for callers that have the ``size`` bytes of ``data`` as a pointer ``p``."""
        self.argc = 0
        self.expected = 0
        self.bulk = -1
        self.start = start
        self.position = start
        if self.capacity > _KEPT_CAPACITY:
            self._grow(_FIRST_CAPACITY)
        return self._walk(data, p, size, limits)

    def resume(self, data: bytes | bytearray, limits: RequestLimits) -> int:
        """Continue with a request that needed more bytes; ``data`` holds the request from the same offset."""
        return self._walk(data, data, len(data), limits)

    def _walk(self, data: bytes | bytearray, p: bytes | bytearray, size: int, limits: RequestLimits) -> int:
        self.data = data
        if self.expected == 0:
            code = self._walk_header(p, size, limits)
            if code != _COMPLETE:
                return code
        return self._walk_arguments(p, size, limits)

    def _walk_header(self, p: bytes | bytearray, size: int, limits: RequestLimits) -> int:
        i = self.start
        if i >= size:
            return _NEED_MORE
        if p[i] != 42:
            return self._walk_inline(p, size)
        i += 1
        negative = i < size and p[i] == 45
        if negative:
            i += 1
        first = i
        value = 0
        while i < size and 48 <= p[i] <= 57 and i - first < _MOST_DIGITS:
            value = value * 10 + (p[i] - 48)
            i += 1
        if i + 1 >= size and (i >= size or p[i] == 13):
            return _NEED_MORE
        if p[i] != 13 or i == first or (p[first] == 48 and (i - first > 1 or negative)):
            return self._bad_line(p, size, INVALID_MULTIBULK_LENGTH, TOO_BIG_MULTIBULK_COUNT)
        if p[i + 1] != 10:
            return self._malformed(EXPECTED_CRLF, p[i + 1])
        self.end = i + 2
        self.header_end = i + 2
        if negative or value == 0:
            return _EMPTY
        if value > limits.arguments:
            return self._malformed(INVALID_MULTIBULK_LENGTH, 0)
        if value > 10 and not limits.authenticated:
            return self._malformed(UNAUTHENTICATED_MULTIBULK_LENGTH, 0)
        self.expected = value
        self.position = i + 2
        return _COMPLETE

    def _walk_arguments(self, p: bytes | bytearray, size: int, limits: RequestLimits) -> int:
        i = self.position
        argc = self.argc
        bulk = self.bulk
        while argc < self.expected:
            if bulk < 0:
                first = i + 1
                j = first
                bulk = 0
                while j < size and 48 <= p[j] <= 57 and j - first < _MOST_DIGITS:
                    bulk = bulk * 10 + (p[j] - 48)
                    j += 1
                if i >= size or (j + 1 >= size and p[i] == 36 and (j >= size or p[j] == 13)):
                    self.position = i
                    self.argc = argc
                    self.bulk = -1
                    return _NEED_MORE
                if p[i] != 36 or p[j] != 13 or j == first or (p[first] == 48 and j - first > 1):
                    self.position = i
                    self.argc = argc
                    self.bulk = -1
                    if p[i] != 36:
                        self.error_byte = p[i]
                        return self._bad_line(p, size, EXPECTED_DOLLAR, TOO_BIG_BULK_COUNT)
                    return self._bad_line(p, size, INVALID_BULK_LENGTH, TOO_BIG_BULK_COUNT)
                if p[j + 1] != 10:
                    return self._malformed(EXPECTED_CRLF, p[j + 1])
                if bulk > limits.bulk:
                    return self._malformed(INVALID_BULK_LENGTH, 0)
                if bulk > 16384 and not limits.authenticated:
                    return self._malformed(UNAUTHENTICATED_BULK_LENGTH, 0)
                i = j + 2
            if size - i < bulk + 2:
                self.position = i
                self.argc = argc
                self.bulk = bulk
                return _LARGE if bulk > limits.large else _NEED_MORE
            if p[i + bulk] != 13 or p[i + bulk + 1] != 10:
                return self._malformed(EXPECTED_CRLF, p[i + bulk])
            if argc >= self.capacity:
                self.argc = argc
                self._grow(self.capacity * 2)
            self.starts[argc] = i
            self.ends[argc] = i + bulk
            argc += 1
            i += bulk + 2
            bulk = -1
        self.argc = argc
        self.position = i
        self.bulk = -1
        self.end = i
        return _COMPLETE

    def _walk_inline(self, p: bytes | bytearray, size: int) -> int:
        # Redis searches for the line feed as in a C string: after a NUL it finds none.
        i = self.start
        while i < size and p[i] != 10 and p[i] != 0:
            i += 1
        if i - self.start > _LINE_LIMIT:
            return self._malformed(TOO_BIG_INLINE, 0)
        if i >= size or p[i] == 0:
            return self._malformed(TOO_BIG_INLINE, 0) if size - self.start > _LINE_LIMIT else _NEED_MORE
        self.end = i + 1
        return _INLINE

    def _bad_line(self, p: bytes | bytearray, size: int, code: int, too_long: int) -> int:
        # Redis reports an error in a line only after the line's end, or after 64 KB without an end.
        i = self.position
        while i < size and p[i] != 13:
            i += 1
        if i < size:
            return self._malformed(code, self.error_byte)
        if size - self.position > _LINE_LIMIT:
            return self._malformed(too_long, 0)
        return _NEED_MORE

    def _malformed(self, code: int, byte: int) -> int:
        self.error = code
        self.error_byte = byte
        return _MALFORMED
