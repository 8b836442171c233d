"""Clients see what is there; and the check finds what they see where replicas are read without care."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.conftest import kind_named
from tests.engines import Engine
from tests.replicas.actors import Stage
from tests.replicas.lab import Lab
from tests.resp import FrameReader


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(kind_named("redis-7.0")) as started:
        yield started


def test_one_redis_shows_no_fault(new_engine: Callable[..., Engine]) -> None:
    stage = Stage(new_engine().port)
    asyncio.run(stage.run(6, lambda: stage.until_reads(500)))
    assert stage.history.problems(0.5) == []
    assert (stage.closed, stage.errors) == (0, [])


class Careless:
    """Sends each write to the primary, and each read to one of `readers` without looking at it: to the same one for
    each client if it is `faithful`."""

    def __init__(self, primary: Engine, readers: Sequence[Engine], *, faithful: bool) -> None:
        self.primary, self.readers, self.faithful = primary, readers, faithful
        self.random = random.Random(1)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        servers = [await asyncio.open_connection("127.0.0.1", each.port) for each in (self.primary, *self.readers)]
        chosen = self.random.randrange(1, len(servers))
        requests = FrameReader()
        try:
            while data := await reader.read(1 << 16):
                requests.feed(data)
                while (request := requests.frame()) is not None:
                    place = 0 if b"SET" in request else chosen
                    chosen = chosen if self.faithful else self.random.randrange(1, len(servers))
                    answers, asks = servers[place]
                    asks.write(request)
                    replies = FrameReader()
                    while (reply := replies.frame()) is None:
                        replies.feed(await answers.read(1 << 16))
                    writer.write(reply)
        except ConnectionError:
            pass
        for _, asks in servers:
            asks.close()
        writer.close()


@pytest.mark.parametrize(
    ("faithful", "delay", "fault"),
    [
        (False, 0.05, "had seen"),
        (True, 0.05, "had written"),
        (True, 1.0, "newer number was acknowledged"),
    ],
)
def test_replicas_that_are_read_without_care_are_caught(lab: Lab, faithful: bool, delay: float, fault: str) -> None:
    lab.streams[0].delay(delay)
    careless = Careless(lab.primary, lab.replicas, faithful=faithful)

    async def play() -> Stage:
        server = await asyncio.start_server(careless.serve, "127.0.0.1", 0)
        async with server:
            stage = Stage(server.sockets[0].getsockname()[1])

            async def act() -> None:
                while not any(fault in problem for problem in stage.history.problems(0.3)):
                    await stage.until_reads(200)

            await stage.run(6, act)
        return stage

    try:
        assert asyncio.run(play()).history.problems(0.3)
    finally:
        lab.mend()
