"""Waits for nodes of a cluster on behalf of a client that seeks several of them at a time."""

from typing import Protocol

from proxy.session.pool_key import Node
from proxy.session.pool_waiter import LOGIN_LOST


class SeekingClient(Protocol):
    """What a client does that needs connections to several nodes."""

    @property
    def gone(self) -> bool:
        """Whether it needs none any more."""

    def may_go_on(self, node: Node | None) -> None:
        """There may be a connection to this node, or another map."""

    def unreached(self, node: Node | None, error: bytes = b"") -> None:
        """There is no connection to this node."""

    def must_log_in(self) -> None:
        """Only another login of the client would bring a connection."""


class NodeWaiter:
    """Waits for a connection to a node; without one, for the next look at the cluster."""

    def __init__(self, client: SeekingClient, node: Node | None = None) -> None:
        self._client = client
        self._node = node

    @property
    def gone(self) -> bool:
        """Whether nobody waits any more."""
        return self._client.gone

    def arrived(self) -> None:
        """There may be a connection, or another map."""
        self._client.may_go_on(self._node)

    def close(self, cause: str) -> None:
        """None came in time."""
        if cause == LOGIN_LOST:
            self._client.must_log_in()
        else:
            self._client.unreached(self._node)

    def turn_away(self, error: bytes, cause: str) -> None:
        """Redis refuses connections, or there is no room for one."""
        self._client.unreached(self._node, error)
