"""The CPU time of a command, from two looks at what Redis tells of itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from proxy.net.policy.command_cost import EVERY, CommandCost


class Redis:
    """It answers with what a test says."""

    def __init__(self) -> None:
        self.asked = 0
        self.replies: list[bytes] | None = None
        self.cost = CommandCost(self._ask)

    def _ask(self, _questions: object, answered: Callable[[Sequence[bytes] | None], None]) -> None:
        self.asked += 1
        answered(self.replies)

    def tells(self, cpu: float, commands: int, name: str = "used_cpu_user_main_thread") -> float:
        own = name.endswith("main_thread")
        system = "used_cpu_sys_main_thread" if own else "used_cpu_sys"
        lines = f"{name}:{cpu:.6f}\r\n{system}:1.0\r\ntotal_commands_processed:{commands}\r\n"
        self.replies = [b"$9\r\n# CPU\r\n", lines.encode()]
        for _ in range(EVERY):
            self.cost.another_second()
        return self.cost.seconds


def test_it_is_what_was_spent_for_what_has_run() -> None:
    redis = Redis()
    assert redis.tells(10.0, 1_000_000) == 0.0
    assert redis.tells(12.0, 2_000_000) == pytest.approx(2e-6)
    assert redis.asked == 2


@pytest.mark.parametrize("name", ["used_cpu_user_main_thread", "used_cpu_user"])
def test_engines_that_do_not_tell_of_the_main_thread(name: str) -> None:
    redis = Redis()
    redis.tells(10.0, 1_000_000, name)
    assert redis.tells(11.0, 2_000_000, name) == pytest.approx(1e-6)


def test_what_an_idle_redis_uses_is_no_cost_of_commands() -> None:
    redis = Redis()
    redis.tells(10.0, 1_000_000)
    redis.tells(11.0, 2_000_000)
    assert redis.tells(15.0, 2_000_100) == pytest.approx(1e-6)
    assert redis.tells(16.0, 4_000_000) == pytest.approx(2.5e-6)


def test_a_restarted_redis_counts_anew() -> None:
    redis = Redis()
    redis.tells(10.0, 1_000_000)
    redis.tells(11.0, 2_000_000)
    assert redis.tells(1.0, 1000) == pytest.approx(1e-6)
    assert redis.tells(3.0, 1_001_000) == pytest.approx(2e-6)


def test_a_redis_that_tells_nothing() -> None:
    redis = Redis()
    redis.replies = None
    redis.cost.another_second()
    redis.replies = [b"-NOPERM\r\n", b"-NOPERM\r\n"]
    redis.cost.another_second()
    assert redis.cost.seconds == 0.0
