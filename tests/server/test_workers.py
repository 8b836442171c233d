"""The start of the workers always ends, as do the supervisor's requests to them, even if they die."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, assert_never, cast

import pytest

from proxy.net.config.address import UpstreamAddress
from proxy.net.config.settings import PolicySource, RouteSettings, Settings
from proxy.net.topology.known_scripts import ScriptNews
from proxy.policy.model import TRANSPARENT
from proxy.rules.scripts.memory import script_key
from proxy.rules.scripts.text import ScriptCalls
from proxy.server.control import (
    Commit,
    EndHold,
    FindScript,
    HoldTenant,
    HoldWrites,
    Prepare,
    RecallScript,
    SeenScripts,
    Serving,
    ShareLimits,
    Switch,
    WorkerNotification,
    WorkerRequest,
)
from proxy.server.listeners import Listeners
from proxy.server.requests import Channel, TypedReply
from proxy.server.violations import Violations
from proxy.server.worker_process import WorkerProcess
from proxy.server.workers import Workers
from tests.resp import PATIENCE_SECONDS
from tests.server.running import STAMP

ROUTE = RouteSettings("r", (), UpstreamAddress(), PolicySource())
KEY, CALLS = script_key(b"1"), ScriptCalls()


def a_group(fakes: int = 1) -> Workers:
    return Workers(
        Settings((ROUTE,), workers=fakes),
        Listeners(),
        (TRANSPARENT,),
        Violations(1, None),
        paused=False,
        group_info=lambda _route, _topic: {},
        on_change=lambda: None,
    )


def test_a_mistake_of_the_program_at_the_start_is_no_endless_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async def live(workers: Workers, number: int) -> str:
        raise ZeroDivisionError(f"worker {number}")

    async def main() -> None:
        await asyncio.wait_for(a_group().start(), PATIENCE_SECONDS)

    monkeypatch.setattr(Workers, "_live", live)
    with pytest.raises(ZeroDivisionError, match="worker 0"):
        asyncio.run(main())


class FakeWorker:
    """The other end of a worker's channel; it hangs from the first request of type ``hangs_at`` on."""

    def __init__(self, channel: Channel, knows: ScriptCalls | None) -> None:
        self.channel = channel
        self.orders: list[str] = []
        self.problem: str | None = None
        self.knows = knows
        self.recalled = 0
        self.told: list[SeenScripts] = []
        self.told_of_scripts = asyncio.Event()
        self.hangs_at: type[object] | None = None
        self.ends_at: type[object] | None = None

    def take(self, notification: WorkerNotification) -> None:
        if isinstance(notification, SeenScripts):
            self.told.append(notification)
            self.told_of_scripts.set()

    async def answer(self, request: WorkerRequest) -> TypedReply:
        if type(request) is self.ends_at:
            self.channel._writer.close()
        if type(request) is self.hangs_at:
            await asyncio.Event().wait()
        match request:
            case Prepare(_, generation, _):
                self.orders.append(f"prepare {generation}")
                return request.answer(self.problem)
            case Commit(generation):
                self.orders.append(f"commit {generation}")
                return request.answer(None)
            case Switch(paused):
                self.orders.append(f"switch {paused}")
                return request.answer(None)
            case RecallScript():
                self.recalled += 1
                return request.answer(self.knows)
            case HoldWrites(route):
                self.orders.append(f"hold {route}")
                return request.answer("")
            case HoldTenant(_, _, prefix) | EndHold(_, _, prefix):
                self.orders.append(f"{type(request).__name__} {prefix.decode()}")
                return request.answer(self.problem or "")
            case _:
                assert_never(request)


@contextlib.asynccontextmanager
async def workers_of(fakes: int) -> AsyncIterator[tuple[Workers, list[FakeWorker]]]:
    """The workers, and fakes that serve."""
    workers, made, loop = a_group(fakes), list[FakeWorker](), asyncio.get_running_loop()
    tasks = []
    for number in range(fakes):
        ours, theirs = socket.socketpair()
        process = SimpleNamespace(kill=lambda: None)
        fake = FakeWorker(await Channel.over(theirs), None)
        worker = WorkerProcess(number, cast("Any", process), await Channel.over(ours))
        workers._workers[number] = worker
        tasks += [
            loop.create_task(workers._hear(worker)),
            loop.create_task(fake.channel.serve(fake.answer, fake.take)),
        ]
        fake.channel.notify(Serving())
        await fake.channel.request(ShareLimits(()))
        made.append(fake)
    async with asyncio.timeout(PATIENCE_SECONDS):
        yield workers, made
        for fake in made:
            await fake.channel.close()
        await asyncio.gather(*tasks)
        await workers.drain(0.0)


