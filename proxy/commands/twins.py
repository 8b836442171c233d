"""Commands that take the same arguments and give the same replies, so that one can stand for the other.

COMMAND does not tell this (what its notes call a replacement may take other arguments), so it is written by
hand.
"""

_GROUPS: tuple[tuple[str, ...], ...] = (
    ("DEL", "UNLINK"),  # the same reply and events; only the freeing of big collections moves to another thread
    ("SUBSTR", "GETRANGE"),
    ("SLAVEOF", "REPLICAOF"),
)
_WITH_ARGUMENT = {f"{command} ASYNC" for command in ("FLUSHALL", "FLUSHDB", "SCRIPT FLUSH", "FUNCTION FLUSH")}
"""Commands with an argument that changes nothing that a client can see but how long it takes."""
_ALIASES: tuple[tuple[str, ...], ...] = _GROUPS[1:]


def interchangeable(command: str, other: str) -> bool:
    """Whether `other` can be sent in place of `command`, both in capitals, and no client can tell from the reply.

    `other` may be the same command with an argument: FLUSHALL ASYNC for a bare FLUSHALL.
    """
    if other in _WITH_ARGUMENT:
        return other.rpartition(" ")[0] == command
    return command != other and any(command in group and other in group for group in _GROUPS)


def twins(command: str) -> tuple[str, ...]:
    """The other names of what is one and the same command in Redis (SLAVEOF for REPLICAOF); DEL and UNLINK are two."""
    return tuple(other for group in _ALIASES if command in group for other in group if other != command)
