"""A quota follows the scans in the state folder, and what clients of all workers delete: who is over is refused, who
deletes enough goes on, and a scan that is too old refuses nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from proxy.cli import main
from tests.cluster.nodes import RealCluster
from tests.conftest import kind_named
from tests.engines import Engine
from tests.keyrail_process import DIRECT
from tests.resp import Wire, eventually
from tests.server.running import Running, serve

pytestmark = pytest.mark.skipif(DIRECT, reason="guardrails are Keyrail's own")

POLICY = """
keyrail: 1
defaults: {mode: enforce}
apps: {shop: {match: {address: ["127.0.0.0/8"]}}}
schema: {cart: {key: "cart:{id}", app: shop}}
rules: {scripts: {scripts: {commands: follow_rules}}, full: {quota: {keys: 5, max_age: MAX_AGE}}}
"""
REFUSED = b"-DENIED keyrail/full: SET may create a key, and shop is over its quota of 5 keys: the scan of "


class Shop:
    """An engine, a policy, and a Keyrail with two workers."""

    def __init__(self, url: str, folder: Path, max_age: str) -> None:
        self._policy, self._state = folder / "policy.yaml", folder / "state"
        self._policy.write_text(POLICY.replace("MAX_AGE", max_age))
        self._redis = ("--upstream", url, "--policy", str(self._policy), "--state-dir", str(self._state))

    def serve(self) -> Running:
        return serve(*self._redis, "--workers", "2")

    def scan(self) -> None:
        assert main(["scan", *self._redis, "--share", "100%"]) == 0


def is_refused(wire: Wire) -> bool:
    return wire.ask("SET", "cart:0", "v").startswith(REFUSED)


def passes(wire: Wire) -> bool:
    return wire.ask("SET", "cart:0", "v") == b"+OK\r\n"


def quota(running: Running) -> Any:
    _, rule = running.json("/rules")["routes"][0]["rules"]
    return rule["quota"]


def test_over_refused_purged_and_passed(new_engine: Callable[..., Engine], tmp_path: Path) -> None:
    shop = Shop(new_engine().url, tmp_path, "1h")
    with shop.serve() as running, running.ready().wire() as one, running.wire() as other:
        for number in range(8):
            assert one.ask("SET", f"cart:{number}", "v") == b"+OK\r\n"
        assert quota(running)["scan"] is None
        shop.scan()
        for wire in (one, other):
            eventually(partial(is_refused, wire))
        assert one.ask("SET", "cart:0", "w", "XX") == b"+OK\r\n"
        assert one.ask("GET", "cart:0") == b"$1\r\nw\r\n"
        owner = quota(running)["owners"]["shop"]
        assert (owner["keys"], owner["over"]) == (8, True)
        assert other.ask("DEL", "cart:1") == b":1\r\n"
        assert other.ask("DEL", "cart:2", "cart:3") == b":2\r\n"
        for wire in (one, other):
            eventually(partial(passes, wire))
        for number in range(10, 13):
            assert one.ask("SET", f"cart:{number}", "v") == b"+OK\r\n"
        shop.scan()
        eventually(partial(is_refused, one))
        assert one.ask("UNLINK", *(f"cart:{number}" for number in range(4, 13))) == b":7\r\n"
        shop.scan()
        eventually(partial(passes, one))
        eventually(lambda: quota(running)["owners"]["shop"]["keys"] == 1)


def test_it_holds_in_transactions_scripts_and_large_values_and_after_a_worker_has_died(
    new_engine: Callable[..., Engine], tmp_path: Path
) -> None:
    shop = Shop(new_engine().url, tmp_path, "1h")
    with shop.serve() as running:
        with running.ready().wire() as wire:
            for number in range(8):
                assert wire.ask("SET", f"cart:{number}", "v") == b"+OK\r\n"
            shop.scan()
            eventually(partial(is_refused, wire))
            assert wire.ask("MULTI") == b"+OK\r\n"
            assert is_refused(wire)
            assert wire.ask("EXEC").startswith(b"-EXECABORT")
            assert wire.ask("EVAL", "return redis.call('SET', KEYS[1], 'v')", 1, "cart:0").startswith(
                b"-DENIED keyrail/"
            )
            assert wire.ask("SET", "cart:0", "v" * (8 << 20)).startswith(REFUSED)
            assert wire.ask("GET", "cart:0") == b"$1\r\nv\r\n"
        before = running.workers()
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        eventually(lambda: len(set(running.workers()) - set(before)) == 2)
        running.await_http("/readyz", 200)
        with running.wire() as wire:
            eventually(partial(is_refused, wire))


def test_a_cluster_is_counted_as_one(tmp_path: Path) -> None:
    cluster = RealCluster(kind_named("valkey-9.1"))
    try:
        shop = Shop(cluster.primaries()[0].url, tmp_path, "1h")
        with shop.serve() as running, running.ready().wire() as wire:
            for number in range(8):
                eventually(partial(lambda key: wire.ask("SET", key, "v") == b"+OK\r\n", f"cart:{number}"))
            shop.scan()
            eventually(partial(is_refused, wire))
            assert quota(running)["owners"]["shop"]["keys"] == 8
            assert wire.ask("DEL", *(f"cart:{number}" for number in range(1, 4))) == b":3\r\n"
            eventually(partial(passes, wire))
    finally:
        cluster.close()


def test_a_scan_that_is_too_old_refuses_nothing_and_says_so(new_engine: Callable[..., Engine], tmp_path: Path) -> None:
    shop = Shop(new_engine().url, tmp_path, "8s")
    with shop.serve() as running, running.ready().wire() as wire:
        for number in range(8):
            assert wire.ask("SET", f"cart:{number}", "v") == b"+OK\r\n"
        shop.scan()
        eventually(partial(is_refused, wire))
        eventually(partial(passes, wire))
        told = quota(running)
        assert (told["judges"], told["max_age_seconds"]) == (False, 8)
        assert told["age_seconds"] > 8
        assert running.json("/report?since=1h")["quotas"][0]["judges"] is False
