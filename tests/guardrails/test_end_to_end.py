"""The guardrails for an application: what Redis runs, what the client receives, what is counted.

Proves: each rule applies to plain and inline commands, in any letter case, in pipelines cut anywhere, in MULTI (a
refusal aborts the transaction as Redis would; EXEC's array has nothing extra), in RESP3 and on a private upstream.
Refusals name rule, reason and alternative in one line. Replies of rewritten commands are those that the application
expects. Audit and warn change nothing. A reload keeps or replaces the whole policy. The busiest keys have their true
counts.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Fleet
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail, packaged_policy
from tests.resp import Wire, eventually, pack

pytestmark = pytest.mark.skipif(DIRECT, reason="guardrails are Keyrail's own")

DENIED = re.compile(rb"^-DENIED keyrail/[a-z-]+: [^\r\n;]+; [^\r\n]+\r\n$")


@pytest.fixture
def engine(fleet: Fleet, engine_name: str) -> Engine:
    engine = fleet.engine(engine_name)
    engine.do("FLUSHALL")
    engine.do("CONFIG", "RESETSTAT")
    return engine


@pytest.fixture
def keyrail(fleet: Fleet, engine: Engine, pooling: bool) -> Keyrail:
    return fleet.keyrail(engine.name, policy=packaged_policy("tour.yaml"), pooling=pooling)


@pytest.fixture
def wire(keyrail: Keyrail, protocol: int) -> Iterator[Wire]:
    with keyrail.wire(protocol) as wire:
        yield wire


FORMS: dict[str, Callable[[Wire, tuple[str, ...]], bytes]] = {
    "plain": lambda wire, words: _ask(wire, pack(*words)),
    "lower case": lambda wire, words: _ask(wire, pack(words[0].lower(), *words[1:])),
    "mixed case": lambda wire, words: _ask(wire, pack(words[0].swapcase().title(), *words[1:])),
    "inline": lambda wire, words: _ask(wire, " ".join(words).encode() + b"\r\n"),
    "quoted inline": lambda wire, words: _ask(wire, b" ".join(b'"%s"' % w.encode() for w in words) + b"\n"),
    "escaped inline": lambda wire, words: _ask(wire, b" ".join(_escaped(w) for w in words) + b"\r\n"),
    "byte by byte": lambda wire, words: _trickled(wire, pack(*words)),
    "after a watch": lambda wire, words: (wire.ask("WATCH", "w:w"), _ask(wire, pack(*words)), wire.ask("UNWATCH"))[1],
    "in a pipeline": lambda wire, words: _surrounded(wire, pack(*words)),
}


def _escaped(word: str) -> bytes:
    return b'"' + b"".join(b"\\x%02x" % byte for byte in word.encode()) + b'"'


def _ask(wire: Wire, data: bytes) -> bytes:
    wire.send(data)
    return wire.frame()


def _trickled(wire: Wire, data: bytes) -> bytes:
    for index in range(len(data)):
        wire.send(data[index : index + 1])
    return wire.frame()


def _surrounded(wire: Wire, data: bytes) -> bytes:
    wire.send(pack("ECHO", "before") * 30 + data + pack("ECHO", "behind") * 30)
    assert wire.frames(30) == [b"$6\r\nbefore\r\n"] * 30
    reply = wire.frame()
    assert wire.frames(30) == [b"$6\r\nbehind\r\n"] * 30
    return reply


@pytest.mark.parametrize("form", FORMS)
def test_refused_in_every_form(engine: Engine, wire: Wire, form: str) -> None:
    engine.do("SET", "kept:key", "v")
    for command in ("KEYS *", "FLUSHALL", "FLUSHALL ASYNC", "FLUSHDB", "CONFIG SET maxmemory 0", "SWAPDB 0 1"):
        reply = FORMS[form](wire, tuple(command.split()))
        assert DENIED.match(reply), reply
    assert engine.do("GET", "kept:key") == b"v"
    assert engine.calls("keys") == engine.calls("swapdb") == 0
    assert wire.ask("CONFIG", "GET", "maxmemory")[:1] in b"*%"


@pytest.mark.parametrize("form", FORMS)
def test_names_in_every_form(engine: Engine, wire: Wire, form: str) -> None:
    for command in ("SET john_email x", "GET john_email", "MSET a:good 1 bad 2", "LPUSH bad x", "EVAL return(1) 1 bad"):
        reply = FORMS[form](wire, tuple(command.split()))
        assert reply.startswith(b"-DENIED keyrail/key-names: "), (command, reply)
    assert engine.do("DBSIZE") == 0


@pytest.mark.parametrize("form", FORMS)
def test_rewritten_in_every_form(engine: Engine, wire: Wire, form: str, protocol: int) -> None:
    nothing = b"_\r\n" if protocol == 3 else b"$-1\r\n"
    say = FORMS[form]
    assert say(wire, ("SET", "user:1:name", "ada")) == b"+OK\r\n"
    assert say(wire, ("SETNX", "user:1:name", "bob")) == b":0\r\n"
    assert say(wire, ("SETNX", "user:2:name", "bob")) == b":1\r\n"
    assert say(wire, ("GETSET", "user:1:name", "eve")) == b"$3\r\nada\r\n"
    assert say(wire, ("GETSET", "user:3:name", "joe")) == nothing
    assert say(wire, ("SET", "user:4:name", "x", "EX", "9999")) == b"+OK\r\n"
    assert say(wire, ("SET", "user:1:name", "y", "KEEPTTL")) == b"+OK\r\n"
    for user in (1, 2, 3):
        left = engine.do("TTL", f"user:{user}:name")
        assert isinstance(left, int)
        assert 265 <= left <= 330
    assert engine.do("TTL", "user:4:name") in range(9990, 10000)
    assert say(wire, ("DEL", "user:1:name", "user:2:name", "user:none")) == b":2\r\n"
    assert engine.calls("unlink") == 1
    assert engine.calls("del") == 0
    assert engine.do("EXISTS", "user:1:name", "user:2:name") == 0
    engine.do("RPUSH", "list:1", "x")
    assert say(wire, ("GETSET", "list:1", "v")).startswith(b"-WRONGTYPE")
    assert say(wire, ("SETNX", "list:1", "v")) == b":0\r\n"
    assert say(wire, ("SET", "user:5:name")).startswith(b"-ERR wrong number of arguments for 'set'")
    assert say(wire, ("SETNX", "user:5:name")).startswith(b"-ERR wrong number of arguments for 'setnx'")


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "in-steps"])
def test_in_transactions(engine: Engine, wire: Wire, whole: bool) -> None:
    """Rewritten commands give EXEC's array the members that the application expects; a refused one aborts it."""

    def transact(*lines: str) -> list[bytes]:
        commands = [pack("MULTI"), *(pack(*line.split()) for line in lines), pack("EXEC")]
        if whole:
            wire.send(b"".join(commands))
            return wire.frames(len(commands))
        return [_ask(wire, command) for command in commands]

    good = transact("SET a:b 1", "SETNX a:b 2", "SETNX c:d 3", "GETSET a:b 4", "DEL c:d none:x", "GET a:b")
    assert good[:-1] == [b"+OK\r\n"] + [b"+QUEUED\r\n"] * 6
    assert good[-1] == b"*6\r\n+OK\r\n:0\r\n:1\r\n$1\r\n1\r\n:1\r\n$1\r\n4\r\n"
    assert engine.do("TTL", "a:b") != -1
    for refused in ("KEYS *", "SET bad 1", "FLUSHALL"):
        answers = transact("SET a:b 9", refused, "SET a:b 10")
        assert DENIED.match(answers[2]), answers
        assert answers[3] == b"+QUEUED\r\n"
        assert answers[4].startswith(b"-EXECABORT")
    assert engine.do("GET", "a:b") == b"4"
    assert transact("GET a:b")[-1] == b"*1\r\n$1\r\n4\r\n"
    with engine.wire() as other:
        wire.ask("WATCH", "a:b")
        other.ask("SET", "a:b", "changed")
        assert transact("SETNX x:y 1", "GET a:b")[-1] in (b"*-1\r\n", b"_\r\n")


