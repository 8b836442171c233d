"""Connections without sockets, between hosts that are only names.

What one side writes arrives at the other in order, after a delay, in other pieces. What goes over two connections
arrives in any order. A piece that is lost comes later, and holds back what is behind it. Between hosts that are cut off
from each other nothing arrives until they are not any more, or until the sender gives up.
"""

from __future__ import annotations

import asyncio
import errno
import random
import select
import socket
import struct
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from tests.simulation.loop import VirtualLoop

Address = tuple[str, int]
WINDOW = 1 << 18
"""Bytes under way that a sender need not keep itself."""
GRID = 0.00005
"""Seconds: what arrives at about the same time arrives in one turn of the loop."""
RETRANSMISSION = 0.2
_EOF, _RESET = object(), object()


@dataclass
class Weather:
    """Seconds that a piece takes, and how often it is lost, or arrives as two."""

    least: float = 0.0001
    most: float = 0.001
    lost: float = 0.0
    split: float = 0.05


class Path:
    """Brings items from one host to another, in order."""

    __slots__ = ("_due", "_items", "_network", "_receive", "_scheduled", "paused", "source", "target")

    def __init__(self, network: Network, source: str, target: str, receive: Callable[[list[Any]], None]) -> None:
        self.source, self.target = source, target
        self.paused = self._scheduled = False
        self._network, self._receive = network, receive
        self._items: deque[tuple[float, Any]] = deque()
        self._due = 0.0

    def send(self, item: Any) -> None:
        """It arrives later."""
        self._due = max(self._due, self._network.arrival(self.source, self.target))
        self._items.append((self._due, item))
        self._schedule()

    def _schedule(self) -> None:
        if self._items and not self._scheduled and not self.paused:
            self._scheduled = True
            self._network.at(self._items[0][0], self._arrive)

    def _arrive(self) -> None:
        self._scheduled = False
        if (self.source, self.target) in self._network.cuts:
            self._network.stalled.append(self)
            return
        now, due, items = self._network.loop.now + 1e-9, [], self._items
        while items and items[0][0] <= now and not self.paused:
            due.append(items.popleft()[1])
        if due:
            self._receive(due)
        self._schedule()

    def resume(self) -> None:
        """Nothing holds it back any more."""
        self.paused = False
        self._schedule()

    def take(self) -> bytes:
        """What has arrived, and was not read."""
        data, items, now = b"", self._items, self._network.loop.now + 1e-9
        while items and items[0][0] <= now and isinstance(items[0][1], bytes):
            data += items.popleft()[1]
        return data

    def arrived(self) -> bool:
        """Whether anything has."""
        return bool(self._items) and self._items[0][0] <= self._network.loop.now + 1e-9

    def drop(self) -> None:
        """What is under way never arrives."""
        self._items.clear()

    @property
    def holds(self) -> bool:
        """Whether anything is under way."""
        return bool(self._items)


class FakeSocket:
    """What the program asks of a transport's socket. The kernel knows no file of this number."""

    _numbers = iter(range(1 << 24, 1 << 30))

    def __init__(self, loop: VirtualLoop) -> None:
        self.options: dict[tuple[int, int], Any] = {}
        self.heard = loop.now
        self._loop = loop
        self._number = next(FakeSocket._numbers)

    def fileno(self) -> int:
        return self._number

    def setsockopt(self, level: int, name: int, value: Any) -> None:
        self.options[level, name] = value

    def getsockopt(self, level: int, name: int, size: int = 0) -> Any:
        if (level, name) == (socket.IPPROTO_TCP, socket.TCP_INFO):
            return bytes(52) + struct.pack("=I", int((self._loop.now - self.heard) * 1000)) + bytes(48)
        return self.options.get((level, name), 0)

    @property
    def resets(self) -> bool:
        """Whether closing takes back what has not arrived."""
        return (socket.SOL_SOCKET, socket.SO_LINGER) in self.options


