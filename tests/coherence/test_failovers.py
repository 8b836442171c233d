"""What clients read of cached keys can have been so while the primary is replaced, and its connections stay open.

A planned failover (FAILOVER) loses no write. The old primary goes on as a replica, with all of its connections, also
those that track keys, and is cut off from the new one: it tells of no change any more. Keyrail reaches both by the same
address, as behind a load balancer.

Nothing is written between the failover and the time when clients' commands go to the new primary: until each of its
connections has said READONLY, commands of a client go to both.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.coherence.book import Book
from tests.coherence.clients import Swarm
from tests.coherence.history import check
from tests.coherence.world import KINDS, hits, payloads, policy
from tests.coherence.writes import writings
from tests.conftest import rest_is_long
from tests.engines import Engine, free_port
from tests.keyrail_process import DIRECT, Keyrail
from tests.moving_address import Way, way_to
from tests.resp import eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay has no cache")
OPERATIONS = {"short": 1_500, "long": 15_000}
FAILOVERS = {"short": 2, "long": 10}


def role_of(engine: Engine) -> str | None:
    return engine.info("replication").get("role")


async def fail_over(way: Way, engines: list[Engine]) -> None:
    """The other engine becomes the primary, and is the one that is reached from now on."""
    old = way.engine
    new = next(each for each in engines if each is not old)
    new.do("REPLICAOF", "127.0.0.1", old.port)

    def is_promoted() -> bool:
        if old.info("replication").get("master_failover_state") == "no-failover":
            with old.wire() as wire:  # refused until the replica has everything, and given up when it stumbles
                wire.ask("FAILOVER", "TO", "127.0.0.1", new.port)
        return role_of(new) == "master"

    await asyncio.to_thread(eventually, is_promoted)
    way.engine = new
    old.do("REPLICAOF", "127.0.0.1", free_port())


def is_written_to(keyrail: Keyrail) -> bool:
    with keyrail.wire() as wire:
        return wire.ask("SET", "written", "v") == b"+OK\r\n"


def until_left(engine: Engine) -> None:
    """Wait until nobody has a connection any more but those that track keys."""
    left: list[bytes] = []

    def is_left() -> bool:
        clients = engine.do("CLIENT", "LIST", "TYPE", "normal")
        assert isinstance(clients, bytes)
        left[:] = [line for line in clients.splitlines() if not re.search(rb" flags=\w*t| cmd=client", line)]
        return not left

    try:
        eventually(is_left)
    except AssertionError as error:
        raise AssertionError(f"connections to a server that is no primary: {left}") from error


@pytest.mark.parametrize("engine_name", rest_is_long("valkey-9.1", "redis-7.0"))
@pytest.mark.parametrize("amount", rest_is_long(*OPERATIONS))
def test_while_the_primary_is_replaced(
    new_engine: Callable[..., Engine], tmp_path: Path, engine_name: str, amount: str
) -> None:
    engines = [new_engine(engine_name, {"repl-diskless-sync-delay": "0"}) for _ in range(2)]
    book = Book(KINDS)

    def memory_answers(keyrail: Keyrail) -> None:
        before = hits([keyrail])
        eventually(lambda: hits([keyrail]) > before + 20)

    async def play(swarm: Swarm, keyrail: Keyrail, way: Way) -> None:
        for _ in range(FAILOVERS[amount]):
            await asyncio.to_thread(memory_answers, keyrail)
            async with contextlib.AsyncExitStack() as locks:
                for slot in swarm.book.slots:
                    await locks.enter_async_context(slot.lock)
                old = way.engine
                await fail_over(way, engines)
                await asyncio.to_thread(eventually, lambda: is_written_to(keyrail))
                await asyncio.to_thread(until_left, old)
            await swarm.more(300)
        await asyncio.to_thread(memory_answers, keyrail)

    async def live() -> Swarm:
        async with way_to(engines[0]) as way:
            keyrail = await asyncio.to_thread(Keyrail, f"redis://127.0.0.1:{way.port}", policy=policy(tmp_path))
            try:
                writes = writings(await asyncio.to_thread(payloads, engines[0], book))
                swarm = Swarm(
                    [keyrail.address],
                    book,
                    writes,
                    refusals=(b"READONLY", b"EXECABORT", b"ERR Error running script: READONLY"),
                )
                await swarm.run(OPERATIONS[amount], beside=lambda: play(swarm, keyrail, way))
                return swarm
            finally:
                await asyncio.to_thread(keyrail.close)

    report = check(asyncio.run(live()).trails)
    assert not report.anomalies, report.lines()