def test_a_refusal_in_its_place(wire: Wire) -> None:
    """A local answer leaves exactly between its neighbours, however many there are."""
    lines = [f"ECHO {index}" if index % 7 else "KEYS *" for index in range(500)]
    wire.send(b"".join(pack(*line.split()) for line in lines))
    for index in range(500):
        frame = wire.frame()
        if index % 7:
            text = b"%d" % index
            assert frame == b"$%d\r\n%s\r\n" % (len(text), text)
        else:
            assert DENIED.match(frame)


def test_refused_while_subscribed_and_blocked(keyrail: Keyrail, engine: Engine) -> None:
    with keyrail.wire(3) as wire:
        assert wire.ask("SUBSCRIBE", "news").startswith(b">3")
        assert DENIED.match(wire.ask("KEYS", "*"))
        assert wire.ask("SET", "a:b", "v") == b"+OK\r\n"
    with keyrail.wire() as wire:
        wire.send(pack("BLPOP", "queue:1", "0") + pack("KEYS", "*") + pack("ECHO", "end"))
        assert wire.silent(0.05)
        engine.do("RPUSH", "queue:1", "job")
        assert wire.frame() == b"*2\r\n$7\r\nqueue:1\r\n$3\r\njob\r\n"
        assert DENIED.match(wire.frame())
        assert wire.frame() == b"$3\r\nend\r\n"


