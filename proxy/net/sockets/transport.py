# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""One plain connection, TCP or a unix socket, in place of an event loop's transport.

It has the methods of ``asyncio.Transport`` that Keyrail uses, and calls its protocol as those do:

    open        what comes goes to ``data_received``; what is written leaves at once, as far as the system takes it
    ended       the other side sends no more, and ``eof_received`` wants to go on: what is written still leaves
    closing     what was written before leaves; nothing is read
    lost        nothing is read or written any more; ``connection_lost`` comes in the next turn of the loop

A protocol is never called from within its own call of ``write``, ``close`` or ``abort``, but for ``pause_writing``.
"""

import asyncio
import select
import socket
from collections import deque

from proxy.net.sockets.ready_sockets import FAULTS, ReadySocket, ReadySockets
from proxy.net.sockets.system_calls import receive, send

_IN, _OUT = getattr(select, "EPOLLIN", 1), getattr(select, "EPOLLOUT", 4)  # as in Linux: no other system has them
_MUCH = 1 << 16
"""Bytes of one read, behind which more may be waiting."""
_JOINED = 1 << 18
"""Bytes; the first unsent pieces that are no more together are sent as one."""
_HIGH_WATER = 1 << 16


class SocketTransport(ReadySocket):
    """A connection that ``begin`` hands over to its ``protocol``. ``peer`` is the other side's address."""

    __slots__ = (
        "_closing",
        "_ended",
        "_full",
        "_high",
        "_low",
        "_offset",
        "_peer",
        "_protocol",
        "_reading",
        "_receive",
        "_size",
        "_socket",
        "_sockets",
        "_unsent",
        "lost",
    )

    def __init__(
        self, sockets: ReadySockets, connection: socket.socket, peer: object, protocol: asyncio.BaseProtocol
    ) -> None:
        super().__init__(connection.fileno())
        self._sockets = sockets
        self._socket: socket.socket | None = connection
        self._peer = peer
        self._protocol: asyncio.BaseProtocol | None = protocol
        self._receive = protocol.data_received  # type: ignore[attr-defined]  # BaseProtocol stands for all kinds
        self._unsent: deque[bytes] | None = None
        self._offset = 0
        self._size = 0
        self._high = _HIGH_WATER
        self._low = _HIGH_WATER >> 2
        self._reading = True
        self._ended = False
        self._full = False
        self._closing = False
        self.lost = False

    def begin(self) -> None:
        """Tell the protocol of its connection, and read from now on."""
        protocol = self._protocol
        assert protocol is not None, "a connection begins once"
        try:
            protocol.connection_made(self)  # type: ignore[arg-type]  # it has the methods that Keyrail uses
        except FAULTS as error:
            self._fail("a protocol could not take its connection", error)
        self._watch()

    # Reading

    def on_ready(self, events: int) -> None:
        """Read once, and send what waits. Errors, and the end of both directions, are told without being asked for;
        reading or sending says which it is."""
        if self._reading and not self._closing and events & ~_OUT:
            self._read()
        if self._unsent is not None and events & ~_IN:
            self._send_more()

    def _read(self) -> None:
        try:
            if self._sockets.looks and not self._sockets.may_read(self._protocol):
                return
            data = receive(self.descriptor)
        except OSError as error:
            self._lose(error)
            return
        except FAULTS as error:  # such as MemoryError: something may be missing now
            self._fail("what has come could not be taken", error)
            return
        if data is None:
            return
        if len(data) >= _MUCH:
            self._sockets.more = True
        try:
            if data:
                self._receive(data)
            else:
                self._end_of_stream()
        except FAULTS as error:
            self._fail("a protocol could not take what has come", error)

    def _end_of_stream(self) -> None:
        self._ended = True
        self._reading = False
        protocol = self._protocol
        if protocol is None or not protocol.eof_received():  # type: ignore[attr-defined]  # as for data_received
            self.close()
        self._watch()

    def pause_reading(self) -> None:
        """Bring no more bytes."""
        self._reading = False
        self._watch()

    def resume_reading(self) -> None:
        """Bring bytes again."""
        self._reading = not self._ended
        self._watch()

    # Writing

    def write(self, data: bytes) -> None:
        """Send these bytes behind those before."""
        if self.lost or not data:
            return
        if self._unsent is None:
            sent = self._try(data, 0)
            if sent < 0 or sent == len(data):
                return
            try:
                self._unsent = deque((data,))
            except FAULTS as error:  # the rest would be missing
                self._fail("what is written could not be kept", error)
                return
            self._offset = sent
            self._size = len(data) - sent
            self._watch()
        else:
            self._unsent.append(data)
            self._size += len(data)
        if self._size > self._high and not self._full:
            self._full = True
            self._tell_writing()

    def _try(self, data: bytes, start: int) -> int:
        # How many bytes have left; -1 if the connection is lost.
        try:
            return send(self.descriptor, data, start)
        except OSError as error:
            self._lose(error)
            return -1

    def _send_more(self) -> None:
        unsent = self._unsent
        while unsent:
            if len(unsent) > 1 and len(unsent[0]) - self._offset < _JOINED:
                self._join(unsent)
            piece = unsent[0]
            sent = self._try(piece, self._offset)
            if sent < 0:
                return
            self._size -= sent
            self._offset += sent
            if self._offset < len(piece):
                break
            unsent.popleft()
            self._offset = 0
        if not unsent:
            self._unsent = None
        self._after_sending()

    def _join(self, unsent: "deque[bytes]") -> None:
        # The first pieces, so that many small ones cost one call.
        piece = unsent.popleft()[self._offset :]
        pieces, size = [piece], len(piece)
        while unsent and size + len(unsent[0]) <= _JOINED:
            piece = unsent.popleft()
            pieces.append(piece)
            size += len(piece)
        unsent.appendleft(b"".join(pieces))
        self._offset = 0

    def _after_sending(self) -> None:
        if self._closing and self._unsent is None:
            self._lose(None)
            return
        self._watch()
        if self._full and self._size <= self._low:
            self._full = False
            self._tell_writing()

    def _tell_writing(self) -> None:
        protocol = self._protocol
        if protocol is None:
            return
        try:
            if self._full:
                protocol.pause_writing()
            else:
                protocol.resume_writing()
        except FAULTS as error:
            self._fail("a protocol could not pause or resume", error)

    def set_write_buffer_limits(self, high: int, low: int | None = None) -> None:
        """The protocol pauses when more than ``high`` bytes wait, and resumes when no more than ``low`` do."""
        self._high = high
        self._low = high >> 2 if low is None else low

    def get_write_buffer_size(self) -> int:
        """Bytes that wait to be sent."""
        return self._size

    # Its end

    def is_closing(self) -> bool:
        """Whether it is closed, or about to be."""
        return self._closing

    def close(self) -> None:
        """Read no more, and close it behind what was written."""
        if self._closing:
            return
        self._closing = True
        if self._unsent is None:
            self._lose(None)
        else:
            self._watch()

    def abort(self) -> None:
        """Close it now."""
        self._lose(None)

    def get_extra_info(self, name: str) -> object:
        """Its ``socket``, or the ``peername``; None for anything else."""
        if name == "socket":
            return self._socket
        return self._peer if name == "peername" else None

    def _fail(self, message: str, error: BaseException) -> None:
        self._sockets.report(message, error)
        self._lose(error)

    def _lose(self, error: BaseException | None) -> None:
        if self.lost:
            return
        self.lost = self._closing = True
        self._unsent = None
        self._size = 0
        try:
            self._sockets.watch(self, 0)
        finally:
            self._sockets.call_soon(self._tell_lost, error)

    def _tell_lost(self, error: BaseException | None) -> None:
        protocol, connection = self._protocol, self._socket
        self._protocol = self._receive = self._socket = None  # whoever refers to it keeps nothing else alive
        try:
            if protocol is not None:
                protocol.connection_lost(error)  # type: ignore[arg-type]  # these are exceptions that may be caught
        finally:
            if connection is not None:
                connection.close()

    def _watch(self) -> None:
        if self.lost:
            return
        events = _OUT if self._unsent is not None else 0
        if self._reading and not self._closing:
            events |= _IN
        if events != self.watched:
            try:
                self._sockets.watch(self, events)
            except FAULTS as error:  # the system has no room for it: see man 2 epoll_ctl
                self._lose(error)
