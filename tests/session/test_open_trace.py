"""Traced commands go their usual way, and their traces are correct."""

import random

import pytest

from proxy.commands.command import Command
from proxy.compression.frames import STRING, Codec, pack
from proxy.hotpath.plan.plan import JUDGE
from proxy.policy.compile import CompiledPolicy, Observer
from proxy.policy.decision import Decision
from proxy.rules.context import Context
from proxy.wire.request import COMPLETE, RequestLimits
from tests.conftest import seeds
from tests.policy.given import policy
from tests.session.given import RULES, Client, FakeRoute, call, route_with


def test_order_and_replies_are_the_same_and_each_trace_is_taken_once() -> None:
    plain, looked = Client(route_with(RULES)), Client(route_with(RULES, traces=200))
    for client in (plain, looked):
        commands = [call("GET", "a"), call("DEL", "b"), call("FLUSHALL"), call("SETNX", "c", 1), call("SET", "d", 1)]
        client.send(b"".join(commands * 4))
    sent = [client.route.upstream().taken() for client in (plain, looked)]
    assert sent[0] == sent[1]
    for client in (plain, looked):
        client.route.upstream().answer(*[b"$1\r\nx\r\n", b":1\r\n", b"+OK\r\n", b"+OK\r\n"] * 4)
    assert plain.heard() == looked.heard()
    assert plain.route.observed == []
    told = looked.route.observed
    assert len(told) == 20
    assert len({id(each) for each in told}) == len(told)


def test_the_plan_decides_about_a_traced_command_and_its_keys_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    names = "defaults: {mode: enforce}\nrules: {names: {names: {separator: ':', segments: 2..3}}}"
    plain, looked = Client(route_with(names)), Client(route_with(names, traces=200))
    judged: list[str] = []
    judge = CompiledPolicy.judge

    def noted(
        compiled: CompiledPolicy, command: Command, context: Context, observer: Observer | None = None
    ) -> Decision:
        judged.append(command.name)
        return judge(compiled, command, context, observer)

    monkeypatch.setattr(CompiledPolicy, "judge", noted)
    for client in (plain, looked):
        client.send(call("PING"))
        client.send(call("GET", "a:b") + call("SET", "a:c", 1) + call("SET", "a", 1))
    assert judged == ["SET"] * 2
    assert [client.route.counters.total for client in (plain, looked)] == [2, 2]
    assert looked.route.observed[-1].refused


def test_a_traced_command_costs_its_tokens_once() -> None:
    sent = []
    for traces in (0, 200):
        route = FakeRoute(policy("defaults: {mode: enforce}\nrules: {fair: {limits: {rate: 10/m}}}"), traces=traces)
        Client(route).send(call("GET", "a") * 13)
        sent.append(route.upstream().taken())
    assert sent == [call("GET", "a") * 10] * 2


@pytest.mark.parametrize(
    ("command", "reply", "line", "size"),
    [
        (call("GET", "a"), b"$5\r\nhello\r\n", b"$5\r\n", 11),
        (call("SETNX", "a", "v"), b"$-1\r\n", b"$-1\r\n", 4),  # the client gets :0
        (call("HGETALL", "a"), b"*2\r\n$1\r\na\r\n$1\r\nb\r\n", b"*2\r\n", 18),
    ],
)
def test_what_is_known_of_a_command(command: bytes, reply: bytes, line: bytes, size: int) -> None:
    client = Client(route_with(RULES, traces=200))
    client.send(command)  # the very first command is traced
    client.route.upstream().taken()
    client.route.moment += 0.25
    client.route.upstream().answer(reply)
    (trace,) = client.route.observed
    assert (trace.first_line, trace.bytes_out, trace.bytes_in) == (line, size, len(command))
    assert (trace.arrived, trace.sent, trace.answered) == (1000.0, 1000.0, 1000.25)


@pytest.mark.parametrize("line", [("MULTI",), ("FLUSHALL",), ("BLPOP", "q", "0"), ("KEYRAIL", "HELP")])
def test_what_has_no_reply_to_measure_is_told_at_once(line: tuple[str, ...]) -> None:
    client = Client(route_with(RULES, traces=200))
    client.send(call(*line))
    (trace,) = client.route.observed
    assert trace.first_line == b""
    assert trace.refused == (line == ("FLUSHALL",))


def test_a_client_that_leaves_takes_its_measurement_along() -> None:
    client = Client(route_with(RULES, traces=200))
    client.send(call("GET", "a"))
    client.on_close()
    client.route.upstream().answer(b"+x\r\n")
    assert client.route.upstream().complaints == []


def test_a_large_reply_is_reported_although_its_command_is_not_traced() -> None:
    client = Client(route_with(RULES))
    upstream = client.route.upstream()
    upstream.large = 100
    client.send(call("GET", "small") + call("HGET", "large", "f") + call("GET", "c"))
    upstream.taken()
    upstream.receive(b"$1\r\nx\r\n$500\r\n" + b"v" * 50)
    assert client.route.large == [(b"large", 508, 0)]
    upstream.receive(b"v" * 450 + b"\r\n+OK\r\n")
    client.send(call("MGET", "a", "b"))
    upstream.receive(b"*2\r\n$500\r\n" + b"v" * 50)
    assert len(client.route.large) == 1, "of which of its keys nobody knows"


