"""Scripts on real engines: the analysis agrees with what runs, and two workers give one answer about a script."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from tests.conftest import Fleet
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import pack
from tests.rules.scripts.test_text import FLUSHING, HARMLESS

POLICY = """
keyrail: 1
defaults: {mode: enforce}
rules:
  no-flush: {refuse: [FLUSHALL]}
  scripts: {scripts: {commands: follow_rules, dynamic_calls: refuse}}
"""
CONNECTIONS = 12
"""New ones, so that each worker is very likely to have some."""


def test_texts_run_as_they_are_read(fleet: Fleet, engine_name: str) -> None:
    engine = fleet.engine(engine_name)
    for text in (*FLUSHING, *HARMLESS):
        if b"server." in text or b"#!" in text:  # not in every engine
            continue
        engine.do("SET", "k", "v")
        with engine.wire() as wire:
            wire.ask("EVAL", text, 0)
        assert engine.do("DBSIZE") == (0 if text in FLUSHING else 1), text
    engine.do("FLUSHALL")


@pytest.mark.skipif(DIRECT, reason="guardrails are Keyrail's own")
def test_all_workers_give_one_answer(fleet: Fleet, tmp_path: Path, new_keyrail: Callable[..., Keyrail]) -> None:
    engine = fleet.engine("valkey-9.1")
    engine.do("FUNCTION", "FLUSH")
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY, encoding="utf-8")
    keyrail = new_keyrail(engine.url, policy=file, workers=2)
    _ask_about_scripts(engine, keyrail)
    _ask_about_functions(engine, keyrail)
    with redis.Redis.from_url(keyrail.url) as client:
        engine.do("SCRIPT", "FLUSH")
        assert client.register_script("return redis.call('ECHO', ARGV[1])")(args=["hello"]) == b"hello"
    engine.do("FUNCTION", "FLUSH")


@pytest.mark.skipif(DIRECT, reason="guardrails are Keyrail's own")
@pytest.mark.parametrize("policy", ["strict", "cache"])
def test_a_function_that_was_loaded_elsewhere_calls_nothing_that_is_refused(
    fleet: Fleet, new_keyrail: Callable[..., Keyrail], policy: str
) -> None:
    engine = fleet.engine("redis-7.0")
    engine.do("FUNCTION", "FLUSH")
    keyrail = new_keyrail(engine.url, policy=policy)
    with keyrail.wire() as wire:
        decoy = _library("decoy", "'PING'") + " if false then redis.register_function('wipe', print) end"
        assert wire.ask("FUNCTION", "LOAD", decoy) == b"$5\r\ndecoy\r\n"
        engine.do("FUNCTION", "LOAD", _library("wipe", "'FLUSHALL'"))
        engine.do("SET", "user:1:name", "ada")
        assert wire.ask("FCALL", "wipe", 0).startswith(b"-DENIED keyrail/")
    assert engine.do("DBSIZE") == 1
    engine.do("FUNCTION", "FLUSH")
    engine.do("FLUSHALL")


@pytest.mark.skipif(DIRECT, reason="guardrails are Keyrail's own")
def test_applications_with_scripts_see_nothing_of_the_default(fleet: Fleet) -> None:
    """A script that Redis knows runs by its SHA at once, whoever has loaded it; only a refused call is refused."""
    engine = fleet.engine("redis-7.0")
    text = "return redis.call(ARGV[1], 'hello')"
    engine.do("SCRIPT", "LOAD", text)
    loads = engine.calls("script|load")
    with redis.Redis.from_url(fleet.keyrail(engine.name, policy=None).url) as client:
        script = client.register_script(text)
        assert script(args=["ECHO"]) == b"hello"
        with client.pipeline() as pipeline:
            script(args=["ECHO"], client=pipeline)
            assert pipeline.execute() == [b"hello"]
        assert engine.calls("script|load") == loads
        engine.do("SCRIPT", "FLUSH")
        assert script(args=["ECHO"]) == b"hello"
        assert engine.calls("script|load") == loads + 1
        text = "if ARGV[1] == '1' then return redis.call('KEYS', 'none:*') end return 'sent'"
        maintenance = client.register_script(text)
        assert (maintenance(args=["0"]), maintenance(args=["1"])) == (b"sent", [])
        with pytest.raises(redis.ResponseError, match="nor-by-scripts: the script calls FLUSHALL"):
            client.register_script("redis.call('FLUSHALL')")()


KEYS_POLICY = """
keyrail: 1
defaults: {mode: enforce}
apps: {reports: {match: {user: reports}}}
rules:
  scripts: {scripts: {commands: follow_rules, dynamic_calls: refuse, undeclared_keys: refuse}}
  own-prefixes: {names: {prefixes: {reports: ["report:"]}}}
  lifetime: {lifetime: {default: 5m}}
