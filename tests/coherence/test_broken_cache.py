"""Keyrail with one rule of its local cache broken is found: the hunts of ``test_coherence.py`` can fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest

from tests.broken_program import Change, broken, stale
from tests.coherence.book import Book
from tests.coherence.clients import Swarm
from tests.coherence.disturbances import LOSING
from tests.coherence.history import Bounds, Rule, check
from tests.coherence.reads import GET
from tests.coherence.test_coherence import behind_a_wrong_link
from tests.coherence.test_sentinels import play_once
from tests.coherence.world import KINDS, payloads, policy
from tests.coherence.writes import set_with_ttl, writings
from tests.conftest import rest_is_long
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail

ENGINE = "valkey-9.1"
ROUNDS = 12
FAILOVER_ROUNDS = 8
pytestmark = [pytest.mark.skipif(DIRECT, reason="a relay has no cache"), pytest.mark.source]

CACHE, FILLS, EXPECTED = "hotpath/cache/reply_cache.py", "local_cache/fills.py", "local_cache/expected.py"
BREAKS = {
    "a write drops nothing": Change(CACHE, "            if reply.resp3 is not None:", "            if False:"),
    "invalidations are ignored": Change(FILLS, "self._cache.drop(key)", "pass"),
    "scripts hold nothing back": Change(CACHE, "self.held_back = True", "self.held_back = False"),
}
"""That reads of Redis hold their keys shows in ``hotpath/test_cached_reads.py``: here chance would have to meet a
moment between two connections."""
NO_TTLS = Change(EXPECTED, "elif lifetime not in (_MISSING, _FOR_EVER):", "elif lifetime == 1 << 62:")
LIVE_LONG = Change(EXPECTED, "self._ends = sent + bounds.max_age", "self._ends = sent + 60")
FAILOVER_BREAKS = {
    "what a lost connection has told is trusted": [
        Change(
            FILLS,
            """who waits.\"\"\"
        self._source.until = 0.0
        self._cache.clear_of(self._source)
""",
            """who waits.\"\"\"
        self._source.until = 1e18
""",
        ),
    ],
    "the connection that fills stays with an old primary": [
        Change(
            "net/cache/tracking.py",
            """
        self._drop()
        self._again = 0.0
""",
            "",
        ),
        Change(
            "net/pool/connections.py",
            "if each.key.node is node]",
            "if each.key.node is node and type(each.pipeline.owner).__name__ != 'ReplySink']",
        ),
    ],
}
"""The second one needs both: what follows a failover ends it, and so does the cache itself."""


def test_no_break_is_stale() -> None:
    assert not stale([*BREAKS.values(), NO_TTLS, LIVE_LONG, *chain.from_iterable(FAILOVER_BREAKS.values())])


@pytest.mark.parametrize("name", rest_is_long(*BREAKS))
def test_a_broken_cache_is_found(new_engine: Callable[..., Engine], tmp_path: Path, name: str) -> None:
    engine = new_engine(ENGINE)
    keyrail = Keyrail(engine.url, policy=policy(tmp_path), package=broken(tmp_path, BREAKS[name]))
    try:
        for seed in range(ROUNDS):
            book = Book(KINDS, prefix=f"cached:{seed}")
            swarm = Swarm([keyrail.address] * 3 + [engine.address], book, writings(payloads(engine, book)), seed=seed)
            swarm.write_share = 0.15
            asyncio.run(swarm.run(2_000))
            if check(swarm.trails).anomalies:
                return
    finally:
        keyrail.kill()
        keyrail.close()
    pytest.fail("nothing was found")


@pytest.mark.long
def test_a_cache_without_ttls_is_found(new_engine: Callable[..., Engine], tmp_path: Path) -> None:
    engine = new_engine(ENGINE)
    engine.do("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    keyrail = Keyrail(engine.url, policy=policy(tmp_path), package=broken(tmp_path, NO_TTLS))
    try:
        assert any(_outlives_its_key(keyrail, seed) for seed in range(ROUNDS))
    finally:
        keyrail.kill()
        keyrail.close()


def _outlives_its_key(keyrail: Keyrail, seed: int) -> bool:
    book = Book(("string",) * 4, prefix=f"cached:{seed}")
    swarm = Swarm([keyrail.address], book, {set_with_ttl: 1}, {GET: 1}, seed=seed)
    swarm.write_share = 0.02  # so that keys are read when their time is over
    asyncio.run(swarm.run(2_000))
    return Rule.EXPIRED in {anomaly.rule for anomaly in check(swarm.trails).anomalies}


@pytest.mark.long
def test_replies_that_live_for_ever_are_found(new_engine: Callable[..., Engine], tmp_path: Path) -> None:
    package = broken(tmp_path, LIVE_LONG)
    engine = new_engine(ENGINE)

    def found() -> bool:
        engine.do("FLUSHALL")
        file = policy(tmp_path, max_age="1s")
        return bool(behind_a_wrong_link(engine, LOSING, file, Bounds(1.0, 1.0), package).anomalies)

    assert any(found() for _ in range(ROUNDS))


@pytest.mark.long
@pytest.mark.parametrize("name", FAILOVER_BREAKS)
def test_a_cache_that_trusts_an_old_primary_is_found(tmp_path: Path, name: str) -> None:
    package = broken(tmp_path, *FAILOVER_BREAKS[name])
    for _ in range(FAILOVER_ROUNDS):
        report = play_once(ENGINE, tmp_path, together=True, package=package)
        if report is not None and report.anomalies:
            return
    pytest.fail("nothing was found")