class Transport(asyncio.Transport):
    """One side of a connection."""

    def __init__(self, network: Network, local: Address, remote: Address, protocol: Any) -> None:
        super().__init__()
        self.local, self.remote, self.protocol = local, remote, protocol
        self.socket = FakeSocket(network.loop)
        self.peer: Transport
        self._network = network
        network.by_descriptor[self.socket.fileno()] = self
        self._path = Path(network, remote[0], local[0], self._arrived)
        self._unread = self._high = self._low = 0
        self._high, self._low = 1 << 16, 1 << 14
        self._full = self._closing = self._lost = self._ended = False

    # As the other side sees it

    def _arrived(self, items: list[Any]) -> None:
        pieces: list[bytes] = []
        for item in items:
            if isinstance(item, bytes):
                pieces.append(item)
                continue
            self._read(pieces)
            pieces = []
            if item is _RESET:
                self._lose(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))
            elif not self._closing and not self.protocol.eof_received():
                self.close()
        self._read(pieces)

    def readable(self) -> bool:
        """Whether something waits to be read."""
        return self._path.arrived()

    def take(self) -> bytes:
        """Read it, past the protocol."""
        return self._taken(self._path.take())

    def _taken(self, data: bytes) -> bytes:
        self._unread -= len(data)
        self.peer._sent()
        return data

    def _read(self, pieces: list[bytes]) -> None:
        if not pieces:
            return
        data = self._taken(b"".join(pieces))
        if self._closing:
            self.peer._path.send(_RESET)
            return
        self.socket.heard = self._network.loop.now
        self.protocol.data_received(data)

    # As the protocol sees it

    def write(self, data: Any) -> None:
        if self._closing or self._ended or not data:
            return
        data, peer = bytes(data), self.peer
        peer._unread += len(data)
        cut = self._network.cut_of(len(data))
        if cut:
            peer._path.send(data[:cut])
        peer._path.send(data[cut:])
        if not self._full and self.get_write_buffer_size() > self._high:
            self._full = True
            self.protocol.pause_writing()

    def _sent(self) -> None:
        if self._full and self.get_write_buffer_size() <= self._low and not self._lost:
            self._full = False
            self._network.loop.call_soon(self.protocol.resume_writing)

    def get_write_buffer_size(self) -> int:
        return max(0, self.peer._unread - WINDOW)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = (1 << 16) if high is None else high
        self._low = self._high // 4 if low is None else low

    def pause_reading(self) -> None:
        self._path.paused = True

    def resume_reading(self) -> None:
        self._path.resume()

    def is_reading(self) -> bool:
        return not self._path.paused and not self._closing

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        known = {"socket": self.socket, "peername": self.remote, "sockname": self.local}
        return known.get(name, default)

    def is_closing(self) -> bool:
        return self._closing

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self._ended and not self._closing:
            self._ended = True
            self.peer._path.send(_EOF)

    def close(self) -> None:
        """Behind what was written."""
        self.write_eof()
        self._end(None)

    def abort(self) -> None:
        """Now. What was written arrives, unless the socket resets."""
        if self._lost:
            return
        if self.socket.resets:
            self.peer._path.drop()
            self.peer._path.send(_RESET)
        else:
            self.write_eof()
        self._end(None)

    def give_up(self) -> None:
        """What was sent is not acknowledged: the connection fails, and the other side is not told."""
        self._lose(TimeoutError(errno.ETIMEDOUT, "Connection timed out"))

    def _lose(self, error: Exception) -> None:
        self._ended = True
        self._end(error)

    def _end(self, error: Exception | None) -> None:
        self._closing = True
        self._path.resume()
        if not self._lost:
            self._lost = True
            self._network.open.pop(self, None)
            self._network.loop.call_soon(self.protocol.connection_lost, error)


