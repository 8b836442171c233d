"""How old the data of replicas is, as `/nodes` and metrics tell it, while their network is held back or cut."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.conftest import kind_named, rest_is_long
from tests.keyrail_process import DIRECT, Keyrail
from tests.replicas.lab import Lab
from tests.resp import eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="a plain relay knows no replicas")


@pytest.fixture(scope="module", params=rest_is_long("redis-7.0", "valkey-9.1"))
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    with Lab(kind_named(str(request.param))) as started:
        yield started


@pytest.fixture(scope="module")
def keyrail(lab: Lab) -> Iterator[Keyrail]:
    replicas = ",".join(f"127.0.0.1:{each.port}" for each in lab.replicas)
    running = Keyrail(f"{lab.primary.url}?replicas={replicas}")
    yield running
    running.close()


def told(lab: Lab, keyrail: Keyrail) -> dict[str, list[object]]:
    """By figure, what `/nodes` says of the replicas, in their order."""
    (nodes,) = json.loads(keyrail.http("/nodes")[1])["routes"].values()
    by_address = {node["address"]: node for node in nodes}
    found = [by_address.get(f"127.0.0.1:{each.port}", {}) for each in lab.replicas]
    return {name: [node.get(name) for node in found] for name in ("node", "health", "lag", "lag_seconds")}


def test_a_replica_that_gets_nothing_grows_old(lab: Lab, keyrail: Keyrail) -> None:
    eventually(lambda: told(lab, keyrail)["lag_seconds"] == [0.0, 0.0])
    lab.streams[0].hold()
    lab.primary.do("SET", "k", "v")
    first = str(told(lab, keyrail)["node"][0])
    eventually(lambda: keyrail.metric("keyrail_node_lag_seconds", node=first) > 1.5)
    assert keyrail.metric("keyrail_node_lag_bytes", node=first) > 0
    lab.mend()
    eventually(lambda: keyrail.metric("keyrail_node_lag_seconds", node=first) < 1.5)


def test_the_age_of_a_replica_without_its_primary_is_unknown(lab: Lab, keyrail: Keyrail) -> None:
    lab.streams[1].cut()
    eventually(lambda: told(lab, keyrail)["health"] == ["ok", "unlinked"])
    assert told(lab, keyrail)["lag_seconds"][1] is None
    lab.mend()
    eventually(lambda: told(lab, keyrail)["health"] == ["ok", "ok"])
