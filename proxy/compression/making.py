"""How the values in one reply are decompressed, step by step: the bytes are looked at in the pieces in which they have
come, and never joined as a whole."""

from collections import deque
from collections.abc import Generator, Iterator, Sequence

from proxy.commands.compressed_values import ReplyValues
from proxy.compression.budget import PlainBudget
from proxy.compression.dictionaries import Dictionaries
from proxy.compression.frames import MAGIC, TooLargeError
from proxy.hotpath.upstream.late_replies import Making
from proxy.wire.reply import ReplyScanner

MOST_IN_REPLY = 64 << 20
"""The most bytes that are made of the values in one reply."""
_LOOKED_THROUGH = 4
"""So many bytes are looked through while one is made."""
_ELEMENT = 1 << 10
"""What an element takes of a portion, in bytes: to pass over it takes a microsecond."""


class MakingReply:
    """One reply. ``parts`` is what the client gets of it, up to ``done`` in ``data``; ``at`` is the next byte that is
    looked at. What is behind ``data`` is in ``pieces``."""

    def __init__(
        self,
        pieces: Sequence[bytes],
        version: int,
        mask: Sequence[bool],
        budget: PlainBudget,
        dictionaries: Dictionaries,
    ) -> None:
        self.pieces = deque(pieces)
        self.version = version
        self.mask = mask
        self.budget = budget
        self.dictionaries = dictionaries
        self.portions = budget.portions
        self.data = self.pieces.popleft()
        self.at = 0
        self.done = 0
        self.made = 0
        self.parts: list[bytes] = []

    def steps(self, form: ReplyValues) -> Making:
        """Yields where the portion of a turn is used up; returns the parts. Raises TooLargeError, and what
        ``PlainBudget.unpack`` does."""
        if not (yield from self._may_hold_values()):
            return [self.data, *self.pieces]
        if form is ReplyValues.ONE:
            self._element(replaces=True)
        elif form is ReplyValues.ALL:
            yield from self._all()
        elif form is ReplyValues.PAIRS:
            yield from self._pairs()
        elif self.data.startswith(b"*2\r\n"):
            self.at = len(b"*2\r\n")
            self._element()
            yield from self._pairs()
        return [*self.parts, self.data[self.done :], *self.pieces]

    def _may_hold_values(self) -> Generator[None, None, bool]:
        # Whether a compressed value may begin somewhere: to look for its first bytes takes far less than to go from
        # element to element.
        last = b""
        for piece in (self.data, *self.pieces):
            if MAGIC in piece or MAGIC in last + piece[: len(MAGIC) - 1]:
                return True
            last = (last + piece)[1 - len(MAGIC) :] if len(piece) < len(MAGIC) else piece[1 - len(MAGIC) :]
            self.portions.spend(len(piece) // _LOOKED_THROUGH)
            if self.portions.used_up:
                yield
        return False

    def _all(self) -> Iterator[None]:
        kind, count, length = self._line()
        if kind == b"$":
            self._element(replaces=True)  # HRANDFIELD and others answer one value where no number of them is asked for
        elif kind == b"*":
            self.at += length
            for place in range(count):
                if self.portions.used_up:
                    yield
                self._element(replaces=self.mask[place % len(self.mask)])

    def _pairs(self) -> Iterator[None]:
        # A flat array, a map, or an array of arrays with two elements.
        kind, count, length = self._line()
        if kind not in (b"*", b"%"):
            return
        self.at += length
        nested = kind == b"*" and count > 0 and self._line()[0] == b"*"
        for _ in range(count if nested or kind == b"%" else count // 2):
            if self.portions.used_up:
                yield
            if nested:
                _, _, length = self._line()  # which may set ``at``
                self.at += length
            self._element()
            self._element(replaces=True)

    def _line(self) -> tuple[bytes, int, int]:
        # The kind of the next line, its number, which is -1 for a null, and its length.
        end = self.data.find(b"\r\n", self.at)
        while end < 0:
            assert self.pieces, "the reply is whole"
            self._fill(len(self.data) - self.at + 1)
            end = self.data.find(b"\r\n", self.at)
        digits = self.data[self.at + 1 : end]
        return self.data[self.at : self.at + 1], int(digits) if digits.isdigit() else -1, end + 2 - self.at

    def _element(self, *, replaces: bool = False) -> None:
        # Pass over the next element. If it is a compressed string, its plain value takes its place.
        self.portions.spend(_ELEMENT)
        kind, size, length = self._line()
        if kind in b"*%~>|":
            self._fill(sum(map(len, (self.data, *self.pieces))) - self.at)
            self.at = ReplyScanner().whole(self.data, self.at, len(self.data))
        elif kind not in b"$=!" or size < 0:
            self.at += length
        elif not replaces or size < len(MAGIC) or not self._is_compressed(length):
            self._skip(length + size + 2)
        else:
            self._replace(length, size)

    def _is_compressed(self, length: int) -> bool:
        self._fill(length + len(MAGIC))
        return self.data.startswith(MAGIC, self.at + length)

    def _replace(self, length: int, size: int) -> None:
        self._fill(length + size + 2)
        start = self.at + length
        stored = self.data[start : start + size]
        value = self.budget.unpack(stored, self.version, self.dictionaries)
        self.made += len(value)
        if self.made > MOST_IN_REPLY:
            raise TooLargeError
        if value is not stored:
            self.parts += self.data[self.done : self.at], b"$%d\r\n" % len(value), value
            self.done = start + size
        self.at = start + size + 2

    def _fill(self, size: int) -> None:
        # Have so many bytes in ``data`` behind ``at``, and no offset of before.
        have = len(self.data) - self.at
        if have >= size:
            return
        self.parts.append(self.data[self.done : self.at])
        gathered = [self.data[self.at :]]
        while have < size and self.pieces:
            gathered.append(self.pieces.popleft())
            have += len(gathered[-1])
        self.data = b"".join(gathered)
        self.at = self.done = 0
        self.portions.spend(have)

    def _skip(self, size: int) -> None:
        # Pass over so many bytes, which need not be joined.
        size += self.at
        while size > len(self.data):
            size -= len(self.data)
            self.parts.append(self.data[self.done :])
            self.done = 0
            self.data = self.pieces.popleft()
        self.at = size
