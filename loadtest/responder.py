"""A responder that does nothing but answer: the most that a load generator can measure.

It counts the bytes of requests of one length and answers each with the same reply, in one process with one thread. It
parses nothing. ``python -m loadtest.responder PORT REQUEST REPLY`` has both in hexadecimal.
"""

import select
import socket
import sys

_CONFIG = b"*3\r\n$6\r\nCONFIG\r\n"
_CONFIG_REPLY = b"*2\r\n$4\r\nsave\r\n$0\r\n\r\n"
"""What redis-benchmark asks before it begins."""
_AT_ONCE = 1 << 16


class Responder:
    """Answers requests of one length."""

    def __init__(self, request: bytes, reply: bytes) -> None:
        self._length = len(request)
        self._reply = reply
        self._rest: dict[int, int] = {}

    def answered(self, client: int, data: bytes) -> bytes:
        """What a client is sent for these bytes."""
        if data.startswith(_CONFIG):
            return _CONFIG_REPLY * data.count(_CONFIG)
        whole, self._rest[client] = divmod(self._rest.get(client, 0) + len(data), self._length)
        return self._reply * whole

    def left(self, client: int) -> None:
        """The client has closed its connection."""
        self._rest.pop(client, None)


def serve(listener: socket.socket, responder: Responder) -> None:
    """Answer all who connect to this socket until the process ends."""
    clients: dict[int, socket.socket] = {}
    with select.epoll() as events:
        events.register(listener, select.EPOLLIN)
        while True:
            for number, _ in events.poll():
                if number == listener.fileno():
                    client, _ = listener.accept()
                    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    clients[client.fileno()] = client
                    events.register(client, select.EPOLLIN)
                    continue
                client = clients[number]
                data = _received(client)
                if data:
                    client.sendall(responder.answered(number, data))
                else:
                    events.unregister(number)
                    responder.left(number)
                    clients.pop(number).close()


def _received(client: socket.socket) -> bytes:
    try:
        return client.recv(_AT_ONCE)
    except OSError:
        return b""


if __name__ == "__main__":
    served = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=512)
    serve(served, Responder(bytes.fromhex(sys.argv[2]), bytes.fromhex(sys.argv[3])))
