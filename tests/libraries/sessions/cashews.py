"""cashews: values, counters, locks, tags by pattern, rate limits, a decorator."""

import asyncio
import contextlib
from collections.abc import Iterator

from cashews import Cache
from cashews.exceptions import CacheBackendInteractionError


def use(url: str) -> Iterator[None]:
    loop = asyncio.new_event_loop()
    cache = Cache()
    cache.setup(url, suppress=False, socket_timeout=10)  # its own second is short where many tests share a processor
    loop.run_until_complete(_round(cache))
    yield
    with contextlib.suppress(CacheBackendInteractionError):  # redis-py's asyncio client does not repeat a command
        loop.run_until_complete(cache.ping())
    loop.run_until_complete(_round(cache))
    loop.run_until_complete(cache.close())


async def _round(cache: "Cache") -> None:
    await cache.set_many({"cache:a": 1, "cache:b": 2}, expire=60)
    await cache.set("cache:title", {"name": "ada"}, expire="1m")
    assert await cache.get("cache:title") == {"name": "ada"}
    assert await cache.get_many("cache:a", "cache:b") == (1, 2)
    assert await cache.incr("cache:visits", expire=60) == 1
    async with cache.lock("lock:pages", expire="10s"):
        pass
    assert await cache.slice_incr("rate:pages", 0, 10, maxvalue=5, expire=60) == 1
    assert await cache.get_expire("cache:title") > 0
    await cache.delete_match("cache:*")
    assert await cache.get("cache:title") is None
