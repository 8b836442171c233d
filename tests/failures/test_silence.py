"""If Redis does not answer, Keyrail reports it, and replaces only dead connections.

Proves: a Redis that is frozen, paused, or in a slow command makes its route not ready, in `/readyz`, the metric and the
log, and closes no client. A long script and loading are no silence, since Redis answers errors. If a network drops the
bytes of connections, they are replaced, with their clients, as soon as a new one is answered; new clients are then
served at once.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.black_hole import BlackHole
from tests.engines import EXPECTED, Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Closed, Wire, eventually, pack

pytestmark = pytest.mark.skipif(DIRECT, reason="a plain relay promises none of this")

NewEngine = Callable[..., Engine]
NewKeyrail = Callable[..., Keyrail]
SILENCE_SECONDS = 0.5
SILENCE = ("--upstream-silence", f"{SILENCE_SECONDS * 1000:.0f}ms")
PAUSE_MS = 600_000
"""Longer than any test waits."""


def unready(keyrail: Keyrail) -> str:
    status, body = keyrail.http("/readyz")
    return body if status == 503 else ""


def is_said(keyrail: Keyrail) -> None:
    """The silence is told in all places."""
    eventually(lambda: "Redis has not answered since 20" in unready(keyrail))
    assert keyrail.metric("keyrail_upstream_silent_seconds", route="default") > 0
    keyrail.await_line(r"^keyrail: route default: not ready: redis://\S+: Redis has not answered since 20\S+Z$")


def is_over(keyrail: Keyrail) -> None:
    """All is well again, and that is said."""
    eventually(lambda: keyrail.http("/readyz") == (200, "ready\n"))
    assert keyrail.metric("keyrail_upstream_silent_seconds", route="default") == 0


@contextmanager
def waiting(keyrail: Keyrail, *argv: str) -> Iterator[Wire]:
    """A client whose command is under way, and which is answered in the end."""
    with keyrail.wire() as wire:
        assert wire.ask("SET", "k", "v") == b"+OK\r\n"
        wire.send(pack(*argv))
        yield wire
        assert keyrail.metric("keyrail_events_total", event="silent") == 0


def test_a_frozen_redis_closes_nobody(new_engine: NewEngine, new_keyrail: NewKeyrail) -> None:
    engine = new_engine()
    keyrail = new_keyrail(engine.url, extra=SILENCE)
    with keyrail.wire() as early:
        assert early.ask("GET", "k") == b"$-1\r\n"
        engine.freeze()
        with waiting_behind(keyrail, early):
            is_said(keyrail)
            engine.thaw()
            is_over(keyrail)
        assert early.ask("GET", "k") == b"$-1\r\n"


@contextmanager
def waiting_behind(keyrail: Keyrail, early: Wire) -> Iterator[None]:
    """Two clients wait: one that was there before, and one that has come since."""
    with keyrail.wire() as late:
        early.send(pack("ECHO", "early"))
        late.send(pack("ECHO", "late"))
        yield
        assert early.frame() == b"$5\r\nearly\r\n"
        assert late.frame() == b"$4\r\nlate\r\n"
        assert keyrail.metric("keyrail_events_total", event="silent") == 0


def test_a_slow_command_closes_nobody(new_engine: NewEngine, new_keyrail: NewKeyrail) -> None:
    engine = new_engine(options={"watchdog-period": str(PAUSE_MS)})  # with it SIGALRM does nothing but end a sleep
    keyrail = new_keyrail(engine.url, extra=SILENCE)
    with waiting(keyrail, "GET", "k") as wire, engine.wire() as direct:
        assert wire.frame() == b"$1\r\nv\r\n"
        direct.send(pack("DEBUG", "SLEEP", str(PAUSE_MS // 1000)))
        wire.send(pack("GET", "k"))
        is_said(keyrail)
        os.kill(engine.pid, signal.SIGALRM)
        assert wire.frame() == b"$1\r\nv\r\n"
        is_over(keyrail)


@pytest.mark.parametrize("engine_name", EXPECTED)
def test_a_redis_that_holds_writes_back_closes_nobody(
    new_engine: NewEngine, new_keyrail: NewKeyrail, engine_name: str
) -> None:
    """A new connection is answered PING, and the old one is silent: that is no proof."""
    engine = new_engine(engine_name)
    keyrail = new_keyrail(engine.url, extra=SILENCE)
    with engine.wire() as direct, keyrail.wire() as wire:
        assert wire.ask("SET", "k", "v") == b"+OK\r\n"
        direct.ask("CLIENT", "PAUSE", str(PAUSE_MS), "WRITE")
        wire.send(pack("SET", "k", "w"))
        tried: set[bytes] = set()

        def has_been_tried_again() -> bool:
            tried.update(re.findall(rb"(?m)^id=(\d+) .* cmd=pfcount", direct.ask("CLIENT", "LIST")))
            return len(tried) >= 3  # one waits for the end of the pause, the others for a moment

        eventually(has_been_tried_again)
        direct.ask("CLIENT", "UNPAUSE")
        assert wire.frame() == b"+OK\r\n"
        assert wire.ask("GET", "k") == b"$1\r\nw\r\n"
        assert keyrail.metric("keyrail_events_total", event="silent") == 0


def test_a_redis_that_is_paused_closes_nobody(new_engine: NewEngine, new_keyrail: NewKeyrail) -> None:
    engine = new_engine()
    keyrail = new_keyrail(engine.url, extra=SILENCE)
    with engine.wire() as direct, keyrail.wire() as wire:
        assert wire.ask("SET", "k", "v") == b"+OK\r\n"
        direct.ask("MONITOR")  # Redis pauses no client that monitors, so this one can end the pause
        direct.say("CLIENT", "PAUSE", str(PAUSE_MS), "ALL")
        wire.send(pack("GET", "k"))
        is_said(keyrail)
        direct.say("CLIENT", "UNPAUSE")
        assert wire.frame() == b"$1\r\nv\r\n"
        is_over(keyrail)
        assert keyrail.metric("keyrail_events_total", event="silent") == 0


def test_a_script_that_runs_for_long_is_no_silence(new_engine: NewEngine, new_keyrail: NewKeyrail) -> None:
    engine = new_engine(options={"lua-time-limit": "50"})
    keyrail = new_keyrail(engine.url, extra=SILENCE)
    with engine.wire() as direct, keyrail.wire() as wire:
        direct.send(pack("EVAL", "while true do end", "0"))
        answers(keyrail, wire, "-BUSY")
        assert wire.ask("SCRIPT", "KILL") == b"+OK\r\n"
        eventually(lambda: wire.ask("GET", "k") == b"$-1\r\n")  # the script ends a moment after that reply


def test_loading_is_no_silence(new_engine: NewEngine, new_keyrail: NewKeyrail) -> None:
    engine = new_engine(
        options={
            "key-load-delay": "1000",  # microseconds: the keys take more than a minute, unless that is changed
            "loading-process-events-interval-bytes": "1024",  # it answers after so many bytes, which are a few keys
            "rdbcompression": "no",
        }
    )
    keyrail = new_keyrail(engine.url, extra=SILENCE)
    with engine.wire() as direct, keyrail.wire() as wire:
        assert direct.ask("DEBUG", "POPULATE", 60_000, "key", 100) == b"+OK\r\n"
        direct.say("DEBUG", "RELOAD")
        answers(keyrail, wire, "-LOADING")
        engine.do("CONFIG", "SET", "key-load-delay", 0)
        eventually(lambda: wire.ask("GET", "k") == b"$-1\r\n")


def answers(keyrail: Keyrail, wire: Wire, error: str) -> None:
    """Redis answers with this error, for several times as long as it may be silent, and that is no silence."""
    eventually(lambda: wire.ask("GET", "k").startswith(error.encode()))
    eventually(lambda: no_silence(keyrail, wire, error))
    assert keyrail.metric("keyrail_events_total", event="silent") == 0


def no_silence(keyrail: Keyrail, wire: Wire, error: str) -> bool:
    """Keyrail is ready all the time; False if the machine has stopped Redis for as long as it may be silent."""
    until = time.monotonic() + 2.5
    while (asked := time.monotonic()) < until:
        assert wire.ask("GET", "k").startswith(error.encode())
        reason = unready(keyrail)
        if time.monotonic() - asked > SILENCE_SECONDS:
            is_over(keyrail)
            return False
        assert reason == ""
    return True


@pytest.mark.parametrize("user", [False, True], ids=["route's login", "a user of its own"])
def test_connections_that_are_swallowed_are_replaced(
    new_engine: NewEngine, new_keyrail: NewKeyrail, user: bool
) -> None:
    engine = new_engine()
    engine.do("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all")
    with BlackHole(engine.port) as network:
        keyrail = new_keyrail(network.url, extra=SILENCE)
        wires = [keyrail.wire() for _ in range(8)]
        for wire in wires:
            if user:
                assert wire.ask("AUTH", "app", "secret") == b"+OK\r\n"
            assert wire.ask("SET", "k", "v") == b"+OK\r\n"
        if user:
            eventually(lambda: they_share(keyrail, len(wires)))
        network.swallow()
        for wire in wires:
            wire.send(pack("GET", "k"))
        for wire in wires:
            with pytest.raises(Closed):
                wire.frame()
            wire.close()
        with keyrail.wire() as late:
            if user:
                assert late.ask("AUTH", "app", "secret") == b"+OK\r\n"
            assert late.ask("GET", "k") == b"$1\r\nv\r\n"
        eventually(lambda: keyrail.metric("keyrail_events_total", event="silent") > 0)
        keyrail.await_line(r"replaced \d+ connections without a reply for 0\.5 s; Redis answers on a new connection$")
        is_over(keyrail)


def they_share(keyrail: Keyrail, logins: int) -> bool:
    """Clients have given back the connections on which they logged in, as they do after a moment."""
    kept = keyrail.metric("keyrail_upstream_connections", kind="private")
    return kept == 0 and keyrail.metric("keyrail_upstream_connections") > logins


def test_a_connection_that_nobody_uses_is_replaced_before_anybody_does(
    new_engine: NewEngine, new_keyrail: NewKeyrail
) -> None:
    engine = new_engine()
    with BlackHole(engine.port) as network:
        keyrail = new_keyrail(network.url, extra=SILENCE)
        with keyrail.wire() as idle:
            assert idle.ask("SET", "k", "v") == b"+OK\r\n"
            network.swallow()
            eventually(lambda: keyrail.metric("keyrail_events_total", event="silent") > 0)
            assert idle.ask("GET", "k") == b"$1\r\nv\r\n"


def test_who_wants_no_questions_has_none(new_engine: NewEngine, new_keyrail: NewKeyrail) -> None:
    engine = new_engine()
    keyrail = new_keyrail(engine.url, extra=("--upstream-silence", "0"))
    engine.do("CONFIG", "RESETSTAT")
    with keyrail.wire() as wire:
        assert wire.silent(2.2)
        assert wire.ask("GET", "k") == b"$-1\r\n"
    assert engine.calls("ping") == 0
