"""A user whose commands to pause writes do not succeed holds up writes once in a while at most, whenever it leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from proxy.hotpath.upstream.write_gate import WriteGate
from proxy.net.pool.write_pauses import WritePauses
from proxy.session.ports.pool_key import SOLE_NODE

OK, REFUSED = b"+OK\r\n", b"-NOPERM no\r\n"


class Client:
    """One that waits until its command may be sent."""

    def __init__(self) -> None:
        self.gone = False
        self.sent = asyncio.Event()

    def arrived(self) -> None:
        self.sent.set()


class Bench:
    """A route without shared connections, whose Redis answers at once; time goes when it is told to."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.now = 100.0
        self.tasks: list[asyncio.Task[None]] = []
        self.late: list[Callable[[], object]] = []
        clock = SimpleNamespace(time=lambda: self.now, call_later=self.call_later, call_soon=loop.call_soon)
        fresh = SimpleNamespace(ask=self.ask, abort=lambda: None)
        self.connections = SimpleNamespace(
            topology=SimpleNamespace(nodes=(SOLE_NODE,), router=None),
            loop=clock,
            all=SimpleNamespace(members={}, start=self.start),
            opening=SimpleNamespace(open_apart=lambda _node: self.answer(fresh)),
            on_stuck=lambda _act: None,
        )
        self.pauses = WritePauses(WriteGate(), cast("Any", self.connections), ())

    def call_later(self, _seconds: float, act: Callable[[], object]) -> Any:
        self.late.append(act)
        return SimpleNamespace(cancel=lambda: self.late.remove(act))

    def start(self, work: Any) -> asyncio.Task[None]:
        self.tasks.append(asyncio.ensure_future(work))
        return self.tasks[-1]

    async def answer(self, value: Any) -> Any:
        return value

    async def ask(self, _argv: Sequence[str]) -> bytes:
        return b":0\r\n"

    async def try_once(self, user: str, reply: bytes | None) -> bool:
        """A client of this user sends such a command, and leaves before its reply where that is None; whether it was
        announced."""
        announces = self.pauses.announces(user)
        if announces:
            client = Client()
            self.pauses.announce(client, user)
            await client.sent.wait()
        if reply is None:
            for act in self.late[:]:
                act()
        else:
            assert self.pauses.answered(user, announces, reply) == reply
        while any(not task.done() for task in self.tasks):
            await asyncio.wait(self.tasks)
        assert not self.pauses.gate.closed
        return announces


@pytest.mark.parametrize("reply", [REFUSED, None], ids=["refused", "left"])
def test_attempts_in_vain_are_announced_once_in_a_while(reply: bytes | None) -> None:
    async def play() -> None:
        bench = Bench()
        announced = []
        for _ in range(100):
            announced.append(await bench.try_once("low", reply))
            bench.now += 0.5
        assert sum(announced) == 5
        assert await bench.try_once("other", OK), "other users are not affected"

    asyncio.run(play())


def test_who_may_pause_writes_is_announced_each_time() -> None:
    async def play() -> None:
        bench = Bench()
        assert [await bench.try_once("high", OK) for _ in range(5)] == [True] * 5
        assert await bench.try_once("high", REFUSED)
        assert not await bench.try_once("high", OK)
        assert await bench.try_once("high", OK), "it has succeeded meanwhile"

    asyncio.run(play())
