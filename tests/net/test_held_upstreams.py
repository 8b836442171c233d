"""Keyrail stops reading a connection for a client that does not read, and continues as soon as the client does."""

from __future__ import annotations

from proxy.net.downstream.client import ClientConnection
from tests.net.test_faults import Door, Wire
from tests.net.test_upstream import LARGE, Shared, SlowReader
from tests.session.given import HOME


class FullWire(Wire):
    """A client that is behind by more than the cap."""

    def get_write_buffer_size(self) -> int:
        return LARGE + 1


def full_client() -> ClientConnection:
    door = Door()
    client = ClientConnection(door, door.ports, HOME, door.limits(authenticated=True), "")
    client.connection_made(FullWire())
    client.pause_writing()
    return client


def held_on_two() -> tuple[ClientConnection, Shared, Shared]:
    """Its last reply of one connection was too much, and another connection has a reply for it."""
    client, first, second = full_client(), Shared(), Shared()
    client.session.sender.forward(first.upstream.pipeline, b"x")
    client.session.sender.forward(second.upstream.pipeline, b"y")
    for shared in (first, second):
        shared.upstream.pipeline.receive(b"+a\r\n")
        assert not shared.transport.reading
    return client, first, second


def test_all_connections_are_read_again() -> None:
    client, first, second = held_on_two()
    client.resume_writing()
    assert [shared.transport.reading for shared in (first, second)] == [True, True]


def test_a_connection_that_is_held_for_somebody_else_by_now_stays_held() -> None:
    client, first, second = held_on_two()
    second.upstream.resume()
    other = SlowReader(LARGE + 1)
    second.upstream.reopen()
    second.upstream.pipeline.send_run(other, b"z", 1)
    second.upstream.pipeline.receive(b"+b\r\n")
    client.resume_writing()
    assert [shared.transport.reading for shared in (first, second)] == [True, False]
