"""A network in front of engines that drops all bytes, like a firewall that has forgotten a connection, or that is cut
for a while."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from typing import Self

from tests.resp import PATIENCE_SECONDS


class BlackHole:
    """Passes bytes on in both directions.

    After `swallow`, none of the connections that are open then. After `cut`, none of any connection, until `mend`: what
    was under way arrives then, if both sides still want it.

    Of several ports each connection leads to the next one, as with a balancer, or a name with several addresses.
    """

    def __init__(self, *upstream_ports: int) -> None:
        self._upstream_ports = itertools.cycle(upstream_ports)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._newest: set[socket.socket] = set()
        self._swallowed: set[socket.socket] = set()
        self._whole = threading.Event()
        self._whole.set()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # A listener that is shut down wakes the thread that waits in accept.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._whole.set()
        for each in list(self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def swallow(self) -> None:
        """From now on no byte of the connections that are open arrives, and none is refused."""
        self._swallowed.update(self._open)

    def swallow_newest(self) -> None:
        """The same for the connection that was opened last."""
        self._swallowed.update(self._newest)

    def cut(self) -> None:
        """From now on no byte arrives, and no connection ends."""
        self._whole.clear()

    def mend(self) -> None:
        self._whole.set()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self._open.add(near)
            self._threads = [each for each in self._threads if each.is_alive()]
            self._threads.append(threading.Thread(target=self._join, args=(near,)))
            self._threads[-1].start()

    def _join(self, near: socket.socket) -> None:
        with near, contextlib.suppress(OSError):
            self._whole.wait()
            with socket.create_connection(("127.0.0.1", next(self._upstream_ports))) as far:
                self._open.add(far)
                self._newest = {near, far}
                back = threading.Thread(target=self._pump, args=(far, near))
                back.start()
                self._pump(near, far)
                back.join()
                self._open.discard(far)
                self._swallowed.discard(far)
        self._open.discard(near)
        self._swallowed.discard(near)

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self._whole.wait()
                if source not in self._swallowed:
                    sink.sendall(data)
        self._whole.wait()
        if source not in self._swallowed:
            with contextlib.suppress(OSError):
                sink.shutdown(socket.SHUT_RDWR)
