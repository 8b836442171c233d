"""A worker that has used up the CPU limit of its container is left alone: a replacement would get no more."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from proxy.server.hung_workers import SILENT_SECONDS
from tests.cpu_limit import cpu_limit
from tests.engines import Engine
from tests.resp import eventually, pack
from tests.server.running import serve

CLIENTS = 60
PIPELINE = b"PING\r\n" * 10_000
"""With as much of each client, one turn of the loop takes longer than a worker may be silent, at this share."""
SHARE = 0.01


@pytest.mark.long
def test_a_worker_that_has_used_up_its_limit_stays(new_engine: Callable[..., Engine]) -> None:
    with ExitStack() as stack:
        limit = stack.enter_context(cpu_limit())
        if limit is None:
            pytest.skip("no CPU limit can be set here")
        running = stack.enter_context(serve("--upstream", new_engine().url, "--workers", "1"))
        port = running.ready().ports()[0]
        (worker,) = running.workers()
        clients = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(CLIENTS)]
        for client in clients:
            client.sendall(pack("PING"))
            assert client.recv(7, socket.MSG_WAITALL) == b"+PONG\r\n"
        limit.take([worker])
        limit.let(SHARE)
        for client in clients:
            client.setblocking(False)
            client.send(PIPELINE)
        eventually(lambda: running.workers() != [worker] or limit.waited() > 3 * SILENT_SECONDS, 5 * SILENT_SECONDS)
        assert running.workers() == [worker]
        limit.let(None)
        for client in clients:
            client.setblocking(True)
            client.sendall(b"ECHO end\r\n")
            assert heard_until(client, b"$3\r\nend\r\n")
        assert running.workers() == [worker]


def heard_until(client: socket.socket, end: bytes) -> bool:
    """Whether the client is answered to its end."""
    tail = b""
    while not tail.endswith(end):
        some = client.recv(1 << 16)
        if not some:
            return False
        tail = (tail + some)[-len(end) :]
    return True
