"""A client that notes how long it pauses while servers are replaced, and one-line commands for servers."""

import contextlib
import itertools
import random
import socket
import threading
import time

from loadtest.benchmark import RunError

_WAIT_SECONDS = 60.0
_EVERY = 0.001
_PORTS = range(10_000, 20_000)
"""Below the ports of outgoing connections, as is the cluster bus, 10,000 above."""


class PausingClient(threading.Thread):
    """Sends a command about one key again and again, also after a disconnect, ``every`` so many seconds; notes the
    replies that are no errors."""

    def __init__(self, port: int, verb: str, key: bytes, every: float = _EVERY) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._every = every
        self._request = b"*2\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(verb), verb.encode(), len(key), key)
        self._over = threading.Event()
        self._replies: list[tuple[float, bytes]] = []
        self.start()

    def run(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 30.0) as wire:
                while not self._over.wait(self._every):
                    wire.sendall(self._request)
                    reply = wire.recv(4096)
                    if not reply:
                        break
                    if reply[:1] != b"-":
                        self._replies.append((time.monotonic(), reply))
            self._over.wait(self._every)

    def stop(self) -> None:
        """End it."""
        self._over.set()
        self.join()

    def longest(self, since: float) -> float:
        """Milliseconds of the longest pause that ended after this time."""
        times = [at for at, _ in self._replies]
        pauses = (later - earlier for earlier, later in itertools.pairwise(times) if later > since)
        return 1000 * max(pauses, default=0.0)

    def first(self, since: float, value: bytes = b"") -> float | None:
        """When the first reply with this in it came after this time."""
        return next((at for at, reply in self._replies if at > since and value in reply), None)


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that are free, as are those 10,000 above."""
    found: list[int] = []
    with contextlib.ExitStack() as stack:
        for port in random.sample(_PORTS, len(_PORTS)):
            if len(found) == count:
                break
            probes = [stack.enter_context(socket.socket()) for _ in range(2)]
            with contextlib.suppress(OSError):
                for probe, number in zip(probes, (port, port + 10_000), strict=True):
                    probe.bind(("127.0.0.1", number))
                found.append(port)
    return found


def ask(port: int, line: str) -> bytes:
    """The reply to a command of one line. Raises OSError."""
    with socket.create_connection(("127.0.0.1", port), 5.0) as wire:
        wire.sendall(f"{line}\r\n".encode())
        return wire.recv(1 << 16)


def order(port: int, line: str) -> None:
    """Raises RunError if the reply is not OK."""
    reply = ask(port, line)
    if reply != b"+OK\r\n":
        raise RunError(f"{line} was answered with {reply!r}")


def wait(begun: float) -> None:
    """Wait a moment. Raises RunError if that has gone on for a minute."""
    if time.monotonic() > begun + _WAIT_SECONDS:
        raise RunError("the servers do not get on")
    time.sleep(0.005)
