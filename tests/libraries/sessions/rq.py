"""RQ: jobs now, later, depending on each other, failing and retried; a worker and its registries."""

from collections.abc import Iterator
from datetime import timedelta

from redis import Redis
from rq import Queue, Retry, SimpleWorker, Worker
from rq.registry import FailedJobRegistry, ScheduledJobRegistry

from tests.libraries import jobs


def use(url: str) -> Iterator[None]:
    connection = Redis.from_url(url)
    queue = Queue("mail", connection=connection)
    _round(queue, 1)
    yield
    _round(queue, 2)


def _round(queue: "Queue", number: int) -> None:
    first = queue.enqueue(jobs.add, 1, 2)
    second = queue.enqueue(jobs.add, 3, 4, depends_on=first)
    failing = queue.enqueue(jobs.fail_once, number, retry=Retry(max=1))
    broken = queue.enqueue(jobs.add, "a", 1)
    later = queue.enqueue_in(timedelta(hours=1), jobs.add, 1, 1)
    assert later.id in ScheduledJobRegistry(queue=queue)
    work(queue.connection)
    assert (first.return_value(), second.return_value(), failing.return_value()) == (3, 7, number)
    assert broken.id in FailedJobRegistry(queue=queue)
    assert broken.latest_result().exc_string
    later.cancel()
    assert queue.count == 0


def work(connection: "Redis | str") -> None:
    connection = Redis.from_url(connection) if isinstance(connection, str) else connection
    worker = SimpleWorker([Queue("mail", connection=connection)], connection=connection)
    worker.work(burst=True, with_scheduler=False, logging_level="ERROR")
    assert worker.name not in {each.name for each in Worker.all(connection=connection)}
