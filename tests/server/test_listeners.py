"""Listening sockets: no other process can bind their ports, in any way."""

import socket

import pytest

from proxy.net.config.address import UpstreamAddress, parse_listen
from proxy.net.config.settings import ListenerSettings, PolicySource, RouteSettings
from proxy.server.listeners import ListenError, Listeners


def route(*urls: str) -> RouteSettings:
    listeners = tuple(ListenerSettings(parse_listen(url)) for url in urls)
    return RouteSettings("r", listeners, UpstreamAddress(), PolicySource())


def test_nobody_else_has_the_port() -> None:
    listeners = Listeners()
    listeners.open([route("127.0.0.1:0")])
    (address,) = listeners.addresses(0)
    ((_, _, sock),) = listeners.sockets()
    assert sock.getsockname()[1] == address.port
    with pytest.raises(ListenError, match="already in use"):
        Listeners().open([route(str(address))])
    listeners.close()
    listeners.open([route(str(address))])
    listeners.close()


def test_a_socket_that_shares_its_port_is_respected() -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(ListenError, match="already in use"):
            Listeners().open([route(f"127.0.0.1:{other.getsockname()[1]}")])


def test_a_failure_leaves_nothing_open() -> None:
    listeners = Listeners()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        with pytest.raises(ListenError):
            listeners.open([route("127.0.0.1:0", f"127.0.0.1:{taken.getsockname()[1]}")])
        assert listeners.sockets() == []


def test_a_name_with_several_addresses_has_one_port() -> None:
    listeners = Listeners()
    listeners.open([route("localhost:0")])
    (address,) = listeners.addresses(0)
    assert address.port > 0
    listeners.close()
