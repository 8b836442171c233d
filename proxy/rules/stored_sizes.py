"""What the size of a stored key tells of a limit: the bytes of a string, the members of a collection.

The number of members is known only if they were counted. If they were not, MEMORY USAGE tells most keys that cannot
have more than the limit, since each member takes some bytes at least (``_LEAST``). These are
the fewest in any encoding:

string  a byte for each byte of its value; an integer's 20 digits take less than its object does
list    an element of a listpack has an encoding byte and a byte for its length
set     two bytes in an intset, and in a listpack as above
hash    a field and its value, two bytes each
zset    a member and its score, two bytes each
stream  flags, both parts of the ID, at least a value, and the number of parts: five elements of a listpack

https://github.com/antirez/listpack/blob/master/listpack.md; intset.c and t_stream.c of Redis. Before listpacks, an
entry of a ziplist had two bytes, too. Tables, skip lists and trees take more for each member.

MEMORY USAGE looks at the first nodes of a list or stream (five, without SAMPLES) and takes the others to be as large.
So it may be too small for a list whose first nodes are much emptier than the others, or whose inner nodes are
compressed (``list-compress-depth``): such a list may be over its limit, and is not counted. Of tables it looks at some
members, each of which takes these bytes.

A string has its value in one piece, so what it takes also tells the fewest bytes of its value: APPEND and SETRANGE
make room for as much again, up to 1 MB more (sdsMakeRoomFor), and an allocator rounds up by a quarter at most
(jemalloc: four classes to each doubling).

Of a compressed string, the plain bytes are what counts; its memory tells nothing about them.
"""

from proxy.commands.growth import MEASURED
from proxy.rules.refusals import over
from proxy.rules.stored import Fault, StoredFault, StoredKey

_MEASURES = {"hash": "HLEN", "list": "LLEN", "set": "SCARD", "zset": "ZCARD", "stream": "XLEN"}
COLLECTIONS = frozenset(_MEASURES)
"""The types of collections that have caps, as TYPE names them."""
STRING = "string"
_UNITS = {STRING: "bytes", **{key_type: MEASURED[measure].members for key_type, measure in _MEASURES.items()}}
_LEAST = {STRING: 1, "list": 2, "set": 2, "hash": 4, "zset": 4, "stream": 10}
"""The fewest bytes that each member takes, by type."""


def may_have_over(key: StoredKey, most: int) -> bool:
    """Whether a key may have more members than `most`, or a string more bytes, as far as its memory tells; in that is
    the key's name, too (objectComputeSize and kvstore entries of the engine)."""
    tells = key.memory is not None and key.stored is None
    return not tells or (key.memory or 0) - len(key.name) > most * _LEAST[key.type]


_SPARE = 1 << 20
_ROUNDING = 1.25
_BESIDE_VALUE = 256
"""Bytes of a string's MEMORY USAGE, at most, that are neither its value nor its name: headers and entries of tables."""


def _least_bytes(key: StoredKey) -> int:
    """A string's value has so many bytes at least."""
    known = (key.memory or 0) / _ROUNDING - _BESIDE_VALUE - len(key.name)
    return max(round(known - _SPARE), round(known / 2), 0)


ONE_WRITE = ", counted as one write; APPEND or PFADD may have built it"
"""Strings count with their whole length, as if one write had brought it: nothing tells how they came."""


def size_fault(key: StoredKey, most: int, of_what: str = "") -> StoredFault | None:
    """The fault of a string or a collection that has, or may have, more than `most`; ``of_what`` is added to it."""
    unit = _UNITS[key.type]
    if key.members is not None:
        if key.members <= most:
            return None
        beside = "" if key.stored is None else f" ({key.stored} as stored, compressed)"
        text = f"has {key.members} {unit}{beside}, {over(key.members, most)}{of_what}"
        return StoredFault(Fault.TOO_LARGE, text, by=key.members - most)
    if not may_have_over(key, most):
        return None
    if key.type == STRING and key.stored is None and (least := _least_bytes(key)) > most:
        text = f"takes {key.memory} bytes of memory, so it has over {most} {unit}{of_what}"
        return StoredFault(Fault.TOO_LARGE, text, by=least - most)
    return StoredFault(Fault.TOO_LARGE, f"may have over {most} {unit}{of_what}", sure=False)
