"""An independent reader of the Redis protocol, for tests only.

It uses nothing of the program under test, so that a mistake in its framing cannot hide itself. A frame is returned as
the bytes on the wire, so that two frames are equal only if all bytes are (``+OK`` is not ``$2 OK``, and the three nulls
are three different answers).
"""

from __future__ import annotations

import ast
import asyncio
import re
import select
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

PATIENCE_SECONDS = 30.0
"""How long a test waits for what must come. Only a failure ever takes so long: a busy machine may stop any process for
seconds, and that is no fault of the program under test."""

CRLF = b"\r\n"
LINES = b"+-:_,#("
BULKS = b"$!="
ARRAYS = b"*~>"
MAPS = b"%|"


class Closed(Exception):
    """The other side has closed the connection; `.rest` holds what it left behind, less than one frame."""

    def __init__(self, rest: bytes = b"") -> None:
        super().__init__(f"closed, {rest[:80]!r} left over")
        self.rest = rest


class Malformed(Exception):
    """Bytes that are no reply of Redis."""


def frame_end(data: bytes | bytearray, start: int) -> int:
    """The end of the frame that begins at `start`, or -1 if it is not complete yet."""
    pending, position = 1, start
    while pending:
        line_end = data.find(CRLF, position)
        if line_end < 0:
            return -1
        kind, line = data[position], data[position + 1 : line_end]
        position = line_end + 2
        pending -= 1
        if kind in BULKS:
            length = int(line)
            if length >= 0:
                position += length + 2
                if len(data) < position:
                    return -1
        elif kind in ARRAYS:
            pending += max(int(line), 0)
        elif kind in MAPS:
            pending += 2 * max(int(line), 0) + (1 if kind == ord("|") else 0)
        elif kind not in LINES:
            raise Malformed(repr(bytes(data[start : start + 200])))
    return position


class FrameReader:
    """Cuts a byte stream into frames."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._position = 0

    def feed(self, data: bytes) -> None:
        if self._position > 1 << 20:
            del self._data[: self._position]
            self._position = 0
        self._data += data

    def frame(self) -> bytes | None:
        """The next whole frame; None until it is complete."""
        if self._position == len(self._data):
            return None
        end = frame_end(self._data, self._position)
        if end < 0:
            return None
        frame = bytes(self._data[self._position : end])
        self._position = end
        return frame

    def rest(self) -> bytes:
        """The bytes that have arrived and are not part of a frame taken yet."""
        return bytes(self._data[self._position :])


@dataclass(frozen=True, slots=True)
class Failure:
    """An error reply, as a value."""

    text: bytes


Value = bytes | int | float | bool | None | Failure | list["Value"]


def decode(frame: bytes) -> Value:
    """A frame's meaning: maps become flat lists, verbatim strings and big numbers their text."""
    value, _ = _decode(frame, 0)
    return value


def _decode(data: bytes, start: int) -> tuple[Value, int]:
    line_end = data.index(CRLF, start)
    kind, line = data[start : start + 1], data[start + 1 : line_end]
    position = line_end + 2
    if kind in b"+(":
        return line, position
    if kind == b"-":
        return Failure(line), position
    if kind == b":":
        return int(line), position
    if kind == b"_":
        return None, position
    if kind == b",":
        return float(line), position
    if kind == b"#":
        return line == b"t", position
    if kind in b"$!=":
        length = int(line)
        if length < 0:
            return None, position
        text = data[position : position + length]
        if kind == b"!":
            return Failure(text), position + length + 2
        return text[4:] if kind == b"=" else text, position + length + 2
    if kind == b"|":
        for _ in range(2 * int(line)):
            _, position = _decode(data, position)
        return _decode(data, position)
    count = int(line) * (2 if kind == b"%" else 1)
    if count < 0:
        return None, position
    items: list[Value] = []
    for _ in range(count):
        item, position = _decode(data, position)
        items.append(item)
    return items, position


def pack(*arguments: bytes | str | int) -> bytes:
    """A command in the form that client libraries send."""
    parts = [b"*%d\r\n" % len(arguments)]
    for argument in arguments:
        text = argument if isinstance(argument, bytes) else str(argument).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(text), text))
    return b"".join(parts)


_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|\S+')


