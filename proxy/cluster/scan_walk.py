"""SCAN over all primaries, one after the other.

A client that walks until its cursor is 0 is shown each key that was there all the time, whatever happens to the cluster
meanwhile; some more than once. Three things make that hard: a cursor means nothing on another node, a slot may move
from a node that has not been walked to one that has, and a key of an open slot moves while the slot map stands still.
So the first cursor carries a mark of what all primaries said of their own slots, and at the end all are asked again. If
anything has changed, or was open, the walk begins anew. After three times it goes slot by slot (``scan_by_slots``), so
that it ends.

The place of a node in a cursor means something to those alone who know the same primaries: another Keyrail, or another
worker, may not have heard of a failover yet. So whoever goes on with a walk that it has not begun asks all primaries
first, once for each mark. If they do not say what the mark is made of, the walk begins anew.

GETKEYSINSLOT speaks of database 0 alone: in others a walk that is disturbed begins anew as often as it must.
"""

from collections.abc import Collection, Sequence

from proxy.cluster.joins import elements, is_error
from proxy.cluster.own_slots import KnownMarks
from proxy.cluster.scan_by_slots import BySlots
from proxy.cluster.scan_cursor import MOST_NODES, MOST_OWN, MOST_RESTARTS, ScanCursor, read_cursor
from proxy.cluster.scan_rounds import Asked, Primaries, Rounds, page

_INVALID = b"-ERR invalid cursor\r\n"
_TOO_MANY = b"-ERR keyrail: SCAN can walk no more than %d primaries\r\n" % MOST_NODES
_TOO_LARGE = b"-ERR keyrail: the cursor of a node is too large for a walk over several nodes\r\n"


def scan(
    argv: Sequence[bytes],
    primaries: Sequence[str],
    database: int,
    others: Collection[str] = (),
    *,
    known: KnownMarks,
    most: int | None = None,
) -> Rounds:
    """Answer a SCAN; ``primaries`` are the ids of all primaries with slots, but for ``others``. The policy allows
    ``most`` keys in one page, if it says so.

    An address that stands for some nodes walks these alone, as a node does: whoever walks all addresses while slots
    move between their nodes may miss keys, as with a cluster itself.
    """
    cursor = read_cursor(argv[1])
    if cursor is None:
        return _INVALID
    if len(primaries) > MOST_NODES:
        return _TOO_MANY
    return (yield from _Walk(argv, Primaries(primaries, others, known), database, most).go(cursor))


class _Walk:
    """One step of a walk."""

    def __init__(self, argv: Sequence[bytes], primaries: Primaries, database: int, most: int | None) -> None:
        self.argv = argv
        self._primaries = primaries
        self._most = most
        self.order = sorted(range(len(primaries.ids)), key=lambda number: primaries.ids[number])
        self.by_slots_allowed = database == 0

    def go(self, cursor: ScanCursor) -> Rounds:
        """From this place on."""
        if cursor.restarts == MOST_RESTARTS and self.by_slots_allowed:
            return (yield from BySlots(self.argv, self._primaries, self._most).go(cursor))
        if cursor == ScanCursor():
            found = yield from self._primaries.standing()
            if isinstance(found, bytes):
                return found
            cursor = cursor._replace(mark=found.mark)
        elif not self._primaries.know(cursor.mark):
            found = yield from self._primaries.standing()
            if isinstance(found, bytes):
                return found
            if found.mark != cursor.mark:
                return page(self._restarted(cursor, found.mark), [])
        if cursor.node >= len(self.order):
            return page(self._restarted(cursor), [])
        asked = [self.argv[0], b"%d" % cursor.own, *self.argv[2:]]
        (frame,) = yield [Asked(self.order[cursor.node], asked, by_keyrail=False)]
        if is_error(frame):
            return frame
        own, keys = elements(frame)
        after = int(own[own.index(b"\n") + 1 : -2])
        if after > MOST_OWN:
            return page(self._by_slots_from(cursor), elements(keys)) if self.by_slots_allowed else _TOO_LARGE
        if after:
            return page(cursor._replace(own=after), elements(keys))
        if cursor.node + 1 < len(self.order):
            return page(cursor._replace(node=cursor.node + 1, own=0), elements(keys))
        found = yield from self._primaries.standing()
        if isinstance(found, bytes):
            return found
        ended = found.settled and found.mark == cursor.mark
        return page(ScanCursor() if ended else self._restarted(cursor, found.mark), elements(keys))

    def _restarted(self, cursor: ScanCursor, mark: int | None = None) -> ScanCursor:
        if not self.by_slots_allowed:
            # Never 0: that would be the end.
            return ScanCursor(restarts=1, mark=cursor.mark if mark is None else mark)
        if cursor.restarts + 1 >= MOST_RESTARTS:
            return self._by_slots_from(cursor)
        return ScanCursor(cursor.restarts + 1, mark=cursor.mark if mark is None else mark)

    def _by_slots_from(self, cursor: ScanCursor) -> ScanCursor:
        return ScanCursor(restarts=MOST_RESTARTS, mark=cursor.mark)
