"""Listening sockets: one for each worker on the same port, and no other process can bind it, in any way."""

import socket

import pytest

from proxy.net.address import UpstreamAddress, parse_listen
from proxy.net.settings import ListenerSettings, PolicySource, RouteSettings
from proxy.server.listeners import ListenError, Listeners


def route(*urls: str) -> RouteSettings:
    listeners = tuple(ListenerSettings(parse_listen(url)) for url in urls)
    return RouteSettings("r", listeners, UpstreamAddress(), PolicySource())


def own_sockets(listeners: Listeners, worker: int) -> list[socket.socket]:
    """The sockets that a worker accepts from: it inherits those of the others, too."""
    return [each for owner, _, _, each in listeners.sockets_for(worker) if owner == worker]


@pytest.mark.parametrize("workers", [1, 3])
def test_every_worker_has_the_port_and_nobody_else(workers: int) -> None:
    listeners = Listeners()
    listeners.open([route("127.0.0.1:0")], workers)
    (address,) = listeners.addresses(0)
    sockets = [own_sockets(listeners, worker)[0] for worker in range(workers)]
    assert len({each.fileno() for each in sockets}) == workers
    assert {each.getsockname()[1] for each in sockets} == {address.port}
    with pytest.raises(ListenError, match="already in use"):
        Listeners().open([route(str(address))], 1)
    with pytest.raises(ListenError, match="already in use"):
        Listeners().open([route(str(address))], 2)
    listeners.close()
    listeners.open([route(str(address))], 2)
    listeners.close()


def test_a_socket_that_shares_its_port_is_respected() -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        for workers in (1, 2):
            with pytest.raises(ListenError, match="already in use"):
                Listeners().open([route(f"127.0.0.1:{other.getsockname()[1]}")], workers)


def test_a_failure_leaves_nothing_open() -> None:
    listeners = Listeners()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        with pytest.raises(ListenError):
            listeners.open([route("127.0.0.1:0", f"127.0.0.1:{taken.getsockname()[1]}")], 2)
        assert listeners.sockets_for(0) == []


def test_a_name_with_several_addresses_has_one_port() -> None:
    listeners = Listeners()
    listeners.open([route("localhost:0")], 2)
    (address,) = listeners.addresses(0)
    assert address.port > 0
    listeners.close()
