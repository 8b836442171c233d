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
from proxy.compression.making import MakingReply
from proxy.hotpath.upstream.late_replies import LateEdit, LateReply, Making, Portions
from proxy.wire.encode import encode_error

_MOST_DIGITS = 18
_SHORT = 64 << 10
"""A reply of so many bytes is looked through at once."""
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


class PlainReply(LateEdit):
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
        self._version = version
        self._mask = mask

    def passes(self, head: bytes) -> int:
        """See ``LateEdit``: a long plain value passes as it comes."""
        if self._form is not ReplyValues.ONE or not head.startswith(b"$"):
            return 0
        line, _, begun = head.partition(b"\r\n")
        size = line[1:]
        if not size.isdigit() or len(size) > _MOST_DIGITS or int(size) < len(MAGIC):
            return 1  # a null, and what is no reply, hold no value
        return -1 if len(begun) < len(MAGIC) else int(not begun.startswith(MAGIC))

    @property
    def portions(self) -> Portions:
        """Those of its worker."""
        return self._budget.portions

    def begin(self, pieces: list[bytes], reply: LateReply) -> list[bytes] | None:
        """See ``LateEdit``: what has no compressed value takes no time."""
        first = pieces[0]
        if len(pieces) == 1 and len(first) <= _SHORT and MAGIC not in first:
            return pieces
        return self.portions.begin(self.making(pieces), reply)

    def making(self, pieces: list[bytes]) -> Making:
        """Decompress them."""
        if pieces[0].startswith(b"-"):
            return pieces
        reply = MakingReply(pieces, self._version, self._mask, self._budget, self._dictionaries)
        try:
            return (yield from reply.steps(self._form))
        except TooLargeError:
            error = TOO_LARGE
        except TooMuchError:
            error = TOO_MUCH
        except UnknownDictionaryError as unknown:
            error = without_dictionary(str(unknown))
        return pieces if self._takes else [error]


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
