"""After a pause of the process, a deadline comes behind the bytes that had arrived before."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable

import pytest
import uvloop

from proxy.net.deadline import Deadline

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
        later = asyncio.Event()
        Deadline(loop, 0.02, later.set)
        await later.wait()
        return events

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(cancelled()) == []
