"""aiocache: single and many values, counters, optimistic and RedLock locks, a decorator."""

import asyncio
from collections.abc import Iterator
from typing import Any

from aiocache import Cache
from aiocache.lock import OptimisticLock, RedLock
from aiocache.serializers import JsonSerializer


def use(url: str) -> Iterator[None]:
    loop = asyncio.new_event_loop()
    cache = Cache.from_url(url)
    cache.serializer = JsonSerializer()
    cache.namespace = "cache"
    cache.build_key = lambda key, namespace=None: f"cache:{key}"
    loop.run_until_complete(_round(cache))
    yield
    loop.run_until_complete(_reconnect(cache))
    loop.run_until_complete(_round(cache))
    loop.run_until_complete(cache.close())


async def _reconnect(cache: Any) -> None:
    """A pool repeats nothing by itself: each connection that Redis has closed costs an error."""
    await asyncio.gather(*(cache.exists("title") for _ in range(10)), return_exceptions=True)


async def _round(cache: Any) -> None:
    assert await cache.multi_set([("a", 1), ("b", 2)], ttl=60)
    assert await cache.set("title", {"name": "ada"}, ttl=60)
    assert await cache.get("title") == {"name": "ada"}
    assert await cache.exists("title")
    assert await cache.multi_get(["a", "b", "none"]) == [1, 2, None]
    assert await cache.increment("visits") == 1
    assert await cache.expire("visits", 60)
    async with RedLock(cache, "title", lease=5):
        pass
    async with OptimisticLock(cache, "title") as lock:
        assert await lock.cas({"name": "bob"}, ttl=60)
    for key in ("title", "a", "b", "visits"):
        assert await cache.delete(key) == 1
