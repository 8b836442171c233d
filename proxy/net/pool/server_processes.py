"""The connections of a route by the server process that they lead to.

Each connection that opens asks which others there are, and thousands open at once. So nobody looks through all of them.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping

from proxy.net.connection.upstream import UpstreamConnection
from proxy.session.ports.pool_key import Node

_NONE: Mapping[bytes | None, Collection[UpstreamConnection]] = {}


class ServerProcesses:
    """Connections that are ``identified``, by their node and ``run_id`` (None: Redis does not tell it)."""

    def __init__(self) -> None:
        self._place: dict[UpstreamConnection, tuple[Node, bytes | None]] = {}
        self._members: defaultdict[Node, dict[bytes | None, dict[UpstreamConnection, None]]] = defaultdict(dict)

    def add(self, upstream: UpstreamConnection) -> None:
        """It is known which process this connection leads to, or that nobody tells."""
        self.remove(upstream)
        node, run_id = self._place[upstream] = upstream.key.node, upstream.run_id
        self._members[node].setdefault(run_id, {})[upstream] = None

    def remove(self, upstream: UpstreamConnection) -> None:
        """A connection is lost."""
        place = self._place.pop(upstream, None)
        if place is None:
            return
        node, run_id = place
        of_node = self._members[node]
        del of_node[run_id][upstream]
        if not of_node[run_id]:
            del of_node[run_id]
        if not of_node:
            del self._members[node]

    def of(self, node: Node) -> Mapping[bytes | None, Collection[UpstreamConnection]]:
        """The connections to each process of this node."""
        return self._members.get(node, _NONE)
