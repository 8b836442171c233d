"""Token buckets keep their rate however time passes, are forgotten only when full, and have the same sum when divided
among workers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.hotpath.upstream.in_flight import ReplySink
from proxy.rules.limits.token_buckets import Account, Quota, Shortage, TokenBuckets
from proxy.rules.rates import Rate
from proxy.rules.shared_state import Demand, Lease, deal
from tests.rules.given import spend

TEN_A_SECOND = Rate(10, 1, 10)


def account(commands: Rate | None = TEN_A_SECOND, bytes_: Rate | None = None, now: float = 0.0) -> Account:
    return Account(Quota(commands, bytes_), 1.0, now)


def wait(from_: Account, now: float, size: int = 1) -> float:
    """Pay for a command, or say how long to wait until that is possible."""
    shortage = from_.take(size, now)
    return 0.0 if shortage is None else shortage.seconds


def taken(from_: Account, now: float, tries: int = 100, size: int = 1) -> int:
    """How many of so many commands at one moment can be paid for."""
    return sum(wait(from_, now, size) == 0.0 for _ in range(tries))


def test_a_burst_then_the_rate() -> None:
    one = account()
    assert taken(one, 0.0) == 10
    assert taken(one, 0.05) == 0
    assert taken(one, 0.25) == 2
    assert taken(one, 100.0) == 10


def test_what_a_refused_client_is_told_to_wait_is_enough_and_not_too_much() -> None:
    one = account(Rate(6, 60, 2))
    assert taken(one, 0.0) == 2
    told = wait(one, 3.0)
    assert told == pytest.approx(7.0)
    assert wait(one, 3.0 + told - 0.1) > 0.0
    assert wait(one, 3.0 + told + 0.001) == 0.0


@given(st.lists(st.floats(0.0, 0.3), max_size=60))
def test_no_more_than_burst_and_rate(steps: list[float]) -> None:
    one, now, passed = account(), 0.0, 0
    for step in steps:
        now += step
        passed += taken(one, now, tries=7)
        assert passed <= 10 + 10 * now + 1e-6


def test_a_clock_that_is_set_back_gives_nothing_and_takes_nothing() -> None:
    one = account(now=100.0)
    assert taken(one, 100.0) == 10
    assert taken(one, 50.0) == 0
    assert taken(one, 50.5) == 5


def test_both_kinds_of_tokens_are_paid_or_neither() -> None:
    one = account(bytes_=Rate(100, 1, 100))
    assert wait(one, 0.0, 60) == 0.0
    shortage = one.take(60, 0.0)
    assert shortage is not None
    assert shortage.of == "bytes"
    assert shortage.seconds == pytest.approx(0.2)
    assert one.token_set.commands.left == 9
    assert one.token_set.volume.left == 40


def test_a_command_larger_than_the_burst_needs_a_full_bucket_and_leaves_it_negative() -> None:
    one = account(None, Rate(100, 1, 100))
    assert wait(one, 0.0, 250) == 0.0
    assert wait(one, 1.5) == pytest.approx(0.01)
    assert wait(one, 1.6) == 0.0


def test_what_the_hot_path_spends_is_spent() -> None:
    one = account()
    while spend(one.token_set, 1):
        pass
    assert wait(one, 0.0) == pytest.approx(0.1)


def test_silent_subjects_are_forgotten_and_too_many_share_one_account() -> None:
    buckets = TokenBuckets(Quota(TEN_A_SECOND), most_subjects=3)
    first = buckets.account("a", 0.0)
    first.members.add(ReplySink())
    for subject in "bc":
        assert taken(buckets.account(subject, 0.0), 0.0) == 10
    others = buckets.account("d", 0.0)
    assert buckets.account("e", 0.0) is others
    assert taken(others, 0.0) == 10
    assert buckets.account("b", 1.0) is not others
    # A second later all are full again: only the one with a client is still to be kept.
    assert buckets.account("f", 1.0) is not others
    assert buckets.account("a", 1.0) is first
    assert len(buckets) == 2


def test_a_worker_alone_and_unheard_has_an_equal_part() -> None:
    buckets = TokenBuckets(Quota(Rate(100, 1, 100)), workers=4)
    one = buckets.account("a", 0.0)
    assert taken(one, 0.0) == 25
    buckets.lease({"a": Lease(0.9, 0)}, 0.0)
    assert taken(one, 1.0, 200) == 90
    buckets.lease({}, 1.0)
    assert taken(one, 100.0, 200) == 25


def test_a_smaller_share_holds_at_once() -> None:
    one = account(Rate(100, 1, 100))
    one.lease(Lease(0.1, 7), 0.0)
    assert (taken(one, 0.0), one.elsewhere) == (10, 7)


@given(st.lists(st.builds(Demand, st.floats(0.0, 5.0), st.integers(0, 9)), min_size=1, max_size=8))
def test_shares_are_one_whole(demands: list[Demand]) -> None:
    leases = [deal(demands, worker) for worker in range(len(demands))]
    assert sum(lease.share for lease in leases) == pytest.approx(1.0)
    assert all(lease.share > 0.0 for lease in leases)
    for worker, lease in enumerate(leases):
        assert lease.elsewhere == sum(demand.clients for demand in demands) - demands[worker].clients
        if sum(max(0.02, demand.want) for demand in demands) <= 1.0:
            assert lease.share >= demands[worker].want


def test_demand_is_what_was_spent_and_what_was_refused() -> None:
    buckets = TokenBuckets(Quota(Rate(100, 1, 100)))
    busy, idle = buckets.account("busy", 0.0), buckets.account("idle", 0.0)
    demand = buckets.demand(0.25)
    for step in range(40):
        taken(busy, 0.25 * step, 50)
        demand = buckets.demand(0.25)
    assert list(demand) == ["busy"]
    assert demand["busy"].want == pytest.approx(2.0, rel=0.05)
    idle.members.add(ReplySink())
    assert "idle" not in buckets.demand(0.25)
    buckets.counts_clients = True
    assert buckets.demand(0.25)["idle"] == Demand(0.0, 1)


def sent(from_: Account, client: ReplySink, now: float) -> int:
    """How many of a hundred commands of a client go to Redis, none of which is answered."""
    passed = 0
    for _ in range(100):
        if from_.take(1, now) is None:
            client.pending_replies += 1
            passed += 1
    return passed


def test_places_are_free_when_replies_have_come() -> None:
    one, first, second = Account(Quota(concurrency=10), 1.0, 0.0), ReplySink(), ReplySink()
    one.members.update((first, second))
    second.pending_replies = 3
    assert sent(one, first, 1.0) == 7
    assert one.take(1, 2.0) == Shortage("places", 0.01)
    first.pending_replies -= 2
    # It is not counted again in the same millisecond.
    assert sent(one, second, 2.0005) == 0
    assert sent(one, second, 2.0015) == 2


def test_places_are_shared_by_workers() -> None:
    buckets, client = TokenBuckets(Quota(concurrency=10), workers=2), ReplySink()
    one = buckets.account("a", 0.0)
    one.members.add(client)
    assert sent(one, client, 1.0) == 5
    assert buckets.demand(0.25)["a"].want > 1.0
    buckets.lease({"a": Lease(0.8, 0)}, 2.0)
    assert sent(one, client, 2.0) == 3
