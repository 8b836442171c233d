"""Clients that come all at once, each with a timeout: whoever is not served in time gives up, and comes again at once.

Their patience is CPU time of the server, so that a busy machine changes nothing: what they wait for is what the server
does for others. One process plays them all. It reads what has come before anybody gives up.
"""

from __future__ import annotations

import contextlib
import resource
import select
import socket
import ssl
import struct
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from tests.resp import pack

_EVENTS_AT_ONCE = 64
_LONGEST_TURN = 0.005
"""Seconds of the clock that a turn may take. What the clients themselves need is nobody's wait."""
_MOST_SECONDS = 300.0
_RESET = struct.pack("ii", 1, 0)


class _Closed(OSError):
    """The server has closed the connection."""


@dataclass(slots=True)
class _Client:
    number: int
    attempts: int = 0
    deadline: float = 0.0
    step: int = 0
    heard: bytes = b""
    plain: socket.socket | ssl.SSLSocket | None = None
    shakes: bool = False

    def steps(self) -> list[tuple[bytes, bytes]]:
        """What it sends, and how the reply ends."""
        key, value = f"crowd:{self.number}", f"value-{self.number}"
        return [
            (pack("HELLO", 3) + pack("CLIENT", "SETNAME", f"crowd-{self.number}") + pack("PING"), b"+OK\r\n+PONG\r\n"),
            (pack("SET", key, value, "EX", 1000), b"+OK\r\n"),
            (pack("GET", key), b"$%d\r\n%s\r\n" % (len(value), value.encode())),
        ]


def cpu_seconds(pids: Collection[int]) -> float:
    """What these processes have used until now. Those of other threads are left out."""
    return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in pids) / 1e9


class Crowd:
    """So many clients of a TCP port, who give up ``timeout`` seconds of the ``clock`` after they have begun to connect.
    A ``context`` is for TLS."""

    def __init__(
        self,
        count: int,
        port: int,
        timeout: float,
        clock: Callable[[], float],
        context: ssl.SSLContext | None = None,
    ) -> None:
        self.clients = [_Client(number) for number in range(count)]
        self._clock = clock
        self._now = 0.0
        self.served = 0
        self.failed = Counter[str]()
        self._port = port
        self._timeout = timeout
        self._context = context
        self._poll = select.epoll()
        self._by_file: dict[int, _Client] = {}

    @property
    def most_attempts(self) -> int:
        return max(client.attempts for client in self.clients)

    def __str__(self) -> str:
        attempts = sum(client.attempts for client in self.clients)
        return f"{self.served} of {len(self.clients)} served, {attempts} attempts, failed: {dict(self.failed)}"

    def run(self, most_attempts: int) -> None:
        """Until all are served and still connected, or one has tried too often."""
        for client in self.clients:
            self._begin(client)
        end = time.monotonic() + _MOST_SECONDS
        # All wait equally long, so the first in this order is the first to give up.
        waiting = {client.number: client for client in self.clients}
        before = self._clock()
        while self.served < len(self.clients) and self.most_attempts <= most_attempts and time.monotonic() < end:
            for file, event in self._poll.poll(0.05, _EVENTS_AT_ONCE):
                self._take(self._by_file[file], event, waiting)
            now = self._clock()
            self._now += min(now - before, _LONGEST_TURN)
            before = now
            for client in list(islice(waiting.values(), _EVENTS_AT_ONCE // 4)):
                if client.deadline < self._now:
                    self._again(client, "timeout", waiting)

    def close(self) -> None:
        for client in self.clients:
            self._leave(client)
        self._poll.close()

    def _begin(self, client: _Client) -> None:
        plain = socket.socket()
        plain.setblocking(False)
        plain.connect_ex(("127.0.0.1", self._port))
        client.plain, client.step, client.heard, client.shakes = plain, -1, b"", self._context is not None
        client.attempts += 1
        client.deadline = self._now + self._timeout
        self._by_file[plain.fileno()] = client
        self._poll.register(plain.fileno(), select.EPOLLOUT)
        if not client.shakes:
            with contextlib.suppress(OSError):  # else it sends once it is connected
                self._connected(client)

    def _leave(self, client: _Client) -> None:
        if client.plain is not None:
            self._by_file.pop(client.plain.fileno())
            self._poll.unregister(client.plain.fileno())
            client.plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            client.plain.close()
            client.plain = None

    def _again(self, client: _Client, why: str, waiting: dict[int, _Client]) -> None:
        self.failed[f"{why} in step {client.step}"] += 1
        self.served -= client.step == len(client.steps())
        self._leave(client)
        waiting.pop(client.number, None)
        waiting[client.number] = client
        self._begin(client)

    def _take(self, client: _Client, events: int, waiting: dict[int, _Client]) -> None:
        try:
            if client.step == -1:
                self._connected(client)
            elif events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
                self._hear(client, waiting)
        except (BlockingIOError, ssl.SSLWantReadError):
            return
        except OSError as error:
            self._again(client, type(error).__name__, waiting)

    def _connected(self, client: _Client) -> None:
        assert client.plain is not None
        if client.shakes and self._context is not None:
            if not isinstance(client.plain, ssl.SSLSocket):
                file = client.plain.fileno()
                error = client.plain.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if error:
                    raise OSError(error, "")
                self._poll.modify(file, select.EPOLLIN)
                client.plain = self._context.wrap_socket(
                    client.plain, server_hostname="127.0.0.1", do_handshake_on_connect=False
                )
            client.plain.do_handshake()
            client.shakes = False
        client.plain.send(client.steps()[0][0])
        self._poll.modify(client.plain.fileno(), select.EPOLLIN)
        client.step = 0

    def _hear(self, client: _Client, waiting: dict[int, _Client]) -> None:
        assert client.plain is not None
        data = client.plain.recv(1 << 16)
        if not data:
            raise _Closed
        client.heard += data
        steps = client.steps()
        if not client.heard.endswith(steps[client.step][1]):
            if client.heard.startswith(b"-"):
                raise OSError(client.heard.decode())
            return
        assert client.step == 0 or client.heard == steps[client.step][1], (client, client.heard)
        client.step += 1
        client.heard = b""
        if client.step < len(steps):
            client.plain.send(steps[client.step][0])
        else:
            waiting.pop(client.number, None)
            self.served += 1


def allow_files(count: int) -> bool:
    """Whether this process may open so many files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        return False
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return True
