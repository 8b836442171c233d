"""Findings of rules are visible outside: as lines, as evidence over all workers, and never with a value."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.conftest import Fleet
from tests.resp import pack
from tests.server.running import Running, serve, ticks

POLICY = """
keyrail: 1
traffic: {count_keys: off}
apps: {reports: {match: {client_name: "spark*"}}}
rules:
  walks: {refuse: [KEYS], mode: enforce}
  flush: {refuse: [FLUSHALL], mode: warn}
  short: {names: {max_length: 20}, mode: audit}
  lazy: {replace: {DEL: UNLINK}, mode: enforce}
  quiet: {refuse: [DEBUG], mode: audit}
"""

SECRET = "a-value-that-must-not-be-told"


@pytest.fixture(scope="module")
def upstream(fleet: Fleet) -> str:
    return fleet.engine("valkey-9.1", "server").url


@pytest.fixture(scope="module")
def seen(upstream: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Path]]:
    """Two workers, one of each kind of violation many times over, and the file with the lines."""
    folder = tmp_path_factory.mktemp("seeing")
    (folder / "policy.yaml").write_text(POLICY)
    arguments = ["--upstream", upstream, "--policy", str(folder / "policy.yaml"), "--workers", "2"]
    with serve(*arguments, "--violations", str(folder / "violations")) as running:
        running.ready()
        for number in range(8):
            with running.wire() as wire:
                wire.send(pack("CLIENT", "SETNAME", "spark") + pack("CLIENT", "SETINFO", "LIB-NAME", "redis-py"))
                wire.send(pack("SET", f"user:{number}:a-key-too-long-for-it", SECRET) + pack("KEYS", SECRET + "*"))
                wire.send(pack("DEL", f"user:{number}:x") + pack("GET", f"john\r\n{SECRET[:8]}-longer-than-allowed"))
                wire.frames(6)
        yield running, folder / "violations"


def rules(running: Running, **hits: int) -> dict[str, Any]:
    """The rules by name, as soon as these have their hits."""
    found: dict[str, Any] = {}
    for _ in ticks():
        (route,) = running.json("/rules")["routes"]
        found = {rule["rule"]: rule for rule in route["rules"]}
        if all(sum(found[name]["hits"].values()) == count for name, count in hits.items()):
            return found
    raise AssertionError(found)


def lines(file: Path, least: int) -> list[dict[str, Any]]:
    text = ""
    for _ in ticks():
        text = file.read_text() if file.exists() else ""
        if text.count("\n") >= least:
            return [json.loads(line) for line in text[: text.rindex("\n")].splitlines()]
    raise AssertionError(text)


def test_the_evidence_of_all_workers(seen: tuple[Running, Path]) -> None:
    found = rules(seen[0], walks=8, short=16, lazy=8)
    assert [found[name]["mode"] for name in ("walks", "flush", "short")] == ["enforce", "warn", "audit"]
    assert found["walks"]["where"].endswith("policy.yaml:6")
    assert found["walks"]["hits"] == {"enforce refused": 8}
    assert found["lazy"]["hits"] == {"enforce rewritten": 8}, "what the plan changes by itself counts too"
    silent: dict[str, Any] = {}
    for _ in ticks():
        silent = seen[0].json("/rules")["routes"][0]["rules"][-1]["apps"]["reports"]
        if silent["out_of"] == 8 * 6:
            break
    assert silent == {"mode": "audit", "hits": {}, "out_of": 8 * 6}, "no hits, out of all commands"
    assert found["short"]["apps"]["unknown"]["hits"] == {}
    app = found["short"]["apps"]["reports"]
    assert {"shape": "user:{int}:a-key-too-long-for-it", "count": 8} in app["shapes"]
    (client,) = app["clients"]
    assert client == {
        "user": "default",
        "client_name": "spark",
        "library": "redis-py",
        "address": "",  # its name tells it from others
        "count": 16,
    }
    sample = app["sample"]
    assert sample["words"][1].startswith(sample["shape"] + "#")
    assert sample["words"][0] == sample["command"] == "GET"
    assert "characters" in sample["why"] or "bytes" in sample["why"], "the reason, and by how much it missed"
    assert app["first_seen"] <= app["last_seen"]
    assert SECRET not in seen[0].http("/rules")[1]


def test_one_line_for_each_violation(seen: tuple[Running, Path]) -> None:
    told = lines(seen[1], 8 * 3)
    assert len(told) == 8 * 3, "a rewrite that was made is no violation"
    assert SECRET not in seen[1].read_text()
    walk = next(line for line in told if line["rule"] == "walks")
    assert {name: walk[name] for name in ("route", "mode", "what", "app", "command", "client_name", "library")} == {
        "route": "default",
        "mode": "enforce",
        "what": "refused",
        "app": "reports",
        "command": "KEYS",
        "client_name": "spark",
        "library": "redis-py",
    }
    shapes = {line["shape"] for line in told if line["rule"] == "short"}
    assert shapes == {"user:{int}:a-key-too-long-for-it", "john{bytes}a-value--longer-than-allowed"}
    keys = {line["key"] for line in told if line["rule"] == "short" and line["command"] == "SET"}
    assert len(keys) == 8, "the same shape, each key with a hash of its own"


def test_a_rotated_log_is_begun_anew_and_a_flood_is_summed_up(seen: tuple[Running, Path]) -> None:
    running, file = seen
    before = len(lines(file, 8 * 3))
    file.rename(file.with_name("rotated"))
    with running.wire() as wire:
        wire.send(pack("KEYS", "*") * 500)
        wire.frames(500)
    told: list[dict[str, Any]] = []
    dropped = 0
    for _ in ticks():
        told = lines(file, 1)
        dropped = sum(line.get("dropped", 0) for line in told)
        if dropped and dropped + sum("command" in line for line in told) == 500:
            break
    assert dropped >= 400
    assert {line["rule"] for line in told} == {"walks"}
    assert dropped + sum("command" in line for line in told) == 500
    assert len(lines(file.with_name("rotated"), before)) == before
    running.await_metric('keyrail_violations_dropped_total{route="default",rule="walks"}', dropped)


def test_violations_on_standard_error_and_raw_keys_where_they_are_asked_for(upstream: str, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "keyrail.yaml").write_text("violations: stderr\nredact: none\n")
    arguments = ["--upstream", upstream, "--policy", str(tmp_path / "policy.yaml"), "--listen", "127.0.0.1:0"]
    with serve("--config", str(tmp_path / "keyrail.yaml"), *arguments, "--admin", "off") as running:
        with running.ready().wire() as wire:
            wire.ask("SET", "a key\nthat is too long for it", SECRET)
        line = json.loads(running.await_line(r'^\{"time".*"short".*\}$'))
        assert line["key"] == "a key\\x0athat is too long for it"
        assert SECRET not in running.stderr
        assert running.stop() == 0


def test_a_file_that_cannot_be_written_ends_the_start(upstream: str, tmp_path: Path) -> None:
    with serve("--upstream", upstream, "--violations", str(tmp_path / "none" / "file")) as running:
        status, text = running.exit()
    assert status == 1
    assert "cannot write violations to" in text


@pytest.mark.parametrize("pooling", ["on", "off"])
@pytest.mark.parametrize("protocol", [2, 3])
def test_in_band(upstream: str, tmp_path: Path, pooling: str, protocol: int) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY + "  closed: {refuse: [KEYRAIL POLICY], mode: enforce}\n")
    arguments = ["--policy", str(tmp_path / "policy.yaml"), "--workers", "2", "--pooling", pooling]
    with serve("--upstream", upstream, *arguments) as running:
        (port,) = running.ready().ports()
        with redis.Redis(port=port, protocol=protocol, decode_responses=True) as client:
            with pytest.raises(redis.ResponseError, match="DENIED keyrail/walks"):
                client.keys("*")
            assert client.execute_command("KEYRAIL", "HELP")[-1].strip() == "Print this help."
            found: Any = {}
            for _ in ticks():
                found = _mapped(client.execute_command("KEYRAIL", "RULES", "walks"))
                if found["hits"]:
                    break
            assert _mapped(found["hits"]) == {"enforce refused": 1}
            assert found["age"] is not None
            rules = _mapped(client.execute_command("KEYRAIL", "RULES"))["rules"]
            assert [_mapped(rule)["rule"] for rule in rules] == ["walks", "flush", "short", "lazy", "quiet", "closed"]
            info = _mapped(client.execute_command("KEYRAIL", "INFO"))
            assert (info["workers"], info["policy_generation"], info["ready"]) == (2, 1, 1)
            with pytest.raises(redis.ResponseError, match="DENIED keyrail/closed"):
                client.execute_command("KEYRAIL", "POLICY")
            explained = client.execute_command("KEYRAIL", "EXPLAIN", "DEL", "a")
            assert any("lazy" in line and "rewrites it to UNLINK a" in line for line in explained)
            with pytest.raises(redis.ResponseError, match="unknown subcommand 'NONE'"):
                client.execute_command("KEYRAIL", "NONE")
            pipeline = client.pipeline()
            pipeline.execute_command("KEYRAIL", "INFO")
            with pytest.raises(redis.ResponseError, match="KEYRAIL INFO inside MULTI is not supported"):
                pipeline.execute()
            assert client.ping()


def _mapped(value: Any) -> Any:
    """A map of either protocol."""
    return value if isinstance(value, dict) else dict(zip(value[::2], value[1::2], strict=True))
