"""Plain client libraries with their default settings, which know nothing of Sentinels, while the primary is replaced.

redis-py and ioredis notice nothing but the time. node-redis rejects the commands whose connection is lost, as it always
does, and goes on. Subscriptions come back by themselves. No reply is another one's.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import IO, Protocol

import pytest
import redis

from tests.clients.test_tools import node_with
from tests.conftest import kind_named
from tests.failover.group import RealGroup
from tests.failover.ways import ByCommand, Cut, Killed
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="a plain relay follows nobody")

SESSION = Path(__file__).with_name("session.cjs")
MESSAGES = 20


class Session(Protocol):
    """A client that writes, reads and publishes, and a subscriber that has `heard` so many messages of it."""

    heard: int

    def end(self) -> None:
        """Raises what has gone wrong."""


class Node:
    """Of a Node library, in a process of its own."""

    def __init__(self, library: str, port: int) -> None:
        words = [node_with(library), str(SESSION), library, str(port)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        self.heard = 0
        self._errors = ""
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._threads = [
            threading.Thread(target=self._read, args=(self._process.stdout,)),
            threading.Thread(target=self._collect, args=(self._process.stderr,)),
        ]
        for thread in self._threads:
            thread.start()

    def _read(self, lines: IO[str]) -> None:
        with lines:
            for line in lines:
                self.heard = int(line)

    def _collect(self, lines: IO[str]) -> None:
        with lines:
            self._errors = lines.read()

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            status = self._process.wait(30)
        finally:
            self._process.kill()
            for thread in self._threads:
                thread.join()
        assert (status, self._errors) == (0, "")


class RedisPy:
    """Of redis-py, in threads."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._over = threading.Event()
        self.heard = 0
        self._threads = ThreadPoolExecutor(2)
        self._work = [self._threads.submit(self._run, work) for work in (self._write, self._listen)]

    def _run(self, work: Callable[[redis.Redis], None]) -> None:
        with redis.Redis(port=self._port, decode_responses=True) as client:
            work(client)

    def _write(self, client: redis.Redis) -> None:
        for number in iter(range(1 << 30)):
            if self._over.wait(0.005):
                return
            assert client.set("last:redis-py", f"redis-py:{number}")
            tag, last = str(client.get("last:redis-py")).split(":")
            assert tag == "redis-py"
            assert int(last) <= number
            with client.pipeline() as pipeline:
                for index in range(20):
                    pipeline.echo(f"{number}.{index}")
                assert pipeline.execute() == [f"{number}.{index}" for index in range(20)]
            client.publish("news:redis-py", number)

    def _listen(self, client: redis.Redis) -> None:
        with client.pubsub(ignore_subscribe_messages=True) as pubsub:  # type: ignore[no-untyped-call]  # redis-py's is untyped
            pubsub.subscribe("news:redis-py")
            while not self._over.is_set():
                self.heard += pubsub.get_message(timeout=0.1) is not None

    def end(self) -> None:
        self._over.set()
        self._threads.shutdown()
        for each in self._work:
            each.result()


@pytest.fixture(scope="module")
def group() -> Iterator[RealGroup]:
    started = RealGroup(kind_named("redis-7.0"), relayed=True)
    yield started
    started.close()


@pytest.mark.parametrize(
    "way",
    [
        Killed,
        pytest.param(ByCommand, marks=pytest.mark.long),
        pytest.param(Cut, marks=pytest.mark.long),
    ],
)
def test_sessions_go_on(group: RealGroup, way: type[ByCommand | Killed | Cut]) -> None:
    with contextlib.ExitStack() as stack:
        keyrail = Keyrail(group.url)
        stack.callback(keyrail.close)
        eventually(lambda: keyrail.http("/readyz")[0] == 200)
        group.settle()
        port = keyrail.address.port
        sessions: list[Session] = []
        for begin in (RedisPy, partial(Node, "ioredis"), partial(Node, "redis")):
            sessions.append(begin(port))
            stack.callback(sessions[-1].end)

        def go_on() -> None:
            wanted = [(each, each.heard + MESSAGES) for each in sessions]
            eventually(lambda: all(each.heard >= heard for each, heard in wanted))

        go_on()
        old = group.primary()
        way.begin(group, old)
        new = group.await_promotion(old)
        eventually(lambda: f":{new.public}" in keyrail.http("/nodes")[1])
        go_on()
        way.end(old)
        group.settle()
        go_on()
        assert keyrail.metric("keyrail_out_of_step_total") == 0
