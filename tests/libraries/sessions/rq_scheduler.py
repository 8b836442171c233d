"""rq-scheduler: jobs that become due are moved to their queue; a list of what is to come."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from redis import Redis
from rq import Queue
from rq_scheduler import Scheduler

from tests.libraries import jobs


def use(url: str) -> Iterator[None]:
    connection = Redis.from_url(url)
    scheduler = Scheduler("mail", connection=connection)
    _round(scheduler)
    yield
    _round(scheduler)


def _round(scheduler: "Scheduler") -> None:
    now = datetime.now(UTC).replace(tzinfo=None)
    due = scheduler.enqueue_at(now - timedelta(seconds=1), jobs.add, 1, 2)
    later = scheduler.enqueue_in(timedelta(hours=1), jobs.add, 1, 2)
    repeated = scheduler.schedule(now + timedelta(hours=1), jobs.add, args=[1, 2], interval=60)
    assert {job.id for job in scheduler.get_jobs()} == {due.id, later.id, repeated.id}
    scheduler.register_birth()
    assert scheduler.acquire_lock()
    scheduler.enqueue_jobs()
    scheduler.remove_lock()
    scheduler.register_death()
    assert Queue("mail", connection=scheduler.connection).job_ids == [due.id]
    scheduler.cancel(later)
    scheduler.cancel(repeated)
    assert not list(scheduler.get_jobs())
    Queue("mail", connection=scheduler.connection).empty()


def work(url: str) -> None:
    scheduler = Scheduler("mail", connection=Redis.from_url(url))
    scheduler.register_birth()
    scheduler.register_death()
