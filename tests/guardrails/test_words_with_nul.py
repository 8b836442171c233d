"""A NUL behind a word, with or without more than a megabyte behind it, bypasses no rule: Keyrail judges the command
that the engine runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import Fleet
from tests.engines import Engine
from tests.resp import Failure, Wire, pack, words

POLICY = """
keyrail: 1
defaults: {mode: enforce}
rules:
  commands: {refuse: [CONFIG SET, SCAN, FLUSHALL], allow: [FLUSHALL ASYNC]}
  databases: {databases: [0]}
  names: {names: {prefixes: {default: ["a:", "lock:"]}}}
  sizes: {sizes: {value: 64KB}}
  ranges: {ranges: {max: 10}}
  lifetimes: {lifetime: {default: 5m}}
exceptions:
  - {rule: commands, keys: "lock:*", because: walks of locks}
"""
MORE = (b"", b"x", b"x" * 1_100_000)
"""The bytes behind the NUL."""
ATTACKS: dict[str, tuple[int, str]] = {
    "STORE of SORT": (2, "SORT a:list STORE b:other"),
    "GET of SORT": (2, "SORT a:list GET b:*"),
    "BY of SORT": (2, "SORT a:list BY b:*"),
    "STORE of GEORADIUS": (6, "GEORADIUS a:geo 1 1 9 km STORE b:other"),
    "STREAMS of XREAD": (3, "XREAD COUNT 1 STREAMS b:stream 0"),
    "COUNT of XREAD": (1, "XREAD COUNT 5000 STREAMS a:stream 0"),
    "DB of COPY": (3, "COPY a:key a:copy DB 5"),
    "type of BITFIELD": (3, "BITFIELD a:bits SET u8 90000000 1"),
    "second MATCH of SCAN": (4, "SCAN 0 MATCH lock:* MATCH *"),
    "subcommand of CONFIG": (1, "CONFIG SET maxmemory-samples 3"),
    "name of a command": (0, "FLUSHALL"),
}
"""Commands that the policy refuses, and which of their words gets the NUL."""


def with_nul(name: str, more: bytes) -> list[bytes]:
    index, line = ATTACKS[name]
    argv = words(line)
    argv[index] += b"\0" + more
    return argv


@pytest.fixture
def engine(fleet: Fleet, engine_name: str) -> Engine:
    engine = fleet.engine(engine_name)
    engine.do("FLUSHALL")
    engine.do("RPUSH", "a:list", "1", "2")
    engine.do("GEOADD", "a:geo", "1", "1", "m")
    engine.do("SET", "a:key", "v")
    engine.do("XADD", "b:stream", "1-1", "f", "secret")
    return engine


@pytest.fixture
def wire(fleet: Fleet, engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    path = tmp_path_factory.mktemp("policy") / "policy.yaml"
    path.write_text(POLICY)
    with fleet.keyrail(engine.name, policy=path).wire() as wire:
        yield wire


@pytest.mark.parametrize("name", ATTACKS)
def test_what_is_refused_stays_refused(engine: Engine, wire: Wire, name: str) -> None:
    assert wire.ask(*words(ATTACKS[name][1])).startswith(b"-DENIED keyrail/")
    for more in MORE:
        wire.send(pack(*with_nul(name, more)))
        assert wire.frame().startswith((b"-DENIED keyrail/", b"-ERR unknown command: there is a NUL")), len(more)
    assert wire.ask("PING") == b"+PONG\r\n"
    assert engine.do("EXISTS", "b:other", "a:copy", "a:bits") == 0
    assert engine.do("STRLEN", "a:key") == 1
    assert engine.info("keyspace").get("db5") is None
    assert engine.do("CONFIG", "GET", "maxmemory-samples") != [b"maxmemory-samples", b"3"]


def test_no_key_without_a_ttl_comes_in_behind_a_nul(engine: Engine, wire: Wire) -> None:
    for more in MORE:
        for option in (b"NX", b"GET", b"KEEPTTL"):
            engine.do("DEL", "a:new")
            wire.send(pack("SET", "a:new", "v", option + b"\0" + more))
            refused = wire.frame().startswith(b"-")
            assert wire.ask("PING") == b"+PONG\r\n"
            assert engine.do("TTL", "a:new") in ((-2,) if refused else (-2, 300)), (option, len(more))


def test_an_engine_reads_these_words_so(engine: Engine) -> None:
    """Or the tests above would be about nothing: every attack does on the engine what the plain command does."""
    by_hash = {"name of a command", "subcommand of CONFIG"}  # whether these match is a matter of luck
    strict = {"type of BITFIELD"} if engine.kind.is_valkey else set[str]()
    for name in ATTACKS.keys() - by_hash - strict:
        engine.do("DEL", "b:other", "a:copy", "a:bits")
        assert not isinstance(engine.do(*with_nul(name, b"x")), Failure), name
