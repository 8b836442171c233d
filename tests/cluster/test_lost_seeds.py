"""A worker that takes another one's place finds the cluster, where no seed leads to it any more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cluster.nodes import RealCluster
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="a plain relay knows no cluster")


@pytest.mark.parametrize("given", ["redis", "redis+cluster"])
def test_it_goes_on_with_the_nodes_that_were_known(
    new_cluster: Callable[..., RealCluster], new_keyrail: Callable[..., Keyrail], given: str
) -> None:
    cluster = new_cluster("valkey-9.1")
    seed = cluster.primaries()[0]
    keyrail = new_keyrail(f"{given}://127.0.0.1:{seed.port}")
    eventually(lambda: keyrail.http("/readyz")[0] == 200)
    cluster.failover(cluster.replicas_of(seed)[0])
    cluster.settle()
    seed.kill()
    eventually(lambda: writes(keyrail))
    keyrail.replace_worker()
    eventually(lambda: writes(keyrail))
    assert keyrail.http("/readyz")[0] == 200


def writes(keyrail: Keyrail) -> bool:
    """Whether it has each of some keys written, at any node."""
    with keyrail.wire() as wire:
        return all(wire.ask("SET", f"k{number}", "v") == b"+OK\r\n" for number in range(30))
