"""A cluster on the page: its nodes, whose slots are busy, and a failover."""

from collections.abc import Iterator

import pytest

from tests.cluster.nodes import RealCluster
from tests.conftest import kind_named
from tests.page.browser import Browser
from tests.page.watching import LIVE, faint
from tests.resp import eventually, pack
from tests.server.running import Running, serve

ROWS = "[...document.querySelectorAll('#nodes-table tbody tr')].map((row) => row.textContent)"
OWNERS = "[...document.querySelectorAll('#heat .cell')].map((cell) => cell.dataset.node)"
KEYS = {"b": "n1", "c": "n2", "a": "n3"}
"""A key of each node."""


@pytest.fixture
def cluster() -> Iterator[RealCluster]:
    started = RealCluster(kind_named("valkey-9.1"))
    yield started
    started.close()


@pytest.fixture
def running(cluster: RealCluster) -> Iterator[Running]:
    with serve("--upstream", f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}", "--policy", "observe") as started:
        yield started.ready()


def test_nodes_are_shown_and_a_failover_can_be_followed(
    browser: Browser, running: Running, cluster: RealCluster
) -> None:
    with browser.tab() as tab, running.wire() as wire:

        def traffic() -> None:
            wire.send(pack("GET", "b") * 2 + pack("GET", "a"))
            wire.frames(3)

        tab.go(running.admin)
        tab.until(f"{LIVE} && {ROWS}.length === 6", traffic)
        tab.until(f"{ROWS}.filter((row) => /, (–|0 %) TTL.*, expired 0/.test(row)).length === 3")
        tab.until("document.querySelector('#slots-table').textContent.includes('· n1')", traffic)
        rows = tab.js(ROWS)
        assert rows[0].startswith("n1primaryok5,461")
        names = {row[2 : len("n4replica of n1")]: row[:2] for row in rows[3:]}
        assert names.keys() == {"replica of n1", "replica of n2", "replica of n3"}
        owners = tab.js(OWNERS)
        assert (owners[0], owners[128], owners[255]) == ("0", "1", "2")
        legend = "document.querySelector('#heat .legend').textContent"
        tab.until(f"/^n1 6[0-9]\\s%n2 0\\s%n3 3[0-9]\\s%$/.test({legend})", traffic)
        assert faint(tab) == []
        wide = "[...document.querySelectorAll('.scroll')].filter((it) => it.scrollWidth > it.clientWidth)"
        for width in (320, 390, 560, 860, 1280):
            tab.resize(width, 800)
            assert tab.js(f"{wide}.map((it) => it.firstElementChild.id)") == [], width

        cluster.nodes[1].kill()
        tab.until("document.querySelector('#notice-nodes')?.textContent.includes('n2')")
        promoted = names["replica of n2"]
        tab.until(f"{ROWS}.some((row) => row.startsWith('{promoted}primaryok5,461'))")
        assert tab.until(f"{ROWS}.find((row) => row.startsWith('n2primaryfailed'))")
        assert faint(tab) == []
        tab.until(f"{OWNERS}[128] === '{int(promoted[1]) - 1}'")
        assert tab.complaints == []


def test_without_a_cluster_there_are_no_nodes(browser: Browser, upstream: str) -> None:
    with serve("--upstream", upstream) as started, browser.tab() as tab:
        tab.go(started.ready().admin)
        tab.until(LIVE)
        tab.until("document.querySelector('#facts').textContent.includes('worker')")
        eventually(lambda: 'keyrail_node_memory_bytes{node="n1",route="default"}' in started.http("/metrics")[1])
        assert tab.js("document.querySelector('#nodes').hidden")
        assert tab.js(f"new Set({OWNERS}).size") == 1
        assert tab.js("document.querySelector('#heat .legend').children.length") == 0
