"""Real clusters for tests: one that the tests of a file share and leave as it was, and ones that a test may break."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cluster.nodes import RealCluster
from tests.conftest import kind_named

pytest.register_assert_rewrite("tests.cluster.rows", "tests.cluster.rows_of_all")
KINDS = ["redis-7.0", "valkey-9.1"]


@pytest.fixture(scope="module", params=KINDS)
def cluster(request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    """Three primaries with a replica each, which all tests of a file use: none may end, freeze or promote a node."""
    started = RealCluster(kind_named(request.param))
    yield started
    started.close()


@pytest.fixture(params=KINDS)
def cluster_name(request: pytest.FixtureRequest) -> str:
    """Each engine that clusters are tested with, in turn."""
    return kind_named(str(request.param)).name


@pytest.fixture
def new_cluster() -> Iterator[Callable[..., RealCluster]]:
    """Start a cluster that this test alone uses: `new_cluster("valkey-9.1", {"cluster-databases": "4"})`."""
    started: list[RealCluster] = []

    def start(name: str, options: dict[str, str] | None = None, **form: Any) -> RealCluster:
        started.append(RealCluster(kind_named(name), options, **form))
        return started[-1]

    yield start
    for each in started:
        each.close()


@pytest.fixture
def patient_cluster(cluster_name: str, new_cluster: Callable[..., RealCluster]) -> RealCluster:
    """Primaries without replicas, of which one that hangs stays in the map for a minute, and a user with all rights."""
    options = {"cluster-node-timeout": "60000", "cluster-require-full-coverage": "no"}
    started = new_cluster(cluster_name, options, replicas=0)
    for node in started.nodes:
        node.do("ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all")
    return started