def test_policies_come_into_force_in_all_workers_in_order() -> None:
    async def main() -> None:
        async with workers_of(2) as (workers, fakes):
            assert await workers.replace_policies((TRANSPARENT,)) is None
            await workers.pause(True)
            assert workers.generation == 2
            assert [each.orders for each in fakes] == [["prepare 2", "commit 2", "switch True"]] * 2

    asyncio.run(main())


def test_one_worker_with_a_problem_leaves_the_old_policies_everywhere() -> None:
    async def main() -> None:
        async with workers_of(2) as (workers, fakes):
            fakes[1].problem = "ValueError: no"
            assert await workers.replace_policies((TRANSPARENT,)) == "worker 1: ValueError: no"
            assert workers.generation == 1
            assert [each.orders for each in fakes] == [["prepare 2"]] * 2

    asyncio.run(main())


def test_a_worker_that_hangs_leaves_the_old_policies_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Prepare, "seconds", 0.05)

    async def main() -> None:
        async with workers_of(2) as (workers, fakes):
            fakes[0].hangs_at = Prepare
            assert await workers.replace_policies((TRANSPARENT,)) == "worker 0: no answer in 0.05 seconds"
            assert (workers.generation, fakes[1].orders) == (1, ["prepare 2"])

    asyncio.run(main())


@pytest.mark.parametrize("ends_at", [Prepare, Commit])
def test_a_worker_that_ends_meanwhile_holds_nobody_up(ends_at: type[object]) -> None:
    async def main() -> None:
        async with workers_of(2) as (workers, fakes):
            fakes[0].ends_at = ends_at
            assert await asyncio.wait_for(workers.replace_policies((TRANSPARENT,)), Prepare.seconds / 3) is None
            assert (workers.generation, fakes[1].orders) == (2, ["prepare 2", "commit 2"])

    asyncio.run(main())


def test_who_does_not_follow_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(Commit, "seconds", 0.05)

    async def main() -> None:
        async with workers_of(2) as (workers, fakes):
            fakes[1].hangs_at = Commit
            assert await workers.replace_policies((TRANSPARENT,)) is None

    asyncio.run(main())
    said = STAMP.sub("", capsys.readouterr().err)
    assert said == "keyrail: worker 1 has not confirmed in 0.05 s: Commit(generation=2)\n"


def test_what_a_worker_asks_of_all_others_succeeds_only_with_all_of_them() -> None:
    async def main() -> None:
        async with workers_of(2) as (workers, fakes):
            asking, other = fakes
            hold, end = HoldTenant(0, "token", b"acme:", 1.0), EndHold(0, "token", b"acme:")
            asked = asking.channel.request
            assert [await asked(hold), await asked(end)] == ["", ""]
            assert (asking.orders, other.orders) == ([], ["HoldTenant acme:", "EndHold acme:"])
            other.problem = "a command is under way"
            assert await asked(hold) == "a command is under way"
            other.problem = None
            workers.beside.add("the process before this one")
            assert await asked(end) == "the process before this one may serve its clients, too"
            workers.beside.clear()
            other.ends_at = HoldTenant
            assert await asked(hold) == "a worker does not answer: the process has ended"
            workers._workers[fakes.index(other)].serving = False
            assert await asked(end) == "a worker is being replaced"

    asyncio.run(main())


def test_a_worker_hears_of_the_scripts_of_all_others_and_one_that_begins_of_all() -> None:
    async def main() -> None:
        async with workers_of(3) as (workers, fakes):
            news = SeenScripts((ScriptNews(texts=(b"return 1",)),))
            fakes[0].channel.notify(news)
            await fakes[0].channel.request(ShareLimits(()))
            for other in fakes[1:]:
                await other.told_of_scripts.wait()
                assert other.told == [news]
            assert fakes[0].told == []
            assert workers._start_of(0, ()).scripts == news.routes

    asyncio.run(main())


def test_a_script_is_sought_in_all_other_workers() -> None:
    async def main() -> None:
        async with workers_of(3) as (_, fakes):
            asking = fakes[0].channel
            fakes[0].knows = CALLS
            assert await asking.request(FindScript(0, KEY)) is None
            fakes[2].knows = CALLS
            assert await asking.request(FindScript(0, KEY)) == CALLS
            assert [each.recalled for each in fakes] == [0, 2, 2]

    asyncio.run(main())
