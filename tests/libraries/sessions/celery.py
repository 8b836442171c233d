"""Celery: a worker with its gossip and remote control; results, retries, groups, chords, delays, revocation."""

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery import Celery, chord, group

from tests.libraries import jobs


def use(url: str) -> Iterator[None]:
    app = _app(url)
    app.tasks["add"].delay(0, 0)
    _round(app, url, 1)
    yield
    _round(app, url, 2)


def _round(app: Any, url: str, number: int) -> None:
    add = app.tasks["add"]
    with _working(url):
        assert add.delay(1, number).get(timeout=30) == 1 + number
        assert app.tasks["retried"].delay(number).get(timeout=30) == number
        assert group(add.s(index, index) for index in range(3))().get(timeout=30) == [0, 2, 4]
        assert chord([add.s(1, 1), add.s(2, 2)], app.tasks["total"].s())().get(timeout=30) == 6
        later = add.apply_async((1, 1), countdown=3600)
        later.revoke()
        with app.connection_for_write() as connection:
            assert app.control.inspect(timeout=5, limit=1, connection=connection).ping()


@contextmanager
def _working(url: str) -> Iterator[None]:
    """A worker in a process of its own. After a restart of Redis it is started again, as a supervisor would do."""
    worker = multiprocessing.get_context("fork").Process(target=_serve, args=(url,))
    worker.start()
    try:
        yield
    finally:
        worker.kill()
        worker.join()


def _serve(url: str) -> None:
    _app(url).Worker(pool="threads", concurrency=2, loglevel="WARNING", quiet=True).start()


def _app(url: str) -> Any:
    app = Celery("mail", broker=url, backend=url)
    app.conf.update(broker_connection_retry_on_startup=True, worker_hijack_root_logger=False)
    app.task(jobs.add, name="add")
    app.task(jobs.total, name="total")
    app.task(_retried, name="retried", bind=True)
    return app


def _retried(task: Any, key: int) -> int:
    try:
        return jobs.fail_once(key)
    except ValueError as error:
        raise task.retry(exc=error, countdown=0) from error


def work(url: str) -> None:
    with _app(url).connection_for_read() as connection:
        connection.SimpleQueue("celery").close()
