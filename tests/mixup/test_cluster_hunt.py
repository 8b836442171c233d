"""The mix-up hunt with a cluster upstream: clients that know what their keys hold, while the cluster is disturbed.

Proves, with one worker and with two: nobody hears another client's reply, MOVED or ASK; each key's history is in the
order in which its client wrote it; what was acknowledged is there in the end, unless the cluster itself has lost it
with a primary; nothing runs twice. And the hunt can fail: it sees a cluster that loses one write behind Keyrail's back.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from typing import cast

import pytest

from tests.cluster.nodes import STEADY, RealCluster
from tests.conftest import kind_named, rest_is_long
from tests.keyrail_process import DIRECT, Keyrail
from tests.mixup import disturbances
from tests.mixup.disturbances import Disturbance
from tests.mixup.keepers import World, keeper_in, written
from tests.mixup.roles import leaver, vandal
from tests.mixup.swarm import Swarm, Wrong
from tests.resp import decode, eventually, pack, until

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay knows no cluster")

KINDS = rest_is_long("valkey-9.1", "redis-7.0")
KEEPERS = 10
MOST_SECONDS = 500.0

SHORT = [
    disturbances.slots_move_by_keys,
    disturbances.all_slots_move,
    disturbances.replica_takes_over,
    disturbances.primary_dies,
    disturbances.slots_move_by_keys,
]
REST: list[Disturbance] = [
    disturbances.ten_failovers,
    disturbances.replica_is_promoted,
    disturbances.primary_hangs,
    disturbances.node_comes_and_goes,
    disturbances.all_nodes_restart,
]


@pytest.fixture(params=KINDS)
def cluster(request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    started = RealCluster(kind_named(request.param), STEADY)
    yield started
    started.close()


@pytest.fixture(params=KINDS)
def divisible(request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    """One whose nodes can be cut off. They talk through this process, which has enough to do: only where they must."""
    started = RealCluster(kind_named(request.param), STEADY, divisible=True)
    yield started
    started.close()


@pytest.fixture
def keyrail(cluster: RealCluster, new_keyrail: Callable[..., Keyrail], request: pytest.FixtureRequest) -> Keyrail:
    """With one worker, or as many as a test asks for: each follows the cluster by itself."""
    return served(cluster, new_keyrail, getattr(request, "param", 1))


def served(cluster: RealCluster, new_keyrail: Callable[..., Keyrail], workers: int = 1) -> Keyrail:
    """Keyrail before this cluster."""
    running = new_keyrail(f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}", workers=workers)
    eventually(lambda: running.http("/readyz")[0] == 200)
    return running


def hunt(cluster: RealCluster, keyrail: Keyrail, events: Sequence[Disturbance], seed: int) -> World:
    """Let keepers work until all of this has happened to the cluster; then every key holds what it may."""
    world = World()
    chance = random.Random(seed)

    async def disturber(swarm: Swarm, name: str, _: random.Random) -> None:
        await more_replies(swarm)
        for event in events:
            try:
                await asyncio.to_thread(event, cluster, world, chance)
                await more_replies(swarm)
            except TimeoutError as error:
                told = f"{event.__name__}: a node or the clients have hung; refused: {dict(world.refused)}"
                raise AssertionError(f"{told}; {swarm.findings}; {keyrail.http('/readyz')}") from error
            swarm.count(name, 1)
        await until(lambda: swarm.over)

    swarm = Swarm(keyrail.address, keyrail.address, seed, limit=MOST_SECONDS)
    roles = [(keeper_in(world), KEEPERS), (leaver, 3), (vandal, 1), (disturber, 1)]
    findings = asyncio.run(swarm.run(roles, 0.0, {"disturber": len(events)}))
    assert findings.clean, "\n".join(findings.wrong + findings.stuck)
    check(keyrail, world)
    return world


async def more_replies(swarm: Swarm) -> None:
    """Let the keepers have some more."""
    enough = swarm.findings.replies["keeper"] + 20 * KEEPERS
    await until(lambda: swarm.findings.replies["keeper"] >= enough)


def check(keyrail: Keyrail, world: World) -> None:
    """Each key holds what its client's history allows, and Keyrail has not been surprised."""
    read = {"s": "GET {}", "i": "GET {}", "l": "LRANGE {} 0 -1"}
    with keyrail.wire() as wire:
        for key, possible in written(world).items():
            found = decode(wire.ask(*read[key.split(":")[1]].format(key).split()))
            state = tuple(found) or None if isinstance(found, list) else found
            if key.split(":")[1] == "i" and isinstance(found, bytes):
                state = int(found)
            if state not in possible:
                raise Wrong(f"{key} holds {state!r:.200}, and not {possible!r:.400}")
    assert keyrail.metric("keyrail_out_of_step_total") == 0
    assert "Traceback" not in keyrail.stderr, keyrail.stderr[keyrail.stderr.index("Traceback") :][:3000]


@pytest.mark.parametrize(
    "keyrail",
    [pytest.param(2, id="two-workers"), pytest.param(1, id="one-worker", marks=pytest.mark.long)],
    indirect=True,
)
def test_a_cluster_in_trouble(cluster: RealCluster, keyrail: Keyrail) -> None:
    hunt(cluster, keyrail, SHORT, 1)


def test_a_primary_that_the_others_cannot_reach(divisible: RealCluster, new_keyrail: Callable[..., Keyrail]) -> None:
    hunt(divisible, served(divisible, new_keyrail), [disturbances.primary_is_cut_off], 4)


@pytest.mark.long
@pytest.mark.parametrize("event", REST, ids=lambda event: event.__name__)
def test_all_that_happens_to_clusters(cluster: RealCluster, keyrail: Keyrail, event: Disturbance) -> None:
    hunt(cluster, keyrail, [event, event], 2)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(3, 5))
@pytest.mark.parametrize("keyrail", [2], indirect=True, ids=["two-workers"])
def test_for_long(cluster: RealCluster, keyrail: Keyrail, seed: int) -> None:
    hunt(cluster, keyrail, random.Random(seed).choices([*SHORT, *REST], k=12), seed)


def test_the_hunt_can_fail(cluster: RealCluster, keyrail: Keyrail) -> None:
    """Somebody else writes to a key, which is as bad as a write that is lost."""

    def somebody_writes(cluster: RealCluster, world: World, chance: random.Random) -> None:
        for node in cluster.primaries():
            with node.wire() as wire:
                for key in cast("list[bytes]", decode(wire.ask("KEYS", "*:i:*"))):
                    wire.send(pack("INCR", key))
                    wire.frame()

    with pytest.raises((AssertionError, Wrong), match=r"keeper|holds"):
        hunt(cluster, keyrail, [somebody_writes], 3)
