"""What clients read of cached keys can have been so, whoever writes them, however, and whatever happens to Redis.

Proves, with many connections that read and write the same keys in all ways, through one Keyrail with two workers,
through two Keyrails, and directly: no connection misses its own write or goes back in time, nothing is read after its
TTL, who has heard of a write reads it, and nothing is older than a second. This holds as well while tracking
connections die, stall and lose what Redis tells (then, nothing is older than ``max_age``), and while Redis hangs,
dies and evicts keys.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.coherence import disturbances
from tests.coherence.book import Book
from tests.coherence.clients import Swarm
from tests.coherence.disturbances import LOSING, STALLING, Disturbance, WrongLink, wrong_link
from tests.coherence.history import Bounds, Report, check
from tests.coherence.reads import GET
from tests.coherence.world import KINDS, hits, hunt, payloads, policy
from tests.coherence.writes import SET, writings
from tests.conftest import rest_is_long
from tests.engines import Engine, free_port
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import eventually

ENGINE = "valkey-9.1"
MAX_AGE = 1.0
pytestmark = pytest.mark.skipif(DIRECT, reason="a relay has no cache")

SHORT = 3_000
OPERATIONS = {"short": SHORT, "long": 20_000}
SHARES = [pytest.param(0.03, id="few writes"), pytest.param(0.2, id="many writes")]

NewEngine = Callable[..., Engine]
NewKeyrail = Callable[..., Keyrail]


def until_memory_answers(
    keyrails: Sequence[Keyrail], reads: float, *, behind: Disturbance | None = None
) -> Disturbance:
    """Clients go on, also behind a disturbance, until more than so many of their reads are answered from memory."""

    async def act(engine: Engine, swarm: Swarm) -> None:
        if behind is not None:
            await behind(engine, swarm)
        before = await asyncio.to_thread(hits, keyrails)
        await asyncio.to_thread(eventually, lambda: hits(keyrails) > before + reads)

    return act


@pytest.mark.parametrize("amount", rest_is_long(*OPERATIONS))
@pytest.mark.parametrize("write_share", SHARES)
@pytest.mark.parametrize("keyrails", [1, 2])
def test_reads_can_have_been_so(
    new_engine: NewEngine,
    new_keyrail: NewKeyrail,
    tmp_path: Path,
    engine_name: str,
    amount: str,
    write_share: float,
    keyrails: int,
) -> None:
    engine = new_engine(engine_name)
    proxies = [new_keyrail(engine.url, policy=policy(tmp_path), workers=3 - keyrails) for _ in range(keyrails)]
    book = Book(KINDS)
    swarm = Swarm(
        [*(proxy.address for proxy in proxies), engine.address],
        book,
        writings(payloads(engine, book, OPERATIONS[amount] // 100)),
        seed=keyrails,
        write_share=write_share,
    )
    hunt(swarm, OPERATIONS[amount], engine, disturbance=until_memory_answers(proxies, OPERATIONS[amount] * 0.02))
    assert not swarm.closed


@pytest.mark.parametrize("amount", rest_is_long(*OPERATIONS))
@pytest.mark.parametrize(
    "disturbance",
    [
        disturbances.tracking_connections_die,
        disturbances.redis_hangs,
        disturbances.redis_dies,
        disturbances.redis_dies_amid_writes,
    ],
)
def test_while_redis_is_in_trouble(
    new_engine: NewEngine, new_keyrail: NewKeyrail, tmp_path: Path, disturbance: Disturbance, amount: str
) -> None:
    engine = new_engine(ENGINE)
    keyrail = new_keyrail(engine.url, policy=policy(tmp_path), workers=2)
    book = Book(KINDS)
    swarm = Swarm([keyrail.address, engine.address], book, writings(payloads(engine, book)))
    hunt(swarm, OPERATIONS[amount], engine, disturbance=until_memory_answers([keyrail], 0, behind=disturbance))


@pytest.mark.parametrize("amount", rest_is_long(*OPERATIONS))
def test_while_keys_are_evicted(new_engine: NewEngine, new_keyrail: NewKeyrail, tmp_path: Path, amount: str) -> None:
    engine = new_engine(ENGINE, {"maxmemory": "6mb", "maxmemory-policy": "allkeys-random"})
    keyrail = new_keyrail(engine.url, policy=policy(tmp_path))
    book = Book(KINDS, evicted=True)
    swarm = Swarm([keyrail.address, engine.address], book, writings(payloads(engine, book)))
    short = disturbances.memory_is_short
    hunt(swarm, OPERATIONS[amount], engine, disturbance=until_memory_answers([keyrail], 0, behind=short))
    assert int(engine.info("stats")["evicted_keys"]) > 100


def test_while_the_tracking_connection_stalls(new_engine: NewEngine, tmp_path: Path) -> None:
    """Keyrail trusts it for a second; what has begun by then may be read so much later."""
    engine = new_engine(ENGINE)
    report = behind_a_wrong_link(engine, STALLING, policy(tmp_path), Bounds(lag=1.0, behind_messages=1.0))
    assert not report.anomalies, report.lines()


def test_while_invalidations_are_lost(new_engine: NewEngine, tmp_path: Path) -> None:
    engine = new_engine(ENGINE)
    file = policy(tmp_path, max_age=f"{MAX_AGE:.0f}s")
    report = behind_a_wrong_link(engine, LOSING, file, Bounds(lag=MAX_AGE, behind_messages=MAX_AGE))
    assert not report.anomalies, report.lines()
    assert max(report.late, default=0.0) > MAX_AGE / 10, "nothing was lost"


def behind_a_wrong_link(
    engine: Engine, fault: WrongLink, file: Path, bounds: Bounds, package: Path | None = None
) -> Report:
    """Some clients go through Keyrail and the link, and some directly. They know only GET, and SET directly: all else
    drops what memory has."""
    book = Book(("string",) * 4)

    async def act() -> Report:
        port = free_port()
        async with wrong_link(engine.address, port, fault):
            keyrail = await asyncio.to_thread(Keyrail, f"redis://127.0.0.1:{port}", policy=file, package=package)
            try:
                addresses = [keyrail.address, engine.address]
                swarm = Swarm(addresses, book, {SET: 1}, {GET: 1}, write_share=0.01, readers=addresses[:1])
                await swarm.run(SHORT, beside=lambda: asyncio.sleep(6.0))
                await asyncio.to_thread(eventually, lambda: hits([keyrail]) > 0)
            finally:
                await asyncio.to_thread(keyrail.close)
        return check(swarm.trails, bounds)

    return asyncio.run(act())
