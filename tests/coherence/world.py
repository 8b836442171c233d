"""What each hunt begins with, and what it ends with."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from tests.coherence.book import Book
from tests.coherence.clients import Swarm
from tests.coherence.disturbances import Disturbance
from tests.coherence.history import Bounds, Report, check
from tests.engines import Engine
from tests.keyrail_process import Keyrail

KINDS = ("string",) * 10 + ("hash",) * 3 + ("list",) * 2
"""The kinds of the keys."""

POLICY = """
keyrail: 1
rules:
  cached:
    local_cache: {{keys: ["cached:*"], when: {when}, max_age: {max_age}}}
    mode: enforce
"""


def policy(folder: Path, *, when: str = "always", max_age: str = "5s") -> Path:
    """A policy that caches the keys of the hunt."""
    file = folder / "coherence.yaml"
    file.write_text(POLICY.format(when=when, max_age=max_age))
    return file


def payloads(engine: Engine, book: Book, count: int = 50) -> list[tuple[bytes, bytes]]:
    """Values, and what RESTORE makes them of."""
    found = []
    with engine.wire() as wire:
        for _ in range(count):
            value = book.value()
            wire.ask("SET", "dumped", value)
            payload = wire.value("DUMP", "dumped")
            assert isinstance(payload, bytes)
            found.append((value, payload))
    return found


def hunt(
    swarm: Swarm,
    operations: int,
    engine: Engine,
    *,
    disturbance: Disturbance | None = None,
    bounds: Bounds | None = None,
) -> Report:
    """Let clients act, and check what they have recorded."""

    async def disturb() -> None:
        if disturbance is not None:
            await disturbance(engine, swarm)

    asyncio.run(swarm.run(operations, beside=disturb))
    report = check(swarm.trails, bounds)
    assert not report.anomalies, report.lines()
    return report


def hits(keyrails: Sequence[Keyrail]) -> float:
    """Reads that were answered from memory."""
    return sum(keyrail.metric("keyrail_local_cache_hits_total", mode="enforce") for keyrail in keyrails)
