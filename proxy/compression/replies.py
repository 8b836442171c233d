"""A reply with its values decompressed, in RESP2 and RESP3.

Errors, nulls and what has another form than the command's own pass as they are: they hold no values. If a value would
become too large, too much is made at once, or its dictionary is missing, the client gets an error in place of the whole
reply; but the reply as it is, if the command has taken the value out of Redis, where nobody could read it again.
"""

from collections.abc import Callable, Sequence

from proxy.commands.compressed_values import ReplyValues
from proxy.compression.budget import PlainBudget, TooMuchError
from proxy.compression.dictionaries import NO_DICTIONARIES, Dictionaries, UnknownDictionaryError
from proxy.compression.frames import MAGIC, TooLargeError
from proxy.wire.encode import encode_error
from proxy.wire.reply import ReplyScanner

MOST_IN_REPLY = 64 << 20
"""The most bytes that are made of the values in one reply."""
_MOST_DIGITS = 18
TOO_LARGE = encode_error(
    "ERR keyrail: a value in this reply is compressed, and decompressed it would be larger than Keyrail makes values "
    "(16 MB, or 1,000 times its size; 64 MB in one reply); read it from Redis directly"
)
TOO_MUCH = encode_error(
    "ERR keyrail: values in this reply are compressed, and more than 256 MB of values are decompressed at once for all "
    "clients together; try again later"
)


def without_dictionary(name: str) -> bytes:
    """The reply in place of a value that was compressed with a dictionary of this name, which is not there."""
    return encode_error(
        f"ERR keyrail: a value in this reply is compressed with the dictionary {name}, which no rule for this key "
        "names; add its file to also_read in the rule"
    )


class PlainReply:
    """Decompresses the values of a reply.

    `version` is that of the values, which may need these `dictionaries`. `form` says where they stand; with `mask`,
    only those of the array's elements that have True in it, which repeats: elements of a long array have the places of
    a short one in turn.
    """

    __slots__ = ("_budget", "_dictionaries", "_form", "_mask", "_takes", "_version", "opening")

    def __init__(
        self,
        form: ReplyValues,
        version: int,
        mask: Sequence[bool] = (True,),
        budget: PlainBudget | None = None,
        *,
        takes: bool = False,
        dictionaries: Dictionaries = NO_DICTIONARIES,
    ) -> None:
        self._budget = PlainBudget() if budget is None else budget
        self._dictionaries = dictionaries
        self._takes = takes
        self._form = form
        self.opening = MAGIC if form is ReplyValues.ONE else b""
        """A string that begins otherwise passes as it is; empty if that is not so."""
        self._version = version
        self._mask = mask

    def passes(self, head: bytes) -> int:
        """Whether a reply that begins so passes as it is, and needs not be collected: 1 if so, 0 if not, and -1 if more
        bytes are needed. `head` has its first line and up to three bytes more."""
        if self._form is not ReplyValues.ONE or not head.startswith(b"$"):
            return 0
        line, _, begun = head.partition(b"\r\n")
        size = line[1:]
        if not size.isdigit() or len(size) > _MOST_DIGITS or int(size) < len(MAGIC):
            return 1  # a null, and what is no reply, hold no value
        return -1 if len(begun) < len(MAGIC) else int(not begun.startswith(MAGIC))

    def __call__(self, frame: bytes) -> bytes:
        """The reply as the client gets it."""
        if MAGIC not in frame or frame.startswith(b"-"):
            return frame
        try:
            reply = _Reply(frame, self._version, self._mask, self._budget, self._dictionaries)
            return reply.plain(self._form)
        except TooLargeError:
            return frame if self._takes else TOO_LARGE
        except TooMuchError:
            return frame if self._takes else TOO_MUCH
        except UnknownDictionaryError as unknown:
            return frame if self._takes else without_dictionary(str(unknown))


