"""Limits of clients, of open files, and of Redis's own clients: each is reported, counted, and ends when it no longer
applies.

Proves: a client above the limit gets Redis's own error, and its place is free again when another client leaves; a low
limit of open files leaves room for connections to Redis, and is reported at the start; if Redis takes no more clients,
a client that needs its own connection gets Redis's error; clients that have closed their half while Redis hangs free
their sockets.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Closed, Wire, eventually, pack
from tests.server.running import serve

pytestmark = pytest.mark.skipif(DIRECT, reason="a plain relay has no limits")

NewEngine = Callable[..., Engine]
NewKeyrail = Callable[..., Keyrail]
FULL = b"-ERR max number of clients reached\r\n"


def is_refused(wire: Wire) -> None:
    assert wire.frame() == FULL
    with pytest.raises(Closed):
        wire.frame()


def serves(wire: Wire) -> bool:
    """Whether a new client is one of those that are served."""
    try:
        return wire.ask("PING") == b"+PONG\r\n"
    except (Closed, OSError):
        return False


def test_a_client_too_many_gets_the_error_of_redis(new_engine: NewEngine, new_keyrail: NewKeyrail) -> None:
    keyrail = new_keyrail(new_engine().url, extra=("--max-clients", "2"))
    keyrail.await_line(r"^keyrail: up to 2 clients for each worker, as --max-clients says$")
    with keyrail.wire() as first:
        assert serves(first)
        with keyrail.wire() as second:
            assert serves(second)
            with keyrail.wire() as third:
                is_refused(third)
            assert serves(first)
        eventually(lambda: keyrail.metric("keyrail_clients") == 1)
        with keyrail.wire() as fourth:
            assert serves(fourth)
    keyrail.await_line(r"^keyrail: refusing clients: .*--max-clients allows 2 for each worker$")
    eventually(lambda: keyrail.metric("keyrail_client_closes_total", cause="max_clients") == 1)


def test_a_low_limit_of_open_files_leaves_room_for_redis(new_engine: NewEngine) -> None:
    engine = new_engine()
    with serve("--upstream", engine.url, "--policy", "none", open_files=150) as running, ExitStack() as held:
        line = running.ready().await_line(
            r"^keyrail: up to (\d+) clients for each worker, as the limit of 150 open .*$"
        )
        clients = int(line.split()[3])
        for _ in range(clients):
            wire = held.enter_context(running.wire())
            assert wire.ask("PING") == b"+PONG\r\n"
            wire.send(pack("SUBSCRIBE", "news"))
            assert wire.frame().startswith(b"*3")
        with running.wire() as one_more:
            is_refused(one_more)
        failed = re.findall(r"^keyrail_accept_failures_total\{.*\} (.*)$", running.http("/metrics")[1], re.MULTILINE)
        assert set(failed) == {"0.0"}


def test_a_limit_that_files_do_not_allow_is_lowered_and_said(new_engine: NewEngine) -> None:
    asked = ("--upstream", new_engine().url, "--policy", "none", "--max-clients", "5000")
    with serve(*asked, open_files=150) as running:
        running.ready().await_line(
            r"up to \d\d clients for each worker, not 5000: the limit of 150 open files allows no"
        )


def test_a_redis_that_takes_no_more_clients_is_quoted(new_engine: NewEngine, new_keyrail: NewKeyrail) -> None:
    engine = new_engine()
    keyrail = new_keyrail(engine.url)
    with keyrail.wire() as pooled, keyrail.wire() as private, ExitStack() as held:
        assert serves(pooled)
        engine.do("CONFIG", "SET", "maxclients", int(engine.info("clients")["connected_clients"]) - 1)
        for _ in range(3):  # what is left of it
            held.enter_context(engine.wire())
        private.send(pack("SUBSCRIBE", "news"))
        is_refused(private)
        assert serves(pooled)
        with keyrail.wire() as another:  # also while Keyrail waits before it tries again
            another.send(pack("SUBSCRIBE", "news"))
            is_refused(another)
        keyrail.await_line(r"^keyrail: redis://\S+ refuses connections: ERR max number of clients reached$")
        eventually(lambda: keyrail.metric("keyrail_client_closes_total", cause="upstream_refused") == 2)
        pooled.ask("CONFIG", "SET", "maxclients", "10000")

        def subscribes() -> bool:
            with keyrail.wire() as wire:
                wire.send(pack("SUBSCRIBE", "news"))
                return wire.frame().startswith(b"*3")

        eventually(subscribes)


def test_a_redis_that_takes_no_clients_at_all_is_quoted(new_engine: NewEngine, new_keyrail: NewKeyrail) -> None:
    engine = new_engine(options={"maxclients": "2"})
    with engine.wire() as first, engine.wire() as second:
        assert serves(first)
        assert serves(second)
        keyrail = new_keyrail(engine.url)
        with keyrail.wire() as wire:
            wire.send(pack("PING"))
            is_refused(wire)
        assert keyrail.http("/readyz")[0] == 503


def test_a_lack_of_private_connections_is_said(new_engine: NewEngine) -> None:
    limits = ("--private-connections", "1", "--connect-timeout", "2s")
    with serve("--upstream", new_engine().url, "--policy", "none", *limits) as running:
        running.ready()
        with running.wire() as first, running.wire() as second:
            first.send(pack("SUBSCRIBE", "news"))
            assert first.frame().startswith(b"*3")
            second.send(pack("SUBSCRIBE", "news"))
            assert second.frame() == b"-ERR all 1 private connections are in use\r\n"


def test_all_buffers_together_are_bounded(new_engine: NewEngine) -> None:
    engine = new_engine()
    with serve("--upstream", engine.url, "--policy", "none", "--buffer-limit", "2MB") as running, ExitStack() as held:
        running.ready()
        modest = held.enter_context(running.wire())
        modest.send(pack("SET", "k", "v")[:-1])  # unfinished: a few bytes wait
        readers = [held.enter_context(running.wire()) for _ in range(6)]
        for reader in readers:
            reader.send(pack("SUBSCRIBE", "news"))
            assert reader.frame().startswith(b"*3")
        with engine.wire() as direct:  # nobody reads it: each is below its limit, and all are above theirs
            for _ in range(60):
                assert direct.ask("PUBLISH", "news", "x" * 400_000).startswith(b":")
        closes = 'keyrail_client_closes_total{cause="buffer_limit",route="default"}'
        eventually(lambda: running.metric(closes) > 0)
        eventually(lambda: running.metric('keyrail_buffer_bytes{kind="output",route="default"}') <= 2 << 20)
        assert running.metric('keyrail_buffer_bytes{kind="query",route="default"}') > 0
        running.await_line(r"^keyrail: closed \d+ clients: all buffers held \d+ bytes, --buffer-limit allows 2097152$")
        modest.send(b"\n")
        assert modest.frame() == b"+OK\r\n"


def test_who_left_gives_its_socket_back_while_redis_hangs(new_engine: NewEngine, new_keyrail: NewKeyrail) -> None:
    engine = new_engine()
    keyrail = new_keyrail(engine.url, extra=("--upstream-silence", "500ms"))
    with keyrail.wire() as stays, ExitStack() as held:
        engine.freeze()
        stays.send(pack("ECHO", "stays"))
        for _ in range(20):
            wire = held.enter_context(keyrail.wire())
            wire.send(pack("PING"))
            wire.socket.shutdown(socket.SHUT_WR)
        eventually(lambda: keyrail.metric("keyrail_clients") == 1)
        eventually(lambda: keyrail.metric("keyrail_client_closes_total", cause="upstream_silent") == 20)
        engine.thaw()
        assert stays.frame() == b"$5\r\nstays\r\n"