COMPRESS = "rules: {docs: {compress: {keys: 'doc:*', above: 64B}, mode: enforce}}"
TEXT = b"some text " * 40
STORED = pack(TEXT, STRING, Codec.ZSTD, 3, 64)
BULK, PLAIN = b"$%d\r\n%b\r\n" % (len(STORED), STORED), b"$400\r\n%b\r\n" % TEXT


def test_a_reply_that_is_large_when_it_is_decompressed_is_reported_with_the_bytes_that_are_stored() -> None:
    client = Client(route_with(COMPRESS))
    upstream = client.route.upstream()
    upstream.large = 100
    client.send(call("GET", "doc:1") + call("GET", "doc:2"))
    upstream.taken()
    upstream.receive(BULK + BULK)
    assert client.heard() == PLAIN + PLAIN
    assert client.route.large == [(b"doc:1", len(PLAIN), len(BULK)), (b"doc:2", len(PLAIN), len(BULK))]


@pytest.mark.parametrize(
    ("line", "reply", "sizes"),
    [
        (("SET", "doc:1", TEXT), b"+OK\r\n", (len(call("SET", "doc:1", TEXT)), 5, len(STORED) + 8, 0)),
        (("SET", "other", TEXT), b"+OK\r\n", (len(call("SET", "other", TEXT)), 5, 0, 0)),
        (("GET", "doc:1"), BULK, (len(call("GET", "doc:1")), len(PLAIN), 0, len(BULK))),
        (("GET", "doc:1"), PLAIN, (len(call("GET", "doc:1")), len(PLAIN), 0, 0)),
        (("STRLEN", "doc:1"), BULK, (len(call("STRLEN", "doc:1")), 6, 0, 0)),
    ],
)
def test_a_trace_has_the_bytes_that_are_stored_beside_the_plain_ones(
    line: tuple[str | bytes, ...], reply: bytes, sizes: tuple[int, ...]
) -> None:
    client = Client(route_with(COMPRESS, traces=200))
    client.send(call(*line))
    client.route.upstream().answer(reply)
    (trace,) = client.route.observed
    assert (trace.bytes_in, trace.bytes_out, trace.stored_in, trace.stored_out) == sizes


def test_commands_of_the_slow_lane_are_traced_although_the_sampler_has_not_chosen_them() -> None:
    client = Client(route_with(RULES))
    client.route.follows_slow_lane = True
    client.send(call("GET", "a") + call("KEYS", "*"))
    for _ in "GET", "KEYS":
        for upstream in client.route.all_upstreams():
            while upstream.head is not None:
                upstream.answer(b"*0\r\n")
    (trace,) = client.route.observed
    assert (trace.command.name, trace.weight, trace.first_line) == ("KEYS", 0, b"*0\r\n")


MIXED = """
defaults: {mode: enforce}
rules:
  no-flush: {refuse: [FLUSHALL]}
  unlink: {replace: {DEL: UNLINK}}
  lifetime: {lifetime: {default: 5m}}
  names: {names: {separator: ':', segments: 2..3}, mode: audit}
  small: {sizes: {value: 10B}, mode: audit}
"""


def _random_command(chance: random.Random, number: int) -> tuple[bytes | str | int, ...]:
    key = chance.choice(("a:b", "a", "a:b:c", "a:b:c:d", "a:"))
    value = f"{number}".ljust(chance.choice((1, 20)), "x")
    return chance.choice(
        (
            ("GET", key),
            ("SET", key, value),
            ("SET", key, value, "EX", 60),
            ("SETEX", key, 60, value),
            ("HSET", key, "field", value),
            ("DEL", key),
            ("MGET", "a:b", key),
            ("FLUSHALL",),
            ("PING", value),
            ("ECHO", value),
        )
    )


def _is_judged(sent: bytes) -> bool:
    config = Client(route_with(MIXED)).effective_policy.config
    assert config.request.scan(sent, 0, RequestLimits(1 << 20, 1 << 29, 1 << 29)) == COMPLETE
    command_id = config.lookup.find(config.request)
    return config.plan.decide(command_id, config.request, sent, config.keys, config.counters) == JUDGE


@pytest.mark.parametrize("seed", seeds(20, 300))
def test_forms_of_what_only_the_rules_can_judge_are_exact_whatever_is_sampled(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    sent = [call(*_random_command(chance, number)) for number in range(200)]
    seen: list[tuple[bytes, int]] = []
    monkeypatch.setattr(
        FakeRoute, "see_form", lambda _, __, command, weight: seen.append((call(*command.argv), weight))
    )
    route = route_with(MIXED, traces=1)
    route.sampler.interval = chance.randrange(2, 9)
    left = sent
    while left:
        together = chance.choice((1, 5, 50))
        Client(route).send(b"".join(left[:together]))
        left = left[together:]
    judged = [each for each in sent if _is_judged(each)]
    assert [each for each, weight in seen if weight == 1] == judged
    assert len(judged) < len(seen), "the sampler chooses others, too, and each stands for several"


@pytest.mark.parametrize("traces", [0, 1])
def test_forms_of_inline_and_of_streamed_commands_are_exact(traces: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, int]] = []
    monkeypatch.setattr(FakeRoute, "see_form", lambda _, __, command, weight: seen.append((command.name, weight)))
    route = route_with(MIXED, traces=traces)
    Client(route).send(b"HSET a:b field inline\r\n")
    Client(route).send(call("SET", "a:b", "x" * (2 << 20)))
    assert seen == [("HSET", 1), ("SET", 1)]
