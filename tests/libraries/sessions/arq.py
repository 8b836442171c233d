"""arq: jobs now, later, with an id of their own, aborted; a worker in one burst; its health check."""

import asyncio
from collections.abc import Iterator
from typing import Any

from arq import create_pool
from arq.connections import RedisSettings
from arq.worker import Worker


async def add(_context: dict[str, Any], first: int, second: int) -> int:
    return first + second


def use(url: str) -> Iterator[None]:
    loop = asyncio.new_event_loop()
    pool = loop.run_until_complete(create_pool(RedisSettings.from_dsn(url)))
    loop.run_until_complete(_round(pool))
    yield
    loop.run_until_complete(_reconnect(pool))
    loop.run_until_complete(_round(pool))
    loop.run_until_complete(pool.aclose())


async def _reconnect(pool: Any) -> None:
    """A pool repeats nothing by itself: each connection that Redis has closed costs an error."""
    await asyncio.gather(*(pool.ping() for _ in range(10)), return_exceptions=True)


async def _round(pool: Any) -> None:
    job = await pool.enqueue_job("add", 1, 2)
    assert await pool.enqueue_job("add", 1, 2, _job_id="once") is not None
    assert await pool.enqueue_job("add", 1, 2, _job_id="once") is None
    later = await pool.enqueue_job("add", 1, 2, _defer_by=3600)
    assert len(await pool.queued_jobs()) == 3
    assert await later.status() == "deferred"
    await pool.zrem("arq:queue", later.job_id)  # a burst goes on until nothing is queued
    await _worker(pool).main()
    assert await job.result(timeout=20, poll_delay=0.01) == 3
    assert (await job.result_info()).success
    await pool.delete("arq:job:" + later.job_id, "arq:result:once")


def _worker(pool: Any) -> Any:
    return Worker([add], redis_pool=pool, burst=True, poll_delay=0.01, handle_signals=False, allow_abort_jobs=True)


def work(url: str) -> None:
    async def main() -> None:
        await _worker(await create_pool(RedisSettings.from_dsn(url))).main()

    asyncio.run(main())
