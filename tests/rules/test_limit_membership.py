"""Clients that are alike share a membership, and nobody counts where it does not belong."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from proxy.commands.table import STANDARD
from proxy.hotpath.upstream.in_flight import ReplySink
from proxy.rules.context import Context
from proxy.rules.limit_membership import LimitMembership, LimitMemberships, Presence
from proxy.rules.limits.rule import LimitRule, LimitsSettings, Per
from proxy.rules.limits.token_buckets import Quota, TokenBuckets
from proxy.rules.memory import Memory
from proxy.rules.rates import Rate
from proxy.rules.rule import Binding
from proxy.rules.shared_state import Lease
from tests.rules.given import NO_WORDS, context

FEW = LimitsSettings(per=Per.ADDRESS, connections=2)
ALIKE = ("app", b"", "10.0.0.1")


class Asked:
    """Memberships in these limits, the number of times that they were asked, and the state of the limits."""

    def __init__(self, *settings: LimitsSettings) -> None:
        self.memory = Memory(workers=2)
        binding = Binding(STANDARD, memory=self.memory)
        self.rules = [LimitRule(f"limit{n}", each, NO_WORDS, binding) for n, each in enumerate(settings)]
        self.memberships = LimitMemberships(self.rules)
        self.times = 0

    def join(self, client: ReplySink, alike: tuple[str, bytes, str] = ALIKE) -> LimitMembership:
        user, name, address = alike

        def asked() -> Context:
            self.times += 1
            return replace(context(), user=user, client_name=name.decode(), address=address)

        return self.memberships.join(client, user, name, address, asked)

    def members(self, alike: tuple[str, bytes, str] = ALIKE) -> int:
        user, name, address = alike
        of = replace(context(), user=user, client_name=name.decode(), address=address)
        presence = self.rules[0].enter(of)
        assert presence.members is not None
        return len(presence.members)


def test_only_the_first_of_those_that_are_alike_asks_the_limits() -> None:
    asked, clients = Asked(FEW, replace(FEW, connections=9)), [ReplySink(), ReplySink()]
    first, second = map(asked.join, clients)
    assert (asked.times, first is second, asked.members()) == (1, True, 2)
    first.leave(clients[0])
    assert asked.members() == 1
    assert asked.join(clients[0]) is second
    assert asked.times == 1


@pytest.mark.parametrize(
    ("per", "other"),
    [
        (Per.USER, ("other", b"", "10.0.0.1")),
        (Per.CLIENT_NAME, ("app", b"other", "10.0.0.1")),
        (Per.ADDRESS, ("app", b"", "10.0.0.2")),
    ],
)
def test_another_user_name_or_address_is_another_subject(per: Per, other: tuple[str, bytes, str]) -> None:
    asked = Asked(replace(FEW, per=per))
    one, two = ReplySink(), ReplySink()
    assert asked.join(one).token_sets != asked.join(two, other).token_sets
    assert (asked.times, asked.members(), asked.members(other)) == (2, 1, 1)


def test_one_client_too_many_has_a_membership_of_its_own_and_a_place_that_is_free_is_taken() -> None:
    asked, clients = Asked(FEW), [ReplySink() for _ in range(4)]
    shared = asked.join(clients[0])
    assert asked.join(clients[1]) is shared
    surplus = asked.join(clients[2])
    assert (set(surplus.surplus), set(shared.surplus), asked.members()) == ({"limit0"}, set(), 2)
    assert not surplus.token_sets[0].places.left
    surplus.told(["limit0"])
    assert surplus.token_sets == shared.token_sets
    surplus.leave(clients[2])
    assert asked.members() == 2
    shared.leave(clients[1])
    assert asked.join(clients[3]) is shared


def test_clients_of_other_workers_count_for_those_that_come_later() -> None:
    asked = Asked(FEW)
    asked.join(ReplySink())
    asked.memory.each(TokenBuckets)["limit0"].lease({"10.0.0.1": Lease(0.5, 1)}, 0.0)
    assert asked.join(ReplySink()).surplus == {"limit0"}


@pytest.mark.parametrize("alike", [("u" * 257, b"", "a"), ("u", b"n" * 257, "a")])
def test_no_membership_is_kept_for_a_long_name(alike: tuple[str, bytes, str]) -> None:
    asked = Asked(replace(FEW, connections=9))
    for _ in range(2):
        asked.join(ReplySink(), alike)
    assert (asked.times, asked.members(alike)) == (2, 2)


def test_no_more_memberships_are_kept_than_a_thousand() -> None:
    asked = Asked(FEW)
    first = ReplySink()
    asked.join(first)
    for number in range(1_000):
        asked.join(ReplySink(), ("app", b"", str(number)))
    asked.join(ReplySink())
    assert (asked.times, asked.members()) == (1_002, 2)


def test_whose_account_is_forgotten_gets_a_new_one() -> None:
    buckets = TokenBuckets(Quota(Rate(1, 1, 1)), most_subjects=2)
    memberships = LimitMemberships([Buckets(buckets)])
    client = ReplySink()
    join = memberships.join
    forgotten = join(client, "a", b"", "", lambda: replace(context(), user="a"))
    forgotten.leave(client)
    for user in "bc":
        join(ReplySink(), user, b"", "", partial(replace, context(), user=user))
    again = join(client, "a", b"", "", lambda: replace(context(), user="a"))
    assert again is not forgotten
    assert again.token_sets != forgotten.token_sets


def test_those_for_whom_there_is_no_account_share_no_membership() -> None:
    buckets = TokenBuckets(Quota(Rate(1, 1, 1)), most_subjects=1)
    memberships = LimitMemberships([Buckets(buckets)])
    first, other = ReplySink(), ReplySink()
    held = memberships.join(first, "a", b"", "", lambda: replace(context(), user="a"))
    others = memberships.join(other, "b", b"", "", lambda: replace(context(), user="b", now=1.0))
    held.leave(first)
    others.leave(other)
    own = memberships.join(other, "b", b"", "", lambda: replace(context(), user="b", now=9.0))
    assert own.token_sets != others.token_sets


class Buckets:
    """A limit for each user."""

    name = "limit"

    def __init__(self, buckets: TokenBuckets) -> None:
        self.buckets = buckets

    def enter(self, of: Context) -> Presence:
        return self.buckets.account(of.user, of.now).presence
