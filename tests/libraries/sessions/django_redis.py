"""django-redis: the cache, its lifetimes, locks, patterns and sets."""

from collections.abc import Iterator
from typing import Any

import django.conf

if not django.conf.settings.configured:
    django.conf.settings.configure(USE_TZ=True, SECRET_KEY="x")

from django_redis.cache import RedisCache


def use(url: str) -> Iterator[None]:
    cache = RedisCache(url, {"KEY_PREFIX": "cache", "OPTIONS": {"CLIENT_CLASS": "django_redis.client.DefaultClient"}})
    _round(cache)
    yield
    _round(cache)


def _round(cache: Any) -> None:
    cache.set_many({"a": 1, "b": 2}, timeout=60)
    cache.set("page", {"title": "ada"}, timeout=60)
    assert cache.get("page") == {"title": "ada"}
    assert not cache.set("page", 1, nx=True)
    assert 0 < cache.ttl("page") <= 66  # strict.yaml spreads lifetimes by up to a tenth
    assert cache.expire("page", timeout=90)
    cache.set("visits", 1, timeout=60)
    assert cache.incr("visits") == 2
    assert cache.touch("visits", 90)
    assert cache.get_many(["a", "b"]) == {"a": 1, "b": 2}
    with cache.lock("report", timeout=30):
        pass
    assert sorted(cache.iter_keys("*")) == ["a", "b", "page", "visits"]
    assert cache.delete_pattern("a*") == 1
    cache.delete_many(["b", "visits"])
    assert cache.delete("page")
