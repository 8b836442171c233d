"""The figures of a route have no key names under a policy that counts no keys."""

import pytest

from proxy.hotpath.sampler import Sampler
from proxy.net.expiries import Expiries
from proxy.net.tracer import Tracer
from tests.session.given import Client, route_with


@pytest.mark.parametrize(("counts", "told"), [("on", [b"report:7"]), ("off", [])])
def test_a_large_reply_tells_its_key_if_the_policy_counts_keys(counts: str, told: list[bytes]) -> None:
    route = route_with(f"rules: {{}}\ntraffic: {{count_keys: {counts}}}\n")
    tracer = Tracer(Sampler(1), Expiries(route.ask, lambda _: False))
    tracer.observe_large(Client(route), b"report:7", 5 << 20)
    tracer.another_second(1, route.counters.harvest(10))
    (interval,) = tracer.intervals()
    assert [figures.largest_key for _, figures in interval.patterns.ranked()] == told
