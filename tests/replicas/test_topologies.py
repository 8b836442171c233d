"""Reads from replicas behind Sentinels while they replace the primary; plain client libraries.

Proves: no client goes back, each sees its own writes and nothing too old while primaries change; what a failover loses
does not count. redis-py and ioredis notice nothing.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from tests.clients.test_tools import node_with
from tests.conftest import kind_named
from tests.failover.group import RealGroup
from tests.keyrail_process import DIRECT, Keyrail
from tests.replicas.actors import Stage
from tests.replicas.history import Write
from tests.replicas.seen import moved, serving
from tests.resp import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="a plain relay knows no replicas")

OLDEST = 2.0
"""Seconds: the lag that is allowed, and one more."""
FROM_REPLICAS = ("--read-from", "replicas")
SESSION = Path(__file__).parent.parent / "clients" / "ioredis.cjs"


@pytest.fixture(scope="module")
def group() -> Iterator[RealGroup]:
    started = RealGroup(kind_named("redis-7.0"))
    yield started
    started.close()


@pytest.mark.parametrize("dies", [False, True], ids=["planned", "killed"])
def test_sentinels_replace_the_primary(group: RealGroup, new_keyrail: Callable[..., Keyrail], dies: bool) -> None:
    keyrail = new_keyrail(group.url, extra=FROM_REPLICAS)
    group.primary().do("FLUSHALL")
    eventually(lambda: serving(keyrail) == 2)
    stage = Stage(keyrail.address.port)
    doubtful: list[float] = []

    async def act() -> None:
        loop = asyncio.get_running_loop()
        await stage.until_reads(500)
        doubtful.append(loop.time())
        await asyncio.to_thread(fail_over)
        doubtful.append(loop.time())
        await asyncio.to_thread(eventually, lambda: serving(keyrail) == 2)
        await stage.until_reads(1000)

    def fail_over() -> None:
        old = group.primary()
        if dies:
            old.kill()
            group.await_promotion(old)
            group.settle()  # a replica that finds the old one again, without data, would lose its own
            old.start()
        else:
            group.fail_over()
        group.settle()

    asyncio.run(stage.run(8, act))
    begin, end = doubtful
    writes = [step for step in stage.history.steps if isinstance(step, Write)]
    lost = {
        (each.key, each.number)
        for each in writes
        if each.sent <= end and (each.acknowledged is None or each.acknowledged >= begin)
    }
    assert stage.history.problems(OLDEST, lost) == []
    assert len(lost) < len(writes)
    assert keyrail.metric("keyrail_out_of_step_total") == 0


def test_plain_client_libraries(group: RealGroup, new_keyrail: Callable[..., Keyrail]) -> None:
    keyrail = new_keyrail(group.url, extra=FROM_REPLICAS)
    eventually(lambda: serving(keyrail) == 2)
    with redis.Redis(port=keyrail.address.port, decode_responses=True) as client:
        for number in range(300):
            client.set("k", number)
            assert client.get("k") == str(number)
        eventually(lambda: client.get("k") == "299" and moved(keyrail) > 0)
        with client.pipeline(transaction=False) as pipeline:
            for number in range(100):
                pipeline.set(f"p:{number}", number).get(f"p:{number}")
            assert pipeline.execute()[1::2] == [str(number) for number in range(100)]


def test_ioredis(group: RealGroup, new_keyrail: Callable[..., Keyrail]) -> None:
    keyrail = new_keyrail(group.url, extra=FROM_REPLICAS)
    group.primary().do("FLUSHALL")
    eventually(lambda: serving(keyrail) == 2)
    words = [node_with("ioredis"), str(SESSION), str(keyrail.address.port)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=2 * PATIENCE_SECONDS, check=False)
    assert (done.returncode, done.stderr) == (0, "")