class OfPlain:
    """Makes the reply to a command about the bytes of one value from that value: `answer` gets the plain value, or None
    for a key that does not exist, and returns a frame."""

    __slots__ = ("_answer", "_budget", "_dictionaries", "_version")

    def __init__(
        self,
        version: int,
        answer: Callable[[bytes | None], bytes],
        budget: PlainBudget | None = None,
        dictionaries: Dictionaries = NO_DICTIONARIES,
    ) -> None:
        self._version = version
        self._answer = answer
        self._budget = PlainBudget() if budget is None else budget
        self._dictionaries = dictionaries

    def __call__(self, frame: bytes) -> bytes:
        """The reply as the client gets it."""
        if frame.startswith((b"_", b"$-1")):
            return self._answer(None)
        if not frame.startswith(b"$"):
            return frame
        start = frame.index(b"\n") + 1
        value = frame[start:-2]
        if not value.startswith(MAGIC):
            return self._answer(value)
        try:
            return self._answer(self._budget.unpack(value, self._version, self._dictionaries))
        except TooLargeError:
            return TOO_LARGE
        except TooMuchError:
            return TOO_MUCH
        except UnknownDictionaryError as unknown:
            return without_dictionary(str(unknown))


class _Reply:
    """One reply: ``parts`` is what the client gets of it up to ``done``."""

    def __init__(
        self, frame: bytes, version: int, mask: Sequence[bool], budget: PlainBudget, dictionaries: Dictionaries
    ) -> None:
        self.budget = budget
        self.dictionaries = dictionaries
        self.frame = frame
        self.version = version
        self.mask = mask
        self.parts: list[bytes] = []
        self.done = 0
        self.made = 0
        self.scanner = ReplyScanner()

    def plain(self, form: ReplyValues) -> bytes:
        if form is ReplyValues.ONE:
            self._value(0)
        elif form is ReplyValues.ALL:
            self._all(0)
        elif form is ReplyValues.PAIRS:
            self._pairs(0)
        elif self.frame.startswith(b"*2\r\n"):
            self._pairs(self._behind(len(b"*2\r\n")))
        return b"".join((*self.parts, self.frame[self.done :]))

    def _all(self, i: int) -> None:
        kind, count, i = self._line(i)
        if kind == b"$":
            self._value(0)  # HRANDFIELD and others answer one value where no number of them is asked for
        elif kind == b"*":
            for place in range(count):
                i = self._value(i) if self.mask[place % len(self.mask)] else self._behind(i)

    def _pairs(self, i: int) -> None:
        # A flat array, a map, or an array of arrays with two elements.
        kind, count, i = self._line(i)
        if kind not in (b"*", b"%"):
            return
        nested = kind == b"*" and self.frame.startswith(b"*", i)
        for _ in range(count if nested or kind == b"%" else count // 2):
            if nested:
                i = self._line(i)[2]
            i = self._value(self._behind(i))

    def _line(self, i: int) -> tuple[bytes, int, int]:
        end = self.frame.index(b"\r\n", i)
        digits = self.frame[i + 1 : end]
        return self.frame[i : i + 1], int(digits) if digits.isdigit() else 0, end + 2

    def _behind(self, i: int) -> int:
        end: int = self.scanner.whole(self.frame, i, len(self.frame))
        return end

    def _value(self, i: int) -> int:
        # Replace the bulk string at ``i`` by the plain value; the offset behind it.
        if not self.frame.startswith(b"$", i):
            return self._behind(i)
        if self.frame.startswith(b"$-1", i):
            return i + len(b"$-1\r\n")
        _, size, start = self._line(i)
        end = start + size
        if self.frame.startswith(MAGIC, start):
            stored = self.frame[start:end]
            value = self.budget.unpack(stored, self.version, self.dictionaries)
            self.made += len(value)
            if self.made > MOST_IN_REPLY:
                raise TooLargeError
            if value is not stored:
                self.parts += self.frame[self.done : i], b"$%d\r\n" % len(value), value
                self.done = end
        return end + 2
