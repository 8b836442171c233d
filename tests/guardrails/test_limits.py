"""Limits for applications: a command over the limit gets one error, in any form, that no client retries; all workers
share one limit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis

from tests.conftest import Fleet
from tests.guardrails.matrix import FORMS
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Wire, eventually, pack
from tests.rules.cases import SILENT

pytestmark = pytest.mark.skipif(DIRECT, reason="guardrails are Keyrail's own")

POLICY = """
keyrail: 1
defaults: {mode: enforce}
rules:
  fair: {limits: {per: client_name, rate: 40/d, commands: [GET]}}
  busy: {limits: {per: client_name, concurrency: 6}}
  few: {limits: {per: client_name, connections: 7}}
  rare: {limits: {rate: 3/d, commands: [STRLEN]}}
"""
"""Each test is somebody else, by its name."""


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("limits") / "policy.yaml"
    file.write_text(POLICY, encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def alone(fleet: Fleet, policy: Path) -> Keyrail:
    return fleet.keyrail("valkey-9.1", policy=policy)


@pytest.fixture(scope="module")
def two_workers(fleet: Fleet, policy: Path) -> Iterator[Keyrail]:
    keyrail = Keyrail(fleet.engine("valkey-9.1").url, policy=policy, workers=2)
    yield keyrail
    keyrail.close()


def named(keyrail: Keyrail, name: str) -> Wire:
    wire = keyrail.wire(3)
    assert wire.ask("CLIENT", "SETNAME", name) == b"+OK\r\n"
    return wire


def denied(wire: Wire, *words: str) -> bool:
    return wire.ask(*words).startswith(b"-DENIED")


@pytest.mark.parametrize("workers", ["alone", "two_workers"])
def test_all_clients_and_workers_have_one_rate_together(request: pytest.FixtureRequest, workers: str) -> None:
    keyrail: Keyrail = request.getfixturevalue(workers)
    passed = 0
    # So many that none of two workers is still without one of them; and a token may have come back meanwhile.
    for _ in range(20):
        with named(keyrail, "rate") as wire:
            passed += sum(not denied(wire, "GET", "key") for _ in range(41))
    assert 20 <= passed <= 41
    with named(keyrail, "rate") as wire:
        reply = wire.ask("GET", "key")
        assert reply.startswith(b"-DENIED keyrail/fair: more than 40 commands/d from this client name; retry after ")
        assert wire.ask("SET", "key", "v") == b"+OK\r\n"


def test_no_form_of_a_command_is_a_way_around(alone: Keyrail) -> None:
    with named(alone, "forms") as wire:
        for _ in range(41):
            wire.ask("GET", "key")
        for form, (encode, send) in FORMS.items():
            replies = send(wire, encode(["GET", "key"]))
            refused = [reply.startswith(b"-DENIED keyrail/fair: ") for reply in replies]
            assert sum(refused) == (form not in SILENT), (form, replies)
            assert not form.startswith("transaction") or replies[-1].startswith(b"-EXECABORT"), (form, replies)


def test_connections_on_other_workers_count(two_workers: Keyrail) -> None:
    with ExitStack() as held:
        for _ in range(7):
            assert not denied(held.enter_context(named(two_workers, "connections")), "SET", "key", "v")

        def one_more_is_too_many() -> bool:
            with named(two_workers, "connections") as wire:
                refused = denied(wire, "SET", "key", "v")
                assert not refused or wire.remaining() == []
                return refused

        eventually(lambda: all(one_more_is_too_many() for _ in range(8)))


def test_blocked_commands_are_under_way(alone: Keyrail) -> None:
    with named(alone, "blocked") as other, alone.wire() as observer:
        with ExitStack() as held:
            for _ in range(6):
                wire = held.enter_context(named(alone, "blocked"))
                wire.send(pack("BLPOP", "queue", "0"))
            eventually(lambda: b"blocked_clients:6" in observer.ask("INFO", "clients"))
            assert b"keyrail/busy: more than 6 commands in flight from this" in other.ask("SET", "key", "v")
        eventually(lambda: not denied(other, "SET", "key", "v"))


def test_redis_py_tells_it_and_does_not_try_again(alone: Keyrail) -> None:
    with redis.Redis.from_url(alone.url, client_name="redis-py") as client:
        for _ in range(3):
            client.strlen("key")
        with pytest.raises(redis.ResponseError, match=r"^DENIED keyrail/rare: .*; retry after \d+ ms$") as caught:
            client.strlen("key")
        assert type(caught.value) is redis.ResponseError
        with pytest.raises(redis.ResponseError, match="DENIED"):
            client.pipeline().set("key", "v").strlen("key").execute()
    eventually(lambda: alone.metric("keyrail_verdicts_total", rule="rare", what="refused") == 2)
