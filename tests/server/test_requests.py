"""Requests between processes: each ends once, with its own reply or with an error that says why there is none."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, assert_never

import pytest
import uvloop

from proxy.server.requests import (
    Channel,
    Notification,
    PeerLost,
    ProcessRequest,
    RequestError,
    RequestFailed,
    RequestTimeout,
    TypedReply,
    first_known,
    outcomes,
)
from tests.resp import PATIENCE_SECONDS


@dataclass(frozen=True, slots=True)
class Double(ProcessRequest[int]):
    """Answered at once."""

    seconds: ClassVar[float] = PATIENCE_SECONDS
    number: int


@dataclass(frozen=True, slots=True)
class Wait(ProcessRequest[str]):
    """Answered when the test says so."""

    seconds: ClassVar[float] = PATIENCE_SECONDS
    name: str


@dataclass(frozen=True, slots=True)
class Hurry(ProcessRequest[str]):
    """The same, with little time."""

    seconds: ClassVar[float] = 0.02
    name: str


@dataclass(frozen=True, slots=True)
class Break(ProcessRequest[object]):
    """Cannot be answered, or its reply not be sent."""

    seconds: ClassVar[float] = PATIENCE_SECONDS
    answered: bool


@dataclass(frozen=True, slots=True)
class Note(Notification):
    text: str


Asked: TypeAlias = Double | Wait | Hurry | Break


class Peer:
    """The process that is asked."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.released = asyncio.Event()
        self.notes: list[str] = []

    async def answer(self, request: Asked) -> TypedReply:
        match request:
            case Double(number):
                return request.answer(2 * number)
            case Wait(name) | Hurry(name):
                self.begun.append(name)
                await self.released.wait()
                return request.answer(name)
            case Break(answered=True):
                return request.answer(lambda: "functions cannot be pickled")
            case Break():
                raise ZeroDivisionError("no")
            case _:
                assert_never(request)

    def take(self, notification: Note) -> None:
        self.notes.append(notification.text)


async def nothing_asked(_request: object) -> TypedReply:
    raise AssertionError("nobody asks this end")


@contextlib.asynccontextmanager
async def asking() -> AsyncIterator[tuple[Channel, Peer, Channel]]:
    """A channel to a peer, the peer, and the peer's own channel; closing that is the peer's end."""
    here, there = socket.socketpair()
    ours, theirs, peer = await Channel.over(here), await Channel.over(there), Peer()
    loop = asyncio.get_running_loop()
    serving = [
        loop.create_task(ours.serve(nothing_asked, lambda note: None)),
        loop.create_task(theirs.serve(peer.answer, peer.take)),
    ]
    async with asyncio.timeout(PATIENCE_SECONDS):
        yield ours, peer, theirs
        await theirs.close()
        await ours.close()
        await asyncio.wait(serving)


async def all_begun(channel: Channel) -> None:
    """The peer has begun to answer all that was asked before."""
    await channel.request(Double(0))


Test: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


