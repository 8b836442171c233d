"""KEYRAIL HOTKEYS of a tenant shows its own keys under its own names, and nothing about those of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Fleet
from tests.engines import Engine
from tests.keyrail_process import DIRECT
from tests.resp import Wire, eventually
from tests.tenants.test_against_engines import POLICY, login, prepared

pytestmark = pytest.mark.skipif(DIRECT, reason="tenants are Keyrail's own")
SHOWN = {"key", "count", "error", "reads", "writes", "cached_share", "replica_share", "rate", "bytes_in", "bytes_out"}
SHOWN |= {"hit_ratio", "ttl", "now"}


@pytest.fixture
def shared(fleet: Fleet, engine_name: str) -> Engine:
    return prepared(fleet.engine(engine_name))


def pairs(found: Any) -> dict[str, Any]:
    """An array of names and values, as RESP2 has a map."""
    names = [name.decode() for name in found[::2]]
    return dict(zip(names, found[1::2], strict=True))


def told(wire: Wire, *words: str) -> list[dict[str, Any]]:
    return [pairs(row) for row in pairs(wire.value("KEYRAIL", "HOTKEYS", *words))["keys"]]


def test_a_tenant_sees_its_own(fleet: Fleet, engine_name: str, shared: Engine, tmp_path: Path) -> None:
    file = tmp_path / "tenants.yaml"
    file.write_text(POLICY, encoding="utf-8")
    keyrail = fleet.keyrail(engine_name, policy=file)
    with keyrail.wire() as acme, keyrail.wire() as globex, keyrail.wire() as nobody:
        assert pairs(login(acme, "acme").value("KEYRAIL", "HOTKEYS"))["keys"] == []
        login(globex, "globex")
        for _ in range(30):
            acme.ask("GET", "busy")
            acme.ask("SET", "acme:busy", 1)
            globex.ask("GET", "acme:busy")
            nobody.ask("GET", "outside")
        acme.ask("GET", "rare")
        eventually(lambda: len(told(acme)) == 3)
        rows = told(acme, "BY", "reads")
        assert [row["key"] for row in rows[:1]] == [b"busy"]
        assert {row["key"] for row in rows} == {b"busy", b"acme:busy", b"rare"}
        assert {name for row in rows for name in row} == SHOWN
        assert [row["key"] for row in told(acme, "BY", "writes", "COUNT", "1")] == [b"acme:busy"]
        assert set(pairs(acme.value("KEYRAIL", "HOTKEYS"))) == {"window", "age", "at", "keys"}
        assert [row["key"] for row in told(globex)] == [b"acme:busy"]
        assert {row["key"] for row in told(nobody)} >= {
            b"acme:busy",
            b"acme:acme:busy",
            b"globex:acme:busy",
            b"outside",
        }
        assert b"HOTKEYS" in acme.ask("KEYRAIL", "HELP")
        assert b"PATTERNS" not in acme.ask("KEYRAIL", "HELP")
        for words in (("PATTERNS",), ("INFO",), ("SLOW",), ("NODE", "n1", "GET", "a"), ("EXPLAIN", "GET", "a")):
            assert acme.ask("KEYRAIL", *words).startswith(b"-DENIED keyrail: KEYRAIL"), words


def test_a_user_whose_name_cannot_be_in_the_prefix_sees_nothing(
    fleet: Fleet, engine_name: str, shared: Engine, tmp_path: Path
) -> None:
    shared.do("ACL", "SETUSER", "a:b", "on", ">secret", "~*", "&*", "+@all")
    file = tmp_path / "tenants.yaml"
    users = POLICY.replace("{user: globex}", '{user: "*"}').replace('"{app}:"', '"{user}:"')
    file.write_text(users, encoding="utf-8")
    with fleet.keyrail(engine_name, policy=file).wire() as wire:
        login(wire, "a:b")
        assert wire.ask("KEYRAIL", "HOTKEYS").startswith(b"-DENIED keyrail: this client is of a tenant, and its user")
