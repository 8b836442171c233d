"""Replies whose edit takes long: a portion of it in each turn of a worker's event loop, so that others need not wait.

Who gets such a reply keeps its place for it, and is brought it later, in pieces. A connection looks at nothing behind
it meanwhile (``UpstreamPipeline.late``), as if Redis had not sent the rest yet: so all that holds for replies that come
slowly holds for these. New commands of others take another connection.

    a turn         what has waited for this turn, the first one first; what is not done then is long
    every other    a part of the oldest long reply before that
    then           who has waited for a portion, to answer from memory
    then           what comes from Redis in this turn, if something of the portion is left

One long reply is made after the other, or all of them would be in memory together.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Protocol, TypeAlias

from proxy.hotpath.upstream.in_flight import taken

PORTION = 512 << 10
"""The bytes that are made, or moved, in one turn, before the last value: a millisecond or two."""
_SHARE = PORTION // 2
"""What is for replies that have waited for this turn."""
_PIECE = 128 << 10
"""Bytes that leave in one write: to join a reply of 64 MB takes as long as to decompress it."""

Making: TypeAlias = Generator[None, None, list[bytes]]
"""Makes a reply, and yields where the portion of a turn is used up."""


class LateReply(Protocol):
    """A reply that comes later, in its place."""

    def begin_late(self) -> None:
        """Keep its place."""

    def is_long(self) -> None:
        """It takes several turns more."""

    def is_unwanted(self) -> bool:
        """Whether nobody gets it any more."""

    def take_late(self, piece: bytes) -> None:
        """Its next bytes."""

    def end_late(self) -> None:
        """All of it has been taken, or it is unwanted."""

    def fail_late(self) -> None:
        """It cannot be made: close its client."""


class Portions:
    """The portions of one worker. Where nobody has called ``run_by``, as for rules that are only tried, all is made at
    once."""

    __slots__ = ("_asked", "_fault", "_long", "_long_first", "_new", "_soon", "_waiting", "left")

    def __init__(self) -> None:
        self.left = PORTION
        self._asked = False
        self._new: deque[_Unfinished] = deque()
        self._long: deque[_Unfinished] = deque()
        self._long_first = False
        self._waiting: deque[Callable[[], object]] = deque()
        self._soon: Callable[[Callable[[], object]], object] | None = None
        self._fault: Callable[[], object] = _ignore

    def run_by(self, soon: Callable[[Callable[[], object]], object], fault: Callable[[], object]) -> None:
        """``soon`` calls what it gets in the next turn of the event loop; ``fault`` reports the exception that is being
        handled."""
        self._soon = soon
        self._fault = fault

    @property
    def used_up(self) -> bool:
        """Whether more has to wait for the next turn."""
        return self.left <= 0 and self._soon is not None

    def spend(self, size: int) -> None:
        """So many bytes were made in this turn."""
        self.left -= size
        if not self._asked and self._soon is not None:
            self._asked = True
            self._soon(self._turn)

    def wait(self, arrived: Callable[[], object]) -> None:
        """Call ``arrived`` in a turn of which something is left, who has waited longest first: before what comes in it,
        or those who come first in each turn would get all."""
        self._waiting.append(arrived)
        self.spend(0)

    def begin(self, making: Making, reply: LateReply) -> list[bytes] | None:
        """The parts of what is made, if that takes this portion alone. None: then the ``reply`` gets it later."""
        if not self.used_up:
            try:
                next(making)
            except StopIteration as made:
                parts: list[bytes] = made.value
                if self._soon is None or sum(map(len, parts)) <= PORTION:
                    return parts
                making = _made(parts)
        reply.begin_late()
        self._new.append(_Unfinished(making, reply))
        self.spend(0)
        return None

    def _turn(self) -> None:
        self._asked = False
        self.left = _SHARE
        self._long_first = not self._long_first or not self._new
        if self._long and self._long_first and self._is_done(self._long[0]):
            self._long.popleft()
        while self._new and self.left > 0:
            first = self._new.popleft()
            if not self._is_done(first):
                self._long.append(first)
                first.reply.is_long()
        self.left += PORTION - _SHARE
        for _ in range(len(self._waiting)):
            if self.left > 0:
                self._waiting.popleft()()
        if self._new or self._long or self._waiting:
            self.spend(0)

    def _is_done(self, unfinished: "_Unfinished") -> bool:
        try:
            return unfinished.go_on(self)
        except Exception:  # noqa: BLE001 - logged with its traceback; others get their replies
            self._fault()
            unfinished.reply.fail_late()
            return True


class _Unfinished:
    """A reply that is being made or, then, leaves in ``_pieces``."""

    __slots__ = ("_making", "_pieces", "reply")

    def __init__(self, making: Making, reply: LateReply) -> None:
        self.reply = reply
        self._making: Making | None = making
        self._pieces: Iterator[bytes] = iter(())

    def go_on(self, portions: Portions) -> bool:
        """Make and send until the portion is used up; whether it is done."""
        reply = self.reply
        while not reply.is_unwanted():
            if self._making is not None:
                try:
                    next(self._making)
                    return False
                except StopIteration as made:
                    self._pieces = _gathered(made.value)
                    self._making = None
            piece = next(self._pieces, b"")
            if not piece:
                break
            reply.take_late(piece)
            portions.spend(len(piece))
            if portions.used_up:
                return False
        reply.end_late()
        return True


class LateEdit(ABC):
    """An edit of replies that may take several turns, for the action EDIT_SOME."""

    __slots__ = ()
    opening: bytes
    """A string that begins otherwise passes as it is; empty if that is not so."""

    def passes(self, _head: bytes) -> int:
        """Whether a reply that begins so passes as it is, and needs not be collected: 1 if so, 0 if not, and -1 if more
        bytes are needed. `head` has its first line and up to three bytes more."""
        return 0

    @property
    @abstractmethod
    def portions(self) -> Portions:
        """The portions of its worker."""

    @abstractmethod
    def making(self, pieces: list[bytes]) -> Making:
        """Makes the parts of the reply that the client gets. `pieces` are those in which Redis's reply has come, of
        which the first one has its first line."""

    def begin(self, pieces: list[bytes], reply: LateReply) -> list[bytes] | None:
        """The parts of a reply, which is no error, if they can be made now. None: then the `reply` gets them later."""
        return self.portions.begin(self.making(pieces), reply)

    def __call__(self, frame: bytes) -> bytes:
        """The whole reply, at once."""
        making = self.making([frame])
        while True:
            try:
                next(making)
            except StopIteration as made:
                return b"".join(made.value)


def _ignore() -> None:
    """Nothing waits, so nothing fails."""


def _made(parts: list[bytes]) -> Making:
    yield from ()
    return parts


def _gathered(parts: list[bytes]) -> Iterator[bytes]:
    # The same bytes in fewer pieces, none of which is empty. The list lets each part go.
    small: list[bytes] = []
    size = 0
    parts.reverse()
    while parts:
        part = parts.pop()
        if size > 0 and size + len(part) > _PIECE:
            yield taken(small)
            size = 0
        if part:
            small.append(part)
            size += len(part)
    if small:
        yield taken(small)
