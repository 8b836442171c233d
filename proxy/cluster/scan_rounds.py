"""What all kinds of walks by SCAN share: the questions to nodes, the primaries, the options, the reply."""

from collections.abc import Collection, Generator, Sequence
from typing import NamedTuple, TypeAlias

from proxy.cluster.joins import is_error
from proxy.cluster.own_slots import KnownMarks, SlotStanding, Standing, slot_standing, standing
from proxy.cluster.scan_cursor import ScanCursor
from proxy.commands.words import word_of
from proxy.wire.encode import encode_bulk

_NODES = (b"CLUSTER", b"NODES")


class Asked(NamedTuple):
    """A command for one node: its place among the primaries as the walk was given them. ``by_keyrail``: a user who may
    use SCAN need not be allowed it, so Keyrail may ask it as its own user."""

    node: int
    argv: Sequence[bytes]
    by_keyrail: bool = True


Rounds: TypeAlias = Generator[Sequence[Asked], Sequence[bytes], bytes]
"""Yields what is to be asked at once, gets a frame for each, returns the reply to the client."""


class Primaries:
    """The primaries that a walk asks, by their ids, and ``others``, which it does not ask."""

    def __init__(self, ids: Sequence[str], others: Collection[str], known: KnownMarks) -> None:
        self.ids = ids
        self._others = others
        self._known = known

    def know(self, mark: int) -> bool:
        """Whether the mark is known to be one of these primaries."""
        return self._known.are_of(mark, self.ids)

    def standing(self) -> Generator[Sequence[Asked], Sequence[bytes], Standing | bytes]:
        """What all primaries say now; an error of one of them."""
        frames = yield from self.all_of(_NODES)
        if isinstance(frames, bytes):
            return frames
        found = standing(dict(zip(self.ids, frames, strict=True)), self._others)
        self._known.add(found.mark, self.ids)
        return found

    def slot_standing(self, slot: int) -> Generator[Sequence[Asked], Sequence[bytes], SlotStanding | bytes]:
        """What all primaries say of this slot now; an error of one of them."""
        frames = yield from self.all_of(_NODES)
        if isinstance(frames, bytes):
            return frames
        return slot_standing(dict(zip(self.ids, frames, strict=True)), self._others, slot)

    def all_of(self, argv: Sequence[bytes]) -> Generator[Sequence[Asked], Sequence[bytes], Sequence[bytes] | bytes]:
        """The reply of each primary; an error of one of them."""
        frames = yield [Asked(node, argv) for node in range(len(self.ids))]
        return next((frame for frame in frames if is_error(frame)), None) or frames


def option(argv: Sequence[bytes], name: bytes) -> bytes | None:
    """The value of an option; of several, engines take the last one."""
    options = zip(argv[2::2], argv[3::2], strict=False)
    return next((value for word, value in reversed([*options]) if word_of(word) == name), None)


def text_of(frame: bytes) -> bytes:
    """What a bulk string consists of."""
    return frame[frame.index(b"\n") + 1 : -2]


def page(cursor: ScanCursor, keys: Sequence[bytes]) -> bytes:
    """A reply to SCAN; ``keys`` are frames."""
    return b"*2\r\n%b*%d\r\n%b" % (encode_bulk(cursor.encoded()), len(keys), b"".join(keys))
