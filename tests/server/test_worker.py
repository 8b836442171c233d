"""A worker alone: it continues after an error in its reports, and ends if it cannot follow an order."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, assert_never, cast

import pytest

from proxy.net.config.address import UpstreamAddress
from proxy.net.config.settings import PolicySource, RouteSettings, Settings
from proxy.net.policy.verdicts import VerdictUpdate
from proxy.net.topology.known_scripts import ScriptNews
from proxy.policy.model import TRANSPARENT
from proxy.rules.scripts.memory import ScriptKey, script_key
from proxy.rules.shared_state import Stored, Written
from proxy.server import worker as worker_module
from proxy.server import worker_leases, worker_reports
from proxy.server.control import (
    Commit,
    Drain,
    FindPlans,
    FindScript,
    FindStored,
    ForOthers,
    GroupInfo,
    Prepare,
    RecallScript,
    SeenScripts,
    ShareLimits,
    Start,
    SupervisorNotification,
    SupervisorRequest,
    Switch,
    WorkerReport,
)
from proxy.server.requests import Channel, Packed, RequestFailed, TypedReply
from proxy.server.worker import Worker
from proxy.server.worker_sharing import WorkerSharing
from proxy.traffic.evidence_rows import EvidenceRows
from tests.resp import PATIENCE_SECONDS

KEY = script_key(b"1")


class FakeRoute:
    """A route that fails where a test says so: ``failing`` says how often each part does."""

    def __init__(self, *_: object, asks_replicas: bool) -> None:
        self.failing: Counter[str] = Counter()
        self.counted: Counter[str] = Counter()
        self.clients: set[object] = set()
        self.census = SimpleNamespace(refresh=lambda: None, buffered=lambda: 0)
        self.done: list[str] = []
        self.readiness = SimpleNamespace(found_cluster=False, rename_nodes=lambda aliases: None)
        self.pauses = SimpleNamespace(hold_others=None, tell_others=None, tenants=SimpleNamespace())
        self.compiled = asyncio.Event()
        self.well: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.leased: asyncio.Queue[object] = asyncio.Queue()
        self.stored: asyncio.Queue[object] = asyncio.Queue()
        self.used = ScriptNews()
        self.learnt: list[ScriptNews] = []
        self.rule_state = self.scripts = self
        self.listeners = SimpleNamespace(close=lambda: None)
        self.topology = SimpleNamespace(servers=())

    def _do(self, part: str) -> None:
        if self.failing[part]:
            self.failing[part] -= 1
            raise ZeroDivisionError(part)
        self.well[part].set()

    async def start(self) -> None:
        """Connect to nothing."""

    def stop_accepting(self) -> None:
        """Nobody is accepted."""

    async def drain(self, seconds: float) -> None:
        self.done.append(f"drain {seconds:g}")

    def close(self) -> None:
        """Nothing is open."""

    def count(self, event: str) -> None:
        self.counted[event] += 1

    def snapshot(self) -> dict[str, Any]:
        self._do("snapshot")
        return {}

    def news(self) -> ScriptNews:
        self._do("scripts")
        news, self.used = self.used, ScriptNews()
        return news

    def learn(self, news: ScriptNews) -> None:
        self.learnt.append(news)

    def verdict_update(self) -> VerdictUpdate:
        self._do("seen")
        return VerdictUpdate([], EvidenceRows())

    def intervals(self) -> list[object]:
        return []

    def demand(self, _seconds: float) -> dict[str, object]:
        self._do("demand")
        return {"rule": {}}

    def lease(self, leases: object) -> None:
        self.leased.put_nowait(leases)

    def written(self) -> dict[str, dict[str, Written]]:
        self._do("written")
        return {"rule": {"app": Written(1)}}

    def learn_stored(self, stored: object) -> None:
        self.stored.put_nowait(stored)

    def recall(self, _key: ScriptKey) -> object:
        return "what it calls"

    async def prepare(self, _policy: object, generation: int, _find_plans: object) -> None:
        await self.compiled.wait()
        self.done.append(f"prepare {generation}")

    async def commit(self) -> None:
        self._do("commit")
        self.done.append("commit")

    async def pause(self, paused: bool) -> None:
        self.done.append(f"pause {paused}")


class Supervisor:
    """The other end: it gives orders, and hears reports."""

    def __init__(self, channel: Channel, running: asyncio.Task[int]) -> None:
        self.channel = channel
        self.running = running
        self.reported = asyncio.Event()
        self.shared = asyncio.Event()
        self.scripts = asyncio.Event()
        self.told: list[SeenScripts] = []

    async def answer(self, request: SupervisorRequest) -> TypedReply:
        match request:
            case ShareLimits():
                self.shared.set()
                return request.answer(({"rule": {}},))
            case FindStored(({"rule": {"app": Written(1)}},)):
                return request.answer(({"rule": Stored(7.0)},))
            case GroupInfo() | FindScript() | FindPlans() | FindStored() | ForOthers():
                raise AssertionError("no client asks")
            case _:
                assert_never(request)

    def take(self, notification: SupervisorNotification) -> None:
        if isinstance(notification, WorkerReport):
            self.reported.set()
        elif isinstance(notification, SeenScripts):
            self.told.append(notification)
            self.scripts.set()

    async def end(self) -> int:
        self.channel.notify(Drain(2.0))
        return await self.running


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "Route", FakeRoute)
    monkeypatch.setattr(worker_reports, "REPORT_SECONDS", 0.01)
    monkeypatch.setattr(worker_leases, "LEASE_SECONDS", 0.01)
    # A worker collects once what its start has left. Here that would be what all tests before have left.
    monkeypatch.setattr("gc.collect", lambda: 0)
    monkeypatch.setattr("gc.freeze", lambda: None)


@contextlib.asynccontextmanager
async def a_worker(**failing: int) -> AsyncIterator[tuple[Supervisor, FakeRoute]]:
    """A worker of two that serves one route, whose parts fail so often."""
    here, there = socket.socketpair()
    ours, theirs = await Channel.over(here), await Channel.over(there)
    route_settings = RouteSettings("r", (), UpstreamAddress(), PolicySource())
    scripts = (ScriptNews(),)
    memory = WorkerSharing(2).descriptor
    settings = Settings((route_settings,), workers=2)
    start = Start(settings, (TRANSPARENT,), 1, 1, 0, (), False, ({},), scripts, ((),))
    worker = Worker(theirs, start, [memory])
    route = cast("FakeRoute", worker._routes[0])
    route.failing.update(failing)
    loop = asyncio.get_running_loop()
    supervisor = Supervisor(ours, loop.create_task(worker.run()))
    hearing = loop.create_task(ours.serve(supervisor.answer, supervisor.take))
    async with asyncio.timeout(PATIENCE_SECONDS):
        yield supervisor, route
        await supervisor.running
        await theirs.close()
        await hearing
        await ours.close()


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("snapshot", "reporting figures"),
        ("seen", "reporting what rules found"),
        ("scripts", "telling of scripts"),
        ("demand", "sharing limits"),
    ],
)
@pytest.mark.usefixtures("quick")
def test_a_mistake_in_a_report_is_counted_and_the_worker_goes_on(
    part: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with a_worker(**{part: 2}) as (supervisor, route):
            await supervisor.reported.wait()
            await supervisor.shared.wait()
            await route.well[part].wait()
            assert dict(route.counted) == {"periodic_failures": 2}
            assert await supervisor.end() == 0
            assert route.done == ["drain 2"]

    asyncio.run(main())
    (record,) = caplog.records
    assert record.getMessage().startswith(f"{name} failed")


@pytest.mark.usefixtures("quick")
def test_what_is_new_of_scripts_is_told_and_learnt() -> None:
    async def main() -> None:
        async with a_worker() as (supervisor, route):
            assert route.learnt == [ScriptNews()], "what the group knew at its start"
            route.used = ScriptNews(texts=(b"return 1",))
            await supervisor.scripts.wait()
            assert supervisor.told == [SeenScripts((ScriptNews(texts=(b"return 1",)),))]
            supervisor.channel.notify(SeenScripts((ScriptNews(flushed=True),)))
            assert await supervisor.channel.request(RecallScript(0, KEY)) == cast("Any", "what it calls")
            assert route.learnt[1:] == [ScriptNews(flushed=True)]
            assert await supervisor.end() == 0

    asyncio.run(main())


@pytest.mark.usefixtures("quick")
def test_orders_are_followed_one_after_another_and_hold_up_no_question() -> None:
    async def main() -> None:
        async with a_worker() as (supervisor, route):
            ask = supervisor.channel.request
            route.compiled.set()
            assert await ask(Prepare(Packed.of((TRANSPARENT,)), 2, 2)) is None
            route.compiled.clear()
            orders = ask(Prepare(Packed.of((TRANSPARENT,)), 3, 3)), ask(Commit(3))
            assert await ask(RecallScript(0, KEY)) == cast("Any", "what it calls")
            assert route.done == ["prepare 2"]
            route.compiled.set()
            await asyncio.gather(*orders)
            assert route.done == ["prepare 2", "prepare 3", "commit"]
            assert await supervisor.end() == 0

    asyncio.run(main())


@pytest.mark.usefixtures("quick")
def test_the_kill_switch_does_not_wait_until_a_policy_is_prepared() -> None:
    async def main() -> None:
        async with a_worker() as (supervisor, route):
            ask = supervisor.channel.request
            prepared = ask(Prepare(Packed.of((TRANSPARENT,)), 2, 2))
            await ask(Switch(True))
            assert route.done == ["pause True"]
            assert not prepared.done()
            route.compiled.set()
            await asyncio.gather(prepared, ask(Commit(2)))
            assert route.done == ["pause True", "prepare 2", "commit"]
            assert await supervisor.end() == 0

    asyncio.run(main())


@pytest.mark.usefixtures("quick")
def test_a_worker_that_cannot_follow_ends() -> None:
    async def main() -> None:
        async with a_worker() as (supervisor, route):
            with pytest.raises(RequestFailed, match="cannot follow to policy generation 7"):
                await supervisor.channel.request(Commit(7))
            assert await supervisor.running == 1
            assert route.done == ["drain 0"]

    asyncio.run(main())


@pytest.mark.usefixtures("quick")
def test_a_worker_that_is_half_way_in_a_new_policy_ends() -> None:
    async def main() -> None:
        async with a_worker(commit=1) as (supervisor, route):
            route.compiled.set()
            assert await supervisor.channel.request(Prepare(Packed.of((TRANSPARENT,)), 2, 2)) is None
            with pytest.raises(RequestFailed, match="ZeroDivisionError: commit"):
                await supervisor.channel.request(Commit(2))
            assert await supervisor.running == 1

    asyncio.run(main())


@pytest.mark.usefixtures("quick")
def test_what_is_stored_is_asked_again_and_again() -> None:
    async def main() -> None:
        async with a_worker() as (supervisor, route):
            assert [await route.stored.get() for _ in range(2)] == [{"rule": Stored(7.0)}] * 2
            assert await supervisor.end() == 0

    asyncio.run(main())


@pytest.mark.usefixtures("quick")
def test_shares_come_back_and_are_given_up_when_no_more_come(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with a_worker() as (supervisor, route):
            while await route.leased.get() != {"rule": {}}:
                pass
            assert [await route.leased.get() for _ in range(3)] == [{"rule": {}}] * 3
            monkeypatch.setattr(worker_leases, "LOST_SECONDS", 0.0)
            while await route.leased.get() != {}:
                pass
            assert await supervisor.end() == 0

    asyncio.run(main())