def on_both_loops(test: Test) -> Callable[..., None]:
    """Run a test on asyncio's loop, which the supervisor has, and on uvloop, which the workers have."""

    def run_test(run: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        run(test())

    parametrized: Callable[..., None] = pytest.mark.parametrize("run", [asyncio.run, uvloop.run])(run_test)
    return parametrized


@on_both_loops
async def test_each_gets_its_own_reply_and_nothing_is_left() -> None:
    async with asking() as (channel, _, _):
        replies = [channel.request(Double(number)) for number in range(100)]
        assert await asyncio.gather(*replies) == [2 * number for number in range(100)]
        assert channel._pending == {}


@on_both_loops
async def test_answers_begin_in_order_and_a_slow_one_delays_nobody() -> None:
    async with asking() as (channel, peer, _):
        slow = [channel.request(Wait(name)) for name in "abcdef"]
        channel.notify(Note("between"))
        assert await channel.request(Double(4)) == 8
        assert (peer.begun, peer.notes) == (list("abcdef"), ["between"])
        assert not any(each.done() for each in slow)
        peer.released.set()
        assert await asyncio.gather(*slow) == list("abcdef")


@on_both_loops
async def test_no_reply_in_time_and_a_late_one_is_not_taken_for_the_next() -> None:
    async with asking() as (channel, peer, _):
        with pytest.raises(RequestTimeout, match=r"^no answer in 0\.02 seconds$"):
            await channel.request(Hurry("late"))
        after = channel.request(Wait("next"))
        await all_begun(channel)
        assert peer.begun == ["late", "next"]
        peer.released.set()
        assert await after == "next"
        assert channel._pending == {}


@on_both_loops
async def test_when_the_peer_ends_all_that_wait_end_at_once() -> None:
    async with asking() as (channel, _, theirs):
        waiting = [channel.request(Wait(name)) for name in "ab"]
        await all_begun(channel)
        began = time.monotonic()
        await theirs.close()
        assert [type(each) for each in await outcomes(waiting)] == [PeerLost, PeerLost]
        with pytest.raises(PeerLost, match="the process has ended"):
            await channel.request(Double(1))
        channel.notify(Note("to nobody"))
        assert time.monotonic() - began < PATIENCE_SECONDS / 2


@on_both_loops
async def test_who_stops_serving_waits_for_nothing_and_answers_nothing_any_more() -> None:
    async with asking() as (channel, _, theirs):
        waiting = channel.request(Wait("a"))
        await all_begun(channel)
        (answering,) = theirs._answering
        await theirs.close()
        await channel.close()
        channel.notify(Note("to nobody, and uvloop raises at a closed end"))
        assert isinstance((await outcomes([waiting]))[0], PeerLost)
        await asyncio.wait([answering])
        assert answering.cancelled()


@pytest.mark.parametrize("answered", [False, True])
def test_an_exception_of_the_peer_is_told_and_logged_there(answered: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with asking() as (channel, _, _):
            with pytest.raises(RequestFailed, match="pickle" if answered else "^ZeroDivisionError: no$"):
                await channel.request(Break(answered))
            assert await channel.request(Double(2)) == 4

    asyncio.run(main())
    assert [record.getMessage() for record in caplog.records] == ["cannot answer Break"]
    assert caplog.records[0].exc_info


def test_a_request_that_nobody_awaits_is_no_mistake() -> None:
    async def main() -> None:
        complaints: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, complaint: complaints.append(complaint))
        async with asking() as (channel, _, theirs):
            channel.request(Hurry("forgotten"))
            channel.request(Break(answered=False))
            channel.request(Wait("given up")).cancel()
            assert isinstance((await outcomes([channel.request(Hurry("last"))]))[0], RequestTimeout)
            await theirs.close()
            channel.request(Double(1))
        gc.collect()
        assert complaints == []

    asyncio.run(main())


def replied(value: str | RequestError | None) -> asyncio.Future[str | None]:
    future: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
    if isinstance(value, RequestError):
        future.set_exception(value)
    else:
        future.set_result(value)
    return future


@pytest.mark.parametrize(
    ("told", "known"),
    [
        ([], None),
        ([None, None], None),
        ([None, "known", None], "known"),
        ([PeerLost("gone"), None, RequestTimeout("late")], None),
        ([PeerLost("gone"), "known"], "known"),
    ],
)
def test_the_first_that_knows_is_heard(told: list[str | RequestError | None], known: str | None) -> None:
    async def main() -> str | None:
        return await first_known([replied(each) for each in told])

    assert asyncio.run(main()) == known


def test_who_knows_is_heard_while_others_still_think() -> None:
    async def main() -> str | None:
        never: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        return await asyncio.wait_for(first_known([never, replied("known")]), PATIENCE_SECONDS)

    assert asyncio.run(main()) == "known"


def test_an_error_is_not_the_last_word() -> None:
    async def main() -> str | None:
        later: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.01, later.set_result, "known")
        return await first_known([replied(PeerLost("gone")), later])

    assert asyncio.run(main()) == "known"


def test_outcomes_keep_the_order_of_the_requests() -> None:
    async def main() -> None:
        assert await outcomes([]) == []
        lost = PeerLost("gone")
        assert await outcomes([replied("a"), replied(lost), replied(None)]) == ["a", lost, None]

    asyncio.run(main())
