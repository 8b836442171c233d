"""cachelib, which Flask-Caching uses: single and many values, counters."""

from collections.abc import Iterator

from cachelib import RedisCache
from redis import Redis


def use(url: str) -> Iterator[None]:
    cache = RedisCache(host=Redis.from_url(url), key_prefix="cache:", default_timeout=300)
    _round(cache)
    yield
    _round(cache)


def _round(cache: "RedisCache") -> None:
    assert cache.get_many("a", "b") == [None, None]
    assert cache.set("title", {"name": "ada"})
    assert cache.get("title") == {"name": "ada"}
    assert not cache.add("title", 1)
    assert cache.set_many({"a": 1, "b": 2}) == ["a", "b"]
    assert cache.get_many("a", "b", "none") == [1, 2, None]
    assert cache.get_dict("a", "b") == {"a": 1, "b": 2}
    assert cache.inc("visits") == 1
    assert cache.dec("visits") == 0
    assert cache.has("title")
    assert cache.delete_many("a", "b", "visits")
    assert cache.delete("title")
