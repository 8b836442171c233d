"""Streamed values: judged before they are sent if possible, else before they can run."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from proxy.commands.table import STANDARD
from proxy.policy.model import TRANSPARENT
from proxy.session.commands.exec_abort import ABORTING_COMMAND
from tests.conftest import seeds
from tests.policy.given import policy
from tests.session.given import LARGE, Client, FakeRoute, call, route_with

OK = b"+OK\r\n"
BIG = "x" * (LARGE + 36)
RULES = """
defaults: {mode: enforce}
rules:
  no-append: {refuse: [APPEND]}
  lifetime: {lifetime: {default: 5m}}
  keys: {names: {separator: ":", segments: 2..3}}
traffic: {count_keys: on}
"""
LAST = call("SET", "a:b", BIG)
BEFORE_OTHERS = call("MSET", "a:b", BIG, "c:d", "v" * 30, "e:f", BIG)


def cuts(data: bytes) -> Iterator[list[bytes]]:
    yield [data]
    yield [data[i : i + 1] for i in range(len(data))]
    for i in range(1, len(data)):
        yield [data[:i], data[i:]]


def total(route: FakeRoute) -> bytes:
    """Everything that was sent to any upstream."""
    return b"".join(upstream.taken() for upstream in [*route.all_upstreams(), *route.idle])


def send_in_two(client: Client, data: bytes) -> None:
    """A value is streamed when it is announced before it has arrived."""
    client.send(data[: data.rindex(b"xxx")])
    client.send(data[data.rindex(b"xxx") :])


@pytest.mark.parametrize("name", ["MOD.FIRST", "MOD.SECOND"])
def test_a_value_on_its_way_while_an_engine_without_its_command_comes_is_of_one_that_nobody_knows(name: str) -> None:
    """Its id means another command there, or none."""
    described = [[each, 3, [b"write"], 1, 1, 1, [b"@write"], [], [], []] for each in (b"mod.first", b"mod.second")]
    other = STANDARD.completed_by([[b"mod.other", -2, [b"write"], 0, 0, 0, [b"@write"], [], [], []]])
    route = FakeRoute()
    route.put_in_force(TRANSPARENT, STANDARD.completed_by(described))
    client = Client(route)
    sent = call(name, "c", BIG)
    client.send(sent[:-20])
    assert client.own.partial is not None
    route.put_in_force(TRANSPARENT, other)
    client.adopt()
    client.send(sent[-20:])
    assert client.own.taken() == sent
    client.own.answer(b"-ERR unknown command 'MOD'\r\n")
    assert client.heard() == b"-ERR unknown command 'MOD'\r\n"
    assert [place for place, _ in client.intake.calls.take() if place >= len(STANDARD.specs)] == []


@pytest.mark.parametrize("sent", [LAST, BEFORE_OTHERS, call("SET", BIG, "v"), call("ECHO", BIG)])
def test_every_byte_passes_however_it_is_cut(sent: bytes) -> None:
    around = call("GET", "a:b")
    for pieces in cuts(around + sent + around):
        route = FakeRoute()
        client = Client(route)
        passed = b""
        for piece in pieces:
            client.send(piece)
            passed += total(route)
            for upstream in route.all_upstreams():
                # No reply to a streamed value is expected before all of it is there.
                while upstream.head is not None:
                    upstream.answer(OK)
            passed += total(route)
        assert passed == around + sent + around
        assert client.heard() == OK * 3
        assert (
            client.sender.pending_replies,
            client.intake.unfinished,
            client.intake.unread(),
            client.state.upstream,
        ) == (
            0,
            None,
            0,
            None,
        )


def test_a_rewrite_is_made_before_the_value_is_sent() -> None:
    for pieces in cuts(LAST + call("GET", "a:b")):
        route = route_with(RULES)
        client = Client(route)
        for piece in pieces:
            client.send(piece)
        sent = total(route)
        assert sent == call("SET", "a:b", BIG, "EX", 300) + call("GET", "a:b")


def test_the_reply_of_a_streamed_rewrite_is_mapped_back() -> None:
    route = route_with(RULES)
    client = Client(route)
    send_in_two(client, call("SETNX", "a:b", BIG))
    assert client.own.taken() == call("SET", "a:b", BIG, "NX", "EX", 300)
    client.own.answer(b"$-1\r\n")
    assert client.heard() == b":0\r\n"


def test_a_refused_value_that_comes_last_is_never_sent() -> None:
    for pieces in cuts(call("APPEND", "a:b", BIG) + call("GET", "a:b")):
        route = route_with(RULES)
        client = Client(route)
        for piece in pieces:
            client.send(piece)
        assert total(route) == call("GET", "a:b")
        assert client.heard().startswith(b"-DENIED keyrail/no-append")
        assert client.cause is None


def test_a_refused_value_with_more_behind_it_never_runs() -> None:
    sent = call("MSET", "a:b", BIG, "badname", "v")
    for pieces in cuts(sent + call("GET", "a:b")):
        route = route_with(RULES)
        client = Client(route)
        for piece in pieces:
            client.send(piece)
        heard = client.heard()
        assert heard.startswith(b"-DENIED keyrail/keys")
        assert heard.count(b"\r\n") == 1
        for upstream in route.discarded:
            upstream.closed = False
            assert sent not in upstream.taken()
        assert total(route) == call("GET", "a:b")
        assert route.released == []


def test_a_refusal_that_comes_too_late_for_a_transaction_ends_the_client() -> None:
    route = route_with(RULES)
    client = Client(route)
    client.say("MULTI")
    own = client.own
    own.answer(OK)
    send_in_two(client, call("MSET", "a:b", BIG, "badname", "v"))
    assert client.cause == "refused_while_streaming"
    assert own in [*route.discarded, *route.closed_gracefully]


@pytest.mark.parametrize("mode", ["ON", "OFF", "SKIP"])
@pytest.mark.parametrize("before", [[], ["MULTI"], ["WATCH a:b"], ["MONITOR"], ["CLIENT TRACKING ON"]])
def test_a_refusal_of_what_is_on_its_way_never_writes_into_it(before: list[str], mode: str) -> None:
    route = route_with(RULES)
    client = Client(route)
    for words in [*before, f"CLIENT REPLY {mode}"]:
        client.say(*words.split())
        for upstream in route.all_upstreams():
            while upstream.head is not None:
                upstream.answer(OK)
    sent = call("MSET", "a:b", BIG, "badname", "v")
    total(route)
    cut = sent.rindex(b"xxx")
    client.send(sent[:cut])
    passed = total(route)
    client.send(sent[cut:])
    for upstream in [*route.discarded, *route.closed_gracefully]:
        upstream.closed = False
    whole = passed + b"".join(each.taken() for each in {*route.all_upstreams(), *route.discarded})
    assert passed
    assert sent.startswith(whole)
    assert len(whole) < len(sent)
    assert client.cause in (None, "refused_while_streaming")


def test_inside_a_transaction() -> None:
    route = route_with(RULES)
    client = Client(route)
    send_in_two(client, call("MULTI") + call("SETNX", "a:b", BIG))
    send_in_two(client, call("APPEND", "a:b", BIG) + call("EXEC"))
    own = client.own
    assert own.taken() == call("MULTI") + call("SET", "a:b", BIG, "NX", "EX", 300) + ABORTING_COMMAND + call("EXEC")
    own.answer(OK, b"+QUEUED\r\n", b"-ERR hidden\r\n", b"-EXECABORT\r\n")
    heard = client.heard().splitlines(keepends=True)
    assert heard[:2] == [OK, b"+QUEUED\r\n"]
    assert heard[2].startswith(b"-DENIED keyrail/no-append")
    assert heard[3:] == [b"-EXECABORT\r\n"]
    assert route.released == [own]


def test_a_streamed_member_of_exec_is_mapped_back() -> None:
    route = route_with(RULES)
    client = Client(route)
    send_in_two(client, call("MULTI") + call("SETNX", "a:b", BIG) + call("EXEC"))
    client.own.answer(OK, b"+QUEUED\r\n", b"*1\r\n+OK\r\n")
    assert client.heard() == OK + b"+QUEUED\r\n*1\r\n:1\r\n"


def test_keys_of_streamed_commands_are_counted() -> None:
    route = route_with(RULES)
    client = Client(route)
    send_in_two(client, LAST)
    send_in_two(client, BEFORE_OTHERS)
    key_counts = route.counters.harvest(10).key_counts
    assert {key_count.key: key_count.count for key_count in key_counts} == {b"a:b": 2, b"c:d": 1, b"e:f": 1}


def test_streaming_waits_for_an_upstream() -> None:
    route = FakeRoute()
    client = Client(route)
    client.send(call("GET", "a") + LAST[:60])
    assert client.is_paused()
    client.send(LAST[60:80])
    route.upstream().answer(OK)
    assert not client.is_paused()
    client.send(LAST[80:])
    assert client.own.taken() == LAST


def test_who_leaves_in_the_middle_leaves_nothing_that_runs() -> None:
    route = FakeRoute()
    client = Client(route)
    client.send(LAST[:-3])
    own = client.own
    client.on_close()
    assert own in [*route.discarded, *route.closed_gracefully]
    assert route.released == []


def test_a_protocol_error_behind_a_large_value() -> None:
    route = FakeRoute()
    client = Client(route)
    client.send(BEFORE_OTHERS[: BEFORE_OTHERS.index(b"$3\r\nc:d")] + b"!3\r\nc:d\r\n" + call("GET", "a"))
    assert client.heard().startswith(b"-ERR Protocol error")
    assert client.cause == "protocol_error"
    assert total(route).count(b"GET") == 0


def test_commands_that_change_the_connection_are_collected_instead() -> None:
    route = FakeRoute()
    client = Client(route)
    client.send(call("AUTH", BIG)[:50])
    assert route.lent == []
    client.send(call("AUTH", BIG)[50:])
    assert client.own.taken() == call("AUTH", BIG)


def test_a_large_command_that_nobody_knows_is_collected_and_probed() -> None:
    route = FakeRoute()
    client = Client(route)
    send_in_two(client, call("MY.OWN", BIG))
    assert client.own.taken() == call("MY.OWN", BIG)
    assert client.probe == (b"MY.OWN",)


def test_each_of_several_large_values_counts() -> None:
    route = route_with("rules: {sizes: {sizes: {value: 120B}, mode: enforce}}")
    client = Client(route)
    command = call("MSET", "a:b", "x" * 100, "c:d", "y" * 150)
    for i in range(0, len(command), 40):
        client.send(command[i : i + 40])
    assert client.heard().startswith(b"-DENIED keyrail/sizes: the value in argument 4, for the key '")
    assert len(route.discarded) == 1


def test_an_upstream_with_an_unfinished_command_is_not_given_back() -> None:
    """The reply to what was asked before comes in the middle of the value."""
    route = FakeRoute()
    client = Client(route)
    client.say("WATCH", "k")
    own = client.own
    own.answer(OK)
    client.say("UNWATCH")
    value = b"v" * (LARGE + 20)
    whole = call("SET", "k", value)
    client.send(whole[:-30])
    own.answer(OK)
    assert route.released == []
    client.send(whole[-30:])
    own.answer(OK)
    assert client.heard() == OK * 3
    assert route.released == [own]


def test_each_is_traced_and_stands_for_itself() -> None:
    client = Client(route_with(RULES, traces=1))
    told: list[tuple[int, int, int, bytes]] = []
    for sent in (LAST, LAST, BEFORE_OTHERS):
        send_in_two(client, sent)
        for upstream in client.route.all_upstreams():
            while upstream.head is not None:
                upstream.answer(OK)
        (each,) = client.route.observed
        told.append((each.weight, each.bytes_in, len(each.command.keys), each.first_line))
        client.route.observed.clear()
    # MSET gets its lifetimes by commands that go with it, and the reply comes out of what these are wrapped in.
    assert told == [(1, len(LAST), 1, OK), (1, len(LAST), 1, OK), (1, len(BEFORE_OTHERS), 3, b"")]


def test_a_refused_one_is_traced_and_none_without_traces() -> None:
    for traces, told in ((200, [(True, b"")]), (0, [])):
        client = Client(route_with(RULES, traces=traces))
        send_in_two(client, call("APPEND", "a:b", BIG))
        assert [(each.refused, each.first_line) for each in client.route.observed] == told


BYTES = """
defaults: {mode: %s}
rules: {heavy: {limits: {bytes: 400B/s}}, many: {limits: {rate: 1000/s, bytes: 1MB/s}}}
"""
BURST = 400


def passed(route: FakeRoute) -> int:
    """The bytes that have reached any upstream, also those that were cut off."""
    for upstream in route.discarded:
        upstream.closed = False
    return len(total(route)) + sum(len(upstream.taken()) for upstream in route.discarded)


@pytest.mark.parametrize("seed", seeds(30))
def test_bytes_are_paid_for_before_they_pass(seed: int) -> None:
    """A moment lets so many bytes pass, in whatever arguments they come; a full bucket pays for one command of any
    size."""
    chance = random.Random(seed)
    route = FakeRoute(policy(BYTES % "enforce"))
    most = 0
    for _ in range(6):
        client = Client(route)
        sizes = [chance.choice((1, 20, LARGE - 1, LARGE + 1, 150, 1000)) for _ in range(chance.randint(1, 12))]
        sent = call(
            chance.choice(("RPUSH", "DEL", "SET", "HSET", "MSET", "XADD")), "k", *("x" * size for size in sizes)
        )
        most = most or max(BURST, len(sent))
        for at in range(0, len(sent), step := chance.choice((7, 50, 10_000))):
            client.send(sent[at : at + step])
        assert passed(route) <= most


def test_a_command_pays_once_however_large_its_arguments() -> None:
    route = FakeRoute(policy(BYTES % "enforce"))
    client = Client(route)
    sent = call("RPUSH", "k", "x" * 100, "x" * 100, "y")
    send_in_two(client, sent)
    assert total(route) == sent
    spent = call("GET", "k" * (BURST - len(sent) - len(call("GET", "k" * 100)) + 100))
    client.send(spent)
    assert total(route) == spent, "what is left is left to spend"
    client.send(call("GET", "k"))
    assert route.hits == [("heavy", "enforce", "refused")]


def test_a_refusal_in_the_middle_lets_the_client_go_on() -> None:
    route = FakeRoute(policy(BYTES % "enforce"))
    client = Client(route)
    client.say("GET", "k")
    route.upstream().answer(OK)
    send_in_two(client, call("RPUSH", "k", *(["x" * 150] * 8)))
    heard = client.heard()
    assert heard.startswith(OK + b"-DENIED keyrail/heavy: more than 400 bytes/s in all; retry after ")
    assert route.hits == [("heavy", "enforce", "refused")]
    assert client.cause is None
    route.moment += 5
    client.say("GET", "k")
    route.upstream().answer(OK)
    assert client.heard() == OK


def test_a_limit_that_is_only_audited_lets_bytes_pass() -> None:
    route = FakeRoute(policy(BYTES % "audit"))
    client = Client(route)
    client.say("GET", "k")
    route.upstream().answer(OK)
    sent = call("RPUSH", "k", *(["x" * 150] * 8))
    send_in_two(client, sent)
    assert sent in total(route)
    assert route.hits == [("heavy", "audit", "refused")]
