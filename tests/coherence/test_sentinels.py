"""What clients read of cached keys can have been so while Sentinels replace the primary, in each way that one is lost.

Two Keyrails stand side by side, so that each has in memory what the other's clients write. Nothing is written from
before a failover until the new primary serves and has a replica, so nothing is lost. Then clients write again, while
the old primary comes back:

- through both, as soon as both have followed. Reads are held to all rules.
- through one, while the other follows. Reads may be a second older than the time that it took, as what it asks and
  what it remembers is from the old primary until then.
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
from tests.coherence.history import Bounds, Report, check
from tests.coherence.world import KINDS, hits, payloads, policy
from tests.coherence.writes import writings
from tests.conftest import kind_named
from tests.failover.group import RealGroup, Server, follows, replication
from tests.failover.pace import await_service
from tests.failover.ways import WAYS, Cut
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import eventually

pytestmark = [pytest.mark.skipif(DIRECT, reason="a relay has no cache"), pytest.mark.long]
OPERATIONS = 8_000
REFUSALS = (b"READONLY", b"EXECABORT", b"ERR Error running script: READONLY")


class Play:
    """The failovers of one group, one way after the other, behind the `first` Keyrail and the `second` one.

    `together`: nobody writes until both have followed. The network cannot be cut then: a relay in front of the servers
    carries each connection by itself, and a message could overtake the invalidation that Redis has sent before it.
    """

    def __init__(self, kind_name: str, file: Path, package: Path | None, *, together: bool) -> None:
        self.together = together
        self.ways = [each for each in WAYS if not (together and each is Cut)]
        self._ends = contextlib.ExitStack()
        with contextlib.ExitStack() as ends:
            self.group = RealGroup(kind_named(kind_name), relayed=not together)
            ends.callback(self.group.close)
            self.first, self.second = self.keyrails = [
                Keyrail(self.group.url, policy=file, package=package) for _ in range(2)
            ]
            for each in self.keyrails:
                ends.callback(each.close)
            self._ends = ends.pop_all()
        self.data = self.data_now()
        self.behind = 0.0
        """The seconds that the second Keyrail has needed longer than the first one, at most."""
        self.once_more = False

    def close(self) -> None:
        self._ends.close()

    def data_now(self) -> str:
        """The name of the history of the primary's data: another one behind each promotion."""
        return replication(self.group.primary())["master_replid"]

    def memory_answers(self) -> None:
        for each in self.keyrails:
            _answers_more(each, hits([each]) + 20)

    async def run(self, swarm: Swarm) -> None:
        for way in self.ways:
            await asyncio.to_thread(self.memory_answers)
            await asyncio.to_thread(self.group.settle)
            old = self.group.primary()
            # An old primary that lives believes to be one, and keeps all of its connections open.
            with self.group.leaving_old_primaries_alone():
                await self.replace(old, partial(way.begin, self.group, old), swarm)
                await swarm.more(300)
                await asyncio.to_thread(way.end, old)
                await swarm.more(300)
        await asyncio.to_thread(self.memory_answers)

    async def replace(self, old: Server, begin: Callable[[], None], swarm: Swarm) -> None:
        """Lose the primary while nobody writes, until there is service again."""
        async with contextlib.AsyncExitStack() as locks:
            for slot in swarm.book.slots:
                await locks.enter_async_context(slot.lock)
            await asyncio.to_thread(self.await_copies, old)
            await asyncio.to_thread(begin)
            new = await asyncio.to_thread(self.group.await_promotion, old)
            await asyncio.to_thread(self.await_replica, old, new)
            served = await asyncio.to_thread(await_service, self.first, new)
            if self.together:
                await asyncio.to_thread(await_service, self.second, new)
        self.behind = max(self.behind, await asyncio.to_thread(await_service, self.second, new) - served)

    def await_copies(self, old: Server) -> None:
        """Wait until replicas have what the primary has."""
        written = int(replication(old)["master_repl_offset"])
        others = [each for each in self.group.servers if each is not old]
        eventually(lambda: all(int(replication(each).get("slave_repl_offset", 0)) >= written for each in others))

    def await_replica(self, old: Server, new: Server) -> None:
        """Wait until the new primary has one. Its history must be the next one behind that of the last primary."""
        (third,) = [each for each in self.group.servers if each not in (old, new)]
        eventually(lambda: follows(third, new))
        told = replication(new)
        self.once_more |= told["master_replid2"] != self.data
        self.data = told["master_replid"]

    def is_replaced_once_more(self) -> bool:
        """Two Sentinels may each promote another server, one behind the other, and on a busy machine they may do so
        without a reason: Redis loses writes then."""
        self.group.settle()
        return self.once_more or self.data_now() != self.data


def _answers_more(keyrail: Keyrail, than: float) -> None:
    eventually(lambda: hits([keyrail]) > than)


def play_once(engine_name: str, folder: Path, *, together: bool, package: Path | None = None) -> Report | None:
    """What was wrong; nothing if Redis itself has lost writes. What memory has outlives a failover, by its age."""
    file = policy(folder, max_age="60s")
    play = Play(engine_name, file, package, together=together)
    try:
        book = Book(KINDS)
        swarm = Swarm(
            [each.address for each in play.keyrails],
            book,
            writings(payloads(play.group.primary(), book)),
            readers=() if together else (play.second.address,),
            refusals=REFUSALS,
        )
        try:
            asyncio.run(swarm.run(OPERATIONS, beside=lambda: play.run(swarm)))
        except ExceptionGroup:
            if play.is_replaced_once_more():
                return None
            raise
        late = 0.0 if together else 1.0 + play.behind
        report = check(swarm.trails, Bounds(max(1.0, late), late))
        return None if report.anomalies and play.is_replaced_once_more() else report
    finally:
        play.close()


@pytest.mark.parametrize("engine_name", ["valkey-9.1", "redis-7.0"])
@pytest.mark.parametrize("together", [True, False], ids=["both have followed", "one follows later"])
def test_while_sentinels_replace_the_primary(tmp_path: Path, engine_name: str, together: bool) -> None:
    attempts = (play_once(engine_name, tmp_path, together=together) for _ in range(3))
    report = next((each for each in attempts if each is not None), None)
    assert report is not None, "the Sentinels have replaced a primary once more, and Redis has lost writes, three times"
    assert not report.anomalies, report.lines()
