"""Which replica a client reads from: the one that it has, one that is near enough, one nearby."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from proxy.hotpath.replicas.reader_place import ReaderPlace, Replica, ReplicaGroup
from proxy.hotpath.upstream.in_flight import ReplySink
from proxy.net.replicas.replica_choice import Candidate, chosen
from tests.hotpath.gathering import Upstream

NOW = 10.0


def candidate(lag: float = 0.0, until: float = NOW + 1.0, since: int = 0, nearby: bool = False) -> Candidate:
    replica = Replica()
    replica.measured(1, lag, until)
    return Candidate(replica, Upstream([]), since, nearby)


def place(current: Candidate | None = None, version: int = 5) -> ReaderPlace:
    """A place that has chosen this one, at this version of its group."""
    made = ReaderPlace(ReplySink(), ReplicaGroup())
    made.group.version = version
    if current is not None:
        made.choose(current.replica, current.upstream)
    return made


def test_without_replicas_none_is_chosen() -> None:
    assert chosen([], place(), [1.0], NOW) is None


def test_clients_are_spread_evenly() -> None:
    found, random = [candidate() for _ in range(4)], Random(1)
    counts = Counter(id(chosen(found, place(), [1.0], NOW, random.random)) for _ in range(400))
    assert min(counts.values()) > 60


def test_a_client_stays_while_its_replica_is_near_enough() -> None:
    mine = candidate(lag=0.9)
    found = [mine, *(candidate() for _ in range(9))]
    assert all(chosen(found, place(mine), [1.0], NOW) is mine for _ in range(50))


@pytest.mark.parametrize("current", [candidate(lag=1.1), candidate(until=NOW - 1)], ids=["lags", "not heard of"])
def test_it_leaves_one_that_is_not(current: Candidate) -> None:
    other = candidate()
    assert chosen([current, other], place(current), [1.0], NOW) is other


def test_where_none_is_near_enough_it_stays() -> None:
    mine = candidate(lag=5.0)
    assert chosen([candidate(lag=4.0), mine], place(mine), [1.0], NOW) is mine


def test_the_smallest_bound_that_a_replica_is_within_decides() -> None:
    mine, near, far = candidate(lag=5.0), candidate(lag=0.5), candidate(lag=70.0)
    assert chosen([far, mine, near], place(mine), [1.0, 60.0], NOW) is near
    assert chosen([far, mine], place(mine), [1.0, 60.0], NOW) is mine
    assert chosen([far, mine], place(far), [1.0, 60.0], NOW) is mine


def test_one_nearby_comes_before_others_that_are_as_near() -> None:
    mine, nearby, late = candidate(), candidate(lag=0.9, nearby=True), candidate(lag=3.0, nearby=True)
    assert chosen([mine, nearby], place(mine), [1.0], NOW) is nearby
    assert chosen([mine, late], place(mine), [1.0], NOW) is mine


def test_clients_move_to_a_replica_that_comes_by_the_chance_that_spreads_them_evenly() -> None:
    random = Random(1)
    old, new = [candidate() for _ in range(3)], candidate(since=6)
    counts: Counter[int] = Counter()
    for number in range(400):
        mine = old[number % 3]
        got = chosen([*old, new], place(mine), [1.0], NOW, random.random)
        assert got in (mine, new), "nobody changes places between those that were there"
        counts[id(got)] += 1
    assert 60 < counts[id(new)] < 140
