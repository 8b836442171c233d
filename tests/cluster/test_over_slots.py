"""Lifetimes before a real cluster, for commands with keys of several slots: each key's node sets and renews its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.nodes import RealCluster
from tests.keyrail_process import Keyrail
from tests.resp import eventually

POLICY = """
keyrail: 1
cross_slot: split
defaults: {mode: enforce}
rules:
  sliding: {lifetime: {default: 1h, sliding: true, keys: "session:*"}}
  short: {lifetime: {default: 5m, keys: "short:*"}}
  other: {lifetime: {default: 10m, keys: "other:*"}}
"""


@pytest.fixture
def keyrail(cluster: RealCluster, new_keyrail: Callable[..., Keyrail], tmp_path: Path) -> Keyrail:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY, encoding="utf-8")
    running = new_keyrail(f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}", policy=str(policy))
    eventually(lambda: running.http("/readyz")[0] == 200)
    return running


def test_lifetimes_of_keys_in_several_slots(keyrail: Keyrail) -> None:
    with keyrail.wire() as wire:
        sessions = [f"session:{number}" for number in range(12)]
        assert wire.ask("MSET", *(word for key in sessions for word in (key, "v"))) == b"+OK\r\n"
        for key in sessions:
            assert wire.value("TTL", key) in range(3590, 3601)
            assert wire.ask("EXPIRE", key, 100) == b":1\r\n"
        assert wire.value("MGET", *sessions[:11], "session:missing") == [b"v"] * 11 + [None]
        assert [wire.value("TTL", key) in range(3500, 3601) for key in sessions] == [True] * 11 + [False]
        mixed = [f"{kind}:{number}" for number in range(6) for kind in ("short", "other", "free")]
        assert wire.ask("MSET", *(word for key in mixed for word in (key, "v"))) == b"+OK\r\n"
        expected = {"short": range(290, 301), "other": range(590, 601), "free": range(-1, 0)}
        for key in mixed:
            assert wire.value("TTL", key) in expected[key.partition(":")[0]], key
        assert wire.value("EXISTS", *sessions, *mixed) == 30
        assert wire.value("DEL", *sessions, *mixed) == 30
