"""How long clients pause while a primary is lost, measured against the cluster itself in the same run.

Clients with nothing for the lost node go on, or pause as long as the cluster says CLUSTERDOWN; and Keyrail follows the
promotion. A machine that is slow is slow for all of them. `python -m loadtest failover` measures milliseconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

import pytest

from loadtest.pause import PausingClient
from proxy.commands.slots import slot_of
from tests.cluster.nodes import RealCluster
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay knows no cluster")

EVERY = 0.005
"""Seconds between two questions of a client."""
TRIES = 3
"""A machine that is busy with something else for a moment stops some of the clients and not others."""
TAGS = ("b", "c", "a")
"""A hash tag of each primary of the start."""

Way = Callable[[RealCluster, Engine], AbstractContextManager[None]]
"""How a primary is lost in a block, and comes back behind it."""


@contextmanager
def killed(cluster: RealCluster, lost: Engine) -> Iterator[None]:
    """Its connections are closed, and new ones refused."""
    lost.kill()
    yield
    lost.start()


@contextmanager
def cut_off(cluster: RealCluster, lost: Engine) -> Iterator[None]:
    """It answers Keyrail, and is in a minority."""
    with cluster.cut_off(lost):
        yield


@contextmanager
def frozen(cluster: RealCluster, lost: Engine) -> Iterator[None]:
    """Nothing is refused, and nothing answered."""
    lost.freeze()
    yield
    lost.thaw()


class Pauses(NamedTuple):
    """In seconds: of clients of the other nodes, through Keyrail and directly; until the cluster itself serves the lost
    slots again; and from then on, until Keyrail does."""

    others: float
    direct: float
    switched: float
    followed: float

    def within_bounds(self) -> bool:
        """Whether nobody waits for Keyrail for longer than for the cluster, but for a part of its own time."""
        return self.others < self.direct + self.switched / 3 and self.followed < self.switched


def pauses(cluster: RealCluster, keyrail: Keyrail, tag: str, way: Way) -> Pauses:
    """Lose the primary of this tag in this way, and have it back."""
    owners = {each: cluster.owner(slot_of(each.encode())) for each in TAGS}
    (replica,) = cluster.replicas_of(owners[tag])
    through = {each: PausingClient(keyrail.address.port, "GET", each.encode(), EVERY) for each in TAGS}
    others = [through[each] for each in TAGS if each != tag]
    direct = [PausingClient(owners[each].port, "GET", each.encode(), EVERY) for each in TAGS if each != tag]
    promoted = PausingClient(replica.port, "GET", tag.encode(), EVERY)  # it answers MOVED until then
    try:
        eventually(lambda: all(client.first(0.0) is not None for client in (*through.values(), *direct)))
        begun = time.monotonic()
        with way(cluster, owners[tag]):
            eventually(lambda: promoted.first(0.0) is not None)
            switched = promoted.first(0.0)
            assert switched is not None
            eventually(lambda: all(client.first(switched) for client in (*through.values(), *direct)))
    finally:
        for client in (promoted, *direct, *through.values()):
            client.stop()
    cluster.settle()
    served = through[tag].first(switched)
    assert served is not None
    return Pauses(longest(others, begun), longest(direct, begun), switched - begun, served - switched)


def longest(clients: Sequence[PausingClient], since: float) -> float:
    """The longest pause of any of them, in seconds."""
    return max(client.longest(since) for client in clients) / 1000


@pytest.mark.parametrize(
    ("coverage", "ways"),
    [("no", (killed, cut_off, frozen)), ("yes", (killed,))],
    ids=["no-full-coverage", "full-coverage"],
)
def test_who_has_nothing_there_goes_on_and_keyrail_follows(
    cluster_name: str,
    new_cluster: Callable[..., RealCluster],
    new_keyrail: Callable[..., Keyrail],
    coverage: str,
    ways: tuple[Way, ...],
) -> None:
    cluster = new_cluster(cluster_name, {"cluster-require-full-coverage": coverage}, divisible=True)
    keyrail = new_keyrail(f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}")
    eventually(lambda: keyrail.http("/readyz")[0] == 200)
    for tag, way in zip(TAGS, ways, strict=False):
        found = [pauses(cluster, keyrail, tag, way)]
        while not found[-1].within_bounds() and len(found) < TRIES:
            found.append(pauses(cluster, keyrail, tag, way))
        assert found[-1].within_bounds(), (way.__name__, found)
