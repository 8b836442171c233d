# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""Arguments that a command must have, and gets if it has none: a TTL, in most cases.

A request of exactly so many arguments lacks them: the plan appends them. A longer request passes if it states them
itself: by a word that settles the matter (``KEEPTTL``), or by a number within bounds (``EX 300``), which the plan may
vary. The rules judge any other request.
"""

from array import array
from collections.abc import Sequence

from proxy.commands.words import Keyword
from proxy.wire.request import Request

_MOST_DIGITS = 15


class StatedNumber:
    """A request of ``argc`` arguments that states a number: argument ``number_at``, behind the word ``word_at``.

    It passes if the number is from ``least`` to ``most``, and ``value`` is the number then. Without a word (SETEX has
    none) ``word_at`` is 0. ``factors``, if there are any, vary the number, in turn and within the same bounds.
    """

    def __init__(
        self,
        argc: int,
        word: bytes,
        word_at: int,
        number_at: int,
        least: int,
        most: int,
        factors: "array[float] | None" = None,
    ) -> None:
        if not 0 <= word_at < argc or not 0 < number_at < argc:
            raise ValueError("a request has the arguments that are asked of it")
        self.argc = argc
        self.word = Keyword(word)
        self.word_at = word_at
        self.number_at = number_at
        self.least = least
        self.most = most
        self.factors = array("d") if factors is None else factors
        self.turn = 0
        self.value = 0

    def passes(self, request: Request, data: bytes) -> bool:
        """Whether the request states such a number; one that Redis may read in another way is none."""
        if request.argc != self.argc:
            return False
        if self.word_at and not self.word.stands_at(data, request.starts[self.word_at], request.ends[self.word_at]):
            return False
        i = request.starts[self.number_at]
        end = request.ends[self.number_at]
        if i == end or end - i > _MOST_DIGITS or data[i] == 0x30:
            return False
        value = 0
        while i < end:
            if data[i] < 0x30 or data[i] > 0x39:
                return False
            value = value * 10 + data[i] - 0x30
            i += 1
        self.value = value
        return self.least <= value <= self.most

    def varied(self) -> int:
        """The number that has passed, times the next factor."""
        if len(self.factors) == 0:
            return self.value
        self.turn += 1
        if self.turn >= len(self.factors):
            self.turn = 0
        varied = int(self.value * self.factors[self.turn] + 0.5)
        return max(self.least, 1, min(varied, self.most))


class Appending:
    """Arguments to put behind a command that has exactly ``argc`` of its own; 0 if there is nothing to put there.

    ``said`` is the number that the request states which was ``settled`` last, if it is settled by one.
    """

    def __init__(
        self,
        argc: int,
        added: int,
        suffixes: Sequence[bytes],
        satisfied_by: Sequence[bytes],
        stated: Sequence[StatedNumber] = (),
    ) -> None:
        self.argc = argc
        self.added = added
        self.suffixes = list(suffixes)
        self.satisfied_by = [Keyword(word) for word in satisfied_by]
        self.stated = list(stated)
        self.said: StatedNumber | None = None
        self.turn = 0
        self.header = b"*%d\r\n" % (argc + added)

    def next_suffix(self) -> bytes:
        """The suffixes in turn: the jitter was drawn when the plan was made."""
        self.turn += 1
        if self.turn >= len(self.suffixes):
            self.turn = 0
        return self.suffixes[self.turn]

    def settled(self, request: Request, data: bytes) -> bool:
        """Whether the request says itself what would be put behind it."""
        argc = self.argc
        self.said = None
        if request.argc > argc:
            for word in self.satisfied_by:
                if word.stands_at(data, request.starts[argc], request.ends[argc]):
                    return True
        for stated in self.stated:
            if stated.passes(request, data):
                self.said = stated
                return True
        return False
