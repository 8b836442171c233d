"""A primary that is lost or hangs delays nobody who has nothing for it, long before the cluster says that it failed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from tests.cluster.nodes import RealCluster
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Closed, eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay knows no cluster")

FOR_ANY_NODE = [
    ["PING"],
    ["ECHO x"],
    ["TIME"],
    ["INFO server"],
    ["CONFIG GET maxmemory"],
    ["HELLO 3", "PING"],
    ["SELECT 0", "PING"],
    ["AUTH app pw", "PING"],
    ["MULTI", "PING", "EXEC"],
    ["PUBLISH news m"],
    ["EVAL return(1) 0"],
]


@pytest.fixture
def keyrail(patient_cluster: RealCluster, new_keyrail: Callable[..., Keyrail]) -> Iterator[Keyrail]:
    started = new_keyrail(f"redis+cluster://127.0.0.1:{patient_cluster.nodes[1].port}")
    eventually(lambda: started.http("/readyz")[0] == 200)
    yield started
    for node in patient_cluster.nodes:
        if node.process is not None:
            node.thaw()


def is_served(keyrail: Keyrail, commands: list[str]) -> bool:
    """Whether a new client gets a reply to each of these, none of which is an error."""
    try:
        with keyrail.wire(timeout=1.0) as wire:
            return all(not wire.ask(*command.split()).startswith(b"-") for command in commands)
    except (TimeoutError, Closed):
        return False


def test_what_any_node_can_do_does_not_wait_for_one_that_hangs(patient_cluster: RealCluster, keyrail: Keyrail) -> None:
    with keyrail.wire() as idle:
        assert idle.ask("PING") == b"+PONG\r\n"
        patient_cluster.nodes[0].freeze()
        eventually(lambda: is_served(keyrail, ["PING"]))
        for commands in FOR_ANY_NODE:
            assert is_served(keyrail, commands), commands
        assert idle.ask("PING") == b"+PONG\r\n", "nor does one that was there before"


def test_publish_depends_on_no_node_that_is_lost(patient_cluster: RealCluster, keyrail: Keyrail) -> None:
    with keyrail.wire() as subscriber, keyrail.wire() as publisher:
        subscriber.ask("SUBSCRIBE", "news")
        eventually(lambda: publisher.ask("PUBLISH", "news", "0") == b":1\r\n")
        patient_cluster.nodes[2].kill()
        for number in range(1, 20):
            assert publisher.ask("PUBLISH", "news", number) in (b":0\r\n", b":1\r\n")


@pytest.mark.parametrize("number", [1, 2])
def test_publish_depends_on_no_node_that_hangs(patient_cluster: RealCluster, keyrail: Keyrail, number: int) -> None:
    with keyrail.wire() as publisher:
        assert publisher.ask("PUBLISH", "news", "m") == b":0\r\n"
        patient_cluster.nodes[number].freeze()
        for _ in range(5):
            assert publisher.ask("PUBLISH", "news", "m") == b":0\r\n"


def test_a_cluster_whose_primaries_and_seeds_have_all_been_replaced_meanwhile_is_found_again(
    cluster_name: str, new_cluster: Callable[..., RealCluster], new_keyrail: Callable[..., Keyrail]
) -> None:
    """Keyrail is cut off: it stands still."""
    cluster = new_cluster(cluster_name)
    old, replicas = cluster.nodes[:3], cluster.nodes[3:]
    keyrail = new_keyrail(f"redis+cluster://127.0.0.1:{old[0].port}")
    eventually(lambda: keyrail.http("/readyz")[0] == 200)
    eventually(lambda: keyrail.http("/nodes")[1].count('"replica"') == 3)
    pids = keyrail.pids()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        for replica in replicas:
            cluster.failover(replica)
        cluster.settle()
        for node in old:
            node.kill()
    finally:
        for pid in reversed(pids):
            os.kill(pid, signal.SIGCONT)
    eventually(lambda: is_served(keyrail, ["SET a 1", "SET b 1", "SET c 1"]))
