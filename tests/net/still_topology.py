"""Servers that stay where they are."""

from __future__ import annotations

from collections.abc import Sequence

from proxy.net.topology.topology import KnownServer
from proxy.session.ports.pool_key import Node


class StillTopology:
    """What every topology has, where nothing ever changes."""

    fails_over = False
    last_known: Sequence[KnownServer] = ()
    servers: Sequence[KnownServer] = ()

    def place(self, node: Node) -> Node:
        return node

    def doubt(self) -> None:
        pass

    def connected(self, node: Node) -> None:
        pass

    def disconnected(self, node: Node) -> None:
        pass

    def hesitates(self, node: Node, *, late: bool) -> None:
        pass
