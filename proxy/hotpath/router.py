# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""Which node a request goes to, where a topology has several: the one that owns the slot of its keys.

A client's runs are split where the node changes (see ``intake``). Its replies stay in order by its ``ReplyOrder``.
"""

from array import array
from binascii import crc_hqx
from collections.abc import Sequence

from proxy.commands.keys import KeyFinder
from proxy.commands.slots import SLOTS
from proxy.hotpath.portions import Portions
from proxy.wire.request import Request

# Under two names each: C integers in here, Python's for everybody else.
_KEYLESS = -1
_KEYS_UNTOLD = -2
_SEVERAL_SLOTS = -3
_UNOWNED = -4
KEYLESS = _KEYLESS
"""A request without keys: any node will do, or all of them."""
KEYS_UNTOLD = _KEYS_UNTOLD
"""Nobody can tell which arguments are keys."""
SEVERAL_SLOTS = _SEVERAL_SLOTS
"""Keys of several slots, also of one node's: Redis refuses them in one command."""
UNOWNED = _UNOWNED
"""No node owns the slot."""

_OPEN = 123
_CLOSE = 125


class Router:
    """Nodes by slot: ``owners`` has the number of a node for each slot, or UNOWNED. ``version`` counts its changes.
    In ``portions`` the reads of all clients are divided among the nodes, one after the other."""

    def __init__(self, owners: Sequence[int]) -> None:
        assert len(owners) == SLOTS, "a node for each slot"
        self.owners = array("i", owners)
        self.version = 0
        self.portions = Portions()
        # The same CRC16 as in ``slots``: of each byte, with none, one, two and three zero bytes behind it. So four
        # bytes take one step, as the CRC of a sum (XOR) is the sum of the CRCs.
        zeros = [bytes(count) for count in range(4)]
        self.table = array("H", [crc_hqx(bytes([byte]) + behind, 0) for behind in zeros for byte in range(256)])

    def own(self, first: int, last: int, node: int) -> None:
        """The node owns these slots from now on, both ends included."""
        while first <= last:
            self.owners[first] = node
            first += 1

    def owner(self, slot: int) -> int:
        """The number of the node that owns this slot, or UNOWNED."""
        return self.owners[slot]

    def node(self, command_id: int, request: Request, data: bytes, keys: KeyFinder) -> int:
        """The number of the node for this request, or why there is none."""
        found = keys.find(command_id, request)
        if found <= 0:
            return _KEYLESS if found == 0 else _KEYS_UNTOLD
        slot = -1
        i = 0
        while i < found:
            index = keys.indexes[i]
            other = self.slot(data, request.starts[index], request.ends[index])
            if slot >= 0 and slot != other:
                return _SEVERAL_SLOTS
            slot = other
            i += 1
        return self.owners[slot]

    def slot(self, data: bytes, start: int, end: int) -> int:
        """The slot of the key that stands between the offsets: ``slot_of``, without an object for the key."""
        i = start
        while i < end and data[i] != _OPEN:
            i += 1
        if i < end:
            first = i + 1
            i = first
            while i < end and data[i] != _CLOSE:
                i += 1
            if first < i < end:
                start = first
                end = i
        crc = 0
        while end - start >= 4:
            crc = (
                self.table[768 + ((crc >> 8) ^ data[start])]
                ^ self.table[512 + ((crc & 0xFF) ^ data[start + 1])]
                ^ self.table[256 + data[start + 2]]
                ^ self.table[data[start + 3]]
            )
            start += 4
        while start < end:
            crc = ((crc << 8) & 0xFFFF) ^ self.table[(crc >> 8) ^ data[start]]
            start += 1
        return crc % SLOTS
