"""APScheduler's Redis job store: a job that runs, one that is postponed, one that is removed."""

import threading
from collections.abc import Iterator

from apscheduler.jobstores.redis import RedisJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from redis import Redis

RAN = threading.Event()
LOOKING = threading.Lock()


class Scheduler(BackgroundScheduler):  # type: ignore[misc]  # the library has no types
    """Its thread looks for jobs while nobody else holds the lock. It would end for good if Redis died meanwhile, also
    on a direct connection."""

    def _process_jobs(self) -> float | None:
        with LOOKING:
            wait_seconds: float | None = super()._process_jobs()
            return wait_seconds


def use(url: str) -> Iterator[None]:
    store = RedisJobStore()
    store.redis = Redis.from_url(url)
    scheduler = Scheduler(jobstores={"default": store}, timezone="UTC")
    scheduler.start()
    _round(scheduler)
    with LOOKING:
        yield
    _round(scheduler)
    scheduler.shutdown()


def run() -> None:
    RAN.set()


def _round(scheduler: "BackgroundScheduler") -> None:
    RAN.clear()
    later = scheduler.add_job(run, "interval", hours=1, id="later")
    scheduler.add_job(run, "date", id="now")
    assert RAN.wait(20)
    scheduler.modify_job("later", max_instances=2)
    assert [job.id for job in scheduler.get_jobs()] == ["later"]
    later.remove()
    assert not scheduler.get_jobs()