def words(line: str) -> list[bytes]:
    r"""The arguments of a command written as in redis-cli: ``SET k "a\x00b"``."""
    found = _WORD.findall(line)
    return [ast.literal_eval("b" + word) if word.startswith('"') else word.encode() for word in found]


@dataclass(frozen=True, slots=True)
class Address:
    """The address to connect to: a port of this machine, with TLS or without, or the path of a unix socket."""

    port: int = 0
    path: str = ""
    tls: ssl.SSLContext | None = None

    def connect(self, timeout: float = PATIENCE_SECONDS) -> socket.socket:
        """A connected socket. Raises OSError."""
        if self.path:
            sock = socket.socket(socket.AF_UNIX)
            sock.settimeout(timeout)
            sock.connect(self.path)
            return sock
        sock = socket.create_connection(("127.0.0.1", self.port), timeout)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock


class Wire:
    """One blocking client that sees every byte. Times out rather than hangs."""

    def __init__(
        self,
        address: Address,
        *,
        protocol: int = 2,
        timeout: float = PATIENCE_SECONDS,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.timeout = timeout
        plain, tls = address.connect(timeout), tls or address.tls
        self.socket: socket.socket = tls.wrap_socket(plain, server_hostname="localhost") if tls else plain
        self.reader = FrameReader()
        self.ended = False
        if protocol != 2:
            hello = self.ask("HELLO", protocol)
            if not hello.startswith(b"%"):
                raise AssertionError(f"HELLO {protocol} was answered {hello!r}")

    def __enter__(self) -> Self:
        return self

    def __del__(self) -> None:
        if hasattr(self, "socket"):
            self.socket.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, data: bytes) -> None:
        self.socket.settimeout(self.timeout)
        self.socket.sendall(data)

    def say(self, *arguments: bytes | str | int) -> None:
        """Send a command and do not wait for its reply."""
        self.send(pack(*arguments))

    def frame(self, timeout: float | None = None) -> bytes:
        """The next frame, as it came. Raises Closed or TimeoutError."""
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        while (frame := self.reader.frame()) is None:
            self._receive(deadline)
        return frame

    def _receive(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"no frame; received so far: {self.reader.rest()[:200]!r}")
        self.socket.settimeout(left)
        try:
            data = self.socket.recv(1 << 18)
        except ConnectionResetError:
            data = b""
        if not data:
            self.ended = True
            raise Closed(self.reader.rest())
        self.reader.feed(data)

    def frames(self, count: int, timeout: float | None = None) -> list[bytes]:
        return [self.frame(timeout) for _ in range(count)]

    def ask(self, *arguments: bytes | str | int) -> bytes:
        """Send a command and return its reply's bytes."""
        self.say(*arguments)
        return self.frame()

    def value(self, *arguments: bytes | str | int) -> Value:
        """Send a command and return its reply's meaning."""
        return decode(self.ask(*arguments))

    def remaining(self, timeout: float | None = None) -> list[bytes]:
        """Every frame until the other side closes. Raises TimeoutError if it does not."""
        return list(self._until_closed(self.timeout if timeout is None else timeout))

    def _until_closed(self, timeout: float) -> Iterator[bytes]:
        deadline = time.monotonic() + timeout
        while True:
            try:
                yield self.frame(max(deadline - time.monotonic(), 0.001))
            except Closed as closed:
                if closed.rest:
                    raise
                return

    def silent(self, seconds: float) -> bool:
        """Nothing arrives, not even the end, within `seconds`."""
        if self.reader.rest():
            return False
        ready, _, _ = select.select([self.socket], [], [], seconds)
        return not ready

    def half_close(self) -> None:
        """No more requests; replies are still read."""
        self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.socket.close()

    def reset(self) -> None:
        """Leave as a crashed process does: with a TCP reset, not an orderly end."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def commands(lines: Sequence[str]) -> bytes:
    """Several commands, each written as in redis-cli, in one piece."""
    return b"".join(pack(*words(line)) for line in lines)


def eventually(holds: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until it holds. Raises AssertionError."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)


async def until(holds: Callable[[], object]) -> None:
    """The same, while the event loop goes on. Raises TimeoutError."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():  # noqa: ASYNC110 - what a test asks about tells nobody
            await asyncio.sleep(0.001)
