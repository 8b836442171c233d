"""The admin port and Prometheus report real traffic correctly, on a real engine."""

import json
import os
import re
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from proxy.commands.slots import slot_of
from tests.conftest import Fleet
from tests.resp import eventually, pack
from tests.server.running import Running, serve, ticks

POLICY = """
keyrail: 1
apps: {shop: {match: {client_name: "shop*"}}}
schema:
  user: {key: "user:{id:int}"}
rules: {}
"""
TIMES = 60
HIT, MISS, BOTH = b"$300\r\n" + b"v" * 300 + b"\r\n", b"$-1\r\n", b"*2\r\n$1\r\n1\r\n$-1\r\n"
HASH = b"*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$50\r\n" + b"b" * 50 + b"\r\n"


@pytest.fixture(scope="module")
def seen(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A Keyrail through which this went, command by command; all of it is traced."""
    folder = tmp_path_factory.mktemp("traces")
    (folder / "policy.yaml").write_text(POLICY)
    upstream = fleet.engine("valkey-9.1", "server").url
    arguments = ("--upstream", upstream, "--policy", str(folder / "policy.yaml"), "--traces", "100000")
    with serve(*arguments, variables={"KEYRAIL_REDACT": "none"}) as running:
        with running.ready().wire() as wire:
            assert wire.ask("CLIENT", "SETNAME", "shop-1") == b"+OK\r\n"
            wire.ask("FLUSHALL")
            wire.ask("HSET", "profile:1", "a", "1", "b", "b" * 50)
            for number in range(TIMES):
                assert wire.ask("SET", f"user:{number}", "v" * 300) == b"+OK\r\n"
                assert wire.ask("SET", f"token:{number}", "1", "EX", "900") == b"+OK\r\n"
                assert wire.ask("GET", "user:0") == HIT
                assert wire.ask("GET", f"nothing:{number}") == MISS
                assert wire.ask("MGET", "token:0", "absent:{x}") == BOTH
                assert wire.ask("HGETALL", "profile:1") == HASH
        yield running


def whole(running: Running, path: str) -> Any:
    """The answer, once all that was done is in it: the reports come a second later."""
    commands = 0
    for _ in ticks():
        commands = sum(second["commands"] for second in running.json("/traffic")["seconds"])
        if commands >= TIMES * 6:
            return running.json(path)
    raise AssertionError(commands)


def test_the_busiest_keys(seen: Running) -> None:
    answer = whole(seen, "/hotkeys?window=600&count=3")
    by_key = {key["key"]: key for key in answer["keys"]}
    assert set(by_key) == {"user:0", "token:0", "profile:1"}
    assert (by_key["user:0"]["reads"], by_key["user:0"]["writes"]) == (TIMES, 1)
    assert (by_key["user:0"]["hit_ratio"], by_key["user:0"]["pattern"]) == (1.0, "user")
    assert by_key["user:0"]["slot"] == slot_of(b"user:0")
    assert (by_key["user:0"]["clients"][0]["app"], by_key["user:0"]["clients"][0]["client_name"]) == ("shop", "shop-1")


def test_patterns(seen: Running) -> None:
    by_name = {each["pattern"]: each for each in whole(seen, "/patterns?window=600")["patterns"]}
    assert by_name["user"]["schema"]
    assert by_name["nothing:{int}"]["hit_ratio"] == 0.0
    assert by_name["user"]["hit_ratio"] == by_name["profile:{int}"]["hit_ratio"] == 1.0
    assert by_name["user"]["largest"] == len(pack("SET", "user:10", "v" * 300))
    assert by_name["profile:{int}"]["largest"] in (len(HASH), len(pack("HSET", "profile:1", "a", "1", "b", "b" * 50)))
    for name, replies in (("nothing:{int}", MISS), ("profile:{int}", HASH)):
        found = by_name[name]
        assert 0 < found["rate"] <= TIMES * 2
        assert found["bytes_out"] == pytest.approx(found["reads"] * len(replies), rel=0.02)
    slots = seen.json("/slots?window=600")
    assert 0 < slots["crossslot"] <= TIMES * 2


def test_slow_commands_with_their_sizes(seen: Running) -> None:
    sizes = {"GET": {len(HIT), len(MISS)}, "MGET": {len(BOTH)}, "HGETALL": {len(HASH)}, "SET": {5}}
    commands = whole(seen, "/slow?count=1000")["commands"]
    assert {"GET", "SET", "MGET", "HGETALL"} & {command["command"] for command in commands}
    for command in commands:
        if command["command"] in sizes:
            assert command["bytes_out"] in sizes[command["command"]]
            assert command["bytes_in"] > len(command["key"])
            assert command["at_redis_ms"] > 0


def test_which_keys_expire(seen: Running) -> None:
    shares: dict[str, float | None] = {}
    with seen.wire() as wire:
        for _ in ticks():
            wire.ask("SET", "lasting:1", "1")
            wire.ask("SET", "passing:1", "1", "EX", "900")
            found = {each["pattern"]: each["ttl_share"] for each in seen.json("/patterns?window=60")["patterns"]}
            shares = {name: found.get(name) for name in ("lasting:{int}", "passing:{int}")}
            if None not in shares.values():
                break
        assert shares == {"lasting:{int}": 0.0, "passing:{int}": 1.0}

        asking: set[int] = set()

        def asks() -> bool:
            wire.ask("SET", "lasting:1", "1")
            asking.add(wire.ask("CLIENT", "LIST").decode().count("cmd=pttl"))
            return 1 in asking

        eventually(asks)  # a PING of Keyrail's own may have been the latest there
    assert asking <= {0, 1}, "asked on one connection, which is no client's"
    assert seen.metric('keyrail_pattern_expiring_ratio{pattern="passing:{int}",route="default"}') == 1


def test_reads_one_by_one_are_found(seen: Running) -> None:
    runs: dict[str, float] = {}
    with seen.wire() as wire:
        for _ in ticks():
            for number in range(40):
                wire.ask("GET", f"page:{number}")
            runs = {each["pattern"]: each["runs"] for each in seen.json("/patterns?window=60")["patterns"]}
            if runs.get("page:{int}"):
                break
    assert runs["page:{int}"] > 0
    assert runs["nothing:{int}"] == 0
    assert seen.metric('keyrail_pattern_runs_rate{pattern="page:{int}",route="default"}') > 0


def test_prometheus_is_told_the_same(seen: Running) -> None:
    whole(seen, "/traffic")
    text = seen.http("/metrics")[1]
    assert 'keyrail_hot_key_rate{key="user:0",route="default"}' in text
    assert 'keyrail_client_rate{address="127.0.0.1",app="shop",client_name="shop-1",library="",route=' in text
    assert seen.metric('keyrail_traced_commands_total{route="default"}') >= TIMES * 2
    assert seen.metric('keyrail_out_of_step_total{route="default"}') == 0
    dashboard, alerts = seen.http("/grafana.json"), seen.http("/alerts.yaml")
    assert (dashboard[0], alerts[0]) == (200, 200)
    names = set(re.findall(r"\bkeyrail_\w+", json.dumps(json.loads(dashboard[1])["panels"]) + alerts[1]))
    families = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    assert {re.sub("_(bucket|sum|count)$", "", name) for name in names} <= families


def test_the_last_second_of_a_worker_is_not_lost(seen: Running) -> None:
    with seen.wire() as wire:
        for number in range(30):
            wire.ask("GET", f"farewell:{number}")
        os.kill(seen.workers()[0], signal.SIGTERM)
    seen.await_metric("keyrail_worker_restarts_total", 1)
    patterns = {each["pattern"]: each for each in seen.json("/patterns?window=600")["patterns"]}
    assert patterns["farewell:{int}"]["reads"] > 0