def test_no_reply_to_a_refusal_that_wants_none(keyrail: Keyrail) -> None:
    """CLIENT REPLY OFF and SKIP hold for Keyrail's own answers too."""
    with keyrail.wire() as wire:
        wire.send(pack("CLIENT", "REPLY", "SKIP") + pack("KEYS", "*") + pack("ECHO", "one"))
        assert wire.frame() == b"$3\r\none\r\n"
        wire.send(pack("CLIENT", "REPLY", "OFF") + pack("KEYS", "*") * 3 + pack("CLIENT", "REPLY", "ON"))
        assert wire.frame() == b"+OK\r\n"
        assert DENIED.match(wire.ask("KEYS", "*"))


def test_large_commands_are_judged_before_they_run(engine: Engine, wire: Wire) -> None:
    value = b"v" * 3_000_000
    wire.send(pack("SET", "bad", value) + pack("ECHO", "next"))
    assert wire.frame().startswith(b"-DENIED keyrail/key-names: ")
    assert wire.frame() == b"$4\r\nnext\r\n"
    assert engine.do("DBSIZE") == 0
    assert wire.ask("SET", "a:large", value) == b"+OK\r\n"
    assert engine.do("TTL", "a:large") != -1
    assert wire.ask("SETNX", "a:large", value) == b":0\r\n"
    assert wire.ask("DEL", "a:large") == b":1\r\n"


def test_a_streamed_value_in_a_transaction(engine: Engine, wire: Wire) -> None:
    value = b"v" * 2_500_000
    wire.send(pack("MULTI") + pack("SET", "a:b", value) + pack("GETSET", "a:b", "x") + pack("EXEC"))
    assert wire.frames(3) == [b"+OK\r\n", b"+QUEUED\r\n", b"+QUEUED\r\n"]
    assert wire.frame() == b"*2\r\n+OK\r\n$%d\r\n%s\r\n" % (len(value), value)
    wire.send(pack("MULTI") + pack("SET", "bad", value) + pack("SET", "a:b", "y") + pack("EXEC"))
    assert wire.frame() == b"+OK\r\n"
    assert wire.frame().startswith(b"-DENIED")
    assert wire.frame() == b"+QUEUED\r\n"
    assert wire.frame().startswith(b"-EXECABORT")
    assert engine.do("GET", "a:b") == b"x"


POLICY = """
keyrail: 1
defaults: {{mode: {mode}}}
traffic: {{count_keys: on}}
rules:
  no-walks: {{refuse: [KEYS], because: it walks, instead: SCAN}}
  names: {{names: {{separator: ":", segments: 2..6}}}}
  lazy: {{replace: {{DEL: UNLINK}}}}
  lifetimes: {{lifetime: {{default: 5m}}}}
"""


