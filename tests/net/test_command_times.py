"""How long each command takes, from two looks at what Redis tells of its commands, while replies take long."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from proxy.net.policy.command_times import CommandTimesAtRedis
from tests.conftest import rest_is_long
from tests.engines import Engine
from tests.resp import Wire


class Asking:
    """Redis answers at once with what it says, or later with `reply`."""

    def __init__(self, tells: Callable[[Sequence[bytes]], bytes] | None = None) -> None:
        self.asked = 0
        self.tells = tells
        self.waiting: Callable[[Sequence[bytes] | None], None] | None = None
        self.times = CommandTimesAtRedis(self._ask)

    def _ask(self, questions: Sequence[Sequence[bytes]], answered: Callable[[Sequence[bytes] | None], None]) -> None:
        self.asked += 1
        if self.tells is None:
            self.waiting = answered
        else:
            answered([self.tells(question) for question in questions])

    def seconds(self, number: int, slowest: float) -> None:
        for _ in range(number):
            self.times.another_second(slowest)


def stats(process: str, **calls: tuple[int, int]) -> Callable[[Sequence[bytes]], bytes]:
    lines = [
        f"cmdstat_{name.replace('_of_', '|')}:calls={count},usec={took},x=1" for name, (count, took) in calls.items()
    ]
    return lambda question: (f"run_id:{process}" if question[1] == b"server" else "\r\n".join(lines)).encode() + b"\r\n"


def test_it_is_the_average_between_two_answers_of_one_process() -> None:
    redis = Asking(stats("a", keys=(10, 1000), config_of_get=(1, 5), get=(7, 7)))
    redis.seconds(2, 0.01)
    assert redis.times.seconds == {}
    redis.tells = stats("a", keys=(30, 601_000), config_of_get=(2, 6), get=(7, 7), sort=(1, 2))
    redis.seconds(2, 0.01)
    assert redis.times.seconds == pytest.approx({"KEYS": 0.03, "CONFIG GET": 1e-6, "SORT": 2e-6})
    redis.tells = stats("a", keys=(5, 5))
    redis.seconds(2, 0.01)
    assert redis.times.seconds == {}, "CONFIG RESETSTAT"
    redis.tells = stats("b", keys=(50, 5000))
    redis.seconds(2, 0.01)
    assert redis.times.seconds == {}, "another process"


def test_it_is_asked_only_while_replies_take_long_and_one_question_at_a_time() -> None:
    redis = Asking()
    redis.seconds(50, 0.004)
    assert redis.asked == 0
    redis.seconds(20, 0.006)
    assert redis.asked == 1
    assert redis.waiting is not None
    redis.waiting(None)
    redis.seconds(1, 0.006)
    assert redis.asked == 2
    redis.waiting([b"-NOPERM this user has no permissions\r\n"] * 2)
    redis.seconds(100, 0.0)
    assert redis.asked <= 8
    assert redis.times.seconds == {}


@pytest.mark.parametrize("kind", rest_is_long("valkey-9.1", "redis-6.2", "redis-7.0", "redis-8.2"))
def test_what_engines_tell(new_engine: Callable[..., Engine], kind: str) -> None:
    engine = new_engine(kind)
    with Wire(engine.address) as wire:
        redis = Asking(lambda question: wire.ask(*question))
        redis.seconds(2, 1.0)
        for _ in range(3):
            wire.ask("KEYS", "none*")
            wire.ask("CONFIG", "GET", "hz")
        redis.seconds(2, 1.0)
        found = redis.times.seconds
        assert 0 < found["KEYS"] < 1
        assert 0 < found.get("CONFIG GET", found.get("CONFIG", 0.0)) < 1
