"""The end of a route's clients: who has received everything holds up nobody."""

import asyncio
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from proxy.net.connection.failures import Failures
from proxy.net.downstream import route_clients
from proxy.net.downstream.admission import Admission
from proxy.net.downstream.route_clients import RouteClients
from proxy.session.session import Session


class SilentClient:
    """A TLS client that does not answer the close: its transport is lost once it is aborted."""

    def __init__(self, sock: socket.socket, kept: bytes) -> None:
        self.transport = self
        self.effective_policy = SimpleNamespace(compiled=SimpleNamespace(app=""))
        self.sender = SimpleNamespace(forwarded=0, remembered=0)
        self.origin = SimpleNamespace(address="", listener="")
        self.local = 0
        self.sock = sock
        self.kept = kept
        self.aborted = False
        self.clients: RouteClients | None = None

    def close_when_drained(self, cause: str) -> None:
        """As a session does: the transport closes."""

    def close(self, cause: str) -> None:
        """It is closed already."""

    def is_closing(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return len(self.kept)

    def get_extra_info(self, name: str) -> socket.socket:
        return self.sock

    def abort(self) -> None:
        self.aborted = True
        assert self.clients is not None
        self.clients.client_closed(cast("Session", self), "shutdown")


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    here, there = socket.socketpair()
    with here, there:
        yield here, there


def drained(client: SilentClient, seconds: float) -> None:
    clients = RouteClients(Admission(0), lambda: False, lambda _: None, Failures(cast("Any", None)))
    client.clients = clients
    clients.client_connected(cast("Session", client))
    asyncio.run(clients.drain(seconds))


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_clients, "_GOODBYE", 0.01)


def test_a_client_that_has_everything_is_not_waited_for(pair: tuple[socket.socket, socket.socket]) -> None:
    client = SilentClient(pair[0], b"")
    pair[0].send(b"+OK\r\n")
    pair[1].recv(100)
    drained(client, 3600)
    assert client.aborted


@pytest.mark.parametrize("kept", [b"", b"$3\r\n"], ids=["in the system", "in the transport"])
def test_a_client_that_has_still_to_read_is(pair: tuple[socket.socket, socket.socket], kept: bytes) -> None:
    client = SilentClient(pair[0], kept)
    if not kept:
        pair[0].send(b"+OK\r\n")
    drained(client, 0.05)
    assert not client.aborted
