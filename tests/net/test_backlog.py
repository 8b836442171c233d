"""Commands in flight, commands that wait in Keyrail, and the age of the oldest."""

from __future__ import annotations

from proxy.net.downstream.backlog import Backlog
from proxy.net.downstream.client import ClientConnection
from proxy.session.session import Session
from tests.net.test_faults import Door, Wire
from tests.session.given import HOME, call


def client_of(door: Door) -> ClientConnection:
    client = ClientConnection(door, door.ports, HOME, door.limits(authenticated=True), "")
    client.connection_made(Wire())
    return client


class Looked(Backlog):
    """That of these clients."""

    def __init__(self, clients: list[Session]) -> None:
        super().__init__(lambda: self.now)
        self._clients = clients
        self.now = 0.0

    def look(self, now: float) -> None:
        self.now = now
        self.begin()
        for client in self._clients:
            self.note(client)
        self.publish()


def test_what_waits_for_redis_and_what_waits_in_keyrail() -> None:
    door = Door(window=2)
    clients = [client_of(door) for _ in range(2)]
    backlog = Looked([client.session for client in clients])
    backlog.look(5.0)
    assert (backlog.figures(), backlog.oldest) == ({"in_flight": 0, "queued": 0}, 0.0)
    clients[0].data_received(call("GET", "k") * 3)
    clients[1].data_received(call("GET", "k"))
    backlog.look(10.0)
    assert (backlog.figures(), backlog.oldest) == ({"in_flight": 3, "queued": 1}, 0.0)
    backlog.look(12.0)
    assert backlog.oldest == 2.0
    door.upstream().receive(b"$-1\r\n" * 2)
    backlog.look(13.0)
    assert (backlog.figures(), backlog.oldest) == ({"in_flight": 2, "queued": 0}, 3.0), "the second client's"
    door.upstream().receive(b"$-1\r\n")
    backlog.look(14.0)
    assert backlog.oldest == 1.0, "the first client's third command waits since 13"
    door.upstream().receive(b"$-1\r\n")
    backlog.look(15.0)
    assert (backlog.figures(), backlog.oldest) == ({"in_flight": 0, "queued": 0}, 0.0)


def test_who_asked_to_wait_has_no_age() -> None:
    door = Door()
    client = client_of(door)
    backlog = Looked([client.session])
    client.data_received(call("BLPOP", "k", "0"))
    backlog.look(10.0)
    backlog.look(20.0)
    assert (backlog.figures()["in_flight"], backlog.oldest) == (1, 0.0)
