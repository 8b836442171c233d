"""The cursor of a SCAN over several nodes: all that is needed to go on stands in the number, so any Keyrail can.

    bits 0, 1     how often the walk has begun anew; 3: it goes by slots
    bits 2…11     the place of the node among the primaries, ordered by id
    bits 12…27    the mark of the slots, owners and epochs as they were when the walk began
    bits 28…63    the node's own cursor; the next slot where the walk goes by slots

A node's own cursor has as many bits as its hash table (Valkey: 14 more for the slot), so up to 2^25 the whole stays
below 2^53, which JavaScript can hold; clients that round larger numbers lose their place with direct connections, too.
"""

from typing import NamedTuple

_RESTART_BITS = 2
_NODE_BITS = 10
_MARK_BITS = 16
_OWN_SHIFT = _RESTART_BITS + _NODE_BITS + _MARK_BITS
_LARGEST = 2**64 - 1
MOST_RESTARTS = (1 << _RESTART_BITS) - 1
MOST_NODES = 1 << _NODE_BITS
MOST_OWN = _LARGEST >> _OWN_SHIFT
"""The largest cursor of a node that fits."""
_MOST_DIGITS = 20


class ScanCursor(NamedTuple):
    """Where a walk is. All of it 0 is its beginning; no later place is."""

    restarts: int = 0
    node: int = 0
    mark: int = 0
    own: int = 0

    def encoded(self) -> bytes:
        """The number that the client gets."""
        number = self.own
        for value, bits in ((self.mark, _MARK_BITS), (self.node, _NODE_BITS), (self.restarts, _RESTART_BITS)):
            number = number << bits | value
        return b"%d" % number


def read_cursor(text: bytes) -> ScanCursor | None:
    """The place that a client names; None where that is no cursor."""
    if not text.isdigit() or len(text) > _MOST_DIGITS or int(text) > _LARGEST:
        return None
    number = int(text)
    restarts = number & MOST_RESTARTS
    node = (number >> _RESTART_BITS) & (MOST_NODES - 1)
    mark = (number >> (_RESTART_BITS + _NODE_BITS)) & ((1 << _MARK_BITS) - 1)
    return ScanCursor(restarts, node, mark, number >> _OWN_SHIFT)
