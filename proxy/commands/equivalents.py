"""Commands that do the same with the same arguments: whoever refuses one means the other too, and where the replies are
the same as well, one can be sent in place of the other.

COMMAND does not tell this (what its notes call a replacement may take other arguments), so their rows say it.
"""

from proxy.commands.rows import ROWS

_GROUPS = tuple((row.display, row.interchangeable.replace("|", " ")) for row in ROWS.values() if row.interchangeable)
_ALIASES = tuple((row.display, row.alias_of.replace("|", " ")) for row in ROWS.values() if row.alias_of)
_WITH_ARGUMENT = frozenset(f"{row.display} ASYNC" for row in ROWS.values() if row.async_option)
"""Commands with an argument that changes nothing that a client can see but how long it takes."""


def interchangeable(command: str, other: str) -> bool:
    """Whether `other` can be sent in place of `command`, both in capitals, and no client can tell from the reply.

    `other` may be the same command with an argument: FLUSHALL ASYNC for a bare FLUSHALL.
    """
    if other in _WITH_ARGUMENT:
        return other.rpartition(" ")[0] == command
    return command != other and any(command in group and other in group for group in _GROUPS)


def equivalents(command: str) -> tuple[str, ...]:
    """The other names of what does one and the same thing (SLAVEOF for REPLICAOF, HMSET for HSET).

    DEL and UNLINK are two.
    """
    return tuple(other for group in _ALIASES if command in group for other in group if other != command)
