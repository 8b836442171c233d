"""SCAN through two Keyrails before one real cluster, while slots move and primaries change: each key that stays is
seen, and the walk ends, whichever of the two gets a cursor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

import pytest

from proxy.cluster.scan_cursor import MOST_RESTARTS, read_cursor
from proxy.commands.slots import slot_of
from tests.cluster.conftest import KINDS
from tests.cluster.nodes import RealCluster
from tests.conftest import kind_named
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Closed, Failure, Wire, eventually, pack

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay knows no cluster")

KEYS = frozenset(b"key:%d" % number for number in range(1500))
MOVED = 600
"""Slots that move at once: as many as have dozens of the keys."""
MOST_PAGES = 2000
Event = Callable[[RealCluster], None]


def a_replica_takes_over(cluster: RealCluster) -> None:
    cluster.settle()
    cluster.failover(cluster.replicas()[0])


def some_slots_move(cluster: RealCluster) -> None:
    """Key by key, to the node that a walk is through with first."""
    target = min(cluster.primaries(), key=cluster.id)
    source = max(cluster.primaries(), key=cluster.id)
    cluster.move_slots(sorted({*map(slot_of, KEYS)} & {*cluster.slots_of(source)})[:8], source, target)


def many_slots_move(cluster: RealCluster) -> None:
    """Round and round."""
    cluster.settle()
    primaries = sorted(cluster.primaries(), key=cluster.id)
    owned = [cluster.slots_of(each) for each in primaries]
    for slots, source, target in zip(owned, primaries, [*primaries[1:], primaries[0]], strict=True):
        cluster.reshard(slots[:MOVED], source, target)


def a_primary_dies(cluster: RealCluster) -> None:
    cluster.settle()
    lost = cluster.primaries()[0]
    (replica,) = cluster.replicas_of(lost)
    sent = int(lost.info("replication")["master_repl_offset"])
    eventually(lambda: int(replica.info("replication")["slave_repl_offset"]) >= sent)
    lost.kill()
    eventually(lambda: cluster.role(replica) == "master")


WALKS: dict[str, Mapping[int, Event]] = {
    "failovers": {10: a_replica_takes_over, 25: a_replica_takes_over},
    "slots": {30: some_slots_move},
    "resharding": {15: many_slots_move},
    "death": {20: a_primary_dies},
    "no rest": {15: many_slots_move, 60: many_slots_move, 110: a_replica_takes_over},
}
"""What happens to the cluster behind so many pages of a walk. The last walk goes by slots in the end."""


class Walker:
    """A client that gives each cursor to the other Keyrail, and connects again where it is disconnected."""

    def __init__(self, keyrails: Sequence[Keyrail]) -> None:
        self._keyrails = keyrails
        self._wires: dict[Keyrail, Wire] = {}
        self.restarts: set[int] = set()

    def walk(self, cluster: RealCluster, events: Mapping[int, Event]) -> set[bytes]:
        """All keys that it is shown, while this happens behind its pages."""
        cursor, pages, seen = b"0", 0, set[bytes]()
        while pages == 0 or cursor != b"0":
            keyrail = self._keyrails[pages % len(self._keyrails)]
            cursor, keys = self._page(keyrail, cursor)
            seen.update(keys)
            self.restarts.update(found.restarts for found in [read_cursor(cursor)] if found is not None)
            pages += 1
            if pages in events:
                events[pages](cluster)
            assert pages < MOST_PAGES, "it does not end"
        assert pages > max(events), "it was over before anything happened"
        return seen

    def _page(self, keyrail: Keyrail, cursor: bytes) -> tuple[bytes, list[bytes]]:
        while True:
            wire = self._wires.get(keyrail) or self._wires.setdefault(keyrail, keyrail.wire())
            try:
                reply = wire.value("SCAN", cursor, "COUNT", 30)
            except Closed:
                self._wires.pop(keyrail).close()
                continue
            if isinstance(reply, Failure):
                assert reply.text.startswith(b"CLUSTERDOWN"), reply
                continue
            return cast("tuple[bytes, list[bytes]]", reply)


@pytest.fixture(scope="module", params=KINDS)
def cluster(request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    """A cluster that all walks of a file disturb."""
    started = RealCluster(kind_named(request.param))
    yield started
    started.close()


@pytest.fixture(scope="module")
def keyrails(cluster: RealCluster) -> Iterator[list[Keyrail]]:
    """Two, which have met the nodes in an order of their own, and the keys."""
    started = [Keyrail(f"redis+cluster://127.0.0.1:{node.port}") for node in (cluster.nodes[0], cluster.nodes[5])]
    eventually(lambda: all(each.http("/readyz")[0] == 200 for each in started))
    with started[0].wire() as wire:
        wire.send(b"".join(pack("SET", key, "x") for key in KEYS))
        assert {*wire.frames(len(KEYS))} == {b"+OK\r\n"}
    yield started
    for each in started:
        each.close()


@pytest.mark.parametrize("name", WALKS)
def test_each_key_that_stays_is_seen(cluster: RealCluster, keyrails: list[Keyrail], name: str) -> None:
    walker = Walker(keyrails)
    assert walker.walk(cluster, WALKS[name]) == KEYS
    assert max(walker.restarts) >= 1, "nothing has disturbed it"
    assert name != "no rest" or max(walker.restarts) == MOST_RESTARTS
    for node in cluster.nodes:
        if node.process is None:
            node.start()
    cluster.settle()
