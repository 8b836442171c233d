"""The simulated engine answers as real ones do, byte for byte, whatever several connections send.

Each history is played to both. A real engine has to send exactly what the simulated one has sent, on each connection
after each step, and nothing behind it.
"""

from __future__ import annotations

import random
import re
from contextlib import closing

import pytest

from tests.conftest import Fleet, seeds
from tests.engines import Engine
from tests.resp import FrameReader, pack
from tests.simulation.connection import Connection
from tests.simulation.engine import Server
from tests.simulation.histories import History
from tests.simulation.loop import VirtualLoop
from tests.simulation.network import Network

EXACT = ("valkey-9.1", "redis-7.0")
"""The engines whose replies the simulated one has, byte for byte."""


class Written:
    """The transport of a simulated connection: what was written to it."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data

    def abort(self) -> None:
        """Nobody reads what comes behind it."""

    def taken(self) -> bytes:
        data, self.data = self.data, b""
        return data


class Simulated:
    """A simulated server and its connections; time passes in `wait` alone."""

    def __init__(self, protocol: int, connections: int, *, valkey: bool) -> None:
        self.loop = VirtualLoop()
        self.server = Server(Network(self.loop, random.Random(1)), ("10.0.0.1", 6379))
        self.server.valkey = valkey
        self.connections = [Connection(self.server) for _ in range(connections)]
        for each in self.connections:
            each.connection_made(Written())
            each.protocol = protocol

    def sends(self, number: int, data: bytes) -> list[bytes]:
        self.loop.now += 0.001
        self.connections[number].data_received(data)
        self._turn()
        while any(each.blocked is not None for each in self.connections):
            self.loop.now += 0.001
            self._turn()
            self._turn()  # what waited behind it runs
        return [each.transport.taken() for each in self.connections]

    def _turn(self) -> None:
        self.loop.call_soon(self.loop.stop)
        self.loop.run_forever()


class Real:
    """Connections to a real server."""

    def __init__(self, engine: Engine, protocol: int, connections: int) -> None:
        self._control = engine.wire()
        self._control.ask("FLUSHALL")
        self._control.ask("SCRIPT", "FLUSH")
        self._wires = [engine.wire(protocol) for _ in range(connections)]

    def receive(self, number: int, expected: bytes) -> bytes:
        """As many bytes, and what comes with them."""
        wire, data = self._wires[number], b""
        wire.socket.settimeout(wire.timeout)
        while len(data) < len(expected):
            piece = wire.socket.recv(1 << 16)
            assert piece, f"closed behind {data!r}"
            data += piece
        return data

    def receive_alike(self, number: int, expected: bytes) -> bytes:
        """As many frames, and as the simulated engine would have sent them."""
        wanted = frames_of(expected)
        told = self._wires[number].frames(len(wanted))
        return expected if alike(told) == alike(wanted) else b"".join(told)

    def send(self, number: int, data: bytes) -> None:
        self._wires[number].send(data)

    def settle(self) -> None:
        """What was sent before has been run."""
        self._control.ask("PING")
        while b"\nblocked_clients:0\r" not in self._control.ask("INFO", "clients"):
            pass

    def rest(self) -> list[bytes]:
        """What else comes until all are closed."""
        for wire in self._wires:
            wire.half_close()
        return [frame for wire in self._wires for frame in wire.remaining()]


def frames_of(data: bytes) -> list[bytes]:
    """The frames that these bytes are."""
    reader = FrameReader()
    reader.feed(data)
    frames = []
    while (frame := reader.frame()) is not None:
        frames.append(frame)
    assert not reader.rest()
    return frames


def alike(frames: list[bytes]) -> list[bytes]:
    """Without what other versions say in other words, or send in another order: texts of errors, and pushes."""
    return sorted(re.sub(rb"-([A-Z]+) [^\r]*", rb"-\1", frame) for frame in frames)


OTHERS = ("redis-6.2", "redis-8.2")


@pytest.mark.parametrize("seed", seeds(1, 20))
@pytest.mark.parametrize("kind", [*EXACT, *(pytest.param(each, marks=pytest.mark.long) for each in OTHERS)])
def test_real_engines_answer_the_same(fleet: Fleet, kind: str, protocol: int, seed: int) -> None:
    for each in range(10 * seed, 10 * seed + 10):
        _play(fleet.engine(kind), protocol, each)


def _play(engine: Engine, protocol: int, seed: int) -> None:
    exact = engine.name in EXACT
    history = History(seed, whole=exact, old=engine.kind.version < (7, 0))
    simulated, real = Simulated(protocol, 3, valkey=engine.kind.is_valkey), Real(engine, protocol, 3)
    with closing(simulated.loop):
        for step, (number, commands) in enumerate(history.steps):
            data = b"".join(pack(*words) for words in commands)
            real.send(number, data)
            for each, expected in enumerate(simulated.sends(number, data)):
                told = (real.receive if exact else real.receive_alike)(each, expected)
                assert told == expected, (seed, step, number, commands)
            real.settle()
    assert real.rest() == [], seed
