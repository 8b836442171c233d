"""``memory``: the memory of idle connections, and the proxy's growth during a value of 256 MB."""

import contextlib
import hashlib
import resource
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from loadtest import kernel, targets
from loadtest.benchmark import RunError
from loadtest.processes import free_port
from loadtest.targets import KEYRAIL_BENCH, Redis, Target

VALUE_BYTES = 256 * 1024 * 1024
_PIECE = b"0123456789abcdef" * 4096
_PING = b"*1\r\n$4\r\nPING\r\n"
_SETTLE = 2.0
"""Seconds for the proxy to become idle before it is measured."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One figure: its name, its value, and its upper bound (None: reported only)."""

    what: str
    value: float
    unit: str
    bound: float | None

    @property
    def met(self) -> bool:
        """Whether the value is within the bound."""
        return self.bound is None or self.value <= self.bound


def measured(
    program: list[str], redis_program: str, connections: int, say: Callable[[str], None]
) -> tuple[str, list[Measured]]:
    """Keyrail's form (compiled or plain), and all figures."""
    _allow_files(2 * connections + 500)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="keyrail-loadtest-")))
        redis = stack.enter_context(targets.redis_server(folder, redis_program))
        found = []
        with _keyrail(program, redis) as target:
            form = target.about
            say(f"{connections} plaintext connections")
            found.append(_connections(target, connections, None))
        with _keyrail_with_tls(program, redis, folder) as (target, context):
            say(f"{connections} TLS connections")
            found.append(_connections(target, connections, context))
        with _keyrail(program, redis) as target:
            say("a value of 256 MB")
            found += _large_value(target)
        return form, found


def _allow_files(count: int) -> None:
    # For this process and for the programs that it starts.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _keyrail(program: list[str], redis: Redis) -> contextlib.AbstractContextManager[Target]:
    return targets.keyrail(KEYRAIL_BENCH, program, redis, str(targets.BENCH_POLICY))


@contextlib.contextmanager
def _keyrail_with_tls(program: list[str], redis: Redis, folder: Path) -> Iterator[tuple[Target, ssl.SSLContext]]:
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    call = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    call += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(call, check=True, capture_output=True)
    port = free_port()
    secure = f"rediss://127.0.0.1:{port}?certificate={certificate}&key={key}"
    with targets.keyrail(KEYRAIL_BENCH, program, redis, str(targets.BENCH_POLICY), "--listen", secure) as target:
        yield Target(target.name, port, target.pid, target.about), ssl.create_default_context(cafile=certificate)


def _connections(target: Target, count: int, context: ssl.SSLContext | None) -> Measured:
    """Bytes per connection that has sent a PING, got its answer, and is idle."""
    assert target.pid is not None
    kind = "plaintext" if context is None else "TLS"
    with contextlib.ExitStack() as stack:
        # The first connections allocate shared memory: buffers, pages of code, pools of the allocator.
        for _ in range(100):
            stack.enter_context(_idle(target.port, context))
        time.sleep(_SETTLE)
        before = kernel.memory(target.pid).pss
        for _ in range(count):
            stack.enter_context(_idle(target.port, context))
        time.sleep(_SETTLE)
        grown = kernel.memory(target.pid).pss - before
    return Measured(
        f"proxy memory per idle {kind} connection ({count} of them)",
        grown / count,
        "bytes",
        4096 if context is None else None,
    )


def _idle(port: int, context: ssl.SSLContext | None) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), 10.0)
    if context is not None:
        connection = context.wrap_socket(connection, server_hostname="127.0.0.1")
    connection.sendall(_PING)
    answer = connection.recv(64)
    if answer != b"+PONG\r\n":
        raise RunError(f"a PING was answered with {answer!r}")
    return connection


def _large_value(target: Target) -> list[Measured]:
    """The growth of the proxy's peak while 256 MB go to Redis, and while they come back."""
    found = []
    with socket.create_connection(("127.0.0.1", target.port), 10.0) as connection:
        connection.sendall(_PING)
        connection.recv(64)
        time.sleep(_SETTLE)
        connection.settimeout(120.0)
        assert target.pid is not None
        for what, pass_value in (("to Redis", _send_value), ("from Redis", _receive_value)):
            kernel.forget_peak(target.pid)
            before = kernel.resident(target.pid)
            pass_value(connection)
            grown = kernel.memory(target.pid).peak - before
            found.append(Measured(f"growth while a value of 256 MB goes {what}", grown / (1 << 20), "MB", 32.0))
    return found


def _send_value(connection: socket.socket) -> None:
    connection.sendall(b"*4\r\n$5\r\nSETEX\r\n$9\r\nbench:big\r\n$3\r\n300\r\n$%d\r\n" % VALUE_BYTES)
    for _ in range(VALUE_BYTES // len(_PIECE)):
        connection.sendall(_PIECE)
    connection.sendall(b"\r\n")
    answer = connection.recv(256)
    if answer != b"+OK\r\n":
        raise RunError(f"a SETEX of 256 MB was answered with {answer!r}")


def _receive_value(connection: socket.socket) -> None:
    header = b"$%d\r\n" % VALUE_BYTES
    expected = hashlib.blake2b(header)
    for _ in range(VALUE_BYTES // len(_PIECE)):
        expected.update(_PIECE)
    expected.update(b"\r\n")
    received = hashlib.blake2b()
    # Requested only now: a client that does not read for a second is a slow reader, and may be closed.
    connection.sendall(b"*2\r\n$3\r\nGET\r\n$9\r\nbench:big\r\n")
    left = len(header) + VALUE_BYTES + 2
    while left:
        data = connection.recv(min(left, 1 << 18))
        if not data:
            raise RunError("the connection ended in the middle of a value of 256 MB")
        received.update(data)
        left -= len(data)
    if received.digest() != expected.digest():
        raise RunError("a value of 256 MB came back changed")
