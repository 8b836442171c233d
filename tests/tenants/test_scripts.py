"""Scripts of tenants through Keyrail, on real engines: as they would run alone, and refused before they run."""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha1
from pathlib import Path

import pytest

from tests.conftest import Fleet
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Wire, eventually, pack
from tests.tenants.test_against_engines import POLICY, prepared

pytestmark = pytest.mark.skipif(DIRECT, reason="tenants are Keyrail's own")

WITH_RULES = """
keyrail: 1
apps: {acme: {match: {user: acme}}, globex: {match: {user: globex}}}
tenants: {prefix: "{app}:", apps: [acme, globex]}
defaults: {mode: enforce}
rules:
  no-flags: {refuse: [SETBIT]}
  names: {names: {max_length: 20}}
  calls: {scripts: {commands: follow_rules, dynamic_calls: refuse, undeclared_keys: refuse}}
"""
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"
COUNT = "local n = redis.call('INCR', KEYS[1]) if n == 1 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end return n"
DICT = "redis.setresp(3) return redis.call('HGETALL', KEYS[1])"
FAILS = "return redis.call('INCR', KEYS[1])"
LEAKS = "return redis.call('KEYS', '*')"
NOSCRIPT = b"-NOSCRIPT No matching script. Please use EVAL.\r\n"


def sha(text: str) -> str:
    return sha1(text.encode()).hexdigest()


def without_scripts(engine: Engine) -> Engine:
    engine.do("SCRIPT", "FLUSH")
    return prepared(engine)


def login(wire: Wire, user: str = "acme") -> Wire:
    assert wire.ask("AUTH", user, "secret") == b"+OK\r\n"
    return wire


def served(fleet: Fleet, engine_name: str, folder: Path, text: str = POLICY) -> Keyrail:
    file = folder / "tenants.yaml"
    file.write_text(text, encoding="utf-8")
    return fleet.keyrail(engine_name, policy=file)


LINES: list[tuple[str | int, ...]] = [
    ("SET", "lock", "7"),
    ("EVAL", RELEASE, 1, "lock", "8"),
    ("EVALSHA", sha(RELEASE), 1, "lock", "7"),
    ("SCRIPT", "LOAD", COUNT),
    ("SCRIPT", "EXISTS", sha(COUNT), sha("return 2")),
    ("EVALSHA", sha(COUNT), 1, "count", "100"),
    ("EVALSHA", sha(COUNT).upper(), 1, "count", "100"),
    ("HSET", "h", "f", "1"),
    ("EVAL", DICT, 1, "h"),
    ("EVAL", FAILS, 1, "h"),
    ("EVAL", "return redis.pcall('INCR', KEYS[1])", 1, "h"),
    ("EVAL", "return {err = 'own'}", 0),
    ("EVAL", "return nil", 1, "acme:a"),
    ("EVAL", "return ARGV", 1, "acme:a", "acme:b"),
    ("EVAL", RELEASE, 2, "lock"),
    ("EVAL", RELEASE),
    ("EVAL", "return (", 0),
    ("MULTI",),
    ("EVAL", COUNT, 1, "count", "100"),
    ("EVALSHA", sha(COUNT), 1, "count", "100"),
    ("EXEC",),
    ("GET", "count"),
]
OTHER_WORDS = frozenset({("EVAL", RELEASE, 2, "lock"), ("EVAL", "return (", 0)})
"""Refused in Keyrail's words: the keys, or the text, cannot be read."""


@pytest.mark.parametrize("way", ["one by one", "pipeline"])
def test_a_script_answers_as_it_would_alone(
    fleet: Fleet, engine_name: str, protocol: int, way: str, tmp_path: Path
) -> None:
    shared, alone = without_scripts(fleet.engine(engine_name)), without_scripts(fleet.engine(engine_name, "alone"))
    keyrail = served(fleet, engine_name, tmp_path)
    told = []
    with keyrail.wire(protocol=protocol) as through, alone.wire(protocol=protocol) as direct:
        for wire in (login(through), login(direct)):
            if way == "pipeline":
                wire.send(b"".join(pack(*words) for words in LINES))
                told.append(wire.frames(len(LINES)))
            else:
                told.append([wire.ask(*words) for words in LINES])
    for words, reply, expected in zip(LINES, *told, strict=True):
        assert reply.startswith(b"-DENIED ") if words in OTHER_WORDS else reply == expected, words
    assert shared.do("GET", "acme:count") == alone.do("GET", "count") == b"4"


def test_what_its_text_does_not_prove_is_refused_and_aborts_a_transaction(
    fleet: Fleet, engine_name: str, protocol: int, tmp_path: Path
) -> None:
    engine = without_scripts(fleet.engine(engine_name))
    keyrail = served(fleet, engine_name, tmp_path)
    with keyrail.wire(protocol=protocol) as acme, keyrail.wire() as globex:
        login(acme)
        for words in (("EVAL", LEAKS, "0"), ("SCRIPT", "LOAD", LEAKS)):
            assert acme.ask(*words).startswith(b"-DENIED keyrail: " + " ".join(words[: words.index(LEAKS)]).encode())
        assert acme.ask("EVALSHA", sha(LEAKS), 0).startswith(b"-DENIED keyrail: EVALSHA is not offered to tenants")
        assert acme.ask("FCALL", "f", 0).startswith(b"-DENIED ")
        assert [acme.ask("MULTI"), acme.ask("SET", "a", "1")] == [b"+OK\r\n", b"+QUEUED\r\n"]
        assert acme.ask("EVAL", LEAKS, 0).startswith(b"-DENIED ")
        assert acme.ask("EXEC").startswith(b"-EXECABORT ")
        # One that somebody else has loaded, and whose text no tenant has sent.
        text = f"{COUNT} -- {protocol}"
        engine.do("SCRIPT", "LOAD", text)
        assert acme.ask("SCRIPT", "EXISTS", sha(text)) == b"*1\r\n:0\r\n"
        assert acme.ask("EVALSHA", sha(text), 1, "n", 9) == NOSCRIPT
        assert acme.ask("EVAL", text, 1, "n", 9) == b":1\r\n"
        assert login(globex, "globex").ask("EVALSHA", sha(text), 1, "n", 9) == b":1\r\n"
        assert [engine.do("GET", "acme:n"), engine.do("GET", "globex:n")] == [b"1", b"1"]
        assert engine.do("EXISTS", "acme:a") == 0


