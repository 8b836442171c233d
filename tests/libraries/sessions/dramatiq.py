"""Dramatiq: messages now, later, failing and retried; results; a worker with its maintenance; a rate limiter."""

import os
from collections.abc import Iterator

# Milliseconds until a consumer that has lost its connection opens another.
os.environ.update(dramatiq_restart_delay="50")

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.rate_limits import ConcurrentRateLimiter
from dramatiq.rate_limits.backends import RedisBackend as RateLimits
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

from tests.libraries import jobs


def use(url: str) -> Iterator[None]:
    broker = _broker(url)
    add = dramatiq.actor(jobs.add, broker=broker, store_results=True)
    fail = dramatiq.actor(jobs.fail_once, broker=broker, store_results=True, max_retries=2, min_backoff=1)
    worker = dramatiq.Worker(broker, worker_timeout=20, worker_threads=2)
    limiter = ConcurrentRateLimiter(RateLimits(url=url), "reports", limit=1)
    add.send(1, 2)
    worker.start()
    for number in (1, 2):
        sent = add.send(2, number)
        assert sent.get_result(block=True, timeout=20_000) == 2 + number
        later = add.send_with_options(args=(3, number), delay=10)
        assert later.get_result(block=True, timeout=20_000) == 3 + number
        with limiter.acquire(), limiter.acquire(raise_on_failure=False) as second:
            assert not second
        assert fail.send(number).get_result(block=True, timeout=20_000) == number
        if number == 1:
            yield
    worker.stop()


def _broker(url: str) -> "RedisBroker":
    # Each command in a hundred thousand cleans up after workers that died; here each one does.
    broker = RedisBroker(url=url, maintenance_chance=1_000_000)
    broker.add_middleware(Results(backend=RedisBackend(url=url)))
    dramatiq.set_broker(broker)  # which results are asked for through
    return broker


def work(url: str) -> None:
    _broker(url).consume("default", timeout=10)
