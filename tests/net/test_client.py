"""A client's connection holds the session, which knows no sockets, and delays no byte."""

from __future__ import annotations

import asyncio
import gc
from types import FunctionType, ModuleType

import pytest

from proxy.hotpath.intake.command_sender import CommandSender
from proxy.hotpath.intake.intake import Intake
from proxy.hotpath.upstream.in_flight import ReplySink
from proxy.net.downstream.client import ClientConnection
from proxy.session.dispatcher.dispatcher import Dispatcher
from proxy.session.session import Session
from tests.net.test_faults import Door, Wire
from tests.session.given import HOME, call


def test_a_connection_is_no_session_and_a_session_is_no_protocol() -> None:
    for held in (Session, Dispatcher, Intake, CommandSender):
        assert not issubclass(held, asyncio.BaseProtocol)
    assert not any(issubclass(ClientConnection, kind) for kind in (Session, Intake, ReplySink))


def test_bytes_go_to_the_session_and_replies_to_the_transport_without_a_call_in_between() -> None:
    door = Door()
    client, wire = ClientConnection(door, door.ports, HOME, door.limits(authenticated=True), ""), Wire()
    client.connection_made(wire)
    assert client.data_received == client.session.intake.receive
    assert client.session.sender.write == wire.write
    client.data_received(call("GET", "k"))
    door.upstream().receive(b"$-1\r\n")
    assert wire.sent == b"$-1\r\n"


@pytest.mark.parametrize("waits", [False, True])
def test_a_client_that_has_left_is_freed_without_the_garbage_collector(waits: bool) -> None:
    door = Door()
    gc.collect()
    gc.disable()
    others = sessions()
    try:
        client = ClientConnection(door, door.ports, HOME, door.limits(authenticated=True), "")
        client.connection_made(Wire())
        client.data_received(call("GET", "k"))
        if not waits:
            door.upstream().receive(b"$-1\r\n")
        client.connection_lost(None)
        del client
        assert sessions() == others + waits, "its reply is read all the same"
        if waits:
            door.upstream().receive(b"$-1\r\n")
            assert sessions() == others
    finally:
        gc.enable()


def test_idle_clients_share_all_that_is_empty() -> None:
    door = Door()
    limits = door.limits(authenticated=True)
    first, second = (ClientConnection(door, door.ports, HOME, limits, "") for _ in range(2))
    own = reachable(first).keys() - reachable(second).keys()
    found = [reachable(first)[each] for each in own]
    assert first.session in found
    assert [each for each in found if isinstance(each, dict | frozenset | set | tuple) and not each] == []


def reachable(client: ClientConnection) -> dict[int, object]:
    found: dict[int, object] = {}
    following: list[object] = [client]
    while following:
        each = following.pop()
        if id(each) not in found and not isinstance(each, type | ModuleType | FunctionType | Door):
            found[id(each)] = each
            following += gc.get_referents(each)
    return found


def sessions() -> int:
    return sum(isinstance(each, Session) for each in gc.get_objects())
