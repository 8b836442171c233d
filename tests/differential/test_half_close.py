"""A TLS client that sends close_notify is answered as a TCP client that half-closes is answered by Redis.

Proves: whatever it sent before, complete or not, pending, blocked, in a transaction or subscribed, the same bytes come,
then the end; nothing that leaves Redis later reaches a client that has left; Keyrail logs nothing. asyncio and uvloop
close both directions at close_notify, so this is not theirs (``proxy/net/connection/tls.py::ClientTls``).
"""

from __future__ import annotations

import random
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import pytest

from tests.conftest import Fleet, seeds
from tests.engines import Engine, free_port
from tests.keyrail_process import DIRECT, Keyrail
from tests.net import certificates
from tests.resp import Address, pack

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay speaks TCP only")
ENGINE = "valkey-9.1"
LARGE = b"v" * 20_000


@dataclass(frozen=True, slots=True)
class Served:
    """Keyrail's TLS listener, and the engine behind it."""

    keyrail: Keyrail
    engine: Engine
    port: int
    context: ssl.SSLContext


@pytest.fixture(scope="module")
def served(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("tls")
    authority = certificates.authority(folder, "authority")
    pair, port = certificates.issue(folder, "server", authority), free_port()
    listener = f"rediss://127.0.0.1:{port}?certificate={pair.certificate}&key={pair.key}"
    engine = fleet.engine(ENGINE)
    keyrail = Keyrail(engine.url, extra=["--listen", listener])
    yield Served(keyrail, engine, port, ssl.create_default_context(cafile=str(authority.certificate)))
    keyrail.close()


class TlsClient:
    """A client that can send close_notify and go on reading. ``ssl.SSLSocket`` reads nothing afterwards."""

    def __init__(self, served: Served) -> None:
        self.socket = Address(port=served.port).connect()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = served.context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._leave()
                self._incoming.write(self.socket.recv(65_536))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def _leave(self) -> None:
        self.socket.sendall(self._outgoing.read())

    def send(self, data: bytes, *, at_once: bool) -> None:
        """Send this and close_notify, in one write or in two."""
        view = memoryview(data)
        while view:
            view = view[self._tls.write(view) :]
        if not at_once:
            self._leave()
        with pytest.raises(ssl.SSLWantReadError):
            self._tls.unwrap()
        self._leave()

    def rest(self) -> bytes:
        """All that comes until the other side ends the connection, which it has to do with close_notify."""
        got = b""
        while True:
            try:
                got += self._tls.read(65_536)
            except ssl.SSLZeroReturnError:
                return got
            except ssl.SSLWantReadError:
                received = self.socket.recv(65_536)
                assert received, f"closed without close_notify behind {got[-80:]!r}"
                self._incoming.write(received)


def by_tcp(address: Address, data: bytes) -> bytes:
    with address.connect() as sock:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        got = b""
        while received := sock.recv(65_536):
            got += received
        return got


def _sent(of: random.Random) -> bytes:
    first = (
        pack("PING") * of.choice((1, 50, 3000)),
        pack("GET", "large") * of.choice((1, 4)),
        pack("INCR", "n") * of.choice((1, 20)),
        pack("EVAL", "for i = 1, 200000 do end return 1", 0) + pack("GET", "n"),
        pack("MULTI") + pack("INCR", "n") + pack("EXEC"),
        pack("WATCH", "n") + pack("GET", "n"),
        pack("SET", "big", b"x" * 2_000_000) + pack("STRLEN", "big"),
        pack("CLIENT", "REPLY", "SKIP") + pack("PING"),
    )
    last = (
        b"",
        pack("MULTI") + pack("INCR", "n"),
        pack("BLPOP", "empty", 0) + pack("PING"),
        pack("SUBSCRIBE", "news", "more"),
        pack("QUIT") + pack("PING"),
        b"*2\r\n$3\r\nGET\r\n$90",
    )
    return b"".join(of.sample(first, of.randint(0, 3))) + of.choice(last)


@pytest.mark.parametrize("seed", seeds(40, 400))
def test_the_same_comes_as_by_tcp_from_redis(served: Served, seed: int) -> None:
    of = random.Random(seed)
    data, at_once = _sent(of), of.random() < 0.5
    expected, found = (_answers(served, data, at_once=each) for each in (None, at_once))
    assert found == expected, data[:300]
    assert "eof_received" not in served.keyrail.stderr


def _answers(served: Served, data: bytes, *, at_once: bool | None) -> bytes:
    engine = served.engine
    engine.do("FLUSHALL")
    engine.do("SET", "large", LARGE)
    engine.do("RPUSH", "full", "a", "b")
    if at_once is None:
        return by_tcp(engine.address, data)
    with TlsClient(served) as client:
        client.send(data, at_once=at_once)
        return client.rest()


def test_nothing_is_popped_for_a_client_that_sent_close_notify(served: Served) -> None:
    engine = served.engine
    engine.do("DEL", "q")
    for at_once in (True, False):
        with TlsClient(served) as client:
            client.send(pack("BLPOP", "q", 0), at_once=at_once)
            assert client.rest() == b""
    engine.await_info("clients", "blocked_clients", "0")
    engine.do("RPUSH", "q", "job")
    assert engine.do("LRANGE", "q", 0, -1) == [b"job"]
