"""Questions to the supervisor: asked once for however many clients, kept for a moment, and no answer is an answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from proxy.net.consultation import KEPT_SECONDS, Consultation
from proxy.session.topic import Topic

RULES, INFO = Topic("rules"), Topic("info")


class Supervisor:
    """Is asked, and answers when a test says so; the test moves its clock, too."""

    def __init__(self) -> None:
        self.now = 100.0
        self.asked: list[Topic] = []
        self._replies: dict[Topic, asyncio.Future[dict[str, Any]]] = {}
        self.consultation = Consultation(lambda: self.now, self._ask)

    def _ask(self, topic: Topic) -> asyncio.Future[dict[str, Any]]:
        self.asked.append(topic)
        self._replies[topic] = asyncio.get_running_loop().create_future()
        return self._replies[topic]

    async def answer(self, topic: Topic, told: dict[str, Any] | Exception) -> None:
        reply = self._replies.pop(topic)
        if isinstance(told, Exception):
            reply.set_exception(told)
        else:
            reply.set_result(told)
        await asyncio.sleep(0)


class Seeker:
    """A client that waits."""

    def __init__(self, gone: bool = False) -> None:
        self.gone = gone
        self.arrivals = 0

    def arrived(self) -> None:
        self.arrivals += 1

    def close(self, cause: str) -> None:
        raise AssertionError(cause)


def test_one_question_for_all_and_an_answer_that_ages() -> None:
    async def main() -> None:
        supervisor, seekers = Supervisor(), [Seeker(), Seeker(), Seeker(gone=True)]
        consult = supervisor.consultation.consult
        for seeker in seekers:
            assert consult(seeker, RULES) is None
        assert supervisor.asked == [RULES]
        await supervisor.answer(RULES, {"age": 0.25, "rules": []})
        assert [seeker.arrivals for seeker in seekers] == [1, 1, 0]
        supervisor.now += KEPT_SECONDS
        assert consult(seekers[0], RULES) == {"age": 0.25 + KEPT_SECONDS, "rules": []}
        supervisor.now += 0.01
        assert consult(seekers[0], RULES) is None
        assert supervisor.asked == [RULES, RULES]

    asyncio.run(main())


@pytest.mark.parametrize("error", [TimeoutError(), ConnectionError()])
def test_no_answer_is_nothing_and_is_asked_again(error: Exception) -> None:
    async def main() -> None:
        supervisor, seeker = Supervisor(), Seeker()
        consult = supervisor.consultation.consult
        assert consult(seeker, INFO) is None
        await supervisor.answer(INFO, error)
        assert seeker.arrivals == 1
        assert consult(seeker, INFO) == {}
        supervisor.now += 1.0
        assert consult(seeker, INFO) is None
        await supervisor.answer(INFO, {"age": 0.0})
        assert (seeker.arrivals, consult(seeker, INFO)) == (2, {"age": 0.0})

    asyncio.run(main())


def test_other_options_are_another_question() -> None:
    async def main() -> None:
        supervisor = Supervisor()
        consult = supervisor.consultation.consult
        ten, hour = Topic("hotkeys", 10, "all"), Topic("hotkeys", 3600, "all")
        consult(Seeker(), ten)
        await supervisor.answer(ten, {"age": 0.0, "window": 10})
        assert consult(Seeker(), hour) is None
        assert consult(Seeker(), ten) == {"age": 0.0, "window": 10}
        assert supervisor.asked == [ten, hour]

    asyncio.run(main())
