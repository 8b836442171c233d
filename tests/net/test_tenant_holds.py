"""Writes of a tenant are held from one moment on, in all workers, and what is under way then comes before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest

from proxy.net.pool.tenant_holds import TenantHolds
from proxy.policy.tenants import Tenant
from tests.net.test_write_pauses import Client
from tests.resp import until


def session(prefix: bytes = b"acme:", pending: int = 0, blocked: int = 0, *, streams: bool = False) -> Any:
    """A client, with what of it is under way."""
    return SimpleNamespace(
        tenant=Tenant(prefix) if prefix else None,
        gone=False,
        blocked=blocked,
        state=SimpleNamespace(blocked=blocked, transaction=None),
        sender=SimpleNamespace(pending_replies=pending),
        intake=SimpleNamespace(streams=lambda: streams),
    )


class Bench:
    """The holds of one worker, whose shared connections answer at once."""

    def __init__(self, *clients: Any) -> None:
        self.changes: list[bool] = []
        self.settles = True
        self.settled: list[float] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.forgotten: list[bytes] = []
        self.loop = asyncio.get_running_loop()
        self.holds = TenantHolds(self.loop, clients, self.start, self.settle, self.changed, self.forgotten.append)

    def start(self, work: Any) -> None:
        self.tasks.append(self.loop.create_task(work))

    def changed(self) -> None:
        self.changes.append(bool(self.holds))

    async def settle(self, seconds: float) -> bool:
        self.settled.append(self.loop.time())
        return seconds > 0 and self.settles

    async def until_told(self) -> None:
        while any(not task.done() for task in self.tasks):
            await asyncio.wait(self.tasks)


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


def test_from_the_first_moment_on_and_no_other_tenants() -> None:
    async def main() -> None:
        bench, client = Bench(session(), session(b"globex:", pending=9), session(b"", pending=9)), Client()
        hold = bench.holds.begin(client, b"acme:", 5.0)
        seen = [bench.holds.holds(prefix) for prefix in (b"acme:", b"acme:x:", b"acme", b"globex:", b"")]
        assert (seen, bench.changes, hold.begun) == ([True, True, True, False, False], [True], None)
        await client.sent.wait()
        assert (hold.begun, len(bench.settled)) == ("", 1)
        hold.end(client)
        assert (bench.holds.holds(b"acme:"), bench.changes, bench.forgotten) == (False, [True, False], [b"acme:"])
        await bench.until_told()
        assert hold.ended == ""

    run(main)


@pytest.mark.parametrize(
    ("busy", "why"),
    [
        (session(pending=1), "not been answered"),
        (session(pending=2, blocked=1), "not been answered"),
        (session(streams=True), "not been answered"),
        (session(pending=1, blocked=1), ""),
    ],
)
def test_what_is_under_way_is_answered_first(busy: Any, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.net.pool.tenant_holds._SETTLE_SECONDS", 0.02)

    async def main() -> None:
        bench, client = Bench(busy), Client()
        hold = bench.holds.begin(client, b"acme:", 5.0)
        await client.sent.wait()
        assert hold.begun is not None
        assert (why in hold.begun, bool(hold.begun), bool(bench.settled)) == (True, bool(why), not why)
        hold.end()
        if why:
            late, asks = Client(), bench.holds.begin
            hold = asks(late, b"acme:", 5.0)
            bench.loop.call_soon(answer, busy)
            await late.sent.wait()
            assert hold.begun == ""

    run(main)


def test_what_clients_have_sent_that_have_left_since_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.net.pool.tenant_holds._LEFT_SECONDS", 0.05)

    async def main() -> None:
        bench = Bench()
        for prefix, waits in ((b"acme:", True), (b"globex:", False)):
            bench.holds.has_left(prefix)
            left, client = bench.loop.time(), Client()
            hold = bench.holds.begin(client, b"acme:", 5.0)
            await client.sent.wait()
            assert (hold.begun, bench.settled[-1] - left >= 0.05) == ("", waits)
            hold.end()
        bench.settles = False
        hold, client = bench.holds.begin(late := Client(), b"acme:", 5.0), late
        await client.sent.wait()
        assert hold.begun == "a command of its clients has not been answered in 1 s"

    run(main)


def answer(client: Any) -> None:
    client.sender.pending_replies = client.blocked = client.state.blocked = 0
    client.intake.streams = lambda: False


def test_the_other_workers_have_their_say() -> None:
    async def main() -> None:
        bench, client = Bench(), Client()
        told = {"hold": "one is being replaced", "end": ""}
        asked: list[tuple[object, ...]] = []

        async def others(what: str, *rest: object) -> str:
            asked.append((what, *rest))
            if told[what] == "lost":
                raise ConnectionError("gone")
            return told[what]

        bench.holds.hold_others = lambda *rest: others("hold", *rest)
        bench.holds.end_others = lambda *rest: others("end", *rest)
        for hold_says, end_says in (("one is being replaced", ""), ("", "it has not"), ("lost", "lost")):
            told["hold"], told["end"] = hold_says, end_says
            hold = bench.holds.begin(client, b"acme:", 5.0)
            hold.end(client)  # its client may leave before it is known
            await bench.until_told()
            lost = "another worker of this Keyrail does not hold them (gone)"
            assert [hold.begun, hold.ended] == [lost if each == "lost" else each for each in told.values()]
        assert [each[0] for each in asked] == ["hold", "end"] * 3
        assert len({each[1] for each in asked}) == 3
        assert {each[2] for each in asked} == {b"acme:"}

    run(main)


def test_a_hold_that_nobody_ends_ends_by_itself_and_says_so() -> None:
    async def main() -> None:
        bench, client = Bench(), Client()
        hold = bench.holds.begin(client, b"acme:", 0.0)
        await client.sent.wait()
        await until(lambda: not bench.holds)
        hold.end(client)
        await bench.until_told()
        assert hold.ended == "a worker of this Keyrail has not held its writes all the time"
        assert cast("object", bench.changes) == [True, False]

    run(main)
