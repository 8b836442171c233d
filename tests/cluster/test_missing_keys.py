"""While a primary with slots has failed and no replica has taken its place, no reply speaks of all keys: neither of how
many there are, nor that all have been removed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cluster.nodes import RealCluster
from tests.engines import free_port
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Address, Wire, eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay knows no cluster")

BY_SCAN = "keyrail: 1\nrules: {by-scan: {keys_by_scan: {keys: 1000}}}\n"


def without_a_primary(cluster: RealCluster, keyrail: Keyrail) -> None:
    """End the last primary, and wait until the others have taken it for lost."""
    for number in range(90):
        with keyrail.wire() as wire:
            wire.ask("SET", f"key:{number}", "v")
    cluster.nodes[2].kill()
    eventually(lambda: "slots have no owner" in keyrail.http("/readyz")[1])


def test_commands_about_all_keys_are_errors(
    cluster_name: str, new_cluster: Callable[..., RealCluster], new_keyrail: Callable[..., Keyrail], tmp_path: Path
) -> None:
    cluster = new_cluster(cluster_name, {"cluster-require-full-coverage": "no"}, replicas=0)
    ports = sorted([free_port(), free_port()])
    shown = ["--present", "cluster", "--advertise", ",".join(f"127.0.0.1:{port}" for port in ports)]
    listeners = [text for port in ports for text in ("--listen", f"redis://127.0.0.1:{port}")]
    upstream = f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}"
    policy = tmp_path / "policy.yaml"
    policy.write_text(BY_SCAN)
    single, by_scan = new_keyrail(upstream), new_keyrail(upstream, policy=policy)
    several = new_keyrail(upstream, extra=[*shown, *listeners])
    eventually(lambda: all(each.http("/readyz")[0] == 200 for each in (single, by_scan, several)))
    without_a_primary(cluster, single)
    left = [node.do("DBSIZE") for node in cluster.nodes[:2]]
    with ExitStack() as stack:
        waiting = [stack.enter_context(each) for each in (single.wire(), single.wire(), Wire(Address(port=ports[1])))]
        for wire, verb in zip(waiting, ("DBSIZE", "FLUSHALL", "DBSIZE"), strict=True):
            wire.say(verb)
        assert all(wire.frame().startswith(b"-CLUSTERDOWN ") for wire in waiting)
    with by_scan.wire() as wire, Wire(Address(port=ports[0])) as whole:
        assert wire.ask("KEYS", "*").startswith(b"-CLUSTERDOWN ")
        assert whole.value("DBSIZE") == left[0]
    assert [node.do("DBSIZE") for node in cluster.nodes[:2]] == left
    with single.wire() as wire:
        assert wire.ask("RANDOMKEY").startswith(b"$")
        assert wire.ask("SCRIPT", "LOAD", "return 1").startswith(b"$40")
    cluster.nodes[2].start()
    with single.wire() as wire:
        eventually(lambda: wire.ask("FLUSHALL") == b"+OK\r\n")
        assert wire.value("DBSIZE") == 0
