# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""Finds where replies end without decoding them.

``ReplyScanner.walk`` scans the bytes of one reply frame, RESP2 or RESP3, and stops after its last byte. It can stop
anywhere and resume: it remembers how many elements the frame still lacks and how many bytes the current bulk string
still lacks. A nested frame needs no stack: an array of n elements adds n elements to come. An attribute adds 2n
elements before the element that it belongs to. A push inside a frame is none of its elements: Redis 6.2 and 7.0 put the
messages of a subscriber's own PUBLISH into EXEC's array.

``walk`` reads a header line only when all of the line has arrived; otherwise it stops before it.
"""

_OUT_OF_STEP = -1
_INCOMPLETE = -2
_MOST_DIGITS = 18
_SHORTEST_STRING = 6
"""In bytes: an empty one."""
PUSHES = frozenset(
    (
        *(b"message", b"pmessage", b"smessage"),
        *(b"subscribe", b"psubscribe", b"ssubscribe", b"unsubscribe", b"punsubscribe", b"sunsubscribe"),
        *(b"invalidate", b"tracking-redir-broken"),
    )
)
"""The pushes that a client may get. Others (``MOVING`` …) could call it away from Keyrail, to the server itself."""
_SHORT_WORD = 64
"""In bytes. An aggregate that begins with a longer word is no message and no confirmation of a subscription."""


class ReplyScanner:
    """A cursor in the replies of one upstream connection."""

    def __init__(self) -> None:
        self.elements = 0
        self.bulk = 0

    def walk(self, p: bytes, start: int, size: int) -> int:
        """Advance from ``start`` to the end of the frame or of the data; return the new offset.

        The frame is complete when ``elements`` is 0. The result -1 means that these bytes are no valid reply.
        """
        elements = self.elements
        bulk = self.bulk
        if elements == 0:
            end = self.string_end(p, start, size)
            if end > 0:
                return end
            elements = 1
        i = start
        while elements > 0:
            if bulk > 0:
                if size - i < bulk:
                    bulk -= size - i
                    i = size
                    break
                i += bulk
                bulk = 0
                elements -= 1
                continue
            # Most lines are one number: it is read on the way to the end of the line.
            j = i + 1
            number = 0
            while j < size:
                digit = p[j] - 48
                if digit < 0 or digit > 9:
                    break
                number = number * 10 + digit
                j += 1
            plain = j > i + 1 and j + 1 < size and p[j] == 13 and p[j + 1] == 10 and j - i <= _MOST_DIGITS
            while j < size and p[j] != 10:
                j += 1
            if j >= size:
                break
            kind = p[i]
            if kind == 36 or kind == 61 or kind == 33:  # $ = !
                bulk = number if plain else self._length(p, i + 1, j)
                if bulk == -2:
                    return _OUT_OF_STEP
                if bulk < 0:
                    bulk = 0
                    elements -= 1
                else:
                    bulk += 2
            elif kind == 42 or kind == 126:  # * ~
                count = number if plain else self._length(p, i + 1, j)
                if count == -2:
                    return _OUT_OF_STEP
                elements += count - 1 if count >= 0 else -1
            elif kind == 62:  # >
                count = number if plain else self._length(p, i + 1, j)
                if count < 0:
                    return _OUT_OF_STEP
                if i == start and self.elements == 0:
                    elements = count
                else:
                    j = self.first_word_end(p, i, size)
                    if j == _INCOMPLETE:
                        break
                    if not self.may_pass(p, i, j):
                        return _OUT_OF_STEP
                    elements += count
                    j = self.line_end(p, i, size) - 1
            elif kind == 37 or kind == 124:  # % |
                count = number if plain else self._length(p, i + 1, j)
                if count < 0:
                    return _OUT_OF_STEP
                elements += 2 * count - 1 if kind == 37 else 2 * count
            elif kind == 43 or kind == 45 or kind == 58 or kind == 44 or kind == 35 or kind == 95 or kind == 40:
                elements -= 1  # + - : , # _ (
            else:
                return _OUT_OF_STEP
            i = j + 1
        if i > start:  # otherwise there is only an incomplete line, and nothing has changed
            self.elements = elements
            self.bulk = bulk
        return i

    def whole(self, p: bytes, start: int, size: int) -> int:
        """The end of a frame; -1 if these bytes are no valid reply, -2 until the whole frame has arrived."""
        n = self.walk(p, start, size)
        if n < 0:
            return _OUT_OF_STEP
        if self.elements > 0 or n == start:
            self.elements = 0
            self.bulk = 0
            return _INCOMPLETE
        return n

    def string_end(self, p: bytes, start: int, size: int) -> int:
        """The end of a bulk string of which all has arrived, as most replies are; 0 for any other frame."""
        if size - start < _SHORTEST_STRING or p[start] != 36:
            return 0
        i = start + 1
        digit = p[i] - 48
        if digit < 0 or digit > 9:
            return 0
        length = 0
        while 0 <= digit <= 9:
            length = length * 10 + digit
            i += 1
            if length > size or i + 1 >= size:
                return 0
            digit = p[i] - 48
        end = i + 2 + length + 2
        return end if end <= size and p[i] == 13 and p[i + 1] == 10 else 0

    def line_end(self, p: bytes, start: int, size: int) -> int:
        """The offset behind the line that begins at ``start``; -2 until the whole line has arrived."""
        i = start
        while i < size:
            if p[i] == 10:
                return i + 1
            i += 1
        return _INCOMPLETE

    def first_word_end(self, p: bytes, start: int, size: int) -> int:
        """The end of an aggregate's first element if that is a short bulk string, 0 if not; -2 until it has arrived.

        For an aggregate of fewer than two elements the answer is 0.
        """
        n = self.line_end(p, start, size)
        if n < 0:
            return _INCOMPLETE
        if p[start + 1] == 45 or (n == start + 4 and p[start + 1] < 50):  # a null, or fewer than two elements
            return 0
        if n >= size:
            return _INCOMPLETE
        if p[n] != 36:
            return 0
        n = self.line_end(p, n, size)
        if n < 0:
            return _INCOMPLETE
        n = self.line_end(p, n, size)
        if n < 0:
            return 0 if size - start > _SHORT_WORD else _INCOMPLETE
        return n

    def may_pass(self, p: bytes, start: int, end: int) -> bool:
        """Whether a client may get a push, of which ``first_word_end`` has said that its first element ends there."""
        return end > 0 and p[start:end].split(b"\r\n", 3)[2] in PUSHES

    def begin_attribute(self, p: bytes, start: int, size: int) -> int:
        """The end of the line with which an attribute begins; its elements are those that ``walk`` takes next. -1 if
        these bytes are none, -2 until the line has arrived."""
        n = self.line_end(p, start, size)
        if n < 0:
            return n
        count = self._length(p, start + 1, n - 1)
        if count < 0:
            return _OUT_OF_STEP
        self.elements = 2 * count
        return n

    def nothing_end(self, p: bytes, start: int, size: int) -> int:
        """The end of a frame that may be the reply to a read of a key which does not exist: null, an empty string, 0,
        -1, -2, ``+none``, an error, an aggregate of these or of nothing. 0 for others, -2 until that can be told."""
        i = start
        left = 1
        while left > 0:
            n = self.line_end(p, i, size)
            if n < 0:
                return _INCOMPLETE
            kind = p[i]
            count = 0
            if kind == 36 or kind == 42 or kind == 126 or kind == 37:  # $ * ~ %
                count = self._length(p, i + 1, n - 1)
                if count == -2 or (kind == 36 and count > 0):
                    return 0
                if kind == 36 and count == 0:
                    n += 2
                elif count < 0:
                    count = 0
                elif kind == 37:
                    count += count
            elif not self._is_nothing(p, i, n):
                return 0
            left += count - 1
            i = n
        return i if i <= size else _INCOMPLETE

    def _is_nothing(self, p: bytes, i: int, n: int) -> bool:
        # Whether the line that ends at n may be: _ :0 :-1 :-2 +none, or an error
        kind = p[i]
        if kind == 58:
            last = p[n - 3]
            return (n - i == 4 and last == 48) or (n - i == 5 and p[i + 1] == 45 and (last == 49 or last == 50))
        if kind == 43:
            return n - i == 7 and p[i + 1] == 110 and p[i + 2] == 111 and p[i + 3] == 110 and p[i + 4] == 101
        return kind == 95 or kind == 45

    def _length(self, p: bytes, start: int, end: int) -> int:
        i = start
        if end - 1 <= start or p[end - 1] != 13:
            return -2
        if p[i] == 45:
            return -1 if end - start == 3 and p[i + 1] == 49 else -2
        value = 0
        while i < end - 1:
            if p[i] < 48 or p[i] > 57:
                return -2
            value = value * 10 + (p[i] - 48)
            i += 1
        return value if i - start <= _MOST_DIGITS else -2
