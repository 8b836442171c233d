"""The proxy's memory does not grow with a value of 256 MB, in both directions.

Proves: a large command streams to Redis, with its last byte held until it is judged; a large reply streams to its
client; neither is on a connection that others share; the proxy's memory grows by at most 32 MB; small commands of other
clients continue meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.conftest import Fleet
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail, packaged_policy
from tests.resp import PATIENCE_SECONDS, pack

MB = 1 << 20
VALUE = 256 * MB
PIECE = bytes(range(256)) * 4096


@contextmanager
def watched(keyrail: Keyrail) -> Iterator[list[int]]:
    """The most memory that the proxy has held meanwhile, over what it held before, as the list's last member."""
    before, peaks, done = keyrail.memory(), [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.01):
            peaks.append(max(peaks[-1], keyrail.memory() - before))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peaks
    finally:
        done.set()
        watcher.join()


@pytest.mark.skipif(DIRECT, reason="memory is Keyrail's promise")
@pytest.mark.parametrize(
    ("pooling", "policy"), [(True, "none"), (True, "bench.yaml"), (False, "none")], ids=["pooled", "judged", "unpooled"]
)
def test_both_directions(
    new_engine: Callable[..., Engine], new_keyrail: Callable[..., Keyrail], pooling: bool, policy: str
) -> None:
    if policy != "none":
        policy = str(packaged_policy(policy))
    engine = new_engine()
    keyrail = new_keyrail(engine.url, policy=policy, pooling=pooling)
    name = "bench:key:large"
    with keyrail.wire() as wire, keyrail.wire() as other:
        assert other.ask("SET", "bench:key:small", "v") == b"+OK\r\n"
        assert wire.ask("PING") == b"+PONG\r\n"
        with watched(keyrail) as peaks:
            wire.send(b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n" % (len(name), name.encode(), VALUE))
            worst = 0.0
            for index in range(VALUE // MB):
                wire.send(PIECE)
                if index % 16 == 0:
                    started = time.monotonic()
                    assert other.ask("GET", "bench:key:small") == b"$1\r\nv\r\n"
                    worst = max(worst, time.monotonic() - started)
            wire.send(b"\r\n")
            assert wire.frame(2 * PATIENCE_SECONDS) == b"+OK\r\n"
        assert peaks[-1] <= 32 * MB, f"grew by {peaks[-1] / MB:.0f} MB while it was written"
        assert worst < PATIENCE_SECONDS / 2, "it was held up by the large one"
        assert engine.do("STRLEN", name) == VALUE
        if policy != "none":
            assert engine.do("TTL", name) != -1
        with watched(keyrail) as peaks:
            wire.say("GET", name)
            received, header = 0, b""
            while received < VALUE + len(b"$268435456\r\n\r\n"):
                chunk = wire.socket.recv(MB)
                assert chunk, "closed in the middle of a reply"
                if not header:
                    header = chunk[:12]
                received += len(chunk)
            assert header == b"$268435456\r\n"
        assert peaks[-1] <= 32 * MB, f"grew by {peaks[-1] / MB:.0f} MB while it was read"
        assert wire.ask("ECHO", "in step") == b"$7\r\nin step\r\n"
        assert other.ask("GET", "bench:key:small") == b"$1\r\nv\r\n"


@pytest.mark.parametrize("size", [65_535, 65_536, 1_048_575, 1_048_576, 1_048_577, 5_000_000])
def test_every_byte_of_large_values(fleet: Fleet, pooling: bool, size: int) -> None:
    """Around the sizes at which a proxy may change its way: content, neighbours in the pipeline, transactions."""
    engine = fleet.engine("valkey-9.1")
    keyrail = fleet.keyrail("valkey-9.1", pooling=pooling)
    value = (PIECE * (size // len(PIECE) + 1))[:size]
    with keyrail.wire() as wire:
        wire.send(
            pack("SET", "a", "1") + pack("SET", "k", value) + pack("GET", "a") + pack("GET", "k") + pack("GET", "a")
        )
        assert wire.frames(3) == [b"+OK\r\n", b"+OK\r\n", b"$1\r\n1\r\n"]
        assert wire.frame() == b"$%d\r\n%s\r\n" % (size, value)
        assert wire.frame() == b"$1\r\n1\r\n"
        wire.send(pack("MULTI") + pack("SET", "t", value) + pack("GET", "t") + pack("EXEC") + pack("PING"))
        assert wire.frames(3) == [b"+OK\r\n", b"+QUEUED\r\n", b"+QUEUED\r\n"]
        assert wire.frame() == b"*2\r\n+OK\r\n$%d\r\n%s\r\n" % (size, value)
        assert wire.frame() == b"+PONG\r\n"
        assert wire.ask("MSET", "m", value, "n", value) == b"+OK\r\n"
        assert wire.ask("MGET", "m", "none", "n") == b"*3\r\n$%d\r\n%s\r\n$-1\r\n$%d\r\n%s\r\n" % (
            size,
            value,
            size,
            value,
        )
        assert wire.ask("NOSUCHCOMMAND", value)[:1] == b"-"
        assert wire.ask("SET", value, "x") == b"+OK\r\n"
        assert wire.ask("PING") == b"+PONG\r\n"
    assert engine.do("GET", "k") == value
