"""Keyrail with one rule of its local cache broken is found: the hunts of ``test_coherence.py`` can fail."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.coherence.book import Book
from tests.coherence.clients import Swarm
from tests.coherence.disturbances import LOSING
from tests.coherence.history import Bounds, Rule, check
from tests.coherence.reads import GET
from tests.coherence.test_coherence import behind_a_wrong_link
from tests.coherence.world import KINDS, payloads, policy
from tests.coherence.writes import set_with_ttl, writings
from tests.conftest import rest_is_long
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail, package_folder

ENGINE = "valkey-9.1"
ROUNDS = 12
pytestmark = pytest.mark.skipif(DIRECT, reason="a relay has no cache")

CACHE, FILLS, EXPECTED = "hotpath/reply_cache.py", "local_cache/fills.py", "local_cache/expected.py"
BREAKS = {
    "a write drops nothing": (CACHE, "            if reply.resp3 is not None:", "            if False:"),
    "invalidations are ignored": (FILLS, "self._cache.drop(key)", "pass"),
    "scripts hold nothing back": (CACHE, "self.held_back = True", "self.held_back = False"),
}
"""What is changed: the module, what it says, and what it says instead. That reads of Redis hold their keys shows in
``hotpath/test_cached_reads.py``: here chance would have to meet a moment between two connections."""


def broken(folder: Path, module: str, right: str, wrong: str) -> Path:
    """A copy of the program, as plain Python, with one change."""
    package = folder / "proxy"
    shutil.copytree(package_folder(), package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    text = (package / module).read_text()
    assert text.count(right) == 1
    (package / module).write_text(text.replace(right, wrong))
    return package


@pytest.mark.parametrize("name", rest_is_long(*BREAKS))
def test_a_broken_cache_is_found(new_engine: Callable[..., Engine], tmp_path: Path, name: str) -> None:
    engine = new_engine(ENGINE)
    keyrail = Keyrail(engine.url, policy=policy(tmp_path), package=broken(tmp_path, *BREAKS[name]))
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
    package = broken(tmp_path, EXPECTED, "elif lifetime not in (_MISSING, _FOR_EVER):", "elif lifetime == 1 << 62:")
    keyrail = Keyrail(engine.url, policy=policy(tmp_path), package=package)
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
    package = broken(tmp_path, EXPECTED, "self._ends = sent + bounds.max_age", "self._ends = sent + 60")
    engine = new_engine(ENGINE)

    def found() -> bool:
        engine.do("FLUSHALL")
        file = policy(tmp_path, max_age="1s")
        return bool(behind_a_wrong_link(engine, LOSING, file, Bounds(1.0, 1.0), package).anomalies)

    assert any(found() for _ in range(ROUNDS))
