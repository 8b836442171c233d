"""redis-py: pipelines, transactions, locks, scripts, streams and publish/subscribe."""

from collections.abc import Iterator
from typing import Any

import redis


def use(url: str) -> Iterator[None]:
    client: Any = redis.Redis.from_url(url, decode_responses=True)
    double = client.register_script("return redis.call('INCRBY', KEYS[1], redis.call('GET', KEYS[1]))")
    _round(client, double)
    yield
    _round(client, double)


def _round(client: Any, double: Any) -> None:
    with client.pipeline() as pipeline:
        pipeline.set("app:{1}:visits", 1, ex=60).incr("app:{1}:visits").hset("app:{1}:user", mapping={"name": "ada"})
        assert pipeline.expire("app:{1}:user", 60).execute() == [True, 2, 1, True]
    with client.pipeline(transaction=False) as pipeline:
        assert pipeline.get("app:{1}:visits").exists("app:{1}:user").execute() == ["2", 1]
    client.transaction(_increment, "app:{1}:visits")
    assert double(keys=["app:{1}:visits"]) == 6
    with client.pipeline() as pipeline:
        double(keys=["app:{1}:visits"], client=pipeline)
        assert pipeline.get("app:{1}:visits").execute() == [12, "12"]
    _lock(client)
    assert client.xadd("app:{1}:events", {"name": "ada"}).endswith("-0")
    assert client.delete("app:{1}:visits", "app:{1}:user", "app:{1}:events") == 3


def _increment(pipeline: Any) -> None:
    visits = int(pipeline.get("app:{1}:visits"))
    pipeline.multi()
    pipeline.set("app:{1}:visits", visits + 1, ex=60)


def _lock(client: Any) -> None:
    with client.lock("lock:report", timeout=30) as lock:
        assert lock.extend(30)
        assert lock.reacquire()
        assert not client.lock("lock:report", timeout=30).acquire(blocking=False)
    assert not client.exists("lock:report")
