"""Operators see a tenant's key under the name in Redis, and beside it the tenant and the name that it knows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proxy.cli import main
from proxy.server.stored.json_form import as_json, from_json
from tests.conftest import Fleet
from tests.engines import Engine
from tests.keyrail_process import DIRECT
from tests.resp import eventually
from tests.server.running import Running, serve
from tests.tenants.test_against_engines import POLICY, login, prepared
from tests.tenants.test_own_hot_keys import told

pytestmark = pytest.mark.skipif(DIRECT, reason="tenants are Keyrail's own")
ALERTS = "alerts: {hot_key: {share: 10%, rate: 1/s}, big_value: 2KB}\n"
CART = {"app": "acme", "key": "cart:1"}
WORDS = "acme:cart:1 (cart:1 of tenant acme)"


@pytest.fixture(scope="module")
def engine(fleet: Fleet) -> Engine:
    return prepared(fleet.engine("valkey-9.1", "server"))


@pytest.fixture(scope="module")
def running(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("names")
    schema = "schema: {carts: {key: 'cart:{id:int}'}}\n"
    (folder / "tenants.yaml").write_text(POLICY.replace("rules: {}", f"{ALERTS}{schema}rules: {{}}"))
    files = ("--policy", str(folder / "tenants.yaml"), "--incidents", str(folder / "incidents"))
    with serve("--upstream", engine.url, "--workers", "1", "--traces", "1000", *files) as running:
        running.ready()
        with running.wire() as acme, running.wire() as nobody:
            login(acme, "acme")
            acme.ask("SET", "cart:1", "x" * 4000)
            for _ in range(40):
                acme.ask("GET", "cart:1")
                nobody.ask("GET", "outside")
        eventually(lambda: len(running.json("/hotkeys")["keys"]) == 2)
        yield running


def by_key(rows: list[dict[str, Any]], name: str = "key") -> dict[str, dict[str, Any]]:
    return {row[name]: row for row in rows}


def test_wherever_the_admin_port_shows_a_key(running: Running) -> None:
    keys = by_key(running.json("/hotkeys")["keys"])
    assert (keys["acme:cart:1"]["tenant"], keys["outside"]["tenant"]) == (CART, None)
    eventually(lambda: {"acme:cart:1", "outside"} <= by_key(running.json("/slow?count=1000")["commands"]).keys())
    slow = by_key(running.json("/slow?count=1000")["commands"])
    assert (slow["acme:cart:1"]["tenant"], slow["outside"]["tenant"]) == (CART, None)
    patterns = by_key(running.json("/patterns")["patterns"], "pattern")
    assert patterns["carts"]["largest_key"] == "acme:cart:1"
    assert patterns["carts"]["largest_tenant"] == CART
    assert not any(name.startswith("acme:") for name in patterns), "also those of large replies are of the schema"
    shown = [zip(slot["keys"], slot["tenants"], strict=True) for slot in running.json("/slots")["slots"]]
    assert {key: tenant for slot in shown for key, tenant in slot} == {"acme:cart:1": CART, "outside": None}


@pytest.mark.parametrize("protocol", [2, 3])
def test_in_band_to_those_who_see_all_keys(running: Running, protocol: int) -> None:
    with running.wire() as wire:
        wire.ask("HELLO", protocol)
        tenants = {row["key"]: row["tenant"] for row in told(wire)}
        assert tenants == {b"acme:cart:1": [b"app", b"acme", b"key", b"cart:1"], b"outside": None}


def test_in_incidents(running: Running) -> None:
    def begun() -> list[dict[str, Any]]:
        with running.wire() as acme:
            login(acme, "acme")
            for _ in range(40):
                acme.ask("GET", "cart:1")
        found = [each for each in running.json("/incidents")["incidents"] if "tenant" in each]
        return found if len({each["kind"] for each in found}) == 2 else []

    eventually(lambda: bool(begun()))
    incidents = by_key(running.json("/incidents")["incidents"], "kind")
    hot, big = incidents["hot-key"], incidents["big-value"]
    assert (hot["subject"], hot["about"], hot["tenant"]) == ("acme:cart:1", "carts", CART)
    assert hot["lines"][0].startswith(f"{WORDS} HOT ")
    assert any(line.startswith("remedy: keyrail remedy acme:cart:1 --cap acme=") for line in hot["lines"])
    assert (big["about"], big["tenant"]) == ("carts", CART)
    assert f"{WORDS}: 3.9 KB" in big["lines"][0]
    running.await_line(rf"^keyrail: incident INC-\d+ on route default: {re.escape(WORDS)} HOT ")


def test_in_remedies(running: Running, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*words: str) -> str:
        assert main(["remedy", *words, "--admin", running.admin]) == 0
        return capsys.readouterr().out

    done = said("acme:cart:1", "--cap", "acme=1000/s", "--because", "INC-1")
    assert done.startswith(f"remedy 1: {WORDS} is capped at 1000/s for acme until ")
    assert f"remedy 1: {WORDS} is capped" in said("list")
    (remedy,) = running.json("/remedies")["remedies"]
    assert (remedy["key"], remedy["tenant"]) == ("acme:cart:1", CART)
    running.await_line(rf"^keyrail: remedy-1: {re.escape(WORDS)} capped at 1000 commands in 1 s for app acme until ")
    said("undo", "1")
    assert said("acme:cart:1", "--local-cache", "--because", "x").startswith(f"remedy 2: reads of {WORDS} are answered")
    said("undo", "2")


def test_without_tenants_there_is_no_such_field(engine: Engine) -> None:
    with serve("--upstream", engine.url, "--workers", "1") as running:
        running.ready()
        with running.wire() as wire:
            for _ in range(20):
                wire.ask("GET", "acme:cart:1")
        eventually(lambda: bool(running.json("/hotkeys")["keys"]))
        eventually(lambda: bool(running.json("/slow")["commands"]))
        answers = [running.http(path)[1] for path in ("/hotkeys", "/slow", "/patterns", "/slots", "/remedies")]
        assert not any("tenant" in json.dumps(answer) for answer in answers)


def test_in_violations_and_evidence(engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = "walks: {refuse: [APPEND], mode: audit}, ttl: {lifetime: {default: 5m}, mode: enforce}"
    rules = f"traffic: {{evidence: exact}}\nrules: {{{rules}}}"
    (tmp_path / "tenants.yaml").write_text(POLICY.replace("rules: {}", rules))
    files = ("--policy", str(tmp_path / "tenants.yaml"), "--state-dir", str(tmp_path / "state"))
    log = tmp_path / "violations"
    shown = ("--redact", "none", "--violations", str(log), "--workers", "1")
    with serve("--upstream", engine.url, *files, *shown) as running:
        running.ready()
        with running.wire() as acme, running.wire() as nobody:
            login(acme, "acme")
            acme.ask("APPEND", "cart:1", "x")
            acme.ask("HSET", "cart:2", "f", "v")
            nobody.ask("APPEND", "other", "x")
        eventually(lambda: len(running.json("/violations")["violations"]) >= 2)
        lines = by_key(running.json("/violations")["violations"])
        assert (lines["acme:cart:1"]["tenant"], lines["acme:cart:1"]["shape"]) == (CART, "cart:{int}")
        assert "tenant" not in lines["other"]
        eventually(lambda: b'"tenant": {"app": "acme", "key": "cart:1"}' in log.read_bytes())

        def told() -> dict[str, Any]:
            return {rule["rule"]: rule["apps"] for rule in running.json("/rules")["routes"][0]["rules"]}

        eventually(lambda: "acme" in told()["ttl"])
        eventually(lambda: {"acme", "unknown"} <= told()["walks"].keys())
        samples = {app: found["sample"] for app, found in told()["walks"].items() if "sample" in found}
        assert (samples["acme"]["words"][:2], samples["acme"]["prefix"]) == (["APPEND", "cart:1"], "acme:")
        assert "prefix" not in samples["unknown"]
        assert {each["shape"] for each in told()["ttl"]["acme"]["shapes"]} == {"cart:{int}"}, "as rules have judged it"
        assert main(["report", "--admin", running.admin]) in (0, 1)
        said = capsys.readouterr().out
        assert "such as APPEND cart:1 '<1 bytes>', in Redis behind acme:" in said
        assert "such as APPEND other '<1 bytes>'\n" in said


def test_in_scans(engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = "rules: {ttl: {lifetime: {default: 5m}, mode: audit}}"
    (tmp_path / "tenants.yaml").write_text(POLICY.replace("rules: {}", rules))
    engine.do("SET", "acme:cart:1", "x" * 4000)
    engine.do("SET", "outside", "x")
    words = ("scan", "--upstream", engine.url, "--policy", str(tmp_path / "tenants.yaml"))
    assert main(words) in (0, 1)
    text = capsys.readouterr().out
    assert re.search(rf"^{re.escape(WORDS)} +string ", text, re.MULTILINE), "among the largest keys"
    assert f"such as {WORDS}" in text
    assert main((*words, "--json")) in (0, 1)
    scan = json.loads(capsys.readouterr().out)
    largest = by_key(scan["largest"])
    assert largest["acme:cart:1"]["tenant"] == CART
    assert "tenant" not in largest["outside"]
    found = from_json(scan)
    assert as_json(found)["largest"] == scan["largest"], "it is kept"
