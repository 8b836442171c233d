"""A circuit breaker for applications: while Redis hangs or is down they get an error at once, and when it is back they
reach it again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="guardrails are Keyrail's own")

POLICY = """
keyrail: 1
defaults: {mode: enforce}
rules:
  ill: {breaker: {failing_for: 200ms, window: 200ms, cool_down: 200ms}}
"""


@pytest.mark.parametrize("how", ["hangs", "is gone"])
def test_redis_fails_and_comes_back(
    new_engine: Callable[..., Engine], new_keyrail: Callable[..., Keyrail], tmp_path: Path, how: str
) -> None:
    engine = new_engine()
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    keyrail = new_keyrail(engine.url, policy=policy)

    def open_circuits() -> float:
        return keyrail.metric("keyrail_breaker_open", rule="ill")

    with keyrail.wire() as wire:
        assert wire.ask("SET", "key", "v") == b"+OK\r\n"
        if how == "hangs":
            engine.freeze()
        else:
            engine.kill()
        eventually(lambda: open_circuits() == 1)
        assert wire.ask("GET", "key").startswith(b"-DENIED keyrail/ill: Redis is failing; retry after ")
        keyrail.await_line("breaker ill is open: Redis is failing")
        if how == "hangs":
            engine.thaw()
        else:
            engine.start()
        eventually(lambda: open_circuits() == 0)
        assert wire.ask("SET", "key", "w") == b"+OK\r\n"
