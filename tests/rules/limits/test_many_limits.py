"""A policy may have more limits than a plan has numbers for: each of them still refuses."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from proxy.hotpath.plan.plan import JUDGE, PASS, Plan
from proxy.policy.model import Mode
from proxy.rules.limits.rule import LimitsSettings
from proxy.rules.lowering import Lowering
from proxy.rules.rates import Rate
from tests.policy.test_plan_agrees import SMALL, compiled, planned, policy_of
from tests.rules.given import spec
from tests.session.given import Client, FakeRoute, call

NUMBERED = 256


@settings(max_examples=4, deadline=None)
@given(st.integers(1, 320), st.data())
@example(NUMBERED, None)
@example(NUMBERED + 1, None)
def test_each_of_many_limits_is_kept_to(number: int, data: st.DataObject | None) -> None:
    tight = number - 1 if data is None else data.draw(st.integers(0, number - 1))
    rates = [Rate(1 if place == tight else 100, 3600, 1 if place == tight else 100) for place in range(number)]
    policy = policy_of([(LimitsSettings(rate=rate), Mode.ENFORCE) for rate in rates])
    assert planned(compiled(policy, SMALL), [b"GET", b"k"]) == (PASS if number <= NUMBERED else JUDGE)
    route = FakeRoute(policy)
    client = Client(route)
    client.send(call("GET", "a"))
    route.upstream().answer(b"+a\r\n")
    client.send(call("GET", "b"))
    first, refused = client.heard().split(b"\r\n")[:2]
    assert first == b"+a"
    assert refused.startswith(b"-DENIED keyrail/rule-%d: more than 1 commands/h" % tight)


def test_the_last_number_is_a_byte() -> None:
    plan = Plan(2000)
    for token_set, judged in ((NUMBERED - 1, False), (NUMBERED, True)):
        lowering = Lowering(spec("GET"))
        lowering.token_set = token_set
        lowering.spend()
        assert lowering.settled is judged
        lowering.apply(spec("GET").id, plan, {}, {})
    assert plan.token_sets == [b"", b"\xff"]
