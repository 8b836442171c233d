"""Reads of whole collections: which commands, the keys whose sizes tell what they cost, and who tells those sizes."""

from typing import NamedTuple

from proxy.commands.command import Command
from proxy.commands.spans import ENDLESS, elements_asked


class Whole(NamedTuple):
    """A command that works on whole collections.

    One of ``measures`` tells the size of each (an operation on sorted sets takes plain sets too). Of several, an
    intersection costs what the ``smallest`` has, anything else the sum. Where ``spans``, it is about the whole only
    when its arguments name no end. ``instead`` is advice.
    """

    measures: tuple[str, ...]
    instead: str
    smallest: bool = False
    spans: bool = False


_FIELDS = "walk it with HSCAN, or read the fields that you need with HMGET"
_MEMBERS = "walk it with SSCAN, or ask for members with SMISMEMBER"
_SETS = "keep the sets small, or combine them where they are written"
_SORTED = "keep the sorted sets small, or combine them where they are written"
_RANKS = "ask for a part of it: so many ranks, or LIMIT"

WHOLES: dict[str, Whole] = {
    "HGETALL": Whole(("HLEN",), _FIELDS),
    "HKEYS": Whole(("HLEN",), _FIELDS),
    "HVALS": Whole(("HLEN",), _FIELDS),
    "SMEMBERS": Whole(("SCARD",), _MEMBERS),
    "SINTER": Whole(("SCARD",), _SETS, smallest=True),
    "SUNION": Whole(("SCARD",), _SETS),
    "SDIFF": Whole(("SCARD",), _SETS),
    "SINTERSTORE": Whole(("SCARD",), _SETS, smallest=True),
    "SUNIONSTORE": Whole(("SCARD",), _SETS),
    "SDIFFSTORE": Whole(("SCARD",), _SETS),
    "SINTERCARD": Whole(("SCARD",), _SETS, smallest=True),
    "ZINTER": Whole(("ZCARD", "SCARD"), _SORTED, smallest=True),
    "ZUNION": Whole(("ZCARD", "SCARD"), _SORTED),
    "ZDIFF": Whole(("ZCARD", "SCARD"), _SORTED),
    "ZINTERSTORE": Whole(("ZCARD", "SCARD"), _SORTED, smallest=True),
    "ZUNIONSTORE": Whole(("ZCARD", "SCARD"), _SORTED),
    "ZDIFFSTORE": Whole(("ZCARD", "SCARD"), _SORTED),
    "ZINTERCARD": Whole(("ZCARD", "SCARD"), _SORTED, smallest=True),
    "LRANGE": Whole(("LLEN",), _RANKS, spans=True),
    "ZRANGE": Whole(("ZCARD",), _RANKS, spans=True),
    "ZREVRANGE": Whole(("ZCARD",), _RANKS, spans=True),
    "ZRANGEBYSCORE": Whole(("ZCARD",), _RANKS, spans=True),
    "ZREVRANGEBYSCORE": Whole(("ZCARD",), _RANKS, spans=True),
    "ZRANGEBYLEX": Whole(("ZCARD",), _RANKS, spans=True),
    "ZREVRANGEBYLEX": Whole(("ZCARD",), _RANKS, spans=True),
    "XRANGE": Whole(("XLEN",), "ask for a part of it with COUNT", spans=True),
    "XREVRANGE": Whole(("XLEN",), "ask for a part of it with COUNT", spans=True),
}
"""By the command's name."""

READS = tuple(name for name in WHOLES if not name.endswith(("STORE", "CARD")))
"""Those that send all of it to the client."""


def asked_of_whole(command: Command) -> int:
    """How many members the command asks for: all there are, but for a span that has an end."""
    asked = elements_asked(command) if WHOLES[command.spec.name].spans else None
    return ENDLESS if asked is None else asked


def measured_keys(command: Command, most: int = ENDLESS - 1) -> list[bytes]:
    """The collections that the command works on as a whole; none where it asks for ``most`` members or fewer."""
    if asked_of_whole(command) <= most:
        return []
    return [key.name for key in command.keys if not key.write]


def decided_names() -> frozenset[str]:
    """Every command that this file names: each must exist in the table."""
    return frozenset(WHOLES).union(*(whole.measures for whole in WHOLES.values()))
