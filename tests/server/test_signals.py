"""Commands by name, error replies by prefix, waiting commands and latency, also without a policy."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tests.conftest import Fleet
from tests.engines import Engine
from tests.resp import pack
from tests.server.running import Running, serve, ticks

POLICY = """
keyrail: 1
apps: {shop: {match: {client_name: "shop*"}}}
rules: {walks: {refuse: [KEYS], mode: enforce}}
"""
CALLS = re.compile(r'^keyrail_command_calls_total{command="([^"]+)",route="default"} (\S+)$', re.MULTILINE)
PATHS = re.compile(r"^keyrail_commands_total{.*} (\S+)$", re.MULTILINE)
IN_FLIGHT = 'keyrail_commands_in_flight{route="default"}'
OLDEST = 'keyrail_oldest_wait_seconds{route="default"}'
ERRORS = re.compile(
    r'^keyrail_error_replies_total{prefix="([^"]+)",route="default",source="([^"]+)"} (\S+)$', re.MULTILINE
)


def calls(running: Running, command: str, number: int) -> tuple[dict[str, float], float]:
    """All numbers by name, once this command has been called so often; and how many commands went any way."""
    found: dict[str, float] = {}
    for _ in ticks():
        text = running.http("/metrics")[1]
        found = {name: float(value) for name, value in CALLS.findall(text)}
        if found.get(command, 0) >= number:
            return found, sum(map(float, PATHS.findall(text)))
    raise AssertionError(found)


def errors(running: Running) -> dict[tuple[str, str], float]:
    found = ERRORS.findall(running.http("/metrics")[1])
    return {(source, prefix): float(value) for prefix, source, value in found if float(value)}


def test_commands_by_name_and_errors_by_prefix(fleet: Fleet, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    upstream = fleet.engine("valkey-9.1", "server").url
    with serve("--upstream", upstream, "--policy", str(policy), "--workers", "2") as running:
        running.ready()
        with running.wire() as wire:
            wire.ask("DEL", "list", "name")
            wire.ask("CLIENT", "SETNAME", "shop-1")
            wire.send(
                pack("GET", "name") * 30 + pack("SET", "name", "1") + b"GET name\r\n" + pack("RPUSH", "list", "1")
            )
            wire.frames(33)
            wire.send(pack("MULTI") + pack("INCR", "name") + pack("EXEC"))
            wire.frames(3)
            wire.send(
                pack("INCR", "list") * 3 + pack("NONSENSE") + pack("CONFIG", "GET", "maxmemory") + pack("KEYS", "*")
            )
            wire.frames(6)
            wire.send(pack("MULTI") + pack("KEYS", "*"))
            wire.frames(2)
            wire.ask("EXEC")
            wire.send(pack("SET", "large", "v" * (2 << 20)))
            assert wire.frame() == b"+OK\r\n"
            wire.ask("ECHO", "over")
        names, ways = calls(running, "ECHO", 1)
        assert sum(names.values()) == ways + 1, "a refusal inside MULTI goes no way: Redis gets another command for it"
        assert names == {
            "DEL": 1,
            "CLIENT SETNAME": 1,
            "GET": 31,
            "SET": 2,
            "RPUSH": 1,
            "MULTI": 2,
            "INCR": 4,
            "EXEC": 2,
            "unknown": 1,
            "CONFIG GET": 1,
            "KEYS": 2,
            "ECHO": 1,
        }
        assert errors(running) == {
            ("redis", "WRONGTYPE"): 3,
            ("redis", "ERR"): 1,
            ("redis", "EXECABORT"): 1,
            ("keyrail", "DENIED"): 2,
        }
        text = running.http("/metrics")[1]
        assert 'keyrail_upstream_seconds_count{app="shop",route="default"}' in text
        assert 'keyrail_proxy_seconds_count{app="shop",route="default"}' in text


def test_latency_and_no_key_without_a_policy(fleet: Fleet) -> None:
    upstream = fleet.engine("valkey-9.1", "server").url
    arguments = ("--upstream", upstream, "--policy", "none", "--traces", "100000")
    with serve(*arguments, variables={"KEYRAIL_REDACT": "none"}) as running:
        with running.ready().wire() as wire:
            for _ in range(20):
                wire.ask("GET", "a-key-that-nobody-wants-to-be-counted")
            assert calls(running, "GET", 20) == ({"GET": 20}, 20)
            running.await_metric('keyrail_upstream_seconds_count{app="unknown",route="default"}', 20)
        assert running.metric('keyrail_received_bytes_total{route="default"}') > 0
        for _ in ticks():
            if sum(second["commands"] for second in running.json("/traffic")["seconds"]) >= 20:
                break
        told = [running.http(path)[1] for path in ("/hotkeys", "/patterns", "/slow", "/metrics")]
        assert not any("nobody" in each for each in told)


def test_what_waits_and_for_how_long(new_engine: Callable[..., Engine]) -> None:
    engine = new_engine()
    with (
        serve("--upstream", engine.url, "--policy", "none") as running,
        running.ready().wire() as blocked,
        running.wire() as waiting,
    ):
        blocked.send(pack("BLPOP", "nothing-ever", "0"))
        running.await_metric(IN_FLIGHT, 1)
        assert running.metric(OLDEST) == 0
        engine.freeze()
        waiting.send(pack("GET", "x") * 2000)
        running.await_metric('keyrail_commands_queued{route="default"}', 1)
        assert running.metric(IN_FLIGHT) == 1025
        for _ in ticks():
            if running.metric(OLDEST) > 0.5:
                break
        else:
            raise AssertionError("nothing waits")
        engine.thaw()
        waiting.frames(2000)
        running.await_metric(IN_FLIGHT, 1)
        assert running.metric(OLDEST) == 0
