"""The crew's start ends, one way or the other; and what it asks of its workers ends, whatever becomes of them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, assert_never, cast

import pytest

from proxy.net.address import UpstreamAddress
from proxy.net.settings import PolicySource, RouteSettings, Settings
from proxy.policy.model import TRANSPARENT
from proxy.rules.scripts.memory import script_key
from proxy.rules.scripts.text import ScriptCalls
from proxy.server.control import (
    Commit,
    FindScript,
    Prepare,
    RecallScript,
    Serving,
    ShareLimits,
    Switch,
    WorkerRequest,
)
from proxy.server.crew import Crew
from proxy.server.listeners import Listeners
from proxy.server.member import Member
from proxy.server.requests import Channel, TypedReply
from proxy.server.violations import Violations
from tests.resp import PATIENCE_SECONDS

ROUTE = RouteSettings("r", (), UpstreamAddress(), PolicySource())
KEY, CALLS = script_key(b"1"), ScriptCalls()


def a_crew(workers: int = 1) -> Crew:
    return Crew(
        Settings((ROUTE,), workers=workers),
        Listeners(),
        (TRANSPARENT,),
        Violations(1, None),
        paused=False,
        group_info=lambda _route, _topic: {},
        on_change=lambda: None,
    )


def test_a_mistake_of_the_program_at_the_start_is_no_endless_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async def live(crew: Crew, number: int) -> str:
        raise ZeroDivisionError(f"worker {number}")

    async def main() -> None:
        await asyncio.wait_for(a_crew().start(), PATIENCE_SECONDS)

    monkeypatch.setattr(Crew, "_live", live)
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
        self.hangs_at: type[object] | None = None
        self.ends_at: type[object] | None = None

    async def answer(self, request: WorkerRequest) -> TypedReply:
        if type(request) is self.ends_at:
            self.channel._writer.close()
        if type(request) is self.hangs_at:
            await asyncio.Event().wait()
        match request:
            case Prepare(_, generation):
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
            case _:
                assert_never(request)


@contextlib.asynccontextmanager
async def crew_of(workers: int) -> AsyncIterator[tuple[Crew, list[FakeWorker]]]:
    """A crew, and workers that serve."""
    crew, made, loop = a_crew(workers), list[FakeWorker](), asyncio.get_running_loop()
    tasks = []
    for number in range(workers):
        ours, theirs = socket.socketpair()
        worker = FakeWorker(await Channel.over(theirs), None)
        member = Member(number, cast("Any", SimpleNamespace()), await Channel.over(ours))
        crew._members[number] = member
        tasks += [
            loop.create_task(crew._hear(member)),
            loop.create_task(worker.channel.serve(worker.answer, lambda _: None)),
        ]
        worker.channel.notify(Serving())
        await worker.channel.request(ShareLimits(()))
        made.append(worker)
    async with asyncio.timeout(PATIENCE_SECONDS):
        yield crew, made
        for worker in made:
            await worker.channel.close()
        await asyncio.gather(*tasks)


def test_policies_come_into_force_in_all_workers_in_order() -> None:
    async def main() -> None:
        async with crew_of(2) as (crew, workers):
            assert await crew.replace_policies((TRANSPARENT,)) is None
            await crew.pause(True)
            assert crew.generation == 2
            assert [each.orders for each in workers] == [["prepare 2", "commit 2", "switch True"]] * 2

    asyncio.run(main())


def test_one_worker_with_a_problem_leaves_the_old_policies_everywhere() -> None:
    async def main() -> None:
        async with crew_of(2) as (crew, workers):
            workers[1].problem = "ValueError: no"
            assert await crew.replace_policies((TRANSPARENT,)) == "worker 1: ValueError: no"
            assert crew.generation == 1
            assert [each.orders for each in workers] == [["prepare 2"]] * 2

    asyncio.run(main())


def test_a_worker_that_hangs_leaves_the_old_policies_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Prepare, "seconds", 0.05)

    async def main() -> None:
        async with crew_of(2) as (crew, workers):
            workers[0].hangs_at = Prepare
            assert await crew.replace_policies((TRANSPARENT,)) == "worker 0: no answer in 0.05 seconds"
            assert (crew.generation, workers[1].orders) == (1, ["prepare 2"])

    asyncio.run(main())


@pytest.mark.parametrize("ends_at", [Prepare, Commit])
def test_a_worker_that_ends_meanwhile_holds_nobody_up(ends_at: type[object]) -> None:
    async def main() -> None:
        async with crew_of(2) as (crew, workers):
            workers[0].ends_at = ends_at
            assert await asyncio.wait_for(crew.replace_policies((TRANSPARENT,)), Prepare.seconds / 3) is None
            assert (crew.generation, workers[1].orders) == (2, ["prepare 2", "commit 2"])

    asyncio.run(main())


def test_who_does_not_follow_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(Commit, "seconds", 0.05)

    async def main() -> None:
        async with crew_of(2) as (crew, workers):
            workers[1].hangs_at = Commit
            assert await crew.replace_policies((TRANSPARENT,)) is None

    asyncio.run(main())
    assert capsys.readouterr().err == "keyrail: worker 1 has not confirmed in 0.05 s: Commit(generation=2)\n"


def test_a_script_is_sought_in_all_other_workers() -> None:
    async def main() -> None:
        async with crew_of(3) as (_, workers):
            asking = workers[0].channel
            workers[0].knows = CALLS
            assert await asking.request(FindScript(0, KEY)) is None
            workers[2].knows = CALLS
            assert await asking.request(FindScript(0, KEY)) == CALLS
            assert [each.recalled for each in workers] == [0, 2, 2]

    asyncio.run(main())
