"""The figures of a route have no key names under a policy that counts no keys."""

import pytest

from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from proxy.hotpath.counting.sampler import Sampler
from proxy.net.policy import tracer as module
from proxy.net.policy.command_times import CommandTimesAtRedis
from proxy.net.policy.evidence_recorder import EvidenceRecorder
from proxy.net.policy.expiries import Expiries
from proxy.net.policy.tracer import Tracer
from proxy.session.ports.open_trace import OpenTrace
from proxy.traffic.redaction import Redaction
from tests.session.given import Client, route_with


@pytest.mark.parametrize(("counts", "told"), [("on", [b"report:7"]), ("off", [])])
def test_a_large_reply_tells_its_key_if_the_policy_counts_keys(counts: str, told: list[bytes]) -> None:
    route = route_with(f"rules: {{}}\ntraffic: {{count_keys: {counts}}}\n")
    tracer = Tracer(
        Sampler(1),
        Expiries(route.ask, lambda _: False),
        CommandTimesAtRedis(lambda _, answered: None),
        EvidenceRecorder(Redaction()),
    )
    tracer.observe_large(Client(route), b"report:7", 5 << 20, 0)
    tracer.another_second(1, route.counters.harvest(10))
    (interval,) = tracer.intervals()
    assert [figures.largest_key for _, figures in interval.patterns.ranked()] == told


def test_a_tenants_keys_are_as_redis_has_them_and_the_schema_knows_them_without_the_prefix() -> None:
    route = route_with("schema: {cart: {key: 'cart:{id:int}'}}\nrules: {}\n")
    asked: list[object] = []
    tracer = Tracer(
        Sampler(1),
        Expiries(lambda _, questions, answered: asked.append(questions), lambda _: True),
        CommandTimesAtRedis(lambda _, answered: None),
        EvidenceRecorder(Redaction()),
    )
    for key in (b"cart:7", b"user:7"):
        trace = OpenTrace(tracer, Client(route), Command(STANDARD, [b"GET", key]), 1, 20, 1.0, prefix=b"acme:")
        trace.begins(b"$1\r\n")
        trace.comes(7, True)
    tracer.another_second(1, route.counters.harvest(10))
    (interval,) = tracer.intervals()
    assert {*interval.keys.found} == {b"acme:cart:7", b"acme:user:7"}
    assert {*interval.patterns.found} == {"cart", "acme:user:{int}"}
    assert asked == [[[b"PTTL", b"acme:cart:7"]], [[b"PTTL", b"acme:user:7"]]]


def test_connections_that_have_ended_are_counted_by_client_and_few_clients_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    route = route_with("rules: {}\n")
    tracer = Tracer(
        Sampler(1),
        Expiries(route.ask, lambda _: False),
        CommandTimesAtRedis(lambda _, answered: None),
        EvidenceRecorder(Redaction()),
    )
    monkeypatch.setattr(module, "_MOST_ENDED", 2)
    for name in (b"a", b"a", b"b", b"c"):
        client = Client(route)
        client.names = client.names._replace(client=name)
        tracer.left(client, 3)
    tracer.another_second(1, route.counters.harvest(10))
    (interval,) = tracer.intervals()
    found = {client[2]: (each.connections, each.commands) for client, each in interval.ended.found.items()}
    assert found == {"a": (2, 6), "b": (1, 3)}


def test_few_commands_of_the_slow_lane_are_traced_each_second_and_none_without_traces() -> None:
    route = route_with("rules: {}\n")
    for traces, most in ((5, module._MOST_SLOW), (0, 0)):
        sampler, times = Sampler(traces), CommandTimesAtRedis(lambda _, answered: None)
        tracer = Tracer(sampler, Expiries(route.ask, lambda _: False), times, EvidenceRecorder(Redaction()))
        assert sum(tracer.follows_slow() for _ in range(1000)) == most
        tracer.another_second(1, route.counters.harvest(10))
        assert tracer.follows_slow() is (most > 0)


def test_an_edited_reply_has_the_bytes_that_the_client_gets_and_the_time_until_it_was_here() -> None:
    route = route_with("schema: {doc: {key: 'doc:{id:int}'}}\nrules: {}\n")
    tracer = Tracer(
        Sampler(1),
        Expiries(lambda _, questions, answered: None, lambda _: False),
        CommandTimesAtRedis(lambda _, answered: None),
        EvidenceRecorder(Redaction()),
    )
    trace = OpenTrace(tracer, Client(route), Command(STANDARD, [b"GET", b"doc:7"]), 1, 20, 1.0)
    answered: list[float] = []

    def decompressed(_frame: bytes) -> bytes:
        answered.append(trace.answered)
        return b"$5000\r\n%b\r\n" % bytes(5000)

    assert len(trace.around(decompressed)(b"$5\r\nsmall\r\n")) == 5009
    tracer.another_second(1, route.counters.harvest(10))
    (interval,) = tracer.intervals()
    ((_, figures),) = interval.patterns.ranked()
    assert (figures.largest, figures.largest_key) == (5009, b"doc:7")
    assert answered == [trace.answered] != [0.0]
