"""Limits as applications meet them: one error for what is too much, that no client repeats a command for, and one limit
for all workers together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Wire, eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="guardrails are Keyrail's own")

POLICY = """
keyrail: 1
defaults: {mode: enforce}
rules:
  fair: {limits: {rate: 40/d, commands: [GET]}}
  few: {limits: {per: client_name, connections: 4}}
  busy: {limits: {per: user, concurrency: 6}}
"""


@pytest.fixture
def keyrail(
    new_engine: Callable[..., Engine],
    new_keyrail: Callable[..., Keyrail],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Keyrail:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    return new_keyrail(new_engine().url, policy=policy, workers=request.param)


def denied(wire: Wire, *words: str) -> bool:
    return wire.ask(*words).startswith(b"-DENIED")


@pytest.mark.parametrize("keyrail", [1, 2], indirect=True, ids=["one-worker", "two-workers"])
def test_all_clients_and_workers_have_one_rate_together(keyrail: Keyrail) -> None:
    passed = 0
    for name in "abcdefgh":
        with keyrail.wire() as wire:
            wire.ask("CLIENT", "SETNAME", name)
            passed += sum(not denied(wire, "GET", "key") for _ in range(41))
    assert passed <= 41  # with one for the time that passes
    assert passed >= 20
    with keyrail.wire() as wire:
        reply = wire.ask("GET", "key")
        assert reply.startswith(b"-DENIED keyrail/fair: more than 40 commands/d in all; retry after ")
        assert wire.ask("SET", "key", "v") == b"+OK\r\n"


@pytest.mark.parametrize("keyrail", [2], indirect=True, ids=["two-workers"])
def test_connections_on_other_workers_count(keyrail: Keyrail) -> None:
    held = [keyrail.wire() for _ in range(4)]
    assert not any(denied(wire, "SET", "key", "v") for wire in held)

    def one_more_is_too_many() -> bool:
        with keyrail.wire() as wire:
            refused = denied(wire, "SET", "key", "v")
            assert not refused or wire.remaining() == []
            return refused

    eventually(lambda: all(one_more_is_too_many() for _ in range(8)))
    for wire in held:
        wire.close()


@pytest.mark.parametrize("keyrail", [1], indirect=True, ids=["one-worker"])
def test_blocked_commands_are_under_way(keyrail: Keyrail) -> None:
    blocked = [keyrail.wire() for _ in range(6)]
    for number, wire in enumerate(blocked):
        wire.ask("CLIENT", "SETNAME", f"blocked-{number}")
        wire.say("BLPOP", "queue", "0")
    with keyrail.wire() as other:
        eventually(lambda: denied(other, "SET", "key", "v"))
        assert b"keyrail/busy: more than 6 commands under way from this user; retry" in other.ask("SET", "key", "v")
        for wire in blocked:
            wire.close()
        eventually(lambda: not denied(other, "SET", "key", "v"))


@pytest.mark.parametrize("keyrail", [1], indirect=True, ids=["one-worker"])
def test_redis_py_tells_it_and_does_not_try_again(keyrail: Keyrail) -> None:
    with redis.Redis.from_url(keyrail.url) as client:
        for _ in range(40):
            client.get("key")
        with pytest.raises(redis.ResponseError, match=r"^DENIED keyrail/fair: .*; retry after \d+ ms$") as caught:
            client.get("key")
        assert type(caught.value) is redis.ResponseError
        with pytest.raises(redis.ResponseError, match="DENIED"):
            client.pipeline().set("key", "v").get("key").execute()
    eventually(lambda: keyrail.metric("keyrail_verdicts_total", rule="fair", what="refused") == 2)
