"""What a replica has answered, against what its primary has."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from proxy.hotpath.replicas.reader_place import Replica
from proxy.net.config.address import parse_upstream
from proxy.net.config.endpoint import Endpoint
from proxy.net.replicas import replica_watch
from proxy.net.replicas.replica_history import Told
from proxy.net.replicas.replica_watch import ReplicaWatch
from proxy.net.replicas.watched_replicas import ReplicaState, WatchedPrimary, WatchedReplica
from proxy.net.topology.primary import Primary
from proxy.session.ports.pool_key import Node


def primary_at(*offsets: int) -> tuple[WatchedPrimary, WatchedReplica]:
    """A primary that had these offsets at the seconds 0, 1, 2 …"""
    primary = WatchedPrimary(Node(0))
    for second, offset in enumerate(offsets):
        primary.told(primary.group.begin_look(), float(second), Told(False, "a", offset))
    return primary, WatchedReplica(Node(1), Endpoint("replica", 6379), Replica())


def replica_told(offset: int, *, stream: str = "a", linked: bool = True, syncing: bool = False) -> Told:
    return Told(True, stream, offset, linked, syncing)


@pytest.mark.parametrize(
    ("told", "state"),
    [
        (replica_told(300), ReplicaState(reached=True, lag=0, lag_seconds=0.0)),
        (replica_told(320), ReplicaState(reached=True, lag=0, lag_seconds=0.0)),
        (replica_told(299), ReplicaState(reached=True, lag=1, lag_seconds=1.5)),
        (replica_told(100), ReplicaState(reached=True, lag=200, lag_seconds=2.5)),
        (replica_told(99), ReplicaState(reached=True, lag=201)),
        (replica_told(300, linked=False), ReplicaState(reached=True, linked=False)),
        (replica_told(300, linked=False, syncing=True), ReplicaState(reached=True, linked=False, syncing=True)),
        (replica_told(300, stream="b"), ReplicaState(reached=True, foreign=True)),
        (Told(False, "a", 300), ReplicaState(reached=True, linked=False, foreign=True)),
        (None, ReplicaState(reached=False)),
    ],
)
def test_the_lag_of_a_replica(told: Told | None, state: ReplicaState) -> None:
    primary, replica = primary_at(100, 200, 300)
    primary.measured(replica, told, 2.5)
    assert replica.state == state
    assert (replica.readable.covered >= 0) == (state.lag_seconds is not None)


def test_the_primary_is_no_replica_of_its_own() -> None:
    primary = WatchedPrimary(Node(0))
    primary.told(primary.group.begin_look(), 0.0, Told(False, "a", 100, process="p"))
    replica = WatchedReplica(Node(1), Endpoint("replica", 6379), Replica())
    for process, itself in (("p", True), ("q", False), ("", False)):
        primary.measured(replica, Told(False, "a", 100, process=process), 0.5)
        assert replica.state is not None
        assert (replica.state.is_primary, replica.state.foreign) == (itself, not itself)
        assert replica.readable.covered < 0


def test_a_replica_of_a_primary_that_hangs_grows_old() -> None:
    primary, replica = primary_at(100)
    primary.measured(replica, replica_told(100), 0.1)
    assert replica.readable.until == pytest.approx(1.0)
    assert replica.readable.lag == pytest.approx(0.1)


def test_clients_look_anew_when_a_replica_comes_or_leaves_and_else_stay() -> None:
    primary, replica = primary_at(100)
    versions = []
    for told in (replica_told(100), replica_told(100), None, None, replica_told(100)):
        primary.measured(replica, told, 0.1)
        versions.append(primary.group.version)
    assert versions == [1, 1, 2, 2, 3]


def test_a_replica_that_has_begun_anew_is_another_one_for_clients() -> None:
    primary, replica = primary_at(100, 200)
    primary.measured(replica, replica_told(200), 1.1)
    before = replica.readable
    primary.measured(replica, replica_told(150), 1.2)
    assert replica.readable is not before
    assert before.covered < 0


def test_another_replication_stream_is_another_group_and_looks_go_on() -> None:
    primary, replica = primary_at(100, 200)
    primary.replicas[replica.endpoint] = replica
    primary.measured(replica, replica_told(200), 1.1)
    before, readable = primary.group, replica.readable
    version = before.version
    primary.told(before.begin_look(), 2.0, Told(False, "b", 10))
    assert primary.group is not before
    assert (primary.group.looks, before.version) == (3, version + 1)
    assert (readable.covered, replica.readable.covered) == (-1, -1)
    primary.measured(replica, replica_told(200), 2.1)
    assert replica.state is not None
    assert replica.state.foreign
    primary.measured(replica, replica_told(10, stream="b"), 2.2)
    assert replica.readable.covered == 3


@pytest.mark.parametrize(
    "url", ["redis+sentinel://user:secret@10.0.0.9:26379/mymaster", "redis://user:secret@db.example:6379"]
)
def test_behind_a_failover_nobody_is_asked_for_the_former_primary(url: str) -> None:
    """Its node has no address any more: the login of the servers would go to a Sentinel, or to another primary."""
    asked: list[Endpoint] = []

    async def look_again() -> None:
        primary = Primary(parse_upstream(url))
        primary.adopt(Endpoint("10.0.0.1", 6379))
        watch: Any = ReplicaWatch(primary, asyncio.get_running_loop(), 1.0, lambda _: None)
        watch.follow()
        (watched,) = watch.primaries.values()
        watched.group.want()
        primary.adopt(Endpoint("10.0.0.2", 6379))

        async def ask_all(targets: Iterable[Endpoint], *_: object) -> dict[Endpoint, object]:
            asked.extend(targets)
            return {}

        watch._links.ask_all = ask_all
        await watch._look_again()

    asyncio.run(look_again())
    assert asked == []


def test_a_replica_that_hangs_is_left_within_a_second() -> None:
    """It may have answered a moment ago, just before a look. What it owes is sent again then."""
    assert replica_watch._READ_SECONDS + replica_watch._ANSWER_SECONDS < 1.0
