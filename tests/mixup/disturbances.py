"""What happens to a cluster while its clients go on: slots move, replicas are promoted, nodes die, hang, are cut off,
come and go.

Each is a function of (cluster, world, randomness) that returns when the cluster is whole again. Where a primary is
lost, `losing` tells the world whose acknowledged writes may be lost with it: those that the replica had not got. What
was acknowledged before has reached the replica, and must be there.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from proxy.commands.slots import slot_of
from tests.cluster.nodes import RealCluster
from tests.engines import Engine
from tests.mixup.keepers import TAGS, World
from tests.resp import eventually

Disturbance = Callable[[RealCluster, World, random.Random], None]


def slots_move_by_keys(cluster: RealCluster, world: World, chance: random.Random) -> None:
    """A slot in use moves, some of its keys at a time."""
    slot = slot_of(chance.choice(TAGS).encode())
    source = cluster.owner(slot)
    target = chance.choice([each for each in cluster.primaries() if each is not source])
    cluster.open_slot(slot, source, target)
    for _ in range(4):
        cluster.move_keys(slot, source, target, cluster.keys_in(slot, source, 5))
    while cluster.keys_in(slot, source, 1):  # clients write new ones meanwhile
        cluster.move_keys(slot, source, target)
    cluster.close_slot(slot, target)


def all_slots_move(cluster: RealCluster, world: World, chance: random.Random) -> None:
    """Each of the 16,384 slots goes to the next primary.

    Valkey 9.1 moves them atomically, and loses transactions meanwhile: what EXEC has run and acknowledged on the source
    is on its replica, and never comes to the target. So there are none then.
    """
    world.transactions = not cluster.kind.is_valkey
    try:
        eventually(lambda: world.transactions or world.under_way == 0)
        cluster.reshard_all()
        cluster.settle()
    finally:
        world.transactions = True


def replica_takes_over(cluster: RealCluster, world: World, chance: random.Random) -> None:
    """A planned failover, which loses nothing."""
    cluster.failover(min(cluster.replicas(), key=lambda each: (cluster.rest(each), chance.random())))
    cluster.settle()


def ten_failovers(cluster: RealCluster, world: World, chance: random.Random) -> None:
    """One after the other, as soon as the cluster lets them."""
    for _ in range(10):
        replica_takes_over(cluster, world, chance)


def replica_is_promoted(cluster: RealCluster, world: World, chance: random.Random) -> None:
    """Without asking its primary, which goes on acknowledging writes for a moment."""
    primary = chance.choice(cluster.primaries())
    (replica,) = cluster.replicas_of(primary)
    with losing(cluster, world, primary, replica):
        cluster.failover(replica, chance.choice(("FORCE", "TAKEOVER")))
        cluster.settle()


def primary_dies(cluster: RealCluster, world: World, chance: random.Random) -> None:
    """And comes back as a replica."""
    primary = chance.choice(cluster.primaries())
    (replica,) = cluster.replicas_of(primary)
    with losing(cluster, world, primary, replica), cluster.replaceable(replica) as replaced:
        primary.kill()
        replaced()
        primary.start()
        cluster.settle()


def primary_hangs(cluster: RealCluster, world: World, chance: random.Random) -> None:
    """And goes on, deposed, with whatever waits in its sockets."""
    primary = chance.choice(cluster.primaries())
    (replica,) = cluster.replicas_of(primary)
    with losing(cluster, world, primary, replica), cluster.replaceable(replica) as replaced:
        primary.freeze()
        try:
            replaced()
        finally:
            primary.thaw()
        cluster.settle()


def primary_is_cut_off(cluster: RealCluster, world: World, chance: random.Random) -> None:
    """Clients still reach it, and the other nodes do not: they promote its replica, and what clients write there must
    go to that one before the network is whole again."""
    primary = chance.choice(cluster.primaries())
    (replica,) = cluster.replicas_of(primary)
    with losing(cluster, world, primary, replica), cluster.replaceable(replica) as replaced:
        with cluster.cut_off(primary):
            replaced()
            applied = replica.calls("set")
            eventually(lambda: replica.calls("set") > applied)
            assert cluster.role(primary) == "master", "nobody has told it"
        cluster.settle()


def node_comes_and_goes(cluster: RealCluster, world: World, chance: random.Random) -> None:
    """A new primary gets slots in use, gives them back, and is forgotten."""
    new = cluster.add()
    cluster.settle()  # until then it refuses keys
    tags = chance.sample(TAGS, 3)
    for tag in tags:
        slot = slot_of(tag.encode())
        cluster.move_slots([slot], cluster.owner(slot), new)
    cluster.settle()
    home = chance.choice([each for each in cluster.primaries() if each is not new])
    cluster.move_slots(sorted({slot_of(tag.encode()) for tag in tags}), new, home)
    cluster.settle()
    cluster.forget(new)
    cluster.settle()


def all_nodes_restart(cluster: RealCluster, world: World, chance: random.Random) -> None:
    """One after the other, as an upgrade does it: each primary hands over to its replica first."""
    for node in list(cluster.living()):
        if cluster.role(node) == "master":
            (replica,) = cluster.replicas_of(node)
            cluster.failover(replica)
            cluster.settle()
        node.kill()
        node.start()
        cluster.settle()


@contextmanager
def losing(cluster: RealCluster, world: World, primary: Engine, replica: Engine) -> Iterator[None]:
    """The primary may be lost in this block with what it acknowledges from now on, and with nothing before."""
    world.begin_losing(frozenset(tag for tag in TAGS if cluster.owner(slot_of(tag.encode())) is primary))
    sent = int(primary.info("replication")["master_repl_offset"])
    eventually(lambda: int(replica.info("replication")["slave_repl_offset"]) >= sent)
    try:
        yield
    finally:
        world.end_losing()
