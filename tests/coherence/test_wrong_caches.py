"""The clients and the checker find caches that are wrong.

Proves: a proxy that keeps replies for a time is found, also if it drops what its own clients write; and one that drops
all that Redis tells has changed, but knows no TTLs. Without a cache, nothing is found.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.coherence.book import Book
from tests.coherence.clients import Swarm
from tests.coherence.history import Rule, check
from tests.coherence.reads import GET
from tests.coherence.world import KINDS, payloads
from tests.coherence.writes import set_with_ttl, writings
from tests.coherence.wrong_cache import Cares, wrong_cache
from tests.conftest import Fleet
from tests.engines import Engine

ENGINE = "valkey-9.1"


@pytest.mark.parametrize(
    ("cares", "found"),
    [(Cares.NOTHING, {Rule.OWN_WRITE, Rule.PUBLISHED}), (Cares.OWN_WRITES, {Rule.PUBLISHED})],
    ids=["that drop nothing", "that drop what their clients write"],
)
def test_wrong_caches_are_found(fleet: Fleet, cares: Cares, found: set[Rule]) -> None:
    engine = fleet.engine(ENGINE)
    book = Book(KINDS, prefix=f"wrong-{cares.value}")

    async def act() -> Swarm:
        async with wrong_cache(engine.address, cares) as (address, cache):
            swarm = Swarm([address, engine.address], book, writings(payloads(engine, book)))
            swarm.write_share = 0.2
            await swarm.run(3000)
            assert cache.served > 100, "it was not asked for what it has"
            return swarm

    rules = {anomaly.rule for anomaly in check(asyncio.run(act()).trails).anomalies}
    assert found <= rules


def test_a_cache_without_ttls_is_found(new_engine: Callable[..., Engine]) -> None:
    """Although Redis tells it of all that changes: an expired key has not changed until somebody asks for it."""
    engine = new_engine(ENGINE)
    with engine.wire() as wire:
        assert wire.ask("DEBUG", "SET-ACTIVE-EXPIRE", 0) == b"+OK\r\n"

    async def act(seed: int) -> Swarm:
        book = Book(("string",) * 4, prefix=str(seed))
        async with wrong_cache(engine.address, Cares.OWN_WRITES | Cares.INVALIDATIONS) as (address, cache):
            swarm = Swarm([address], book, {set_with_ttl: 1}, {GET: 1}, seed=seed)
            swarm.write_share = 0.02  # so that keys are read when their time is over
            await swarm.run(2000)
            assert cache.served > 100, "it was not asked for what it has"
            return swarm

    rounds = (check(asyncio.run(act(seed)).trails) for seed in range(20))
    assert any(anomaly.rule is Rule.EXPIRED for report in rounds for anomaly in report.anomalies)


def test_redis_itself_is_right(fleet: Fleet, engine_name: str) -> None:
    engine = fleet.engine(engine_name)
    book = Book(KINDS, prefix="direct")
    swarm = Swarm([engine.address], book, writings(payloads(engine, book)))
    asyncio.run(swarm.run(4000))
    report = check(swarm.trails)
    assert not report.anomalies, report.lines()
    assert not swarm.closed
