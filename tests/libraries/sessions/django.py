"""Django's own Redis cache, and the sessions that it keeps there."""

from collections.abc import Iterator
from typing import Any

import django.conf
from django.core.cache.backends.redis import RedisCache

if not django.conf.settings.configured:
    django.conf.settings.configure(USE_TZ=True, SECRET_KEY="x", SESSION_CACHE_ALIAS="default")


def use(url: str) -> Iterator[None]:
    cache = RedisCache(url, {"KEY_PREFIX": "cache"})
    _round(cache)
    yield
    _round(cache)


def _round(cache: Any) -> None:
    cache.set_many({"a": 1, "b": 2}, 60)
    cache.set("page", {"title": "ada"}, 60)
    assert cache.get("page") == {"title": "ada"}
    assert cache.add("page", 1) is False
    assert cache.add("visits", 1, 60) is True
    assert cache.incr("visits") == 2
    assert cache.touch("visits", 90) is True
    assert cache.get_many(["a", "b", "none"]) == {"a": 1, "b": 2}
    assert cache.get_or_set("made", lambda: 5, 60) == 5
    assert cache.has_key("made")
    cache.set("long", 1, None)
    cache.delete_many(["a", "b", "long", "made"])
    assert cache.delete("page") is True
    assert cache.delete("visits") is True
