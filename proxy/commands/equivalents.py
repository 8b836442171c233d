"""Commands that do the same with the same arguments. A rule that refuses one of them refuses the other too. If their
replies are also the same, Keyrail can send one in place of the other.

COMMAND does not tell this, so the rows do: what COMMAND DOCS calls a replacement may take other arguments.
"""

from proxy.commands.rows import ROWS

_GROUPS = tuple((row.display, row.interchangeable.replace("|", " ")) for row in ROWS.values() if row.interchangeable)
_ALIASES = tuple((row.display, row.alias_of.replace("|", " ")) for row in ROWS.values() if row.alias_of)
_WITH_ARGUMENT = frozenset(f"{row.display} ASYNC" for row in ROWS.values() if row.async_option)
"""Commands with an argument that changes only how long the command takes."""


def interchangeable(command: str, other: str) -> bool:
    """Whether `other` can be sent in place of `command` (both in capitals) and has the same reply.

    `other` may be the same command with an argument: FLUSHALL ASYNC for a bare FLUSHALL.
    """
    if other in _WITH_ARGUMENT:
        return other.rpartition(" ")[0] == command
    return command != other and any(command in group and other in group for group in _GROUPS)


def equivalents(command: str) -> tuple[str, ...]:
    """The other names of the same command (SLAVEOF for REPLICAOF, HMSET for HSET).

    DEL and UNLINK are different commands.
    """
    return tuple(other for group in _ALIASES if command in group for other in group if other != command)
