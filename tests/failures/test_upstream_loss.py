"""If Redis goes away: which clients are closed, which stay, and what never happens.

Proves: clients with pending replies and clients with state on their own upstream are closed; idle pooled clients stay
and work again when Redis is back; nothing is ever sent twice; an upstream that is down at the start is no error, and
Keyrail becomes ready by itself; a command without an upstream waits only for the present connection attempt; errors
without a pending command reach no client.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engines import Engine, client_ids, free_port
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import PATIENCE_SECONDS, Closed, eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="a plain relay promises none of this")

NewEngine = Callable[..., Engine]
NewKeyrail = Callable[..., Keyrail]


def works(keyrail: Keyrail) -> bool:
    """A new client gets an answer."""
    try:
        with keyrail.wire(timeout=1.0) as wire:
            return wire.ask("PING") == b"+PONG\r\n"
    except (OSError, Closed):
        return False


def test_idle_clients_survive_a_restart(new_engine: NewEngine, new_keyrail: NewKeyrail) -> None:
    engine = new_engine()
    keyrail = new_keyrail(engine.url)
    with keyrail.wire() as idle, keyrail.wire(protocol=3) as modern, keyrail.wire() as chosen:
        assert idle.ask("SET", "k", "v") == b"+OK\r\n"
        assert chosen.ask("SELECT", "3") == b"+OK\r\n"
        assert modern.ask("GET", "none") == b"_\r\n"
        engine.kill()
        assert idle.silent(0.2)
        assert modern.silent(0.05)
        assert chosen.silent(0.05)
        engine.start()
        eventually(lambda: works(keyrail))
        assert idle.ask("GET", "k") == b"$-1\r\n"
        assert modern.ask("GET", "none") == b"_\r\n"
        assert chosen.ask("SET", "k", "three") == b"+OK\r\n"
        assert idle.ask("GET", "k") == b"$-1\r\n"
        with engine.wire() as direct:
            direct.ask("SELECT", "3")
            assert direct.ask("GET", "k") == b"$5\r\nthree\r\n"


def test_clients_with_pending_replies_are_closed(new_engine: NewEngine, new_keyrail: NewKeyrail) -> None:
    engine = new_engine()
    keyrail = new_keyrail(engine.url)
    with keyrail.wire() as pending_replies, keyrail.wire() as idle:
        assert idle.ask("PING") == b"+PONG\r\n"
        assert pending_replies.ask("PING") == b"+PONG\r\n"
        engine.freeze()
        pending_replies.say("INCR", "n")
        eventually(lambda: keyrail.metric("keyrail_commands_in_flight") >= 1)
        engine.kill()
        assert pending_replies.remaining() == []
        assert idle.silent(0.1)


STATES = {
    "a subscription": ["SUBSCRIBE x"],
    "a watch": ["WATCH k"],
    "an open transaction": ["MULTI", "SET k v"],
    "a blocking command": ["!BLPOP q 0"],
    "a true id": ["CLIENT ID"],
    "tracking": ["CLIENT TRACKING ON BCAST"],
}


def test_clients_with_state_are_closed(new_engine: NewEngine, new_keyrail: NewKeyrail) -> None:
    """State that Redis has lost must not look as if it still held."""
    engine = new_engine()
    keyrail = new_keyrail(engine.url)
    holders = {name: keyrail.wire(3 if name == "tracking" else 2) for name in STATES}
    with keyrail.wire() as idle:
        assert idle.ask("PING") == b"+PONG\r\n"
        for name, told in STATES.items():
            for command in told:
                if command.startswith("!"):
                    holders[name].say(*command[1:].split())
                    engine.await_info("clients", "blocked_clients", "1")
                else:
                    assert not holders[name].ask(*command.split()).startswith(b"-")
        engine.kill()
        for name, holder in holders.items():
            assert holder.remaining() == [], name
        assert idle.silent(0.1)


def test_nothing_is_sent_twice(new_engine: NewEngine, new_keyrail: NewKeyrail) -> None:
    """Increments whose replies were lost with their connection are not repeated on the next one."""
    engine = new_engine()
    keyrail = new_keyrail(engine.url)
    confirmed, unknown = 0, 0
    for _ in range(20):
        with keyrail.wire() as wire:
            wire.send(b"*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n" * 50)
            engine.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            try:
                for _ in range(50):
                    wire.frame()
                    confirmed += 1
            except Closed:
                unknown += 1
        eventually(lambda: works(keyrail))
    value = engine.do("GET", "n")
    counted = int(value) if isinstance(value, bytes) else 0
    assert confirmed <= counted <= 20 * 50
    assert keyrail.metric("keyrail_out_of_step_total") == 0


def test_killed_connections_close_only_clients_with_pending_replies(
    new_engine: NewEngine, new_keyrail: NewKeyrail
) -> None:
    engine = new_engine()
    keyrail = new_keyrail(engine.url)
    with keyrail.wire() as wire, engine.wire() as direct:
        for round_ in range(10):
            assert wire.ask("SET", "k", round_) == b"+OK\r\n"
            assert direct.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") != b":0\r\n"
            # Keyrail knows of it when it has come back: a command that it reads before that is one more pending reply.
            eventually(lambda: len(client_ids(direct)) > 1)
            assert wire.silent(0)
            assert wire.ask("GET", "k") == b"$1\r\n%d\r\n" % round_


def test_down_at_start(new_engine: NewEngine, new_keyrail: NewKeyrail) -> None:
    """It starts, says so, is not ready, closes who asks for anything, and recovers by itself."""
    engine = new_engine()
    engine.kill()
    keyrail = new_keyrail(engine.url)
    assert keyrail.http("/healthz")[0] == 200
    status, why = keyrail.http("/readyz")
    assert status == 503
    assert why.strip()
    started = time.monotonic()
    with keyrail.wire() as wire:
        wire.say("PING")
        answer = wire.remaining()
    assert time.monotonic() - started < PATIENCE_SECONDS / 2
    assert all(frame.startswith(b"-") for frame in answer)
    engine.start()
    eventually(lambda: keyrail.http("/readyz")[0] == 200)
    eventually(lambda: works(keyrail))


def test_reconnecting_backs_off(new_keyrail: NewKeyrail) -> None:
    """A dead upstream is not hammered, whatever its clients do."""
    keyrail = new_keyrail(f"redis://127.0.0.1:{free_port()}")
    before = _cpu_seconds(keyrail)
    deadline = time.monotonic() + 1.5
    while time.monotonic() < deadline:
        with keyrail.wire() as wire:
            wire.say("PING")
            wire.remaining()
    assert _cpu_seconds(keyrail) - before < 1.2


def _cpu_seconds(keyrail: Keyrail) -> float:
    total = 0
    for pid in keyrail.pids():
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / 100


def test_idle_timeout_of_redis(new_engine: NewEngine, new_keyrail: NewKeyrail) -> None:
    """Redis closes idle connections: pooled clients notice nothing, and the next command works."""
    engine = new_engine(options={"timeout": "1"})
    keyrail = new_keyrail(engine.url)
    with keyrail.wire() as wire:
        assert wire.ask("SET", "k", "v") == b"+OK\r\n"
        assert wire.silent(2.2)
        assert wire.ask("GET", "k") == b"$1\r\nv\r\n"


def test_loading_is_told_as_it_is(new_engine: NewEngine, new_keyrail: NewKeyrail) -> None:
    """PING is Redis's own to answer: a proxy that said PONG would call a loading server healthy."""
    engine = new_engine(options={"save": "3600 1"})
    keyrail = new_keyrail(engine.url)
    with engine.wire() as direct:
        direct.send(b"".join(b"*3\r\n$3\r\nSET\r\n$6\r\n%06d\r\n$1\r\nv\r\n" % i for i in range(20_000)))
        direct.frames(20_000)
        assert direct.ask("SAVE") == b"+OK\r\n"
    engine.kill()
    engine.options["key-load-delay"] = "2000"
    engine.options["loading-process-events-interval-bytes"] = "1024"
    engine.launch()
    expected = b"-LOADING"
    seen = b""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline and not seen.startswith(expected):
        try:
            with keyrail.wire(timeout=1.0) as wire:
                seen = wire.ask("PING")
        except (Closed, OSError):
            continue
    assert seen.startswith(expected)
