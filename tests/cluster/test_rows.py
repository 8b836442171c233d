"""Each row of docs/cluster.md's table of commands over nodes, with its commands, on real clusters of both engines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from proxy.commands.over_nodes import TO_SLOT, OverNodes
from tests.cluster.nodes import RealCluster
from tests.cluster.rows import UNTRIED, Stage
from tests.cluster.rows_of_all import ALL_ROWS
from tests.commands.test_over_nodes import rows_of_the_page
from tests.engines import free_port
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Address, eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay knows no cluster")

PAGE = rows_of_the_page()


def test_each_row_of_the_page_has_a_test() -> None:
    assert set(ALL_ROWS) == set(PAGE)


@pytest.fixture(scope="module")
def stage_of(cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Keyrail, Keyrail, int]]:
    """A plain Keyrail, one that splits MSET, and the port of one that is presented as a cluster."""
    policy = tmp_path_factory.mktemp("policy") / "policy.yaml"
    policy.write_text("keyrail: 1\ncross_slot: split\nrules: {}\n", encoding="utf-8")
    upstream, port = f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}", free_port()
    shown = ["--present", "cluster", "--advertise", f"127.0.0.1:{port}", "--listen", f"redis://127.0.0.1:{port}"]
    with ExitStack() as stack:
        keyrails = [Keyrail(upstream), Keyrail(upstream, policy=policy), Keyrail(upstream, extra=shown)]
        for each in keyrails:
            stack.callback(each.close)
        eventually(lambda: all(each.http("/readyz")[0] == 200 for each in keyrails))
        yield keyrails[0], keyrails[1], port


def shown(decision: OverNodes) -> str:
    destination, join = decision
    return f"{destination.name}-{join.name}"


@pytest.mark.parametrize("decision", PAGE, ids=shown)
def test_row(cluster: RealCluster, stage_of: tuple[Keyrail, Keyrail, int], decision: OverNodes) -> None:
    plain, splitting, port = stage_of
    for node in cluster.nodes[:3]:
        node.do("FLUSHALL")
        node.do("SCRIPT", "FLUSH")
    stage = Stage(cluster, plain, splitting, Address(port=port))
    try:
        ALL_ROWS[decision](stage)
        untried = set(PAGE[decision]) - stage.asked - UNTRIED
        assert not untried or decision == TO_SLOT, f"the row's test sends none of these: {untried}"
    finally:
        stage.close()
    assert "Traceback" not in plain.stderr + splitting.stderr