class Poll:
    """As ``select.poll`` does, for descriptors of the network."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._registered: dict[int, None] = {}

    def register(self, descriptor: int, _: int) -> None:
        self._registered[descriptor] = None

    def unregister(self, descriptor: int) -> None:
        del self._registered[descriptor]

    def poll(self, _: int) -> list[tuple[int, int]]:
        found = ((each, self._network.by_descriptor.get(each)) for each in self._registered)
        return [(each, select.POLLIN) for each, transport in found if transport is not None and transport.readable()]


class Network:
    """All connections, by one seed. ``names`` are hosts by other names. Between some hosts there is another weather:
    from the first one to the second one, ``there``."""

    def __init__(self, loop: VirtualLoop, chance: random.Random) -> None:
        self.loop, self.chance = loop, chance
        self.weather = Weather()
        self.there: dict[tuple[str, str], Weather] = {}
        self.names: dict[str, str] = {}
        self.cuts: set[tuple[str, str]] = set()
        self.stalled: list[Path] = []
        self.open: dict[Transport, None] = {}
        self.by_descriptor: WeakValueDictionary[int, Transport] = WeakValueDictionary()
        self._listening: dict[Address, Callable[[], Any]] = {}
        self._healed: list[asyncio.Future[None]] = []
        self._port = 40_000
        self._due: dict[float, list[Callable[[], None]]] = {}
        loop.network = self

    def arrival(self, source: str, target: str) -> float:
        """When a piece that leaves now arrives."""
        weather, chance = self.there.get((source, target), self.weather), self.chance.random
        delay = weather.least + (weather.most - weather.least) * chance()
        while weather.lost and chance() < weather.lost:
            delay += RETRANSMISSION
        return round((self.loop.now + delay) / GRID + 0.5) * GRID

    def at(self, due: float, act: Callable[[], None]) -> None:
        """Call this then, with all that is due at the same time."""
        due = max(due, self.loop.now)
        acts = self._due.get(due)
        if acts is None:
            acts = self._due[due] = []
            self.loop.call_at(due, self._act, due)
        acts.append(act)

    def _act(self, due: float) -> None:
        for act in self._due.pop(due):
            try:
                act()
            except Exception as error:  # noqa: BLE001 - as an event loop does with each callback
                self.loop.call_exception_handler({"message": "a connection failed", "exception": error})

    def cut_of(self, size: int) -> int:
        """Where a piece of this size is split; 0 if it is not."""
        return self.chance.randrange(size) if size > 1 and self.chance.random() < self.weather.split else 0

    def poll(self) -> Poll:
        """Instead of ``select.poll``."""
        return Poll(self)

    def read(self, descriptor: int, _: int) -> bytes:
        """Instead of ``os.read``."""
        return self.by_descriptor[descriptor].take()

    def listen(self, address: Address, factory: Callable[[], Any]) -> None:
        self._listening[address] = factory

    def stop_listening(self, address: Address) -> None:
        self._listening.pop(address, None)

    async def connect(self, host: str, address: Address, protocol: Any) -> Transport:
        """Raises ConnectionRefusedError. It waits for as long as the hosts are cut off from each other."""
        await asyncio.sleep(self.arrival(host, address[0]) - self.loop.now)
        while not self.reaches(host, address[0]):
            self._healed.append(self.loop.create_future())
            await self._healed[-1]
        if address not in self._listening:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed {address}")
        self._port += 1
        ours = Transport(self, (host, self._port), address, protocol)
        theirs = Transport(self, address, (host, self._port), self._listening[address]())
        ours.peer, theirs.peer = theirs, ours
        self.open |= {ours: None, theirs: None}
        theirs.protocol.connection_made(theirs)
        protocol.connection_made(ours)
        return ours

    # What happens to it

    def reaches(self, one: str, other: str) -> bool:
        """Whether both reach each other."""
        return (one, other) not in self.cuts and (other, one) not in self.cuts

    def cut(self, some: Iterable[str], others: Iterable[str]) -> None:
        """Nothing arrives between these hosts any more."""
        there = list(others)
        self.cuts |= {pair for one in some for other in there for pair in ((one, other), (other, one)) if one != other}
        for each in [each for each in self.open if (each.local[0], each.remote[0]) in self.cuts]:
            patience = each.socket.options.get((socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT))
            if patience is not None:
                self.loop.call_later(patience / 1000, self._lose_patience, each)

    def _lose_patience(self, transport: Transport) -> None:
        if (transport.local[0], transport.remote[0]) in self.cuts and transport.peer._path.holds:
            transport.give_up()

    def heal(self) -> None:
        """All hosts reach each other again."""
        self.cuts.clear()
        stalled, self.stalled = self.stalled, []
        for path in stalled:
            self.loop.call_later(RETRANSMISSION * self.chance.random(), path.resume)
        healed, self._healed = self._healed, []
        for each in healed:
            if not each.done():
                each.set_result(None)

    def hang_up(self, address: Address) -> None:
        """A process has ended: its system closes its connections, and nothing listens any more."""
        self.stop_listening(address)
        for each in [each for each in self.open if each.local == address]:
            each.abort()
