"""A new connection is let through if the server behind it says that it is the node of its pool, in one of the ways that
its user may ask for."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from proxy.net.config.address import UpstreamAddress, parse_upstream
from proxy.net.config.endpoint import Endpoint
from proxy.net.topology.cluster import Cluster
from proxy.net.topology.node_guard import NodeGuard
from proxy.net.topology.slot_map import ClusterNode, SlotMap, SlotRange
from proxy.session.ports.pool_key import Node, PoolKey

OWN, OTHER = "a" * 40, "b" * 40
NO_PERMISSION = b"-NOPERM this user has no permissions to run the 'cluster|myid' command\r\n"
LOADING = b"-LOADING Redis is loading the dataset in memory\r\n"


class Server:
    """Answers what is asked on a new connection."""

    def __init__(self, node: Node, my_id: bytes, nodes: bytes) -> None:
        self.key = PoolKey(None, 0, 2, node)
        self._replies = {"MYID": my_id, "NODES": nodes}

    async def ask(self, argv: list[str]) -> bytes:
        return self._replies[argv[1]]


def bulk(text: str) -> bytes:
    return f"${len(text)}\r\n{text}\r\n".encode()


def table(own: str) -> bytes:
    """CLUSTER NODES of the node with this id, which lists both."""
    lines = (
        f"{each} h:1@2 {'myself,' * (each == own)}master - 0 0 1 connected 0-5\n"
        for each in sorted((OWN, OTHER), reverse=own == OWN)
    )
    return bulk("".join(lines))


@pytest.mark.parametrize(
    ("my_id", "nodes", "passes"),
    [
        (bulk(OWN), b"", True),
        (bulk(OTHER), b"", False),
        (NO_PERMISSION, table(OWN), True),
        (NO_PERMISSION, table(OTHER), False),
        (NO_PERMISSION, bulk("no table"), False),
        (b"-ERR This instance has cluster support disabled\r\n", b"-ERR unknown command\r\n", False),
        (LOADING, LOADING, False),
        (b"-BUSY Redis is busy running a script\r\n", b"", True),
        (b"-NOAUTH Authentication required.\r\n", b"", True),
        (b"$-1\r\n", b"", False),
        (b":1\r\n", b"", False),
    ],
)
def test_who_answers_decides(my_id: bytes, nodes: bytes, passes: bool) -> None:
    cluster = Cluster(parse_upstream("redis+cluster://seed:7000"))
    cluster.adopt(SlotMap({OWN: ClusterNode(OWN, Endpoint("h", 1), slots=(SlotRange(0, 16383),))}))
    guard, address = NodeGuard(cluster), UpstreamAddress(host="h", port=1)
    (node,) = cluster.nodes

    async def check() -> None:
        assert not await guard.confirms(address, 1.0)
        await guard.check(cast("Any", Server(node, my_id, nodes)), address)

    if passes:
        asyncio.run(check())
        assert not cluster.doubted.is_set()
    else:
        with pytest.raises(ConnectionRefusedError):
            asyncio.run(check())
        assert cluster.doubted.is_set()


def test_a_node_that_has_left_is_nobody() -> None:
    cluster = Cluster(parse_upstream("redis+cluster://seed:7000"))
    with pytest.raises(ConnectionRefusedError):
        asyncio.run(NodeGuard(cluster).check(cast("Any", Server(Node(), bulk(OWN), b"")), UpstreamAddress()))
