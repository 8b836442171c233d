"""Workers share clients evenly, on any kind of listener; failed accepts and handshakes are reported."""

from __future__ import annotations

import contextlib
import signal
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from loadtest.kernel import connections
from proxy.net.config.address import UpstreamTls
from proxy.net.connection.tls import upstream_context
from tests.engines import Engine
from tests.keyrail_process import listening
from tests.net.certificates import authority, issue
from tests.resp import PATIENCE_SECONDS, Address, Wire, eventually
from tests.server.running import serve

NewEngine = Callable[..., Engine]


@pytest.mark.parametrize("clients", [4, 8, 50])
def test_two_workers_get_as_many_clients_each(new_engine: NewEngine, clients: int) -> None:
    with serve("--upstream", new_engine().url, "--policy", "none", "--workers", "2") as running, ExitStack() as held:
        running.ready()
        for _ in range(clients):
            wire = held.enter_context(running.wire())
            assert wire.ask("PING") == b"+PONG\r\n"
        here = [connections(pid, running.ports()[0]) for pid in running.workers()]
        assert sum(here) == clients
        assert max(here) <= clients // 2 + (clients > 4), here


@pytest.mark.parametrize("said", [b"", b"ECHO %d" + b"x" * 3000 + b"\r\n"], ids=["a little", "much"])
def test_a_crowd_that_talks_at_once_is_answered_wherever_it_goes(said: bytes, new_engine: NewEngine) -> None:
    """They have sent all, and closed their half, before a worker has a chance to hand them over."""
    # However long they wait on a busy machine.
    options = ("--policy", "none", "--workers", "2", "--accept-patience", "0")
    with serve("--upstream", new_engine().url, *options) as running, ExitStack() as held:
        port = running.ready().ports()[0]
        clients = [
            held.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)) for _ in range(200)
        ]
        for number, client in enumerate(clients):
            client.sendall((said % number if said else b"") + b"ECHO last-%d\r\n" % number)
            client.shutdown(socket.SHUT_WR)
        for number, client in enumerate(clients):
            with client.makefile("rb") as replies:
                heard = replies.read()
            assert heard.endswith(b"\r\nlast-%d\r\n" % number), (number, heard)
            assert heard.count(b"\r\n") == (4 if said else 2)


def test_a_handshake_that_ends_while_the_worker_drains_does_not_hold_it_up(
    new_engine: NewEngine, tmp_path: Path
) -> None:
    ca = authority(tmp_path, "ca")
    own = issue(tmp_path, "server", ca)
    engine = new_engine()
    listen = ("--listen", f"rediss://127.0.0.1:0?certificate={own.certificate}&key={own.key}")
    context = upstream_context(UpstreamTls(ca_file=ca.certificate), lambda _: None).current()
    with serve(*listen, "--upstream", engine.url, "--policy", "none", "--drain", "10m") as running:
        port = running.ready().ports()[0]
        address = ("127.0.0.1", port)
        with (
            socket.create_connection(address, PATIENCE_SECONDS) as bare,
            socket.create_connection(address, PATIENCE_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as blocked,
        ):
            blocked.sendall(b"BLPOP queue 0\r\n")
            engine.await_info("clients", "blocked_clients", "1")
            running.process.send_signal(signal.SIGTERM)
            eventually(lambda: not listening(port))
            with context.wrap_socket(bare, server_hostname="127.0.0.1") as late:
                assert late.recv(10) == b""
            engine.do("RPUSH", "queue", "job")
            assert blocked.recv(100) == b"*2\r\n$5\r\nqueue\r\n$3\r\njob\r\n"
            assert running.exit()[0] == 0


def test_clients_of_tls_and_unix_listeners_are_handed_over(new_engine: NewEngine, tmp_path: Path) -> None:
    ca = authority(tmp_path, "ca")
    own = issue(tmp_path, "server", ca)
    path = tmp_path / "socket"
    listen = (
        "--listen",
        f"rediss://127.0.0.1:0?certificate={own.certificate}&key={own.key}",
        "--listen",
        f"unix://{path}",
    )
    context = upstream_context(UpstreamTls(ca_file=ca.certificate), lambda _: None).current()
    with serve(*listen, "--upstream", new_engine().url, "--policy", "none", "--workers", "2") as running:
        port = running.ready().ports()[0]
        with ExitStack() as held:
            for _ in range(8):
                plain = held.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS))
                client = held.enter_context(context.wrap_socket(plain, server_hostname="127.0.0.1"))
                client.sendall(b"PING\r\n")
                assert client.recv(10) == b"+PONG\r\n"
            assert max(connections(pid, port) for pid in running.workers()) <= 5
            for _ in range(8):
                assert held.enter_context(Wire(Address(path=str(path)))).ask("PING") == b"+PONG\r\n"


def test_a_failed_handshake_of_a_client_is_counted_and_logged(new_engine: NewEngine, tmp_path: Path) -> None:
    ca = authority(tmp_path, "ca")
    own = issue(tmp_path, "server", ca)
    listen = f"rediss://127.0.0.1:0?certificate={own.certificate}&key={own.key}&client_ca={ca.certificate}"
    with serve("--listen", listen, "--upstream", new_engine().url, "--policy", "none") as running:
        port = running.ready().ports()[0]
        failures = 'keyrail_tls_handshake_failures_total{reason="%s",route="default",side="client"}'
        with socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as plain:
            plain.sendall(b"*1\r\n$4\r\nPING\r\n")
            running.await_metric(failures % "wrong_version_number", 1)
        with socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS):
            pass
        running.await_metric(failures % "closed", 1)
        context = upstream_context(UpstreamTls(ca_file=ca.certificate), lambda _: None).current()
        with (
            socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as bare,
            context.wrap_socket(bare, server_hostname="127.0.0.1") as nobody,
            contextlib.suppress(OSError),
        ):
            nobody.recv(10)
        running.await_metric(failures % "peer_did_not_return_a_certificate", 1)
        running.await_line(
            r"rediss://127\.0\.0\.1:\d+: the TLS handshake of a client failed: TLS: wrong version number$"
        )


def test_a_failed_handshake_with_redis_is_counted_and_logged(tmp_path: Path) -> None:
    known, unknown = authority(tmp_path, "known"), authority(tmp_path, "unknown")
    own = issue(tmp_path, "server", unknown)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(own.certificate, own.key)

        def refuse_to_be_believed() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection, contextlib.suppress(OSError):
                        context.wrap_socket(connection, server_side=True).close()

        threading.Thread(target=refuse_to_be_believed, daemon=True).start()
        upstream = f"rediss://127.0.0.1:{port}?ssl_ca_certs={known.certificate}"
        with serve("--upstream", upstream, "--policy", "none") as running:
            running.await_line(
                rf"rediss://127\.0\.0\.1:{port}: the TLS handshake failed: its certificate is not accepted: "
            )
            running.ready()
            failures = "keyrail_tls_handshake_failures_total"
            labels = '{reason="certificate_verify_failed",route="default",side="upstream"}'
            eventually(lambda: running.metric(failures + labels) >= 1)
        server.shutdown(socket.SHUT_RDWR)
