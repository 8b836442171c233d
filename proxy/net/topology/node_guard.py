"""Keeps connections away from servers that have the address of a node of a cluster, and are not that node.

The address of a container or a pod may belong to another server a moment later: to another application's Redis, to a
node of another cluster, or to the same node without its data, which has another id then. The other nodes take the one
that has ended for lost after ``cluster-node-timeout`` only. So each new connection is asked for its node's id before it
carries a command.
"""

from proxy.commands.error_texts import NODE_CANNOT_TELL
from proxy.net.config.address import UpstreamAddress
from proxy.net.config.endpoint import Endpoint
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.topology.cluster import Cluster
from proxy.net.topology.slot_map import read_own_id
from proxy.wire.decode import read_reply

"""A node that runs a script: whoever is to end it may need this connection. One that accepts nothing but a login."""


class NodeGuard:
    """Of all nodes of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def confirms(self, address: UpstreamAddress, seconds: float, *, provable: bool = True) -> bool:
        """Whether nothing needs to be checked: only where nothing can be (not ``provable``), as before a login."""
        return not provable

    async def check(self, upstream: UpstreamConnection, address: UpstreamAddress) -> None:
        """Check that a new connection leads to the node of its pool.

        Raises ConnectionRefusedError if another server is there, or if it does not say which one it is.
        """
        frame = await upstream.ask(["CLUSTER", "MYID"])
        found = read_reply(frame)
        if isinstance(found, Exception) and not NODE_CANNOT_TELL.begin(frame):
            # Who may not ask for that may use CLUSTER NODES, or the cluster would not be known.
            told = read_reply(await upstream.ask(["CLUSTER", "NODES"]))
            found = told if isinstance(told, Exception) else read_own_id(told)
        if NODE_CANNOT_TELL.begin(frame) or found == self._cluster.identity(upstream.key.node).encode():
            return
        self._cluster.doubt()
        if isinstance(found, Exception):
            raise ConnectionRefusedError(f"it does not say which node it is: {found}")
        raise self.refusal(address)

    def refusal(self, address: UpstreamAddress) -> ConnectionRefusedError:
        """Why no connection goes there."""
        at = Endpoint(address.host, address.port)
        return ConnectionRefusedError(f"another server answers at {at} than the node of the cluster")