@pytest.mark.parametrize("mode", ["off", "audit", "warn"])
def test_modes_that_only_look(
    new_engine: Callable[..., Engine], new_keyrail: Callable[..., Keyrail], tmp_path: Path, mode: str
) -> None:
    """They change no byte; audit and warn count what they would have done."""
    engine = new_engine()
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY.format(mode=mode))
    keyrail = new_keyrail(engine.url, policy=policy)
    with keyrail.wire() as wire:
        wire.send(pack("SET", "bad", "v") + pack("KEYS", "*") + pack("DEL", "bad") + pack("SETNX", "bad", "v"))
        assert wire.frames(4) == [b"+OK\r\n", b"*1\r\n$3\r\nbad\r\n", b":1\r\n", b":1\r\n"]
    assert engine.do("TTL", "bad") == -1
    assert engine.calls("del") == engine.calls("keys") == engine.calls("setnx") == 1
    expected = 0 if mode == "off" else 1
    eventually(lambda: keyrail.metric("keyrail_verdicts_total", rule="no-walks") >= expected)
    assert keyrail.metric("keyrail_verdicts_total", rule="no-walks") == expected


def test_reload(new_engine: Callable[..., Engine], new_keyrail: Callable[..., Keyrail], tmp_path: Path) -> None:
    """A good policy takes over in every worker without a connection lost; a bad one is told, and the old one stays."""
    engine = new_engine()
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY.format(mode="audit"))
    keyrail = new_keyrail(engine.url, policy=policy, workers=2)
    wires = [keyrail.wire() for _ in range(6)]

    def answers(start: bytes) -> bool:
        return all(wire.ask("KEYS", "*").startswith(start) for wire in wires)

    assert answers(b"*")
    policy.write_text(POLICY.format(mode="enforce"))
    keyrail.process.send_signal(signal.SIGHUP)
    eventually(lambda: answers(b"-DENIED"))
    policy.write_text("keyrail: 1\nrules: {oops: {refuse: [NOSUCHCOMMAND], forbid: [x]}}\n")
    keyrail.process.send_signal(signal.SIGHUP)
    line = keyrail.await_line(r"^keyrail: .*policy\.yaml.*$")
    assert "policy.yaml" in line
    assert answers(b"-DENIED")
    for wire in wires:
        wire.close()


def test_hot_keys(new_engine: Callable[..., Engine], new_keyrail: Callable[..., Keyrail]) -> None:
    """Keys of every kind of command count, by the engine's own idea of a key; several workers tell one truth."""
    engine = new_engine()
    keyrail = new_keyrail(engine.url, policy=packaged_policy("bench.yaml"), workers=2)
    wires = [keyrail.wire() for _ in range(4)]
    for wire in wires:
        data = pack("GET", "hot:key") * 500 + pack("SET", "warm:key", "v") * 200
        data += (
            pack("MGET", "hot:key", "cool:key", "cool:other") * 50
            + pack("EVAL", "return 1", 2, "hot:key", "lua:key") * 10
        )
        data += (pack("MULTI") + pack("INCR", "counter:key") + pack("EXEC")) * 20
        data += (pack("PUBLISH", "hot:key", "no key at all") + pack("GET", "bad")) * 30
        wire.send(data)
        wire.frames(500 + 200 + 50 + 10 + 60 + 60)
    answer: dict[str, Any] = {}

    def complete() -> bool:
        answer.update(keyrail.hot_keys(count=5, window=60))
        counts = {entry["key"]: entry["count"] for entry in answer["keys"]}
        return bool(counts.get("hot:key", 0) >= 4 * 560 and counts.get("counter:key", 0) >= 4 * 20)

    eventually(complete)
    keys = answer["keys"]
    found = {entry["key"]: entry for entry in keys}
    assert answer["window"] == 60
    assert found["hot:key"]["count"] == 4 * 560
    assert found["hot:key"]["reads"] + found["hot:key"]["writes"] == 4 * 560
    assert found["warm:key"]["writes"] == found["warm:key"]["count"] == 4 * 200
    assert found["counter:key"]["count"] == 4 * 20
    assert all(entry["error"] == 0 for entry in keys)
    assert [entry["count"] for entry in keys] == sorted((entry["count"] for entry in keys), reverse=True)
    for wire in wires:
        wire.close()
