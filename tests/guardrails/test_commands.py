"""Rules about commands with redis-py: a client that may run few commands still connects and works."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from tests.conftest import Fleet
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import pack

pytestmark = pytest.mark.skipif(DIRECT, reason="guardrails are Keyrail's own")

POLICY = """
keyrail: 1
defaults: {mode: enforce}
rules:
  few: {allow_only: [GET, SET, MGET, MULTI, WATCH, SELECT, FLUSHALL, CONFIG GET]}
  first: {databases: [0]}
  together: {one_slot: true}
  no-blocking: {replace: {FLUSHALL: FLUSHALL ASYNC}}
"""


def test_redis_py_under_an_allow_list(fleet: Fleet, tmp_path: Path, new_keyrail: Callable[..., Keyrail]) -> None:
    engine = fleet.engine("redis-7.0")
    engine.do("FLUSHALL")
    engine.do("CONFIG", "RESETSTAT")
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY, encoding="utf-8")
    keyrail = new_keyrail(engine.url, policy=file)
    with redis.Redis.from_url(keyrail.url, client_name="worker") as client:
        assert client.set("{a}1", "x")
        assert client.mget("{a}1", "{a}2") == [b"x", None]
        with client.pipeline() as pipeline:
            pipeline.watch("{a}1")
            pipeline.multi()
            assert pipeline.set("{a}1", "y").get("{a}2").execute() == [True, None]
        _assert_denied("together", lambda: client.mget("a", "b"))
        _assert_denied("together", client.pipeline().set("a", 1).set("b", 2).execute)
        _assert_denied("few", lambda: client.keys("*"))
        _assert_denied("few", lambda: client.config_set("maxmemory", 0))
        assert client.config_get("maxmemory") == {"maxmemory": "0"}
        with pytest.raises(redis.exceptions.NoPermissionError, match="'info' command"):
            client.info()
        assert client.flushall()
        assert engine.do("DBSIZE") == 0
    with redis.Redis.from_url(f"{keyrail.url}/1") as client:
        _assert_denied("first", client.ping)
    assert engine.calls("keys") == 0


NAMES = 4000
"""Redis keeps its commands in a hash table: of so many names that are FLUSHALL up to a NUL, several are found there."""


def test_no_name_with_a_nul_in_it_is_another_name_for_a_command(fleet: Fleet, engine_name: str) -> None:
    engine = fleet.engine(engine_name)
    engine.do("SET", "k", "v")
    engine.do("RPUSH", "l", "v")
    engine.do("CONFIG", "RESETSTAT")
    tries = [pack(b"FLUSHALL\0%d" % i) for i in range(NAMES)] + [pack("CONFIG", "SET\0", "maxmemory", 0)]
    with fleet.keyrail(engine_name, policy=None).wire() as wire:
        wire.send(b"".join(tries))
        assert {frame[:5] for frame in wire.frames(len(tries))} == {b"-ERR "}
    assert engine.do("EXISTS", "k") == 1
    assert engine.calls("config|set") == engine.calls("flushall") == 0


def test_no_option_with_a_nul_in_it_hides_what_it_says(
    tmp_path: Path, fleet: Fleet, new_keyrail: Callable[..., Keyrail]
) -> None:
    engine = fleet.engine("valkey-9.1")
    engine.do("FLUSHALL")
    engine.do("RPUSH", "{a}1", "v")
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY.replace("few: {allow_only", "few: {mode: off, allow_only"), encoding="utf-8")
    with new_keyrail(engine.url, policy=file).wire() as wire:
        assert wire.ask("COPY", "{a}1", "{a}2", "DB\0x", 1).startswith(b"-DENIED keyrail/first: ")
        assert wire.ask("SORT", "{a}1", "ALPHA", "STORE\0x", "b").startswith(b"-DENIED keyrail/together: ")
    assert engine.do("DBSIZE") == 1


def _assert_denied(rule: str, act: Callable[[], object]) -> None:
    with pytest.raises(redis.exceptions.RedisError, match=f"DENIED keyrail/{rule}: "):
        act()
