"""What clients read of cached keys can have been so while Sentinels replace the primary, in each way that one is lost.

Nothing is written from before a failover until the new primary serves and has a replica, so nothing is lost. Then
clients write again, while the old primary comes back.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.coherence.book import Book
from tests.coherence.clients import Swarm
from tests.coherence.history import check
from tests.coherence.world import KINDS, hits, payloads, policy
from tests.coherence.writes import writings
from tests.conftest import kind_named
from tests.failover.group import RealGroup, Server, follows, replication
from tests.failover.pace import await_service
from tests.failover.ways import WAYS
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import eventually

pytestmark = [pytest.mark.skipif(DIRECT, reason="a relay has no cache"), pytest.mark.long]
OPERATIONS = 8_000


class Play:
    """The failovers of one group, one way after the other."""

    def __init__(self, group: RealGroup, keyrail: Keyrail) -> None:
        self.group, self.keyrail = group, keyrail
        self.data = self.data_now()
        self.once_more = False

    def data_now(self) -> str:
        """The name of the history of the primary's data: another one behind each promotion."""
        return replication(self.group.primary())["master_replid"]

    def memory_answers(self) -> None:
        before = hits([self.keyrail])
        eventually(lambda: hits([self.keyrail]) > before + 20)

    async def run(self, swarm: Swarm) -> None:
        for way in WAYS:
            await asyncio.to_thread(self.memory_answers)
            await asyncio.to_thread(self.group.settle)
            old = self.group.primary()
            async with contextlib.AsyncExitStack() as locks:
                for slot in swarm.book.slots:
                    await locks.enter_async_context(slot.lock)
                await asyncio.to_thread(self.lose, old, partial(way.begin, self.group, old))
            await swarm.more(300)
            await asyncio.to_thread(way.end, old)
            await swarm.more(300)
        await asyncio.to_thread(self.memory_answers)

    def lose(self, old: Server, begin: Callable[[], None]) -> None:
        """Wait until replicas have what the primary has, and lose it, until another one serves and has a replica."""
        written = int(replication(old)["master_repl_offset"])
        others = [each for each in self.group.servers if each is not old]
        eventually(lambda: all(int(replication(each).get("slave_repl_offset", 0)) >= written for each in others))
        begin()
        new = self.group.await_promotion(old)
        await_service(self.keyrail, new)
        (third,) = [each for each in others if each is not new]
        eventually(lambda: follows(third, new))
        told = replication(new)
        self.once_more |= told["master_replid2"] != self.data
        self.data = told["master_replid"]

    def skip_if_replaced_once_more(self) -> None:
        """Two Sentinels may each promote another server, one behind the other, and on a busy machine they may do so
        without a reason: Redis loses writes then."""
        self.group.settle()
        if self.once_more or self.data_now() != self.data:
            pytest.skip("the Sentinels have replaced the primary once more, and Redis may have lost writes")


@pytest.mark.parametrize("engine_name", ["valkey-9.1", "redis-7.0"])
def test_while_sentinels_replace_the_primary(tmp_path: Path, engine_name: str) -> None:
    book = Book(KINDS)

    async def live(play: Play) -> Swarm:
        writes = writings(await asyncio.to_thread(payloads, play.group.primary(), book))
        refusals = (b"READONLY", b"EXECABORT", b"ERR Error running script: READONLY")
        swarm = Swarm([play.keyrail.address], book, writes, refusals=refusals)
        await swarm.run(OPERATIONS, beside=lambda: play.run(swarm))
        return swarm

    with contextlib.ExitStack() as ends:
        group = RealGroup(kind_named(engine_name), relayed=True)
        ends.callback(group.close)
        keyrail = Keyrail(group.url, policy=policy(tmp_path))
        ends.callback(keyrail.close)
        play = Play(group, keyrail)
        try:
            report = check(asyncio.run(live(play)).trails)
            wrong = bool(report.anomalies)
        except ExceptionGroup:
            play.skip_if_replaced_once_more()
            raise
        if wrong:
            play.skip_if_replaced_once_more()
    assert not report.anomalies, report.lines()
