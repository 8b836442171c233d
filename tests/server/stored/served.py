"""Fake servers behind real sockets, so that connections and the verb are tested without an engine."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import hiredis

from proxy.server.stored.node_walk import Request
from tests.server.stored.fake_servers import FakeServer, error


class Served:
    """A server at a port of this machine. It says that it is the process ``run_id``, and closes its connections after
    so many commands of each. ``no_touch``: it has CLIENT NO-TOUCH, as since Redis 7.2. ``before`` is called with each
    command, before it runs."""

    def __init__(self, server: FakeServer) -> None:
        self.server = server
        self.run_id = "a" * 40
        self.version = "redis_version:7.2.4"
        self.no_touch = True
        self.closes_after = 1 << 60
        self.connections = 0
        self.names: list[bytes] = []
        self.before: Callable[[tuple[bytes, ...]], object] = lambda _: None
        self.url = "redis://127.0.0.1:1"

    def reply(self, database: int, command: tuple[bytes, ...]) -> Any:
        """The reply to one command."""
        self.before(command)
        match command:
            case (b"HELLO", *_):
                return error("ERR unknown command 'HELLO'")
            case (b"CLIENT", b"NO-TOUCH", *_):
                return "OK" if self.no_touch else error("ERR unknown subcommand 'NO-TOUCH'. Try CLIENT HELP.")
            case (b"CLIENT", b"SETNAME", name):
                self.names.append(name)
                return "OK"
            case (b"ROLE",):
                return [b"master", 0, []]
            case (b"SELECT", _):
                return "OK"
            case (b"INFO", b"server"):
                return f"# Server\r\n{self.version}\r\nrun_id:{self.run_id}\r\n".encode()
        return self.server.answer(Request(database, [command]))[0]


@contextmanager
def served(server: FakeServer) -> Iterator[Served]:
    """Serve it until the end of the block."""
    found = Served(server)

    class Connection(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(ConnectionError):  # nobody hears it any more
                self._answer()

        def _answer(self) -> None:
            found.connections += 1
            reader, database, left = hiredis.Reader(), 0, found.closes_after
            while data := self.request.recv(1 << 16):
                reader.feed(data)
                while (command := reader.gets()) is not False:
                    if not left:
                        return
                    left -= 1
                    database = int(command[1]) if command[0] == b"SELECT" else database
                    self.request.sendall(encoded(found.reply(database, tuple(command))))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Connection) as listening:
        listening.daemon_threads = True
        found.url = f"redis://127.0.0.1:{listening.server_address[1]}"
        serving = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            yield found
        finally:
            listening.shutdown()
            serving.join()


def encoded(value: Any) -> bytes:
    match value:
        case None:
            return b"$-1\r\n"
        case hiredis.ReplyError():
            return f"-{value}\r\n".encode()
        case str():
            return f"+{value}\r\n".encode()
        case int():
            return b":%d\r\n" % value
        case bytes():
            return b"$%d\r\n%b\r\n" % (len(value), value)
    return b"*%d\r\n%b" % (len(value), b"".join(map(encoded, value)))
