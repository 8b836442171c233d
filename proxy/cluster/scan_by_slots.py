"""The part of a walk by SCAN that goes slot by slot, by all primaries at once, which no change can disturb.

Anybody can send a cursor that leads here. So whatever it says, a page asks for no more slots, keys and types than COUNT
stands for, and a slot with more keys than that goes on by the cursors of its nodes, which have their own COUNT:
Valkey's lead through one slot. Redis has no such cursors. There a slot is one page, with as many keys as the policy
allows in one, or else ``MOST_KEYS``; more are an error.

Inside a slot, the nodes are walked one after the other, first the slot's owner, then those that import it: a key moves
in this direction alone while they say the same of the slot. When they say something else, the slot begins anew.
"""

import re
from collections.abc import Generator, Sequence

from proxy.cluster.joins import elements, is_error, number
from proxy.cluster.key_pattern import LONGEST, KeyPattern
from proxy.cluster.scan_cursor import MOST_OWN, ScanCursor
from proxy.cluster.scan_rounds import Asked, Primaries, Rounds, option, page, text_of
from proxy.commands.slots import SLOTS, slot_of
from proxy.wire.numbers import read_digits

MOST_KEYS = 250_000
"""Of one page, where no policy says less."""
_SLOTS_AT_ONCE = 64
_SLOTS_PER_KEY = 10
"""As an engine visits so many places of its table for each key that COUNT asks for."""
_KEYS_AT_ONCE = 10_000
_TYPES_AT_ONCE = 1000
_MOST_WORK = 200_000_000
"""Steps of matching for one page: about 0.2 s."""
_COUNT = 10
_SLOT_BITS = 14
_INFO = (b"INFO", b"server")
_VALKEY = re.compile(rb"^valkey_version:(\d+)\.", re.MULTILINE)
_WITH_SLOT_CURSORS = 8
_TOO_MANY_KEYS = (
    b"-ERR keyrail: slot %d has %d keys, more than the %d that one page of SCAN may have: "
    b"begin anew when no slots move, or raise the limit of the policy\r\n"
)
_TOO_LARGE = b"-ERR keyrail: the cursor of a node is too large for a walk over several nodes\r\n"
_TOO_LONG = b"-ERR keyrail: a pattern of %d bytes is too long for SCAN while slots move: at most %d\r\n"
_TOO_MUCH_WORK = b"-ERR keyrail: matching this pattern with keys this long takes too much time while slots move\r\n"
_NOT_COMPLETE = b"-CLUSTERDOWN keyrail: a primary with slots cannot be asked now: try again\r\n"