"""


@pytest.mark.skipif(DIRECT, reason="guardrails are Keyrail's own")
def test_a_script_reaches_no_key_that_its_client_may_not(fleet: Fleet, engine_name: str, tmp_path: Path) -> None:
    engine = fleet.engine(engine_name)
    file = tmp_path / "policy.yaml"
    file.write_text(KEYS_POLICY, encoding="utf-8")
    engine.do("SET", "report:1", "secret")
    for script, keys in (
        ("return redis.call('GET', 'report:1')", ()),
        ("return redis.call('GET', KEYS[1])", ("report:1",)),
        ("local k = 'report:1' return redis.call('GET', k)", ()),
        ("return redis.call('GET', ARGV[1])", ()),
        ("KEYS[1] = ARGV[1] return redis.call('GET', KEYS[1])", ("own:1",)),
        ("return redis.call('GET', 'report' .. ':1')", ()),
        ("return redis['call']('GET', 'report:1')", ()),
        ("return redis.call('SORT', KEYS[1], 'BY', 'nosort', 'GET', 'report:*')", ("own:1",)),
        ("if false then return redis.call('GET', 'report:1') end return redis.call('GET', KEYS[1])", ("own:1",)),
    ):
        with fleet.keyrail(engine_name, policy=file).wire() as wire:
            assert wire.ask("EVAL", script, len(keys), *keys, "report:1").startswith(b"-DENIED keyrail/"), script
            assert wire.ask("SCRIPT", "LOAD", "return redis.call('GET', 'report:1')").startswith(b"-DENIED keyrail/")
    engine.do("FLUSHALL")


@pytest.mark.skipif(DIRECT, reason="guardrails are Keyrail's own")
def test_a_literal_key_that_a_script_creates_gets_its_ttl(fleet: Fleet, engine_name: str, tmp_path: Path) -> None:
    engine = fleet.engine(engine_name)
    file = tmp_path / "policy.yaml"
    file.write_text(KEYS_POLICY, encoding="utf-8")
    engine.do("SET", "page:old", "x")
    script = (
        "redis.call('SET', 'page:new', 'x') redis.call('APPEND', 'page:old', 'x') return redis.call('INCR', KEYS[1])"
    )
    with fleet.keyrail(engine_name, policy=file).wire() as wire:
        assert wire.ask("EVAL", script, 1, "page:declared") == b":1\r\n"
        ttls = [int(wire.ask("TTL", key)[1:]) for key in ("page:new", "page:declared", "page:old")]
    assert 0 < ttls[0] <= 300
    assert 0 < ttls[1] <= 300
    assert ttls[2] == -1, "it was meant to last"
    engine.do("FLUSHALL")


def _everywhere(keyrail: Keyrail, *command: str) -> set[bytes]:
    """The replies to new connections, each asked once."""
    heard = set()
    for _ in range(CONNECTIONS):
        with keyrail.wire() as wire:
            heard.add(wire.ask(*command))
    return heard


def _ask_about_scripts(engine: Engine, keyrail: Keyrail) -> None:
    text = "return redis.call('ECHO', 'hello')"
    sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    engine.do("SCRIPT", "LOAD", text)
    assert _everywhere(keyrail, "EVALSHA", sha, "0") == {b"-NOSCRIPT No matching script. Please use EVAL.\r\n"}
    assert _everywhere(keyrail, "SCRIPT", "EXISTS", sha) == {b"*1\r\n:0\r\n"}
    with keyrail.wire() as wire:
        wire.ask("SCRIPT", "LOAD", text)
    assert _everywhere(keyrail, "EVALSHA", sha, "0") == {b"$5\r\nhello\r\n"}
    assert _everywhere(keyrail, "SCRIPT", "EXISTS", sha) == {b"*1\r\n:1\r\n"}
    with keyrail.wire() as wire:
        refused = wire.ask("EVAL", "return redis.call('FLUSHALL')", 0)
        assert refused.startswith(b"-DENIED keyrail/scripts: the script calls FLUSHALL, which no-flush refuses; ")
        wire.send(pack("MULTI") + pack("EVALSHA", "f" * 40, 0) + pack("EXEC"))
        assert [frame.split()[0] for frame in wire.frames(3)] == [b"+OK", b"-NOSCRIPT", b"-EXECABORT"]


def _ask_about_functions(engine: Engine, keyrail: Keyrail) -> None:
    engine.do("FUNCTION", "LOAD", _library("hi", "'ECHO', 'hi'"))
    engine.do("FUNCTION", "LOAD", _library("wipe", "args[1]"))
    refused = {b"-DENIED keyrail/scripts"}
    assert _everywhere(keyrail, "FCALL", "hi", "0") == {b"$2\r\nhi\r\n"}
    assert {heard.split(b":")[0] for heard in _everywhere(keyrail, "FCALL", "wipe", "0", "FLUSHALL")} == refused
    with keyrail.wire() as wire:
        assert wire.ask("FUNCTION", "LOAD", _library("hi", "'ECHO', 'hi'")).startswith(b"-ERR Library")
        decoy = _library("other", "'ECHO', 'x'") + " if false then redis.register_function('wipe', print) end"
        assert wire.ask("FUNCTION", "LOAD", decoy) == b"$5\r\nother\r\n"
        assert wire.ask("FCALL", "wipe", "0", "FLUSHALL").startswith(b"-DENIED keyrail/scripts")
        assert wire.ask("FCALL", "none", "0") == b"-ERR Function not found\r\n"
        assert wire.ask("FUNCTION", "LOAD", "REPLACE", _library("hi", "'ECHO', 'you'")) == b"$2\r\nhi\r\n"
        assert wire.ask("FCALL", "hi", "0") == b"$3\r\nyou\r\n"


def _library(name: str, call: str) -> str:
    return f"#!lua name={name}\nredis.register_function('{name}', function(keys, args) return redis.call({call}) end)"
