"""A network in front of engines that drops all bytes, like a firewall that has forgotten a connection."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from typing import Self

from tests.resp import PATIENCE_SECONDS


class BlackHole:
    """Passes bytes on in both directions; after `swallow`, none of the connections that are open then.

    Of several ports each connection leads to the next one, as with a balancer, or a name with several addresses.
    """

    def __init__(self, *upstream_ports: int) -> None:
        self._upstream_ports = itertools.cycle(upstream_ports)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._swallowed: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # A listener that is shut down wakes the thread that waits in accept.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in list(self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
        for each in self._open:
            each.close()

    @property
    def port(self) -> int:
        number: int = self._listener.getsockname()[1]
        return number

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def swallow(self) -> None:
        """From now on no byte of the connections that are open arrives, and none is refused."""
        self._swallowed.update(self._open)

    def swallow_newest(self) -> None:
        """The same for the connection that was opened last."""
        self._swallowed.update(self._open[-2:])

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", next(self._upstream_ports)))
            self._open += [near, far]
            for source, sink in ((near, far), (far, near)):
                self._threads.append(threading.Thread(target=self._pump, args=(source, sink)))
                self._threads[-1].start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if source not in self._swallowed:
                    sink.sendall(data)
        if source not in self._swallowed:
            with contextlib.suppress(OSError):
                sink.shutdown(socket.SHUT_RDWR)
