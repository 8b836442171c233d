"""huey: tasks now, later, failing and retried; results; locks; a consumer that runs; a queue with priorities."""

from collections.abc import Iterator
from typing import Any

from huey import PriorityRedisHuey, RedisHuey

from tests.libraries import jobs


def use(url: str) -> Iterator[None]:
    plain = RedisHuey("mail", url=url)
    ranked = PriorityRedisHuey("ranked", url=url)
    consumers = []
    for huey in (plain, ranked):
        add, fail, locked = _tasks(huey)
        consumer = huey.create_consumer(workers=1, scheduler_interval=1, periodic=False, initial_delay=0.01)
        early = add(1, 2)
        consumer.start()
        consumers.append((consumer, huey, add, fail, locked))
        assert early.get(blocking=True, timeout=20) == 3
    for number in (1, 2):
        for _, huey, add, fail, locked in consumers:
            _round(huey, add, fail, locked, number)
        if number == 1:
            yield
    for consumer, *_ in consumers:
        consumer.stop(graceful=True)


def _tasks(huey: Any) -> tuple[Any, Any, Any]:
    return (
        huey.task()(jobs.add),
        huey.task(retries=1)(jobs.fail_once),
        huey.task()(huey.lock_task("report")(jobs.report)),
    )


def _round(huey: Any, add: Any, fail: Any, locked: Any, number: int) -> None:
    assert add(2, number).get(blocking=True, timeout=20) == 2 + number
    assert locked().get(blocking=True, timeout=20) == 7
    later = add.schedule((1, 2), delay=3600)
    later.revoke()
    assert later.is_revoked()
    later.restore()
    huey.put("notes", number)
    assert huey.get("notes") == number


def work(url: str) -> None:
    huey = RedisHuey("mail", url=url)
    huey.dequeue()
    huey.read_schedule()
