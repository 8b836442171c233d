"""A breaker refuses what needs the primary that fails, and nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from proxy.commands.slots import SLOTS, slot_of
from tests.cluster.nodes import RealCluster
from tests.cluster.test_hung_node import FOR_ANY_NODE, is_served
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay knows no cluster")

POLICY = """
keyrail: 1
defaults: {mode: enforce}
rules:
  ill: {breaker: {failing_for: 200ms}}
"""
DENIED = b"-DENIED keyrail/ill: Redis is failing"


def key_of(third: int) -> str:
    """A key of the primary that has this third of the slots."""
    names = (f"k{number}" for number in itertools.count())
    return next(name for name in names if slot_of(name.encode()) * 3 // SLOTS == third)


def test_only_what_needs_the_failing_node_is_refused(
    patient_cluster: RealCluster, new_keyrail: Callable[..., Keyrail], tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    keyrail = new_keyrail(f"redis+cluster://127.0.0.1:{patient_cluster.nodes[1].port}", policy=policy)
    eventually(lambda: keyrail.http("/readyz")[0] == 200)
    lost, *well = map(key_of, range(3))
    with keyrail.wire() as wire:
        for key in (lost, *well):
            assert wire.ask("SET", key, "v") == b"+OK\r\n"
        patient_cluster.nodes[0].freeze()
        try:
            keyrail.await_line("is open: Redis is failing")
            for _ in range(3):
                for refused in (["GET", lost], ["MGET", *well, lost], ["DBSIZE"], ["SCAN", "0"]):
                    assert wire.ask(*refused).startswith(DENIED), refused
                assert wire.ask("MGET", *well) == b"*2\r\n$1\r\nv\r\n$1\r\nv\r\n"
            eventually(lambda: is_served(keyrail, ["PING"]))  # another node does what any can do
            for commands in FOR_ANY_NODE:
                with keyrail.wire() as other:
                    assert not any(other.ask(*each.split()).startswith(DENIED) for each in commands), commands
            assert wire.ask("MULTI") == b"+OK\r\n"
            assert wire.ask("GET", lost).startswith(DENIED)
            assert wire.ask("EXEC").startswith(b"-EXECABORT")
        finally:
            patient_cluster.nodes[0].thaw()
        eventually(lambda: wire.ask("GET", lost) == b"$1\r\nv\r\n")
