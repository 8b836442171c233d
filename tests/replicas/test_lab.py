"""The lab does to replicas what it says."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.conftest import kind_named, rest_is_long
from tests.engines import Engine
from tests.replicas.lab import Lab
from tests.resp import eventually


@pytest.fixture(scope="module", params=rest_is_long("redis-7.0", "valkey-9.1"))
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    with Lab(kind_named(str(request.param))) as started:
        yield started


def has(replica: Engine, value: str) -> bool:
    return replica.do("GET", "k") == value.encode()


def test_a_stream_that_is_held_back_leaves_the_link_up(lab: Lab) -> None:
    first, second = lab.replicas
    lab.streams[0].hold()
    lab.primary.do("SET", "k", "held")
    eventually(lambda: has(second, "held"))
    assert not has(first, "held")
    assert first.info("replication")["master_link_status"] == "up"
    lab.mend()
    assert has(first, "held")


def test_a_slow_stream_arrives_late(lab: Lab) -> None:
    lab.streams[0].delay(0.3)
    begin = time.monotonic()
    lab.primary.do("SET", "k", "slow")
    eventually(lambda: has(lab.replicas[0], "slow"))
    assert time.monotonic() - begin >= 0.3
    lab.mend()


def test_a_replica_that_has_lost_its_primary_answers_nothing_if_told_so(lab: Lab) -> None:
    replica = lab.replicas[1]
    lab.primary.do("SET", "k", "there")
    replica.do("CONFIG", "SET", "replica-serve-stale-data", "no")
    lab.streams[1].cut()
    replica.await_info("replication", "master_link_status", "down")
    with replica.wire() as wire:
        assert wire.ask("GET", "k").startswith(b"-MASTERDOWN")
    lab.mend()
    assert has(replica, "there")
