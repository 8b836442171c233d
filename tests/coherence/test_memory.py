"""The local cache stays within its memory, whatever is read: many keys, and large values.

Proves: what Keyrail takes from the system grows by no more than the setting and a part of it, while clients read
many more keys than there is room for; and memory answers what was read last.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Wire, eventually, pack

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay has no cache")

MEMORY = 32 << 20
BESIDE = 24 << 20
"""What Redis tells of all at once, what Python keeps for the next objects, and buffers."""
POLICY = """
keyrail: 1
traffic: {count_keys: off}
rules:
  cached:
    local_cache: {keys: ["k*"], when: always, max_age: 1h, max_value: 64KB, memory: 32MB}
    mode: enforce
"""
AT_ONCE = 100


def read_missing(wire: Wire, first: int, count: int) -> None:
    """Each key is kept by itself."""
    for number in range(first, first + count, AT_ONCE):
        wire.ask("MGET", *(f"k{each}" for each in range(number, number + AT_ONCE)))


def read_large(wire: Wire, first: int, count: int) -> None:
    """Almost as large as a rule allows."""
    for number in range(first, first + count):
        wire.send(pack("GET", f"k{number}"))
        assert len(wire.frame()) > 60_000


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("read", "count"),
    [
        pytest.param(read_missing, 50_000, id="many keys"),
        pytest.param(read_missing, 1_000_000, id="a million keys", marks=pytest.mark.long),
        pytest.param(read_large, 2_000, id="large values"),
    ],
)
def test_memory_is_bounded(
    new_engine: Callable[..., Engine],
    new_keyrail: Callable[..., Keyrail],
    tmp_path: Path,
    read: Callable[[Wire, int, int], None],
    count: int,
) -> None:
    engine = new_engine("valkey-9.1", {"save": "", "maxmemory": "0"})
    if read is read_large:
        with engine.wire() as direct:
            for number in range(count):
                direct.say("SET", f"k{number}", b"x" * 60_000)
            direct.frames(count)
    file = tmp_path / "cached.yaml"
    file.write_text(POLICY)
    keyrail = new_keyrail(engine.url, policy=file)
    with keyrail.wire() as wire:

        def is_warm() -> bool:
            read(wire, 0, AT_ONCE)
            return keyrail.metric("keyrail_local_cache_hits_total") > 0

        eventually(is_warm)
        before = keyrail.memory()
        read(wire, AT_ONCE, count - AT_ONCE)
        assert keyrail.memory() - before < MEMORY + MEMORY // 4 + BESIDE
        ran = engine.calls("get") + engine.calls("mget")
        read(wire, count - AT_ONCE, AT_ONCE)
        asked = engine.calls("get") + engine.calls("mget") - ran
        # Now and then something is unread on the tracking connection, and memory does not answer.
        assert asked <= AT_ONCE // 10, "memory answers what was read last"
        eventually(lambda: keyrail.metric("keyrail_local_cache_evictions_total") > 0)
        assert keyrail.metric("keyrail_local_cache_memory_bytes") <= MEMORY
