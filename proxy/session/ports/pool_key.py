"""What the connections of a pool have in common: their node, its role, and the login."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias

_DEFAULT_USER = "default"


def user_named(name: bytes) -> str:
    """The user that AUTH or HELLO names: ACL names are any bytes, and different ones stay different."""
    return name.decode("utf-8", "surrogateescape")


class Role(StrEnum):
    """What a node is to the connections of a pool. A failover gives a node another role, and so other pools."""

    PRIMARY = "primary"
    REPLICA = "replica"


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Node:
    """A server of a topology, equal to itself alone: another server may have its address later.

    ``number`` is that by which the router names it; of several nodes that are there at a time, each has another one.
    """

    number: int = 0


SOLE_NODE = Node()
"""The node of each topology that has only one."""

ANY_NODE = Node(-1)
"""Stands for any node of a topology with several: for clients and commands that have not chosen one."""

Login: TypeAlias = tuple[str | None, Node, Role]

UNAUTHENTICATED = "not logged in"
"""The user of a client that its listener asks for a login, before it has given one. No pool has connections of this
user, so nothing of such a client can reach Redis; and no ACL user has this name, as ACL names have no spaces."""


class PoolKey(NamedTuple):
    """What the connections of a pool have in common.

    ``user`` is None for the login that the route itself is configured with; a name for connections on which some
    client's own AUTH as that user succeeded (Keyrail keeps no password, so it can't open more of those).
    """

    user: str | None
    database: int
    protocol: int
    node: Node = SOLE_NODE
    role: Role = Role.PRIMARY

    @property
    def login(self) -> Login:
        """The part that stays the same when a connection changes its database or protocol."""
        return self.user, self.node, self.role

    @property
    def user_name(self) -> str:
        """The user as rules and figures know it."""
        return _DEFAULT_USER if self.user is None or self.user == UNAUTHENTICATED else self.user
