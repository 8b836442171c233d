"""SCAN over all primaries, one after the other.

A client that walks until its cursor is 0 is shown each key that was there all the time, whatever happens to the cluster
meanwhile; some more than once. Three things make that hard: a cursor means nothing on another node, a slot may move
from a node that has not been walked to one that has, and a key of an open slot moves while the slot map stands still.
So the first cursor carries a mark of what all primaries said of their own slots, and at the end all are asked again. If
anything has changed, or was open, the walk begins anew. After three times it goes slot by slot, by all primaries at
once, which no change can disturb, so that it ends.

GETKEYSINSLOT speaks of database 0 alone: in others a walk that is disturbed begins anew as often as it must.
"""

from collections.abc import Collection, Generator, Sequence
from typing import NamedTuple, TypeAlias

from proxy.cluster.joins import elements, is_error, number
from proxy.cluster.key_pattern import KeyPattern
from proxy.cluster.own_slots import Standing, standing
from proxy.cluster.scan_cursor import MOST_NODES, MOST_OWN, MOST_RESTARTS, ScanCursor, read_cursor
from proxy.commands.slots import SLOTS
from proxy.commands.words import word_of
from proxy.wire.encode import encode_bulk
from proxy.wire.numbers import read_digits

SLOTS_AT_ONCE = 64
_TYPES_AT_ONCE = 1000
MOST_KEYS = 250_000
"""Of one page that goes by slots."""
_INVALID = b"-ERR invalid cursor\r\n"
_TOO_MANY = b"-ERR keyrail: SCAN can walk no more than %d primaries\r\n" % MOST_NODES
_TOO_MANY_KEYS = b"-ERR keyrail: slot %d has over %d keys, too many for SCAN while slots move: begin anew later\r\n"
_TOO_LARGE = b"-ERR keyrail: the cursor of a node is too large for a walk over several nodes\r\n"
_NODES = (b"CLUSTER", b"NODES")


class Asked(NamedTuple):
    """A command for one node: its place among the primaries as the walk was given them. ``by_keyrail``: a user who may
    use SCAN need not be allowed it, so Keyrail may ask it as its own user."""

    node: int
    argv: Sequence[bytes]
    by_keyrail: bool = True


Rounds: TypeAlias = Generator[Sequence[Asked], Sequence[bytes], bytes]
"""Yields what is to be asked at once, gets a frame for each, returns the reply to the client."""


def scan(argv: Sequence[bytes], primaries: Sequence[str], database: int, others: Collection[str] = ()) -> Rounds:
    """Answer a SCAN; ``primaries`` are the ids of all primaries with slots, but for ``others``.

    An address that stands for some nodes walks these alone, as a node does: whoever walks all addresses while slots
    move between their nodes may miss keys, as with a cluster itself.
    """
    cursor = read_cursor(argv[1])
    if cursor is None:
        return _INVALID
    if len(primaries) > MOST_NODES:
        return _TOO_MANY
    return (yield from _Walk(argv, primaries, database, others).go(cursor))


