"""`keyrail serve` with a cluster upstream that it was not told of: it finds out, also when the cluster comes up
later."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.cluster.nodes import RealCluster
from tests.engines import Engine
from tests.keyrail_process import Keyrail
from tests.resp import PATIENCE_SECONDS, eventually

LAST = 16383


def test_a_node_of_a_cluster_leads_to_the_cluster(cluster: RealCluster, new_keyrail: Callable[..., Keyrail]) -> None:
    keyrail = new_keyrail(cluster.nodes[1].url)
    eventually(lambda: keyrail.http("/readyz")[0] == 200)
    for primary in cluster.nodes[:3]:
        keyrail.await_line(rf"route default: node n[123] 127.0.0.1:{primary.port} is a primary of 546[12] slots")
    shown = json.loads(keyrail.http("/nodes")[1])["routes"]["default"]
    assert [node["node"] for node in shown] == ["n1", "n2", "n3", "n4", "n5", "n6"]
    assert keyrail.http("/nodes?route=other")[0] == 400


def test_a_cluster_that_comes_up_later(
    cluster_name: str, new_engine: Callable[..., Engine], new_keyrail: Callable[..., Keyrail]
) -> None:
    node = new_engine(cluster_name, {"cluster-enabled": "yes"})
    node.do("CLUSTER", "ADDSLOTSRANGE", 0, LAST)
    node.kill()
    keyrail = new_keyrail(node.url)
    assert keyrail.http("/readyz")[0] == 503
    node.start()
    eventually(lambda: keyrail.http("/readyz")[0] == 200)
    keyrail.await_line(rf"127.0.0.1:{node.port} is a primary of 16384 slots")


def test_without_pooling_a_cluster_is_refused(cluster: RealCluster, new_keyrail: Callable[..., Keyrail]) -> None:
    for upstream in (f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}", cluster.nodes[0].url):
        keyrail = new_keyrail(upstream, pooling=False, await_ready=False)
        keyrail.await_line(r"a client uses a connection to each node of a cluster: start Keyrail with --pooling on")
        assert keyrail.process.wait(PATIENCE_SECONDS) != 0
