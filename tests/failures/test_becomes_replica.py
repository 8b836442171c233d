"""The server at the one address of Redis becomes a replica, and stays there.

Proves with real engines: reads go on under each packaged policy, for clients of both protocols, also for those that use
scripts, WATCH or a user of their own; writes get the engine's own READONLY; no client is closed. `/readyz` says what is
so, also if nobody writes, and what is cached follows the new primary.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import rest_is_long
from tests.engines import EXPECTED, OLDEST, Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Wire, eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay is not ready or unready")

NewEngine = Callable[..., Engine]
NewKeyrail = Callable[..., Keyrail]
POLICIES = Path(__file__).parents[2] / "policies"
CACHED = """
keyrail: 1
rules:
  cached: {local_cache: {keys: ["*"], when: always, max_age: 60s}, mode: enforce}
"""
AT_ONCE = {"repl-diskless-sync-delay": "0"}
READS = (
    ("GET", "user:1:name"),
    ("HGETALL", "user:1"),
    ("HGET", "session:1", "id"),  # under `strict`, a use that renews the TTL
    ("LRANGE", "work:mail", "0", "5"),
    ("EXISTS", "user:1", "user:1"),
    ("EVAL", "return redis.call('GET', KEYS[1])", "1", "user:1:name"),
    ("PING",),
)
WRITES = (
    ("SET", "user:1:name", "x"),
    ("HSET", "user:1", "name", "x"),
    ("INCR", "counter:visits"),
    ("DEL", "user:1:name"),
    ("EXPIRE", "user:1", "100"),
    ("EVAL", "return redis.call('SET', KEYS[1], 'x', 'EX', 100)", "1", "user:1:name"),
)


def replicate(engine: Engine, primary: Engine) -> None:
    primary.do("SET", "user:1:name", "of the primary")
    primary.do("HSET", "user:1", "name", "ada")
    engine.do("REPLICAOF", "127.0.0.1", primary.port)
    engine.await_info("replication", "master_link_status", "up")


def says_so(keyrail: Keyrail, engine: Engine) -> bool:
    return keyrail.http("/readyz") == (200, f"ready\nroute default: {engine.url}: it is a replica\n")


def clients(keyrail: Keyrail, engine: Engine) -> list[tuple[Wire, Wire]]:
    """Clients of each kind, each with one that asks the same directly."""
    pairs = [(keyrail.wire(protocol), engine.wire(protocol)) for protocol in (2, 3, 2)]
    for wire in pairs[-1]:
        assert wire.ask("AUTH", "app", "secret") == b"+OK\r\n"
    return pairs


@pytest.mark.parametrize("engine_name", rest_is_long(*EXPECTED))
@pytest.mark.parametrize("policy", rest_is_long("strict", "none", "default", "cache"))
def test_reads_go_on(new_engine: NewEngine, new_keyrail: NewKeyrail, engine_name: str, policy: str) -> None:
    engine, primary = (new_engine(engine_name, AT_ONCE) for _ in range(2))
    engine.do("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all")
    keyrail = new_keyrail(engine.url, policy=policy if policy == "none" else POLICIES / f"{policy}.yaml")
    pairs = clients(keyrail, engine)
    for wire, _ in pairs:
        assert all(not wire.ask(*write).startswith(b"-") for write in WRITES)
    replicate(engine, primary)
    rounds = 0
    while rounds < 10 or not says_so(keyrail, engine):
        rounds += 1
        for wire, direct in pairs:
            for read in READS:
                assert wire.ask(*read) == direct.ask(*read), read
            for write in WRITES:
                reply = wire.ask(*write)
                assert b"READONLY You can't write against a read only replica" in reply, write
                assert reply.startswith(b"-READONLY" if write[0] != "EVAL" else b"-"), write
            assert wire.ask("WATCH", "user:1") == b"+OK\r\n"
            assert wire.ask("GET", "user:1:name") == b"$14\r\nof the primary\r\n"
            assert wire.ask("UNWATCH") == b"+OK\r\n"
        if rounds == 5:
            pairs += clients(keyrail, engine)
    assert "another Redis process" not in keyrail.stderr
    assert keyrail.metric("keyrail_client_closes_total") == 0
    assert keyrail.metric("keyrail_events_total", event="retired") == 0
    keyrail.await_line(r"^keyrail: route default: redis://\S+: it is a replica: reads go on, and Redis refuses writes")
    engine.do("REPLICAOF", "NO", "ONE")
    eventually(lambda: keyrail.http("/readyz") == (200, "ready\n"))
    keyrail.await_line(r"^keyrail: route default: redis://\S+: it is a primary$")
    for wire, _ in pairs:
        assert wire.ask("SET", "user:1:name", "x") == b"+OK\r\n"


def is_read(wire: Wire, value: str) -> bool:
    return wire.ask("GET", "user:1:name") == b"$%d\r\n%b\r\n" % (len(value), value.encode())


@pytest.mark.parametrize("engine_name", rest_is_long(*EXPECTED))
def test_what_is_cached_follows_the_new_primary(
    new_engine: NewEngine, new_keyrail: NewKeyrail, engine_name: str, tmp_path: Path
) -> None:
    """Nobody writes through Keyrail, and it says so nevertheless."""
    engine, primary = (new_engine(engine_name, AT_ONCE) for _ in range(2))
    (tmp_path / "cached.yaml").write_text(CACHED)
    keyrail = new_keyrail(engine.url, policy=tmp_path / "cached.yaml")
    wires = [keyrail.wire(2), keyrail.wire(3)]

    def cached(value: str) -> bool:
        before = keyrail.metric("keyrail_local_cache_hits_total")
        assert all(is_read(wire, value) for wire in wires)
        assert wires[0].ask("KEYRAIL", "INFO").startswith(b"*"), "with it, figures are those of now"
        return keyrail.metric("keyrail_local_cache_hits_total") > before

    assert engine.do("SET", "user:1:name", "old") == b"OK"
    eventually(lambda: cached("old"))
    replicate(engine, primary)
    eventually(lambda: is_read(wires[0], "of the primary"))
    for value in ("first", "second"):
        assert primary.do("SET", "user:1:name", value) == b"OK"
        assert primary.do("WAIT", 1, 0) == 1
        eventually(partial(is_read, wires[1], value))
        eventually(partial(cached, value))
    eventually(lambda: says_so(keyrail, engine))
    engine.do("CONFIG", "SET", "replica-serve-stale-data", "no")
    primary.kill()
    eventually(lambda: engine.wire().ask("GET", "user:1:name").startswith(b"-MASTERDOWN"))
    if engine_name != OLDEST:  # it answers PING, so that nothing tells Keyrail
        eventually(lambda: all(wire.ask("GET", "user:1:name").startswith(b"-MASTERDOWN") for wire in wires))