class _Walk:
    """One step of a walk."""

    def __init__(self, argv: Sequence[bytes], primaries: Sequence[str], database: int, others: Collection[str]) -> None:
        self.argv = argv
        self.ids = primaries
        self.others = others
        self.order = sorted(range(len(primaries)), key=lambda number: primaries[number])
        self.by_slots_allowed = database == 0

    def go(self, cursor: ScanCursor) -> Rounds:
        """From this place on."""
        if cursor.restarts == MOST_RESTARTS and self.by_slots_allowed:
            return (yield from self._by_slots(cursor))
        if cursor == ScanCursor():
            found = yield from self._standing()
            if isinstance(found, bytes):
                return found
            cursor = cursor._replace(mark=found.mark)
        if cursor.node >= len(self.order):
            return _page(self._restarted(cursor), [])
        asked = [self.argv[0], b"%d" % cursor.own, *self.argv[2:]]
        (frame,) = yield [Asked(self.order[cursor.node], asked, by_keyrail=False)]
        if is_error(frame):
            return frame
        own, keys = elements(frame)
        after = int(own[own.index(b"\n") + 1 : -2])
        if after > MOST_OWN:
            return _page(self._by_slots_from(cursor), elements(keys)) if self.by_slots_allowed else _TOO_LARGE
        if after:
            return _page(cursor._replace(own=after), elements(keys))
        if cursor.node + 1 < len(self.order):
            return _page(cursor._replace(node=cursor.node + 1, own=0), elements(keys))
        found = yield from self._standing()
        if isinstance(found, bytes):
            return found
        ended = found.settled and found.mark == cursor.mark
        return _page(ScanCursor() if ended else self._restarted(cursor, found.mark), elements(keys))

    def _standing(self) -> Generator[Sequence[Asked], Sequence[bytes], Standing | bytes]:
        # What all primaries say now; an error of one of them.
        frames = yield [Asked(node, _NODES) for node in range(len(self.ids))]
        error = next((frame for frame in frames if is_error(frame)), None)
        return standing(dict(zip(self.ids, frames, strict=True)), self.others) if error is None else error

    def _restarted(self, cursor: ScanCursor, mark: int | None = None) -> ScanCursor:
        if not self.by_slots_allowed:
            # Never 0: that would be the end.
            return ScanCursor(restarts=1, mark=cursor.mark if mark is None else mark)
        if cursor.restarts + 1 >= MOST_RESTARTS:
            return self._by_slots_from(cursor)
        return ScanCursor(cursor.restarts + 1, mark=cursor.mark if mark is None else mark)

    def _by_slots_from(self, cursor: ScanCursor) -> ScanCursor:
        return ScanCursor(restarts=MOST_RESTARTS, mark=cursor.mark)

    # Slot by slot

    def _by_slots(self, cursor: ScanCursor) -> Rounds:
        first = cursor.own
        if first >= SLOTS:
            return _page(ScanCursor(), [])
        # Anybody can send such a cursor: Redis says whether this client's user may use SCAN at all, and with these
        # options.
        (allowed,) = yield [Asked(0, (b"SCAN", b"0", *self.argv[2:], b"COUNT", b"1"), by_keyrail=False)]
        if is_error(allowed):
            return allowed
        behind = yield from self._end_of_page(first)
        if isinstance(behind, bytes):
            return behind
        slots = range(first, behind)
        asked = [self._in_slot(node, b"GETKEYSINSLOT", slot) for slot in slots for node in range(len(self.ids))]
        # Twice: a key that moved from one node, before that was asked, to another one, after that was asked.
        found: dict[bytes, None] = {}
        for _ in range(2):
            frames = yield asked
            for frame in frames:
                if is_error(frame):
                    return frame
                found.update(dict.fromkeys(elements(frame)))
        if len(found) > MOST_KEYS:
            return _TOO_MANY_KEYS % (first, MOST_KEYS)
        pattern = self._option(b"MATCH")
        matching = None if pattern is None else KeyPattern(pattern)
        keys = yield from self._of_type([key for key in found if matching is None or matching.fits(_text(key))])
        return _page(cursor._replace(own=behind) if behind < SLOTS else ScanCursor(), keys)

    def _in_slot(self, node: int, question: bytes, slot: int) -> Asked:
        limit = (b"%d" % (MOST_KEYS + 1),) if question == b"GETKEYSINSLOT" else ()
        return Asked(node, (b"CLUSTER", question, b"%d" % slot, *limit))

    def _end_of_page(self, first: int) -> Generator[Sequence[Asked], Sequence[bytes], int | bytes]:
        # Whole slots, as many as have the number of keys that the client asks for; an error of a node.
        slots = range(first, min(first + SLOTS_AT_ONCE, SLOTS))
        width = len(self.ids)
        frames = yield [self._in_slot(node, b"COUNTKEYSINSLOT", slot) for slot in slots for node in range(width)]
        wanted, keys = read_digits((self._option(b"COUNT") or b"10").decode("ascii", "replace")) or 1, 0
        for index, slot in enumerate(slots):
            counts = frames[index * width : (index + 1) * width]
            error = next((frame for frame in counts if is_error(frame)), None)
            if error is not None:
                return error
            keys += sum(map(number, counts))
            if keys > MOST_KEYS and slot > first:
                return slot
            if keys >= wanted:
                return slot + 1
        return slots.stop

    def _option(self, name: bytes) -> bytes | None:
        # Of several, engines take the last one.
        options = zip(self.argv[2::2], self.argv[3::2], strict=False)
        return next((value for word, value in reversed([*options]) if word_of(word) == name), None)

    def _of_type(self, keys: list[bytes]) -> Generator[Sequence[Asked], Sequence[bytes], list[bytes]]:
        wanted = self._option(b"TYPE")
        if wanted is None or not keys:
            return keys
        width, fitting = len(self.ids), []
        for first in range(0, len(keys), _TYPES_AT_ONCE):
            some = keys[first : first + _TYPES_AT_ONCE]
            frames = yield [Asked(node, (b"TYPE", _text(key))) for key in some for node in range(width)]
            told = [frames[index * width : (index + 1) * width] for index in range(len(some))]
            fitting += [key for key, types in zip(some, told, strict=True) if _may_be(types, wanted.lower())]
        return fitting


def _may_be(types: Sequence[bytes], wanted: bytes) -> bool:
    # All nodes but one say MOVED. Where none of them tells, the key is shown: none may be missed.
    known = [frame[1:-2].lower() for frame in types if frame.startswith(b"+") and frame != b"+none\r\n"]
    return not known or wanted in known


def _text(frame: bytes) -> bytes:
    return frame[frame.index(b"\n") + 1 : -2]


def _page(cursor: ScanCursor, keys: Sequence[bytes]) -> bytes:
    return b"*2\r\n%b*%d\r\n%b" % (encode_bulk(cursor.encoded()), len(keys), b"".join(keys))