def test_rules_judge_what_passes_under_the_tenants_own_names(fleet: Fleet, engine_name: str, tmp_path: Path) -> None:
    without_scripts(fleet.engine(engine_name))
    keyrail = served(fleet, engine_name, tmp_path, WITH_RULES)
    with keyrail.wire() as wire:
        login(wire)
        assert wire.ask("EVAL", COUNT, 1, "n", 9) == b":1\r\n"
        assert wire.ask("EVALSHA", sha(COUNT), 1, "n", 9) == b":2\r\n"
        assert b"names: " in wire.ask("EVAL", COUNT, 1, "n" * 21, 9)
        assert b"no-flags" in wire.ask("EVAL", "return redis.call('SETBIT', KEYS[1], 1, 1)", 1, "n")
        assert b"offered to tenants" in wire.ask("EVAL", LEAKS, 0)


def test_a_channel_that_is_an_element_of_keys_is_the_tenants(fleet: Fleet, engine_name: str, tmp_path: Path) -> None:
    without_scripts(fleet.engine(engine_name))
    keyrail = served(fleet, engine_name, tmp_path)
    with keyrail.wire() as acme, keyrail.wire() as globex, keyrail.wire() as sender:
        for wire, user in ((acme, "acme"), (globex, "globex"), (sender, "acme")):
            login(wire, user)
        for wire in (acme, globex):
            assert wire.ask("SUBSCRIBE", "done") == b"*3\r\n$9\r\nsubscribe\r\n$4\r\ndone\r\n:1\r\n"
        assert sender.ask("EVAL", "return redis.call('PUBLISH', KEYS[1], ARGV[1])", 1, "done", "x") == b":1\r\n"
        assert acme.frame() == b"*3\r\n$7\r\nmessage\r\n$4\r\ndone\r\n$1\r\nx\r\n"
        assert globex.ask("UNSUBSCRIBE") == b"*3\r\n$11\r\nunsubscribe\r\n$4\r\ndone\r\n:0\r\n"


def test_a_large_argument_reaches_the_script_and_a_large_text_does_not(
    fleet: Fleet, engine_name: str, tmp_path: Path
) -> None:
    engine = without_scripts(fleet.engine(engine_name))
    keyrail = served(fleet, engine_name, tmp_path)
    with keyrail.wire() as wire:
        login(wire)
        large, text = b"x" * 3_000_000, "return redis.call('SET', KEYS[1], ARGV[1])"
        assert wire.ask("EVAL", text, 1, "large", large) == b"+OK\r\n"
        assert wire.ask("EVALSHA", sha(text), 1, "large", large) == b"+OK\r\n"
        assert wire.ask("EVAL", "return KEYS", 1, "large", large).startswith(b"-DENIED ")
        assert wire.ask("SCRIPT", "LOAD", b"return 1 --" + large).startswith(b"-DENIED ")
    assert engine.do("STRLEN", "acme:large") == len(large)


def test_workers_know_each_others_scripts_and_a_reload_judges_known_ones(
    new_engine: Callable[..., Engine], new_keyrail: Callable[..., Keyrail], tmp_path: Path
) -> None:
    engine = prepared(new_engine())
    file = tmp_path / "tenants.yaml"
    file.write_text(POLICY.replace("globex]", "globex], scripts: trusted"), encoding="utf-8")
    keyrail = new_keyrail(engine.url, policy=file, workers=2)
    wires = [login(keyrail.wire()) for _ in range(8)]
    assert wires[0].ask("EVAL", LEAKS, 0) == b"*0\r\n"
    assert wires[0].ask("SCRIPT", "LOAD", COUNT)[1:5] == b"40\r\n"
    assert all(wire.ask("EVALSHA", sha(COUNT), 1, "n", 9).startswith(b":") for wire in wires)
    file.write_text(POLICY + "# judged now\n", encoding="utf-8")
    eventually(lambda: all(wire.ask("EVAL", LEAKS, 0).startswith(b"-DENIED ") for wire in wires))
    assert all(wire.ask("EVALSHA", sha(LEAKS), 0).startswith(b"-DENIED ") for wire in wires)
    # The text of this one was not looked at before.
    assert wires[0].ask("EVALSHA", sha(COUNT), 1, "n", 9) == NOSCRIPT
    assert re.match(rb":\d+", wires[0].ask("EVAL", COUNT, 1, "n", 9))
    assert all(re.match(rb":\d+", wire.ask("EVALSHA", sha(COUNT), 1, "n", 9)) for wire in wires)
    for wire in wires:
        wire.close()
