"""A crowd of clients that connect at once, give up, and come again is served: what is done for some is not lost because
others come.

The clients are `crowd`'s. Their timeout is too short for all of them at once.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from proxy.net.config.address import UpstreamTls
from proxy.net.connection.tls import upstream_context
from tests.crowd import Crowd, allow_files, cpu_seconds
from tests.engines import Engine
from tests.net.certificates import authority, issue
from tests.resp import PATIENCE_SECONDS, pack
from tests.server.running import serve

MANY = 10_000
WATCHING = 4_000
SPARE_FILES = 2_000
# On a busy machine, what a client does after a pause is not to be taken for given up; those who do give up reset.
PATIENT = ("--accept-patience", "60s")


@pytest.mark.parametrize(
    ("count", "timeout", "tls"),
    [
        (1_000, 0.4, False),
        (300, 0.4, True),
        pytest.param(MANY, 1.0, False, marks=pytest.mark.long),
        pytest.param(MANY, 6.0, True, marks=pytest.mark.long),
    ],
)
def test_a_crowd_with_a_short_timeout_is_served(
    count: int, timeout: float, tls: bool, new_engine: Callable[..., Engine], tmp_path: Path
) -> None:
    if not allow_files(count + SPARE_FILES):
        pytest.skip(f"this system allows a process fewer than {count + SPARE_FILES} open files")
    url, context = "redis://127.0.0.1:0", None
    if tls:
        ca = authority(tmp_path, "ca")
        own = issue(tmp_path, "server", ca)
        url = f"rediss://127.0.0.1:0?certificate={own.certificate}&key={own.key}"
        context = upstream_context(UpstreamTls(ca_file=ca.certificate), lambda _: None).current()
    # A worker keeps open files for connections to Redis.
    workers = 1 if count < MANY else 2
    options = ("--policy", "none", "--workers", str(workers), *PATIENT)
    with serve("--listen", url, "--upstream", new_engine().url, *options) as running:
        port = running.ready().ports()[0]
        pids = running.workers()
        crowd = Crowd(count, port, timeout, lambda: cpu_seconds(pids), context)
        try:
            crowd.run(most_attempts=25)
            assert crowd.served == count, str(crowd)
        finally:
            crowd.close()


@pytest.mark.long
def test_a_crowd_that_takes_connections_of_its_own_at_once_is_served(new_engine: Callable[..., Engine]) -> None:
    """None of them is closed, the worker stays, and who needs no such connection is answered meanwhile."""
    if not allow_files(2 * WATCHING + SPARE_FILES):
        pytest.skip(f"this system allows a process fewer than {2 * WATCHING + SPARE_FILES} open files")
    with ExitStack() as stack:
        options = ("--policy", "default", "--workers", "1", *PATIENT)
        running = stack.enter_context(serve("--upstream", new_engine().url, *options))
        address = "127.0.0.1", running.ready().ports()[0]
        workers = running.workers()
        clients = [stack.enter_context(socket.create_connection(address)) for _ in range(WATCHING)]
        bystander = stack.enter_context(socket.create_connection(address))
        for client in (*clients, bystander):
            client.settimeout(3 * PATIENCE_SECONDS)
            client.sendall(pack("PING"))
            assert client.recv(7, socket.MSG_WAITALL) == b"+PONG\r\n"
        for number, client in enumerate(clients):
            key = f"user:{number}:name"
            client.sendall(pack("WATCH", key) + pack("MULTI") + pack("SET", key, number, "EX", 100) + pack("EXEC"))
        replies = b"+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n"
        for number, client in enumerate(clients):
            if number % 10 == 0:
                bystander.sendall(pack("GET", f"user:{number}:name"))
                assert bystander.recv(1) == b"$"
                assert bystander.recv(100).endswith(b"\r\n")
            assert client.recv(len(replies), socket.MSG_WAITALL) == replies, running.stderr
        assert running.workers() == workers
