"""A client's connection holds the session, which knows no sockets, and stands in the way of no byte."""

from __future__ import annotations

import asyncio

from proxy.hotpath.in_flight import ReplySink
from proxy.net.client import ClientConnection
from proxy.session.dispatcher import Dispatcher
from tests.net.test_faults import Door, Wire
from tests.session.given import HOME, call


def test_a_connection_is_no_session_and_a_session_is_no_protocol() -> None:
    assert not issubclass(ClientConnection, ReplySink)
    assert not issubclass(Dispatcher, asyncio.BaseProtocol)


def test_bytes_go_to_the_session_and_replies_to_the_transport_without_a_call_in_between() -> None:
    door = Door()
    client, wire = ClientConnection(door, door.ports, HOME, door.limits(authenticated=True), ""), Wire()
    client.connection_made(wire)
    assert client.data_received == client.session.receive
    assert client.session.write == wire.write
    client.data_received(call("GET", "k"))
    door.upstream().receive(b"$-1\r\n")
    assert wire.sent == b"$-1\r\n"
