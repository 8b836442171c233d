"""Requests to the supervisor: sent once for any number of clients, cached for a moment, and an error is an answer,
too."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from proxy.net.policy.supervisor_requests import KEPT_SECONDS, SupervisorRequests
from proxy.session.ports.info_query import InfoQuery
from tests.net.waiters import Waiter

RULES, INFO = InfoQuery("rules"), InfoQuery("info")


class Supervisor:
    """Is asked, and answers when a test says so; the test moves its clock, too."""

    def __init__(self) -> None:
        self.now = 100.0
        self.asked: list[InfoQuery] = []
        self._replies: dict[InfoQuery, asyncio.Future[dict[str, Any]]] = {}
        self.requests = SupervisorRequests(lambda: self.now, self._ask)

    def _ask(self, query: InfoQuery) -> asyncio.Future[dict[str, Any]]:
        self.asked.append(query)
        self._replies[query] = asyncio.get_running_loop().create_future()
        return self._replies[query]

    async def answer(self, query: InfoQuery, told: dict[str, Any] | Exception) -> None:
        reply = self._replies.pop(query)
        if isinstance(told, Exception):
            reply.set_exception(told)
        else:
            reply.set_result(told)
        await asyncio.sleep(0)


def test_one_question_for_all_and_an_answer_that_ages() -> None:
    async def main() -> None:
        supervisor, waiters = Supervisor(), [Waiter(), Waiter(), Waiter()]
        waiters[2].gone = True
        group_info = supervisor.requests.group_info
        for waiter in waiters:
            assert group_info(waiter, RULES) is None
        assert supervisor.asked == [RULES]
        await supervisor.answer(RULES, {"age": 0.25, "rules": []})
        assert [waiter.arrivals for waiter in waiters] == [1, 1, 0]
        supervisor.now += KEPT_SECONDS
        assert group_info(waiters[0], RULES) == {"age": 0.25 + KEPT_SECONDS, "rules": []}
        supervisor.now += 0.01
        assert group_info(waiters[0], RULES) is None
        assert supervisor.asked == [RULES, RULES]

    asyncio.run(main())


@pytest.mark.parametrize("error", [TimeoutError(), ConnectionError()])
def test_no_answer_is_nothing_and_is_asked_again(error: Exception) -> None:
    async def main() -> None:
        supervisor, waiter = Supervisor(), Waiter()
        group_info = supervisor.requests.group_info
        assert group_info(waiter, INFO) is None
        await supervisor.answer(INFO, error)
        assert waiter.arrivals == 1
        assert group_info(waiter, INFO) == {}
        supervisor.now += 1.0
        assert group_info(waiter, INFO) is None
        await supervisor.answer(INFO, {"age": 0.0})
        assert (waiter.arrivals, group_info(waiter, INFO)) == (2, {"age": 0.0})

    asyncio.run(main())


def test_other_options_are_another_question() -> None:
    async def main() -> None:
        supervisor = Supervisor()
        group_info = supervisor.requests.group_info
        ten, hour = InfoQuery("hotkeys", 10, "all"), InfoQuery("hotkeys", 3600, "all")
        group_info(Waiter(), ten)
        await supervisor.answer(ten, {"age": 0.0, "window": 10})
        assert group_info(Waiter(), hour) is None
        assert group_info(Waiter(), ten) == {"age": 0.0, "window": 10}
        assert supervisor.asked == [ten, hour]

    asyncio.run(main())
