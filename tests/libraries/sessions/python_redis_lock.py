"""python-redis-lock: taken, extended, waited for and released, with and without renewal."""

import threading
from collections.abc import Iterator

import redis
import redis_lock


def use(url: str) -> Iterator[None]:
    client = redis.Redis.from_url(url)
    _round(client)
    held = redis_lock.Lock(client, "held", expire=60)
    assert held.acquire(blocking=False)
    yield
    client.set(held._name, held.id, ex=60)  # what a Redis that keeps its data would still have
    held.release()
    _round(client)


def _round(client: "redis.Redis") -> None:
    lock = redis_lock.Lock(client, "report", expire=60, auto_renewal=True)
    assert lock.acquire(blocking=False)
    other = redis_lock.Lock(client, "report", expire=60)
    assert not other.acquire(blocking=False)
    lock.extend(30)
    waiting = threading.Thread(target=lambda: other.acquire(timeout=20) and other.release())
    waiting.start()
    lock.release()
    waiting.join(20)
    assert not waiting.is_alive()
    assert not lock.locked()
    with redis_lock.Lock(client, "reset", expire=60) as forgotten:
        forgotten.reset()
        forgotten.acquire(blocking=False)