class BySlots:
    """One page. ``most`` is how many keys the policy allows in one; None: it does not say."""

    def __init__(self, argv: Sequence[bytes], primaries: Primaries, most: int | None) -> None:
        self._argv = argv
        self._primaries = primaries
        self._width = len(primaries.ids)
        asked = read_digits((option(argv, b"COUNT") or b"%d" % _COUNT).decode("ascii", "replace")) or 1
        self._wanted = min(asked, _KEYS_AT_ONCE, _KEYS_AT_ONCE if most is None else most)
        self._most = max(self._wanted, min(MOST_KEYS, MOST_KEYS if most is None else most))

    def go(self, cursor: ScanCursor) -> Rounds:
        """From this place on."""
        if cursor.own >= SLOTS or cursor.node:
            return (yield from self._inside(cursor))
        # Redis says whether this client's user may use SCAN at all, and with these options.
        (allowed,) = yield [Asked(0, (b"SCAN", b"0", *self._argv[2:], b"COUNT", b"1"), by_keyrail=False)]
        if is_error(allowed):
            return allowed
        counted = yield from self._count(cursor.own)
        if isinstance(counted, bytes):
            return counted
        slots, keys = counted
        if keys > self._wanted:
            led = yield from self._have_slot_cursors()
            if isinstance(led, bytes):
                return led
            if led:
                return (yield from self._inside(cursor))
        if keys > self._most:
            return _TOO_MANY_KEYS % (slots.start, keys, self._most)
        return (yield from self._whole(cursor, slots))

    def _count(self, first: int) -> Generator[Sequence[Asked], Sequence[bytes], tuple[range, int] | bytes]:
        # As many slots as have the number of keys that the client asks for, at least one, and their keys; an error.
        slots = range(first, min(first + min(_SLOTS_AT_ONCE, _SLOTS_PER_KEY * self._wanted), SLOTS))
        frames = yield [self._about(node, b"COUNTKEYSINSLOT", slot) for slot in slots for node in range(self._width)]
        error = next((frame for frame in frames if is_error(frame)), None)
        if error is not None:
            return error
        keys = 0
        for index, slot in enumerate(slots):
            more = sum(map(number, frames[index * self._width : (index + 1) * self._width]))
            if slot > first and keys + more > self._wanted:
                return range(first, slot), keys
            keys += more
        return slots, keys

    def _about(self, node: int, question: bytes, slot: int, *limit: bytes) -> Asked:
        return Asked(node, (b"CLUSTER", question, b"%d" % slot, *limit))

    # Whole slots

    def _whole(self, cursor: ScanCursor, slots: range) -> Rounds:
        # Twice: a key that moved from one node, before that was asked, to another one, after that was asked.
        limit = b"%d" % (self._most + 1)
        questions = [self._about(node, b"GETKEYSINSLOT", slot, limit) for slot in slots for node in range(self._width)]
        found: list[dict[bytes, None]] = [{} for _ in slots]
        for _ in range(2):
            frames = yield questions
            for index, frame in enumerate(frames):
                if is_error(frame):
                    return frame
                found[index // self._width].update(dict.fromkeys(elements(frame)))
        now = yield from self._primaries.standing()
        if isinstance(now, bytes):
            return now
        if not now.complete:
            return _NOT_COMPLETE
        # Those that have got keys since they were counted wait for the next page.
        behind, keys = slots.start, list[bytes]()
        for slot, theirs in zip(slots, found, strict=True):
            if len(keys) + len(theirs) > self._most:
                break
            keys += theirs
            behind = slot + 1
        matching = self._matching(keys)
        if isinstance(matching, bytes):
            return matching
        shown = yield from self._of_type(matching)
        return page(self._at(cursor, behind), shown)

    def _at(self, cursor: ScanCursor, slot: int) -> ScanCursor:
        return ScanCursor(cursor.restarts, own=slot) if slot < SLOTS else ScanCursor()

    def _matching(self, keys: list[bytes]) -> list[bytes] | bytes:
        text = option(self._argv, b"MATCH")
        if text is None:
            return keys
        if len(text) > LONGEST:
            return _TOO_LONG % (len(text), LONGEST)
        pattern, work, fitting = KeyPattern(text), 0, []
        for key in keys:
            name = text_of(key)
            work += pattern.work(name)
            if work > _MOST_WORK:
                return _TOO_MUCH_WORK
            if pattern.fits(name):
                fitting.append(key)
        return fitting

    def _of_type(self, keys: list[bytes]) -> Generator[Sequence[Asked], Sequence[bytes], list[bytes]]:
        wanted = option(self._argv, b"TYPE")
        if wanted is None or not keys:
            return keys
        width, fitting = self._width, []
        for first in range(0, len(keys), _TYPES_AT_ONCE):
            some = keys[first : first + _TYPES_AT_ONCE]
            frames = yield [Asked(node, (b"TYPE", text_of(key))) for key in some for node in range(width)]
            told = [frames[index * width : (index + 1) * width] for index in range(len(some))]
            fitting += [key for key, types in zip(some, told, strict=True) if _may_be(types, wanted.lower())]
        return fitting

    # Inside a slot

    def _have_slot_cursors(self) -> Generator[Sequence[Asked], Sequence[bytes], bool | bytes]:
        frames = yield [Asked(node, _INFO) for node in range(self._width)]
        versions = [_VALKEY.search(frame) for frame in frames]
        return all(found is not None and int(found[1]) >= _WITH_SLOT_CURSORS for found in versions)

    def _inside(self, cursor: ScanCursor) -> Rounds:
        slot = cursor.own & (SLOTS - 1)
        now = yield from self._primaries.slot_standing(slot)
        if isinstance(now, bytes):
            return now
        if not now.complete:
            return _NOT_COMPLETE
        begins = cursor.own < SLOTS and not cursor.node
        if not begins and (now.mark != cursor.mark or cursor.node >= self._width):
            return page(self._at(cursor, slot), [])
        node = self._primaries.ids.index(now.order[cursor.node])
        (frame,) = yield [Asked(node, (self._argv[0], b"%d" % cursor.own, *self._argv[2:]), by_keyrail=False)]
        if is_error(frame):
            return frame
        own, found = elements(frame)
        after = int(text_of(own))
        # Behind the last key of a slot, a node goes on with its next one.
        keys = [key for key in elements(found) if slot_of(text_of(key)) == slot]
        if after >= SLOTS and after & (SLOTS - 1) == slot:
            if after > MOST_OWN:
                return _TOO_LARGE
            return page(cursor._replace(mark=now.mark, own=after), keys)
        if cursor.node + 1 < self._width:
            return page(cursor._replace(mark=now.mark, own=slot, node=cursor.node + 1), keys)
        then = yield from self._primaries.slot_standing(slot)
        if isinstance(then, bytes):
            return then
        ended = then.complete and then.mark == now.mark
        return page(self._at(cursor, slot + ended), keys)


def _may_be(types: Sequence[bytes], wanted: bytes) -> bool:
    # All nodes but one say MOVED. Where none of them tells, the key is shown: none may be missed.
    known = [frame[1:-2].lower() for frame in types if frame.startswith(b"+") and frame != b"+none\r\n"]
    return not known or wanted in known
