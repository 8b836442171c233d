"""The size of the value in a payload of RESTORE, by its headers: how many bytes, and how many members.

A payload is a value in the format of RDB files (``rdb.c``): a type, the value, and ten bytes of version and checksum.
Strings in it may be compressed; the header of a string has its uncompressed length. A small collection is one string.
Keyrail uncompresses only the first bytes of such a string: they hold the number of members, which Redis trusts, too.

Some payloads cannot be read in this way: types of modules and of later engines, a streamed payload, or one with very
many parts. They count as the most that their length can hold. Compression (LZF) makes at most 264 bytes of 3.
"""

from enum import StrEnum
from typing import NamedTuple

_EXPANDS = 88
_MOST_PARTS = 20_000
"""The most strings of a payload that Keyrail reads."""
_LZF = 3
_MOST_DIGITS = 11
"""The length of a number of four bytes as text, with its sign."""
_HEAD = 16
"""The first bytes of a collection that is one string: enough for the number of its members."""
_MANY = 0xFFFF
"""The number that a listpack or a ziplist has if it does not know the number of its members."""
_MANY_IN_ZIPMAP = 254


class PayloadKind(StrEnum):
    """The kinds of values in payloads that have different caps."""

    STRING = "string"
    COLLECTION = "collection"
    STREAM = "stream"
    UNKNOWN = "unknown"


class Unpacked(NamedTuple):
    """The most bytes and members of the value in a payload; of a stream, its entries."""

    kind: PayloadKind
    bytes: int
    members: int


_PARTS_OF_MEMBER = {1: 1, 2: 1, 3: 2, 4: 2, 5: 2}
"""Types that list their members: list, set, sorted set (scores as text), hash, sorted set (scores of eight bytes)."""
_OLD_SORTED_SET, _SORTED_SET = 3, 5
_ZIPMAP, _INTSET = 9, 11
_ZIPLISTS = {10: 1, 12: 2, 13: 2}
_LISTPACKS = {16: 2, 17: 2, 20: 1}
"""Types that are one string, and how many of its elements each member takes."""
_ZIPLIST_NODES, _NODES = 14, 18
_STREAMS = frozenset({15, 19, 21})
_PLAIN = 1


class _UnreadablePayloadError(Exception):
    """The payload contradicts its headers, or has more parts than Keyrail reads."""


def unpacked(payload: bytes, length: int) -> Unpacked:
    """The size of the value in a payload of `length` bytes; `payload` is all of it, or its beginning."""
    most = length * _EXPANDS
    if length == len(payload):
        try:
            return _Reader(payload).read()
        except (_UnreadablePayloadError, IndexError):
            pass
    return Unpacked(PayloadKind.UNKNOWN, most, most)


class _Part(NamedTuple):
    """One string: the offsets of its (compressed) bytes, and its uncompressed length."""

    start: int
    end: int
    length: int
    packed: bool


class _Reader:
    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self._position = 1
        self._parts = 0

    def read(self) -> Unpacked:
        kind = self._payload[0]
        if kind == 0:
            return Unpacked(PayloadKind.STRING, self._part().length, 0)
        if kind in _PARTS_OF_MEMBER:
            return self._listed(kind)
        if kind in (_ZIPLIST_NODES, _NODES):
            return self._in_nodes(kind)
        if kind in _STREAMS:
            return self._stream()
        if kind in (_ZIPMAP, _INTSET) or kind in _ZIPLISTS or kind in _LISTPACKS:
            part = self._part()
            return Unpacked(PayloadKind.COLLECTION, part.length, self._counted(kind, part))
        raise _UnreadablePayloadError

    def _listed(self, kind: int) -> Unpacked:
        members = self._length()
        size = 0
        try:
            for _ in range(members):
                size += self._part().length
                if kind == _SORTED_SET:
                    self._position += 8
                elif kind == _OLD_SORTED_SET:
                    score = self._byte()
                    self._position += score if score < 253 else 0
                elif _PARTS_OF_MEMBER[kind] == 2:
                    size += self._part().length
        except (_UnreadablePayloadError, IndexError):
            size = len(self._payload) * _EXPANDS
        return Unpacked(PayloadKind.COLLECTION, size, members)

    def _in_nodes(self, kind: int) -> Unpacked:
        members = size = 0
        for _ in range(self._length()):
            plain = kind == _NODES and self._length() == _PLAIN
            part = self._part()
            size += part.length
            members += 1 if plain else self._elements(part, ziplist=kind == _ZIPLIST_NODES)
        return Unpacked(PayloadKind.COLLECTION, size, members)

    def _stream(self) -> Unpacked:
        size = 0
        for _ in range(self._length()):
            size += self._part().length + self._part().length
        entries = self._length()
        behind = len(self._payload) - self._position
        return Unpacked(PayloadKind.STREAM, size + behind * _EXPANDS, entries)

    def _counted(self, kind: int, part: _Part) -> int:
        if kind == _INTSET:
            return int.from_bytes(self._head(part)[4:8], "little")
        if kind == _ZIPMAP:
            count = self._head(part)[0]
            return count if count < _MANY_IN_ZIPMAP else part.length
        if kind in _ZIPLISTS:
            return self._elements(part, ziplist=True) // _ZIPLISTS[kind]
        return self._elements(part, ziplist=False) // _LISTPACKS[kind]

    def _elements(self, part: _Part, *, ziplist: bool) -> int:
        head = self._head(part)
        count = int.from_bytes(head[8:10] if ziplist else head[4:6], "little")
        return count if count < _MANY else part.length

    def _head(self, part: _Part) -> bytes:
        packed = self._payload[part.start : part.end]
        return _unpacked_head(packed) if part.packed else packed[:_HEAD]

    # Lengths and strings

    def _byte(self) -> int:
        self._position += 1
        return self._payload[self._position - 1]

    def _number(self, size: int) -> int:
        self._position += size
        if self._position > len(self._payload):
            raise _UnreadablePayloadError
        return int.from_bytes(self._payload[self._position - size : self._position], "big")

    def _length(self) -> int:
        first = self._byte()
        if first >> 6 == 3:
            raise _UnreadablePayloadError
        return self._rest_of_length(first)

    def _rest_of_length(self, first: int) -> int:
        if first >> 6 == 0:
            return first
        if first >> 6 == 1:
            return (first & 63) << 8 | self._byte()
        return self._number(4 if first == 0x80 else 8)

    def _part(self) -> _Part:
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise _UnreadablePayloadError
        first = self._byte()
        packed = first >> 6 == 3
        if packed and first & 63 < _LZF:
            # A number of one, two or four bytes.
            size, length, packed = 1 << (first & 63), _MOST_DIGITS, False
        elif packed:
            size, length = self._length(), self._length()
        else:
            size = length = self._rest_of_length(first)
        start = self._position
        self._position += size
        if self._position > len(self._payload):
            raise _UnreadablePayloadError
        return _Part(start, self._position, length, packed)


def _unpacked_head(packed: bytes) -> bytes:
    """The first bytes of a string that LZF has compressed."""
    made = bytearray()
    i = 0
    while i < len(packed) and len(made) < _HEAD:
        control = packed[i]
        i += 1
        if control < 32:
            made += packed[i : i + control + 1]
            i += control + 1
            continue
        length = control >> 5
        if length == 7:
            length += packed[i]
            i += 1
        place = len(made) - ((control & 31) << 8) - packed[i] - 1
        i += 1
        if place < 0:
            raise _UnreadablePayloadError
        for _ in range(length + 2):
            made.append(made[place])
            place += 1
    return bytes(made)
