# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""Which node a request goes to, where a topology has several: the one that owns the slot of its keys.

A client's runs are split where the node changes (see ``intake``). Its replies stay in order by its ``ReplyOrder``.

Keys of a tenant's client have no prefix yet. Where the slot is that of the whole name, its CRC goes on from that of the
prefix, the ``seed``. A prefix has no braces, so a hash tag is the same with it.
"""

from array import array
from binascii import crc_hqx
from collections.abc import Sequence

from proxy.commands.keys import KeyFinder
from proxy.commands.slots import SLOTS
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
_STEP = 8
_BLOCK_BITS = 6
_BLOCK = 1 << _BLOCK_BITS
_MIXED = -9
_LAST_SLOT = SLOTS - 1


class Router:
    """Nodes by slot: ``owners`` has the number of a node for each slot, or UNOWNED. ``version`` counts its changes."""

    def __init__(self, owners: Sequence[int]) -> None:
        assert len(owners) == SLOTS, "a node for each slot"
        self.owners = array("i", owners)
        # The owner of all of so many slots, or MIXED: these few bytes stay in the processor's cache.
        self._blocks = array("i", [_MIXED] * (SLOTS // _BLOCK))
        self._look_at_blocks(0, SLOTS - 1)
        self.version = 0
        # The same CRC16 as in ``slots``: of each byte, with none to seven zero bytes behind it. So eight bytes take one
        # step, as the CRC of a sum (XOR) is the sum of the CRCs.
        zeros = [bytes(count) for count in range(_STEP)]
        self.table = array("H", [crc_hqx(bytes([byte]) + behind, 0) for behind in zeros for byte in range(256)])

    def own(self, first: int, last: int, node: int) -> None:
        """The node owns these slots from now on, both ends included."""
        slot = first
        while slot <= last:
            self.owners[slot] = node
            slot += 1
        self._look_at_blocks(first, last)

    def _look_at_blocks(self, first: int, last: int) -> None:
        block = first >> _BLOCK_BITS
        while block * _BLOCK <= last:
            owner = self.owners[block * _BLOCK]
            slot = block * _BLOCK
            while slot < (block + 1) * _BLOCK:
                if self.owners[slot] != owner:
                    owner = _MIXED
                    break
                slot += 1
            self._blocks[block] = owner
            block += 1

    def owner(self, slot: int) -> int:
        """The number of the node that owns this slot, or UNOWNED."""
        node = self._blocks[slot >> _BLOCK_BITS]
        return node if node != _MIXED else self.owners[slot]

    def node(self, command_id: int, request: Request, data: bytes, keys: KeyFinder) -> int:
        """The number of the node for this request, or why there is none."""
        return self.node_of(keys.find(command_id, request), request, data, keys, 0)

    def node_of(self, found: int, request: Request, data: bytes, keys: KeyFinder, seed: int) -> int:
        """The same for a request whose ``found`` keys ``keys`` holds already, behind a prefix of this ``seed``."""
        if found <= 0:
            return _KEYLESS if found == 0 else _KEYS_UNTOLD
        index = keys.indexes[0]
        slot = self.slot(data, request.starts[index], request.ends[index], seed)
        i = 1
        while i < found:
            index = keys.indexes[i]
            if slot != self.slot(data, request.starts[index], request.ends[index], seed):
                return _SEVERAL_SLOTS
            i += 1
        return self.owner(slot)

    def seed_of(self, prefix: bytes) -> int:
        """The seed of a prefix: its CRC. That of no prefix is 0."""
        return self._crc(prefix, 0, len(prefix), 0)

    def slot(self, data: bytes, start: int, end: int, seed: int) -> int:
        """The slot of the key that stands between the offsets: ``slot_of``, without an object for the key."""
        # Without an end before that of the key, the compiler makes wide comparisons of this loop.
        braces = 0
        i = start
        while i < end:
            braces |= data[i] == 123
            i += 1
        return (self._crc(data, start, end, seed) if braces == 0 else self._tagged(data, start, end, seed)) & _LAST_SLOT

    def _tagged(self, data: bytes, start: int, end: int, seed: int) -> int:
        i = start
        while data[i] != _OPEN:
            i += 1
        first = i + 1
        i = first
        while i < end and data[i] != _CLOSE:
            i += 1
        return self._crc(data, first, i, 0) if first < i < end else self._crc(data, start, end, seed)

    def _crc(self, p: bytes, i: int, end: int, seed: int) -> int:
        crc = seed
        while end - i >= _STEP:
            crc = (
                self.table[1792 + ((crc >> 8) ^ p[i])]
                ^ self.table[1536 + ((crc & 0xFF) ^ p[i + 1])]
                ^ self.table[1280 + p[i + 2]]
                ^ self.table[1024 + p[i + 3]]
                ^ self.table[768 + p[i + 4]]
                ^ self.table[512 + p[i + 5]]
                ^ self.table[256 + p[i + 6]]
                ^ self.table[p[i + 7]]
            )
            i += _STEP
        rest = end - i
        if rest > 1:
            row = 256 * (rest - 1)
            crc = self.table[row + ((crc >> 8) ^ p[i])] ^ self.table[row - 256 + ((crc & 0xFF) ^ p[i + 1])]
            i += 2
            row -= 512
            while i < end:
                crc ^= self.table[row + p[i]]
                row -= 256
                i += 1
        elif rest == 1:
            crc = ((crc << 8) & 0xFFFF) ^ self.table[(crc >> 8) ^ p[i]]
        return crc
