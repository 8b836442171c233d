"""How often the servers behind a route are looked at, and how often the log tells of the same problem."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Iterator

import pytest

from proxy.net.connection.connect import why
from proxy.net.follow.watch import Looking
from tests.net.clock import Clock
from tests.resp import until


@pytest.mark.parametrize("problem", ["", "it is down"])
def test_reasons_to_look_do_not_hasten_the_looks_while_there_is_a_problem(
    problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    async def main() -> None:
        wanted = asyncio.Event()
        looking = Looking(
            "r", asyncio.get_running_loop(), wanted, print, log_as="", well="all is well", unsettled_seconds=60.0
        )

        async def look() -> None:
            looking.report({problem} - {""})
            wanted.set()

        async def has_news() -> bool:
            return False

        task = asyncio.ensure_future(looking.go_on(look, has_news))
        while len(pauses) < 5:
            await sleep(0)
        task.cancel()

    monkeypatch.setattr(asyncio, "sleep", pause)
    asyncio.run(main())
    assert all(50.0 < each <= 60.0 if problem else each <= 0.02 for each in pauses)


class Told:
    """What a `Looking` has logged."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, "keyrail.route")
        self._caplog = caplog
        self.clock = Clock()
        self.looking = Looking("url", self.clock, asyncio.Event(), print, log_as="r", well="all is well")

    def lines(self) -> list[str]:
        """Those since the last call."""
        found = [line.removeprefix("route r: ") for line in self._caplog.messages]
        self._caplog.clear()
        return found


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Iterator[Told]:
    found = Told(caplog)
    yield found
    found.clock.close()


def test_each_problem_is_a_line_once_and_the_end_of_the_last_one_is_another(told: Told) -> None:
    for problems in ({"a"}, {"a", "b"}, {"b"}, {"b", "c"}, set[str]()):
        told.looking.report(problems, {"c"})
        told.clock.now += 1.0
        told.looking.report(problems, {"c"})
    assert told.lines() == ["a", "b", "all is well"]
    told.looking.report({"c"}, {"c"})
    told.looking.report(set())
    assert told.lines() == []


def test_a_problem_that_comes_and_goes_does_not_fill_the_log(told: Told) -> None:
    for _ in range(1000):
        for problems in ({"a"}, {"b"}, set[str]()):
            told.looking.report(problems)
            told.clock.now += 0.1
    assert told.lines() == 3 * ["a", "b", "all is well"]
    assert told.looking.problem == ""


def test_a_problem_that_stays_is_told_in_the_end(told: Told) -> None:
    for _ in range(4):
        told.looking.report({"a"})
        told.looking.report(set())
    told.lines()
    told.looking.report({"a"})
    assert told.lines() == []
    assert told.looking.problem == "url: a"
    told.clock.now += 600.0
    told.looking.report({"a"})
    told.looking.report(set())
    assert told.lines() == ["a", "all is well"]


def test_a_look_that_fails_again_and_again_does_not_fill_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[str] = []

    async def main() -> None:
        wanted = asyncio.Event()
        looking = Looking("url", asyncio.get_running_loop(), wanted, counted.append, log_as="r", well="all is well")

        async def look() -> None:
            wanted.set()
            raise ValueError("it cannot look")

        async def has_news() -> bool:
            return False

        task = asyncio.ensure_future(looking.go_on(look, has_news))
        await until(lambda: len(counted) >= 10)
        task.cancel()

    monkeypatch.setattr("proxy.net.follow.watch._UNSETTLED_SECONDS", 0.0)
    monkeypatch.setattr("proxy.net.follow.watch._LEAST_SECONDS", 0.0)
    asyncio.run(main())
    assert caplog.messages == ["url: looking at the servers failed"] * 3


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
            "its name cannot be resolved: Name or service not known",
        ),
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)"), "Connection refused"),
        (TimeoutError(), "no answer within --connect-timeout"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_why_a_server_could_not_be_asked_is_said_in_words(error: OSError, reason: str) -> None:
    assert why(error) == reason
