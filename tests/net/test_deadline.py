"""After a pause of the process, a deadline comes behind the bytes that had arrived before, and behind the exchanges
that the pause held up."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable

import pytest
import uvloop

from proxy.net.connection.deadline import Deadline, unanswered

LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [uvloop.new_event_loop, asyncio.new_event_loop]


async def happened(seconds: float, pause: float) -> list[str]:
    """The event that comes first: the deadline, or a reply that arrives while the process stands still over another
    one."""
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        events: list[str] = []
        both = loop.create_future()

        def note(event: str) -> None:
            events.append(event)
            if len(events) == 3:
                both.set_result(None)

        def hear() -> None:
            note(ours.recv(5).decode())
            if events == ["first"]:
                theirs.send(b"reply")
                time.sleep(pause)  # the process stands still

        loop.add_reader(ours, hear)
        Deadline(loop, seconds, lambda: note("over"))
        theirs.send(b"first")
        await both
        loop.remove_reader(ours)
        return events


@pytest.mark.parametrize("new_loop", LOOPS, ids=["uvloop", "asyncio"])
def test_a_pause_makes_no_reply_late(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(happened(0.01, 0.05)) == ["first", "reply", "over"]


@pytest.mark.parametrize("new_loop", LOOPS, ids=["uvloop", "asyncio"])
def test_a_deadline_can_be_cancelled_until_it_acts(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def cancelled() -> list[str]:
        loop, events = asyncio.get_running_loop(), list[str]()
        deadline = Deadline(loop, 0.01, lambda: events.append("over"))
        loop.call_later(0.01, deadline.cancel)
        loop.call_soon(time.sleep, 0.02)  # both are due in one turn, however busy the machine is
        later = asyncio.Event()
        Deadline(loop, 0.02, later.set)
        await later.wait()
        return events

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(cancelled()) == []


SECONDS = 0.2


async def exchange(messages: int, pauses: list[tuple[float, float]], seconds: float) -> int:
    """How many of a server that answers at once and one that never does are late, where the process stands still after
    so many seconds for so many."""
    loop = asyncio.get_running_loop()
    ours, theirs = await asyncio.open_connection(sock=(ends := socket.socketpair())[0])
    reader, writer = await asyncio.open_connection(sock=ends[1])

    async def ask() -> None:
        await asyncio.sleep(0.04)  # so that the first pause comes in the middle
        for _ in range(messages):
            theirs.write(b"PING\n")
            await ours.readline()

    async def serve() -> None:
        while line := await reader.readline():
            writer.write(line)

    serving = loop.create_task(serve())
    for after, pause in pauses:
        loop.call_later(after, time.sleep, pause)
    questions = {loop.create_task(ask()), silent := loop.create_task(asyncio.Event().wait())}
    late = await unanswered({*questions}, seconds)
    assert silent in late
    for task in (*questions, serving):
        task.cancel()
    await asyncio.gather(*questions, serving, return_exceptions=True)
    theirs.close()
    writer.close()
    return len(late)


@pytest.mark.parametrize("pauses", [[(0.03, 0.3)], [(0.05, 0.21)], [(0.0, 0.1), (0.02, 0.2)]], ids=str)
@pytest.mark.parametrize("new_loop", LOOPS, ids=["uvloop", "asyncio"])
def test_a_pause_makes_no_exchange_late(
    new_loop: Callable[[], asyncio.AbstractEventLoop], pauses: list[tuple[float, float]]
) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(exchange(4, pauses, SECONDS)) == 1, "only the one that never answers"


@pytest.mark.parametrize("new_loop", LOOPS, ids=["uvloop", "asyncio"])
def test_a_process_that_is_paused_all_the_time_does_not_wait_for_ever(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def waits() -> float:
        loop = asyncio.get_running_loop()

        def stall() -> None:
            time.sleep(0.1)
            loop.call_later(0.001, stall)

        stall()
        began, silent = loop.time(), loop.create_task(asyncio.Event().wait())
        assert await unanswered({silent}, SECONDS) == {silent}
        silent.cancel()
        return loop.time() - began

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(waits()) > SECONDS
