"""What is seen of the local cache: the admin port, clients, metrics and the rules tell the same."""

import re
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.conftest import Fleet
from tests.resp import Wire, pack
from tests.server.running import Running, serve, ticks

POLICY = """
keyrail: 1
rules:
  products: {local_cache: {keys: ["product:*"], when: always}, mode: enforce}
  orders: {local_cache: {keys: ["order:*"], when: always}, mode: audit}
  walks: {refuse: [KEYS], because: one KEYS stops every client}
"""
KEYS = ("product:1", "order:1", "user:1")


def read(wire: Wire) -> None:
    wire.send(b"".join(pack("GET", key) * 5 for key in KEYS))
    wire.frames(5 * len(KEYS))


def hot_keys(running: Running, wire: Wire) -> dict[str, dict[str, Any]]:
    """The busiest keys, once memory has answered reads of one, and would have of another."""
    keys: dict[str, dict[str, Any]] = {}
    cache: dict[str, Any] = {}
    for _ in ticks():
        read(wire)
        keys = {key["key"]: key for key in running.json("/hotkeys")["keys"]}
        cache = running.json("/local_cache?window=60")
        if keys.keys() >= set(KEYS) and keys["product:1"]["cached_share"] > 0 and cache["audit"]["hits"] > 0:
            return keys
    raise AssertionError((keys, cache))


def test_all_tell_the_same(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    upstream = fleet.engine("valkey-9.1", "server").url
    with serve("--upstream", upstream, "--policy", str(tmp_path / "policy.yaml")) as running:
        (port,) = running.ready().ports()
        with running.wire() as wire:
            for key in KEYS:
                wire.ask("SET", key, "v")
            keys = hot_keys(running, wire)
            assert 0 < keys["product:1"]["cached_share"] <= 1
            assert keys["order:1"]["cached_share"] == keys["user:1"]["cached_share"] == 0
            with redis.Redis(port=port, protocol=3, decode_responses=True) as client:
                rows = client.execute_command("KEYRAIL", "HOTKEYS")["keys"]
            assert {row["key"]: row["cached_share"] > 0 for row in rows} == {key: key == "product:1" for key in KEYS}

            cache = running.json("/local_cache?window=60")
            assert cache["rules"] == ["products", "orders"]
            assert (cache["entries"], cache["memory_limit_bytes"], cache["connections"], cache["off"]) == (
                2,
                2 << 26,
                1,
                0,
            )
            assert 0 < cache["memory_bytes"] < 4096
            assert cache["enforce"]["bytes"] == pytest.approx(7 * cache["enforce"]["hits"], rel=0.01)
            assert 0 < cache["hit_ratio"] <= 1
            assert cache["mean_age"] is not None

            rules = {rule["rule"]: rule for rule in running.json("/rules")["routes"][0]["rules"]}
            assert "local_cache" not in rules["walks"]
            products, orders = (rules[name]["local_cache"] for name in ("products", "orders"))
            assert products["enforce"]["bytes"] == 7 * products["enforce"]["hits"] > 0
            assert orders["audit"]["bytes"] == 7 * orders["audit"]["hits"] > 0
            assert products["audit"]["hits"] == orders["enforce"]["hits"] == 0
            text = running.http("/metrics")[1]
            for name, least in (('hits_total{mode="enforce"', 1), ("age_seconds_count{", 1), ("connections{", 1)):
                found = re.search(rf"^keyrail_local_cache_{re.escape(name)}.*}} (\S+)$", text, re.MULTILINE)
                assert found is not None, name
                assert float(found[1]) >= least


def test_without_a_rule_there_is_nothing(fleet: Fleet) -> None:
    with serve("--upstream", fleet.engine("valkey-9.1", "server").url) as running:
        cache = running.ready().json("/local_cache")
        assert cache["rules"] == []
        assert (cache["entries"], cache["memory_limit_bytes"], cache["hit_ratio"]) == (0, 0, None)
        assert "keyrail_local_cache_hits_total{" not in running.http("/metrics")[1]
