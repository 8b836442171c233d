"""`--upstream-timeout`: a client that waits too long for a reply gets an error and is closed, unless it sent a blocking
command."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable

import pytest

from tests.black_hole import BlackHole
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Closed, Wire, eventually, pack

pytestmark = pytest.mark.skipif(DIRECT, reason="a plain relay has no such option")

NewEngine = Callable[..., Engine]
NewKeyrail = Callable[..., Keyrail]
TIMEOUT = ("--upstream-timeout", "2s")
ERROR = b"-ERR upstream timeout: no reply from Redis for 2 s (--upstream-timeout)\r\n"
HALF = b"$10\r\n01234"


class HalfReply(BlackHole):
    """Passes on half of one value, and nothing behind it on that connection."""

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if data.startswith(HALF):
                    sink.sendall(HALF)
                    self._swallowed.add(source)
                elif source not in self._swallowed:
                    sink.sendall(data)


def is_told(wire: Wire) -> None:
    assert wire.frame() == ERROR
    with pytest.raises(Closed):
        wire.frame()


def test_a_reply_that_takes_too_long_closes_its_client(new_engine: NewEngine, new_keyrail: NewKeyrail) -> None:
    engine = new_engine()
    keyrail = new_keyrail(engine.url, extra=TIMEOUT)
    with keyrail.wire() as pooled, keyrail.wire() as pinned, keyrail.wire() as rests, keyrail.wire() as waits:
        assert rests.ask("SET", "k", "v") == b"+OK\r\n"
        assert pinned.ask("WATCH", "k") == b"+OK\r\n"
        waits.send(pack("BLPOP", "queue", "0"))
        eventually(lambda: engine.info("clients")["blocked_clients"] == "1")
        engine.freeze()
        pooled.send(pack("GET", "k") + pack("INCR", "n"))
        pinned.send(pack("GET", "k"))
        is_told(pooled)
        is_told(pinned)
        engine.thaw()
        assert rests.ask("GET", "k") == b"$1\r\nv\r\n"
        # The client's command has run, once: nothing is sent again, and nobody gets its reply.
        eventually(lambda: rests.ask("GET", "n") == b"$1\r\n1\r\n")
        assert rests.ask("RPUSH", "queue", "job") == b":1\r\n"
        assert waits.frame() == b"*2\r\n$5\r\nqueue\r\n$3\r\njob\r\n"
    eventually(lambda: keyrail.metric("keyrail_client_closes_total", cause="upstream_timeout") == 2)


def test_a_client_that_is_answered_again_and_again_stays(new_engine: NewEngine, new_keyrail: NewKeyrail) -> None:
    """Some reply is always pending, and none for long."""
    engine = new_engine()
    keyrail = new_keyrail(engine.url, extra=TIMEOUT)
    with engine.wire() as direct, keyrail.wire() as wire:
        assert wire.ask("PING") == b"+PONG\r\n"
        wire.send(pack("INCR", "n"))
        for number in range(1, 12):
            wire.send(pack("INCR", "n"))
            assert direct.ask("CLIENT", "PAUSE", "300", "WRITE") == b"+OK\r\n"
            assert wire.frame() == b":%d\r\n" % number
    assert keyrail.metric("keyrail_client_closes_total", cause="upstream_timeout") == 0


def test_no_error_is_written_into_a_reply_that_has_begun(new_engine: NewEngine, new_keyrail: NewKeyrail) -> None:
    """Half of a value is here when the network swallows the rest: an error behind it would be the other half."""
    engine = new_engine()
    engine.do("SET", "k", "0123456789")
    with HalfReply(engine.port) as network:
        keyrail = new_keyrail(network.url, extra=TIMEOUT)
        with keyrail.wire() as wire:
            wire.send(pack("GET", "k"))
            with pytest.raises(Closed) as closed:
                wire.frame()
            assert closed.value.rest in (b"", HALF)
        eventually(lambda: keyrail.metric("keyrail_client_closes_total", cause="upstream_timeout") == 1)
