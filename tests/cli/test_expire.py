"""`keyrail expire`: TTLs by a rule, and back."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from proxy.cli import main
from tests.server.stored.fake_servers import FakeServer, Value
from tests.server.stored.served import served

POLICY = """
keyrail: 1
defaults: {mode: audit}
apps:
  shop: {match: {user: shop}}
schema:
  cart: {key: "cart:{id:int}", app: shop, ttl: {default: 1h, jitter: 20%}}
  seat: {key: "seat:{id:int}", app: shop, ttl: {required: true, max: 2h}}
  user: {key: "user:{id:int}", app: shop, ttl: none}
rules:
  ttls: {schema: ttl}
  no-flush: {refuse: [FLUSHALL]}
"""


def test_there_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    server = FakeServer(Random(1))
    names = [b"%b:%d" % (kind, each) for kind in (b"cart", b"seat", b"user") for each in range(10)]
    server.held[0] = {name: Value() for name in names} | {b"cart:99": Value(ttl=5)}
    with served(server) as one:
        common = ["expire", "--upstream", one.url, "--policy", str(policy), "--share", "100%"]
        assert main([*common, "--no-ttl", "--rule", "no-flush", "--dry-run"]) == 2
        assert "expected a rule that gives keys a TTL, one of ttls" in capsys.readouterr().err
        assert main([*common, "--no-ttl", "--rule", "ttls", "--dry-run"]) == 0
        assert "20 keys, 1.2 KiB: would get a TTL\n" in capsys.readouterr().out
        assert not server.changed
        journal = str(tmp_path / "journal")
        assert main([*common, "--no-ttl", "--rule", "ttls", "--yes", "--journal", journal]) == 0
        assert "20 keys, 1.2 KiB: got a TTL\n" in capsys.readouterr().out
        ttls = {name: value.ttl for name, value in server.held[0].items()}
        assert all(2_880_000 <= ttls[b"cart:%d" % each] <= 4_320_000 for each in range(10))
        assert all(6_480_000 <= ttls[b"seat:%d" % each] <= 7_200_000 for each in range(10))
        assert all(ttls[b"user:%d" % each] == -1 for each in range(10))
        assert ttls[b"cart:99"] == 5
        server.held[0][b"cart:1"].ttl += 1
        assert main([*common, "--undo", journal, "--yes", "--state-dir", str(tmp_path / "state")]) == 0
        shown = capsys.readouterr().out
        assert "19 keys, 1.2 KiB: lost their TTL again\n" in shown
        assert "left alone: 1 changed meanwhile\n" in shown
        assert {name for name, value in server.held[0].items() if value.ttl > 0} == {b"cart:1", b"cart:99"}
        assert main([*common, "--undo", str(policy), "--dry-run"]) == 2
        assert "is no journal of this version of Keyrail" in capsys.readouterr().err
