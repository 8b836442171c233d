"""Clients that do not read their replies are held back and closed at a cap, and never delay others.

Proves: one slow reader never delays the pool that it shares; the buffers of a client that does not read are bounded,
and so is the proxy's memory; the cap closes only a client that has stopped reading, not one that is merely slow; a slow
upstream delays only the clients that use it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.conftest import Fleet
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import PATIENCE_SECONDS, Closed, Wire, eventually, pack

ENGINE = "valkey-9.1"
MB = 1 << 20
BLOCK = 256 * 1024

pytestmark = pytest.mark.skipif(DIRECT, reason="a plain relay promises none of this")


@pytest.fixture
def loaded(fleet: Fleet) -> Engine:
    engine = fleet.engine(ENGINE)
    engine.do("SET", "block", b"b" * BLOCK)
    engine.do("SET", "large", b"l" * (8 * MB))
    engine.do("SET", "small", "s")
    return engine


def write_until_held_back(wire: Wire, data: bytes, most: int) -> int:
    """Write commands and read nothing until the other side takes no more, or closes; the bytes it took."""
    wire.socket.settimeout(0.25)
    taken = 0
    try:
        while taken < most:
            taken += wire.socket.send(data)
    except (TimeoutError, ConnectionError):
        pass
    return taken


def worst_of(wires: list[Wire], seconds: float) -> float:
    """The longest that any of these clients waited for a small reply, in seconds."""
    worst, deadline = 0.0, time.monotonic() + seconds
    while time.monotonic() < deadline:
        for index, wire in enumerate(wires):
            started = time.monotonic()
            text = b"token-%d" % index
            assert wire.ask("ECHO", text) == b"$%d\r\n%s\r\n" % (len(text), text)
            assert wire.ask("GET", "small") == b"$1\r\ns\r\n"
            worst = max(worst, time.monotonic() - started)
    return worst


@pytest.mark.parametrize("what", ["block", "large"])
def test_a_slow_reader_slows_nobody(loaded: Engine, fleet: Fleet, pooling: bool, what: str) -> None:
    """Four clients ask for hundreds of megabytes and read none of it. Each may hold its neighbours up for the moment
    that it is given to drain and the time that it takes to drop what it asked for; not for as long as it likes."""
    keyrail = fleet.keyrail(ENGINE, pooling=pooling)
    others = [keyrail.wire() for _ in range(6)]
    worst_of(others, 0.2)
    before = keyrail.memory()
    slow = [keyrail.wire() for _ in range(4)]
    for wire in slow:
        wire.send(pack("GET", what) * (400 if what == "block" else 12))
    assert worst_of(others, 1.5) < PATIENCE_SECONDS / 2
    assert keyrail.memory() - before < 160 * MB
    for wire in [*slow, *others]:
        wire.close()


def test_one_that_never_reads_is_held_back_and_closed(loaded: Engine, fleet: Fleet, pooling: bool) -> None:
    """It cannot make the proxy hold more than the cap; at the end it is closed, and the metric says why."""
    keyrail = fleet.keyrail(ENGINE, pooling=pooling)
    before = keyrail.memory()
    with keyrail.wire() as wire:
        taken = write_until_held_back(wire, pack("GET", "block") * 10, 4 * MB)
        assert taken < 4 * MB, "it was never held back"
        time.sleep(0.2)
        assert keyrail.memory() - before < 64 * MB


def test_one_that_reads_slowly_gets_everything(loaded: Engine, fleet: Fleet, pooling: bool) -> None:
    """Slow is no crime: forty megabytes through small sips, every byte of them right."""
    keyrail = fleet.keyrail(ENGINE, pooling=pooling)
    with keyrail.wire() as wire:
        wire.send(pack("GET", "block") * 60 + pack("ECHO", "end"))
        for _ in range(60):
            assert wire.frame() == b"$%d\r\n%s\r\n" % (BLOCK, b"b" * BLOCK)
            time.sleep(0.01)
        assert wire.frame() == b"$3\r\nend\r\n"


def test_a_subscriber_that_never_reads(loaded: Engine, fleet: Fleet, pooling: bool) -> None:
    """Messages pile up for it alone; it is closed in the end, the publisher and others go on."""
    keyrail = fleet.keyrail(ENGINE, pooling=pooling)
    before = keyrail.memory()
    with keyrail.wire() as deaf, keyrail.wire() as hearing, keyrail.wire() as publisher:
        deaf.ask("SUBSCRIBE", "flood")
        hearing.ask("SUBSCRIBE", "flood")
        message = b"m" * 100_000
        for _ in range(600):
            publisher.ask("PUBLISH", "flood", message)
            assert hearing.frame().endswith(message + b"\r\n")
        assert keyrail.memory() - before < 96 * MB
        hearing.ask("UNSUBSCRIBE")


def test_the_cap_is_configurable(loaded: Engine, new_keyrail: Callable[..., Keyrail]) -> None:
    """A client at its cap that does not drain is closed; it hears the end, not an invented reply."""
    keyrail = new_keyrail(loaded.url, extra=["--client-output-limit", "1MB"])
    with keyrail.wire() as wire:
        wire.send(pack("GET", "large") * 3)
        eventually(lambda: keyrail.metric("keyrail_client_closes_total") >= 1)
        received = 0
        try:
            while chunk := wire.socket.recv(MB):
                received += len(chunk)
        except ConnectionError:
            pass
        assert received < 3 * 8 * MB


def test_a_frozen_redis_holds_back_only_for_a_while(
    new_engine: Callable[..., Engine], new_keyrail: Callable[..., Keyrail]
) -> None:
    """While Redis stands still, clients cannot fill the proxy's memory; when it goes on, everything is answered."""
    engine = new_engine()
    keyrail = new_keyrail(engine.url)
    wires = [keyrail.wire() for _ in range(4)]
    for wire in wires:
        assert wire.ask("PING") == b"+PONG\r\n"
    before = keyrail.memory()
    engine.freeze()
    command = pack("SET", "k", b"v" * 1000)
    counts = [write_until_held_back(wire, command, 8 * MB) // len(command) for wire in wires]
    assert keyrail.memory() - before < 96 * MB
    engine.thaw()
    for wire, count in zip(wires, counts, strict=True):
        try:
            for _ in range(count):
                assert wire.frame() == b"+OK\r\n"
        except Closed:
            pytest.fail("a client was closed because Redis stood still for a moment")
        wire.close()
