"""A client is judged as its app from the moment that the app is known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Fleet
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Wire

pytestmark = pytest.mark.skipif(DIRECT, reason="guardrails are Keyrail's own")

POLICY = """
keyrail: 1
apps:
  checkout: {match: {user: checkout}}
  web: {match: {listener: "127.0.0.1:*", client_name: "web-*"}}
  spark: {match: {client_name: "spark-*"}}
rules:
  no-keys: {refuse: [KEYS], because: it walks, instead: use SCAN}
  no-scan: {refuse: [SCAN], because: it walks, instead: ask}
rollout:
  no-keys: {default: audit, checkout: enforce, web: enforce, spark: enforce}
  no-scan: {default: enforce, checkout: off, spark: off}
"""
REFUSED = b"-DENIED keyrail/no-keys: KEYS is refused because it walks; use SCAN\r\n"
NO_SCAN = b"-DENIED keyrail/no-scan: SCAN is refused because it walks; ask\r\n"


@pytest.fixture
def keyrail(fleet: Fleet, engine_name: str, tmp_path: Path) -> Keyrail:
    engine = fleet.engine(engine_name)
    engine.do("FLUSHALL")
    engine.do("ACL", "SETUSER", "checkout", "on", ">secret", "~*", "+@all")
    file = tmp_path / "redis.yaml"
    file.write_text(POLICY, encoding="utf-8")
    return fleet.keyrail(engine_name, policy=file)


@pytest.fixture
def wire(keyrail: Keyrail) -> Iterator[Wire]:
    with keyrail.wire() as wire:
        yield wire


def test_logging_in_and_out_changes_the_app(wire: Wire) -> None:
    assert wire.ask("KEYS", "*") == b"*0\r\n"
    assert wire.ask("SCAN", "0") == NO_SCAN
    assert wire.ask("AUTH", "checkout", "wrong").startswith(b"-WRONGPASS")
    assert wire.ask("KEYS", "*") == b"*0\r\n"
    assert wire.ask("AUTH", "checkout", "secret") == b"+OK\r\n"
    assert wire.ask("KEYS", "*") == REFUSED
    assert wire.ask("SCAN", "0").startswith(b"*2\r\n")
    assert wire.ask("RESET") == b"+RESET\r\n"
    assert wire.ask("KEYS", "*") == b"*0\r\n"


def test_a_name_may_only_make_it_stricter(wire: Wire) -> None:
    assert wire.ask("CLIENT", "SETNAME", "spark-1") == b"+OK\r\n"
    assert wire.ask("KEYS", "*") == REFUSED
    assert wire.ask("SCAN", "0") == NO_SCAN
    assert wire.ask("CLIENT", "SETNAME", "web-1") == b"+OK\r\n"
    assert wire.ask("KEYS", "*") == REFUSED
    assert wire.ask("CLIENT", "SETNAME", "other") == b"+OK\r\n"
    assert wire.ask("KEYS", "*") == b"*0\r\n"
    assert wire.ask("HELLO", "3", "SETNAME", "spark-2").startswith(b"%")
    assert wire.ask("KEYS", "*") == REFUSED


def test_a_transaction_ends_as_the_app_that_it_began_as(wire: Wire) -> None:
    assert wire.ask("MULTI") == b"+OK\r\n"
    assert wire.ask("CLIENT", "SETNAME", "spark-1") == b"+QUEUED\r\n"
    assert wire.ask("KEYS", "*") == b"+QUEUED\r\n"
    assert wire.ask("EXEC") == b"*2\r\n+OK\r\n*0\r\n"
