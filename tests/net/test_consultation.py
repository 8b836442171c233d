"""Questions to the supervisor: asked once for however many clients, kept for a moment, and given up in time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from proxy.net.consultation import KEPT_SECONDS, PATIENCE_SECONDS, Consultation
from proxy.session.topic import Topic

RULES, INFO = Topic("rules"), Topic("info")


class Loop:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.later: list[tuple[float, Callable[..., None], tuple[object, ...]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[..., None], *args: object) -> None:
        self.later.append((self.now + delay, callback, args))

    def advance(self, seconds: float) -> None:
        self.now += seconds
        due = [each for each in self.later if each[0] <= self.now]
        self.later = [each for each in self.later if each[0] > self.now]
        for _, callback, args in due:
            callback(*args)


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
    loop, asked = Loop(), list[Topic]()
    consultation = Consultation(cast("asyncio.AbstractEventLoop", loop), asked.append)
    seekers = [Seeker(), Seeker(), Seeker(gone=True)]
    for seeker in seekers:
        assert consultation.consult(seeker, RULES) is None
    assert asked == [RULES]
    consultation.told(RULES, {"age": 0.25, "rules": []})
    assert [seeker.arrivals for seeker in seekers] == [1, 1, 0]
    loop.advance(KEPT_SECONDS)
    assert consultation.consult(seekers[0], RULES) == {"age": 0.25 + KEPT_SECONDS, "rules": []}
    loop.advance(0.01)
    assert consultation.consult(seekers[0], RULES) is None
    assert asked == [RULES, RULES]


def test_no_answer_in_time_is_nothing_and_a_late_one_is_not_taken_for_the_next() -> None:
    loop, asked = Loop(), list[Topic]()
    consultation = Consultation(cast("asyncio.AbstractEventLoop", loop), asked.append)
    seeker = Seeker()
    assert consultation.consult(seeker, INFO) is None
    loop.advance(PATIENCE_SECONDS)
    assert seeker.arrivals == 1
    assert consultation.consult(seeker, INFO) == {}
    loop.advance(1.0)
    assert consultation.consult(seeker, INFO) is None
    consultation.told(INFO, {"age": 0.0})
    loop.advance(PATIENCE_SECONDS - 0.1)
    assert consultation.consult(seeker, INFO) is None
    loop.advance(0.1)
    assert seeker.arrivals == 2, "the first question's time is over, not the last one's"


def test_other_options_are_another_question() -> None:
    loop, asked = Loop(), list[Topic]()
    consultation = Consultation(cast("asyncio.AbstractEventLoop", loop), asked.append)
    ten, hour = Topic("hotkeys", 10, "all"), Topic("hotkeys", 3600, "all")
    consultation.consult(Seeker(), ten)
    consultation.told(ten, {"age": 0.0, "window": 10})
    assert consultation.consult(Seeker(), hour) is None
    assert consultation.consult(Seeker(), ten) == {"age": 0.0, "window": 10}
    assert asked == [ten, hour]
