"""Which commands make a collection grow, which of their keys it is, and who tells its size.

The commands that write members say so by themselves (``values``); what is listed here are the collections that they
write them to, and the commands that move a member from one key to another.
"""

from typing import NamedTuple

from proxy.commands.command import Command
from proxy.commands.values import ENTRY_OPTIONS, members_of, whole_number
from proxy.commands.words import word_of

_MEASURES = {
    "HLEN": "HSET HMSET HSETNX HSETEX HINCRBY HINCRBYFLOAT HIMPORT|SET",
    "LLEN": "LPUSH RPUSH LPUSHX RPUSHX LINSERT LMOVE RPOPLPUSH BLMOVE BRPOPLPUSH LMOVEM BLMOVEM",
    "SCARD": "SADD SMOVE",
    "ZCARD": "ZADD ZINCRBY GEOADD",
    "XLEN": "XADD",
}
_MEASURE_OF = {name: measure for measure, names in _MEASURES.items() for name in names.split()}
_TO_THE_SECOND = frozenset({"SMOVE", "LMOVE", "RPOPLPUSH", "BLMOVE", "BRPOPLPUSH", "LMOVEM", "BLMOVEM"})
"""They take the member from the first of their keys."""

GROWING = frozenset(_MEASURE_OF)
"""Commands that make a collection grow."""

TOLD = frozenset({"LPUSH", "RPUSH", "LPUSHX", "RPUSHX", "LINSERT"})
"""Those whose reply is the length that the list has now (0 or -1 where nothing was written)."""


class Growth(NamedTuple):
    """A collection that a command makes grow: its key, how to ask for its size, and by how many members at most."""

    key: bytes
    measure: str
    members: int


def growth_of(command: Command) -> Growth | None:
    """What the command makes grow; None where it has not the keys for that."""
    name = command.spec.name
    place = 1 if name in _TO_THE_SECOND else 0
    if name not in _MEASURE_OF or len(command.keys) <= place:
        return None
    # An entry of a stream has fields, but is one.
    members = 1 if name == "XADD" else max(1, members_of(command))
    return Growth(command.keys[place].name, _MEASURE_OF[name], members)


def kept_by_trimming(command: Command) -> int | None:
    """How many entries an XADD leaves in its stream by trimming it; None where it may leave any number.

    ``MAXLEN ~`` trims by whole nodes of the stream, so it leaves some entries more (a hundred where Redis is not
    configured otherwise). With a LIMIT it may never trim: a node that has more entries than that stays.
    """
    if command.spec.name != "XADD":
        return None
    argv, kept, i = command.argv, None, 2
    while i < len(argv):
        word = word_of(argv[i])
        width = ENTRY_OPTIONS.get(word, 0)
        if word in (b"MAXLEN", b"MINID"):
            exact = word_of(b"".join(argv[i + 1 : i + 2])) not in (b"=", b"~")
            width = 2 if exact else 3
            kept = whole_number(b"".join(argv[i + width - 1 : i + width])) if word == b"MAXLEN" else None
        elif word == b"LIMIT" and whole_number(b"".join(argv[i + 1 : i + 2])) != 0:
            return None
        if not width:
            break
        i += width
    return kept if kept is None or kept >= 0 else None


def decided_names() -> frozenset[str]:
    """Every command that this file names: each must exist in the table."""
    return GROWING | _MEASURES.keys()
