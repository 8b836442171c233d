"""Whether a client has left, or has given up what it sent, as its socket tells: over TCP and unix sockets."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from proxy.net.downstream.patience import _LAST_DATA_RECEIVED, Patience, _number, _tcp_info, waiting_connections
from tests.resp import eventually, pack

SECONDS = 0.05
WRITE, READ = pack("SET", "k", "v"), pack("GET", "k")


@pytest.fixture(params=["tcp", "unix"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[socket.socket, socket.socket]]:
    if request.param == "unix":
        here, there = socket.socketpair()
    else:
        with socket.create_server(("127.0.0.1", 0)) as server:
            there = socket.create_connection(server.getsockname())
            here, _ = server.accept()
    with here, there:
        yield here, there


def await_age(sock: socket.socket) -> None:
    """Wait until the last bytes are older than SECONDS by the kernel, which tells nothing of a unix socket."""

    def is_old() -> bool:
        info = _tcp_info(sock)
        return info is None or _number(info, _LAST_DATA_RECEIVED) > 1000 * SECONDS

    eventually(is_old)


def refuses(sock: socket.socket, *, late: bool, encrypted: bool = False) -> bool:
    if late:
        await_age(sock)
    return Patience(SECONDS if late else 60.0, lambda: 2 * SECONDS).refuses(sock, 0.0, encrypted=encrypted)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("said", [b"", READ, WRITE, READ + WRITE])
def test_who_is_refused(pair: tuple[socket.socket, socket.socket], said: bytes, ends: bool, late: bool) -> None:
    here, there = pair
    there.sendall(said)
    if ends:
        there.shutdown(socket.SHUT_WR)
    assert refuses(here, late=late) == (late and (ends or WRITE in said))
    assert refuses(here, late=late, encrypted=True) == (late and ends)
    if said:
        assert here.recv(1 << 16) == said, "it is only looked at"


def test_who_has_reset_the_connection_is_refused_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = socket.create_connection(server.getsockname())
        here, _ = server.accept()
        with here:
            there.sendall(READ)
            there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            there.close()
            eventually(lambda: refuses(here, late=False))


def test_without_patience_nobody_gives_up(pair: tuple[socket.socket, socket.socket]) -> None:
    here, there = pair
    there.sendall(WRITE)
    there.shutdown(socket.SHUT_WR)
    await_age(here)
    assert not Patience(0.0, lambda: 60.0).refuses(here, 0.0, encrypted=False)


def test_it_is_known_how_many_connections_wait() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert waiting_connections(server) == 0
        clients = [socket.create_connection(server.getsockname()) for _ in range(5)]
        eventually(lambda: waiting_connections(server) == 5)
        for each in clients:
            each.close()
