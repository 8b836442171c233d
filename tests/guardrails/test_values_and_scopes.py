"""Rules about formats of values, and rules for some keys and apps, before real engines: in streams, transactions and
scripts, with a local cache, and across a reload."""

from __future__ import annotations

import pickle
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import Fleet
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Wire, eventually, pack

pytestmark = pytest.mark.skipif(DIRECT, reason="guardrails are Keyrail's own")

POLICY = """
keyrail: 1
defaults: {mode: enforce}
apps: {near: {match: {address: [10.0.0.0/8, 127.0.0.0/8]}}, far: {match: {address: 10.0.0.0/8, user: x}}}
rules:
  data-only: {values: {refuse: [pickle, java, php]}, except: "raw:*"}
  no-delete: {refuse: [DEL], keys: "kept:*", apps: near}
  far-away: {refuse: [GET], apps: far}
  lazy: {replace: {DEL: UNLINK}, keys: "lazy:*"}
  scripts: {scripts: {commands: follow_rules, dynamic_calls: allow}}
  memory: {local_cache: {keys: "cached:*", when: always}, apps: [near]}
"""
PICKLE = pickle.dumps({"user": 1})
LARGE = pickle.dumps(b"x" * 2_500_000)


@pytest.fixture
def engine(fleet: Fleet, engine_name: str) -> Engine:
    engine = fleet.engine(engine_name)
    engine.do("FLUSHALL")
    return engine


@pytest.fixture
def wire(fleet: Fleet, engine: Engine, protocol: int, tmp_path: Path) -> Iterator[Wire]:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    with fleet.keyrail(engine.name, policy=file).wire(protocol) as wire:
        yield wire


def denied(frame: bytes, rule: str) -> bool:
    return frame.startswith(b"-DENIED keyrail/%s: " % rule.encode())


def test_a_format_is_known_in_each_form(engine: Engine, wire: Wire) -> None:
    for argv in (("SET", "a", PICKLE), ("SET", "a", LARGE), ("MSET", "b", "x", "a", LARGE), ("HSET", "a", "f", PICKLE)):
        assert denied(wire.ask(*argv), "data-only"), argv[0]
    assert engine.do("DBSIZE") == 0
    wire.send(pack("MULTI") + pack("SET", "a", LARGE) + pack("SET", "b", "x") + pack("EXEC"))
    ok, refused, queued, aborted = wire.frames(4)
    assert (ok, queued) == (b"+OK\r\n", b"+QUEUED\r\n")
    assert denied(refused, "data-only")
    assert aborted.startswith(b"-EXECABORT")
    script = "return redis.call('SET', KEYS[1], ARGV[1])"
    assert denied(wire.ask("EVAL", script, "1", "a", PICKLE), "scripts")
    assert wire.ask("EVAL", script, "1", "raw:a", PICKLE) == b"+OK\r\n"
    assert wire.ask("SET", "raw:b", LARGE) == b"+OK\r\n"
    assert engine.do("GET", "raw:b") == LARGE
    assert engine.do("EXISTS", "a", "b") == 0


def test_a_rule_judges_its_keys_and_no_others(engine: Engine, wire: Wire) -> None:
    for key in ("kept:1", "lazy:1", "other:1", "kept:2"):
        engine.do("SET", key, "v")
    engine.do("CONFIG", "RESETSTAT")
    wire.send(pack("DEL", "other:1") + pack("DEL", "kept:1") + pack("DEL", "lazy:1") + pack("DEL", "no:1", "kept:2"))
    passed, first, lazily, second = wire.frames(4)
    assert (passed, lazily) == (b":1\r\n", b":1\r\n")
    assert denied(first, "no-delete")
    assert denied(second, "no-delete")
    assert (engine.calls("del"), engine.calls("unlink")) == (1, 1)
    assert wire.ask("GET", "kept:1") == b"$1\r\nv\r\n", "far-away is for another app"
    wire.send(pack("MULTI") + pack("DEL", "kept:1") + pack("EXEC"))
    _, refused, aborted = wire.frames(3)
    assert denied(refused, "no-delete")
    assert aborted.startswith(b"-EXECABORT")
    assert denied(wire.ask("EVAL", "return redis.call('DEL', KEYS[1])", "1", "kept:1"), "scripts")
    assert wire.ask("EVAL", "return redis.call('DEL', KEYS[1])", "1", "free:1") == b":0\r\n"
    for value in ("1", "2"):
        assert wire.ask("SET", "cached:1", value) == b"+OK\r\n"
        assert [wire.ask("GET", "cached:1") for _ in range(3)] == [b"$1\r\n%s\r\n" % value.encode()] * 3


def test_a_reload_changes_the_apps_and_the_keys(
    new_engine: Callable[..., Engine], new_keyrail: Callable[..., Keyrail], tmp_path: Path
) -> None:
    file = tmp_path / "policy.yaml"
    rule = "{refuse: [DEL], keys: '%s', apps: a, mode: enforce}"
    text = "keyrail: 1\napps: {a: {match: {address: %s}}}\nrules: {r: " + rule + "}\n"
    file.write_text(text % ("127.0.0.1", "x*"))
    keyrail = new_keyrail(new_engine().url, policy=file, workers=2)
    wires = [keyrail.wire() for _ in range(4)]

    def refused(key: str) -> bool:
        answers = {denied(wire.ask("DEL", key), "r") for wire in wires}
        return answers == {True}

    def passes(key: str) -> bool:
        return {wire.ask("DEL", key) for wire in wires} == {b":0\r\n"}

    assert refused("x1")
    assert passes("y1")
    file.write_text(text % ("127.0.0.1", "y*"))
    keyrail.process.send_signal(signal.SIGHUP)
    eventually(lambda: refused("y1") and passes("x1"))
    file.write_text(text % ("10.0.0.0/8", "y*"))
    keyrail.process.send_signal(signal.SIGHUP)
    eventually(lambda: passes("y1"))
    for wire in wires:
        wire.close()
