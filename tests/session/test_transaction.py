"""Transactions: whole on a shared upstream, piecewise on a private one, and never left open on either."""

from __future__ import annotations

import pytest

from proxy.hotpath.intake.intake import WAITING
from proxy.policy.model import TRANSPARENT
from tests.session.given import Client, FakeRoute, Upstream, call, route_with

OK = b"+OK\r\n"
QUEUED = b"+QUEUED\r\n"
RULES = "defaults: {mode: enforce}\nrules:\n  lifetime: {lifetime: {default: 5m}}\n"


def test_a_transaction_that_has_arrived_whole_shares_an_upstream() -> None:
    route = FakeRoute()
    one, two = Client(route), Client(route)
    whole = call("MULTI") + call("SET", "a", 1) + call("GET", "a") + call("EXEC")
    one.send(whole + call("GET", "b"))
    two.say("GET", "c")
    assert route.upstream().taken() == whole + call("GET", "b") + call("GET", "c")
    route.upstream().answer(OK, QUEUED, QUEUED, b"*2\r\n+OK\r\n$1\r\n1\r\n", b"+b\r\n", b"+c\r\n")
    assert one.heard() == OK + QUEUED * 2 + b"*2\r\n+OK\r\n$1\r\n1\r\n+b\r\n"
    assert two.heard() == b"+c\r\n"
    assert one.state.transaction is None


WHOLE = call("MULTI") + call("SET", "a", 1) + call("EXEC")


@pytest.mark.parametrize("cut", range(len(call("MULTI")), len(WHOLE)))
def test_one_that_comes_in_pieces_has_an_upstream_of_its_own_until_exec(cut: int) -> None:
    route = FakeRoute()
    client = Client(route)
    client.send(WHOLE[:cut])
    own = client.own
    client.send(WHOLE[cut:])
    assert own.taken() == WHOLE
    own.answer(OK, QUEUED)
    assert client.own is own
    own.answer(b"*1\r\n+OK\r\n")
    assert client.heard() == OK + QUEUED + b"*1\r\n+OK\r\n"
    assert not client.is_pinned()
    assert route.released == [own]
    assert route.pools == {}


def test_one_of_which_the_rest_arrives_while_multi_waits_is_whole() -> None:
    route = FakeRoute()
    client = Client(route)
    client.send(call("GET", "a") + WHOLE[: len(call("MULTI"))])
    client.send(WHOLE[len(call("MULTI")) :])
    assert route.upstream().taken() == call("GET", "a")
    route.upstream().answer(b"$-1\r\n")
    assert route.upstream().taken() == WHOLE
    assert not client.is_pinned()


@pytest.mark.parametrize(
    "inside",
    [
        ["BLPOP", "q", "0"],
        ["SELECT", "1"],
        ["CLIENT", "ID"],
        ["EVAL", "x", "0"],
        ["DISCARD"],
        ["WATCH", "k"],
        ["NOSUCH"],
    ],
)
def test_a_whole_one_with_more_than_plain_commands_is_not_shared(inside: list[str]) -> None:
    route = FakeRoute()
    client = Client(route)
    client.send(call("MULTI") + call("SET", "a", 1) + call(*inside) + call("EXEC"))
    assert client.state.upstream is not None or client.intake.phase == WAITING
    assert all(upstream.taken() == b"" for upstream in route.pools.values())


def test_a_whole_one_behind_watch_is_not_shared() -> None:
    route = FakeRoute()
    client = Client(route)
    client.say("WATCH", "k")
    client.own.answer(OK)
    own = client.own
    client.send(WHOLE)
    assert own.taken() == call("WATCH", "k") + WHOLE
    own.answer(OK, QUEUED)
    assert client.own is own
    own.answer(b"*-1\r\n")
    assert not client.is_pinned()


def test_a_whole_one_larger_than_the_window_is_not_shared() -> None:
    route = FakeRoute(window=4)
    client = Client(route)
    client.send(call("MULTI") + call("GET", "a") * 5 + call("EXEC"))
    own = client.own
    while client.sender.pending_replies:
        own.answer(OK)
    assert own.taken() == call("MULTI") + call("GET", "a") * 5 + call("EXEC")
    assert route.pools == {}


@pytest.mark.parametrize("bad", [["DISCARD", "x"]])
def test_a_transaction_that_redis_keeps_open_is_not_given_back(bad: list[str]) -> None:
    route = FakeRoute()
    client = Client(route)
    client.send(call("MULTI") + call("SET", "a", 1) + call(*bad))
    own = client.own
    own.answer(OK, QUEUED, b"-ERR wrong number of arguments\r\n")
    assert client.own is own
    client.say("EXEC")
    own.answer(b"-EXECABORT\r\n")
    assert route.released == [own]


def test_watching_ends_with_unwatch_and_only_with_a_good_one() -> None:
    route = FakeRoute()
    client = Client(route)
    client.say("WATCH", "k")
    own = client.own
    own.answer(OK)
    client.say("UNWATCH", "x")
    own.answer(b"-ERR wrong number of arguments\r\n")
    assert client.own is own
    client.say("UNWATCH")
    own.answer(OK)
    assert route.released == [own]


def test_a_multi_that_redis_refuses_opens_nothing() -> None:
    route = FakeRoute()
    client = Client(route)
    client.say("MULTI", "x")
    for upstream in route.all_upstreams():
        upstream.taken()
        upstream.answer(b"-ERR wrong number of arguments\r\n")
    assert client.state.transaction is None
    client.say("SUBSCRIBE", "a")
    assert client.own.taken() == call("SUBSCRIBE", "a")


def test_discard_ends_it() -> None:
    route = FakeRoute()
    client = Client(route)
    client.send(call("MULTI") + call("SET", "a", 1) + call("DISCARD"))
    own = client.own
    own.answer(OK, QUEUED, OK)
    assert (client.state.upstream, route.released, client.heard()) == (None, [own], OK + QUEUED + OK)


@pytest.mark.parametrize("whole", [True, False])
def test_replies_that_a_rewrite_needs_mapped_back_are_mapped_inside_exec(whole: bool) -> None:
    route = route_with(RULES)
    client = Client(route)
    sent = [
        call("MULTI"),
        call("GET", "a"),
        call("SETNX", "k", 1),
        call("SETNX", "k", 2),
        call("GET", "b"),
        call("EXEC"),
    ]
    for part in [b"".join(sent)] if whole else sent:
        client.send(part)
    upstream = route.upstream() if whole else client.own
    upstream.answer(OK, QUEUED * 4, b"*4\r\n+a\r\n+OK\r\n$-1\r\n+b\r\n")
    assert client.heard() == OK + QUEUED * 4 + b"*4\r\n+a\r\n:1\r\n:0\r\n+b\r\n"
    assert client.sender.pending_replies == 0


def test_nested_multi_and_watch_inside_do_not_shift_the_positions() -> None:
    route = route_with(RULES)
    client = Client(route)
    for sent in (["MULTI"], ["MULTI"], ["GET", "a"], ["WATCH", "k"], ["SETNX", "k", 1], ["EXEC"]):
        client.say(*sent)
    client.own.answer(OK, b"-ERR nested\r\n", QUEUED, b"-ERR watch\r\n", QUEUED, b"*2\r\n+a\r\n+OK\r\n")
    assert client.heard().endswith(b"*2\r\n+a\r\n:1\r\n")


@pytest.mark.parametrize("reply", [b"*-1\r\n", b"_\r\n", b"-EXECABORT no\r\n"])
def test_a_transaction_that_did_not_run_has_nothing_to_map(reply: bytes) -> None:
    route = route_with(RULES)
    client = Client(route)
    client.send(call("MULTI") + call("SETNX", "k", 1) + call("EXEC"))
    route.upstream().answer(OK, QUEUED, reply)
    assert client.heard() == OK + QUEUED + reply


@pytest.mark.parametrize("command", [["SUBSCRIBE", "a"], ["MONITOR"], ["CLIENT", "REPLY", "OFF"], ["PSYNC", "?", "-1"]])
def test_what_would_change_the_number_of_replies_is_refused_inside(command: list[str]) -> None:
    route = FakeRoute()
    client = Client(route)
    client.send(call("MULTI") + call(*command) + call("EXEC"))
    own = client.own
    own.answer(OK, b"-ERR wrong number of arguments for 'get' command\r\n", b"-EXECABORT no\r\n")
    heard = client.heard().splitlines(keepends=True)
    assert heard[0] == OK
    assert heard[1].startswith(b"-ERR Keyrail: ")
    assert heard[2:] == [b"-EXECABORT no\r\n"]


def test_what_acts_at_exec_and_only_redis_knows_keeps_the_upstream() -> None:
    route = FakeRoute()
    client = Client(route)
    client.send(call("MULTI") + call("SELECT", 1) + call("EXEC"))
    own = client.own
    own.answer(OK, QUEUED, b"*1\r\n+OK\r\n")
    assert client.own is own


def test_exec_without_multi_is_redis_to_refuse() -> None:
    route = FakeRoute()
    client = Client(route)
    client.say("EXEC")
    assert route.upstream().taken() == call("EXEC")
    assert not client.is_pinned()


SLOTS = "defaults: {mode: enforce}\nrules:\n  fit: {transactions: one_slot}\n"


def denied(heard: bytes) -> bool:
    return heard.startswith(b"-DENIED keyrail/fit: the key '")


@pytest.mark.parametrize("cut", [0, len(call("MULTI") + call("GET", "a")) + 3], ids=["whole", "in pieces"])
def test_all_keys_of_a_transaction_are_held_against_its_first(cut: int) -> None:
    route = route_with(SLOTS)
    client = Client(route)
    before = call("GET", "x") + call("GET", "y")
    data = call("MULTI") + call("GET", "a") + call("GET", "{a}b") + call("GET", "b") + call("EXEC")
    client.send(before)
    route.upstream().answer(b"$-1\r\n" * 2)
    client.send(data[:cut])
    client.send(data[cut:])
    upstream = client.sender.upstream
    assert isinstance(upstream, Upstream)
    upstream.answer(OK, QUEUED, QUEUED, b"-ERR wrong number of arguments\r\n", b"-EXECABORT\r\n")
    heard = client.heard().removeprefix(b"$-1\r\n" * 2 + OK + QUEUED * 2)
    assert denied(heard)
    assert heard.endswith(b"-EXECABORT\r\n")
    client.say("GET", "z")
    assert route.upstream().taken().endswith(call("GET", "z"))
    assert client.intake.simple == client.intake.config.pooled


def test_what_was_watched_counts_until_the_transaction_has_ended() -> None:
    route = route_with(SLOTS)
    client = Client(route)
    client.say("WATCH", "a")
    client.own.answer(OK)
    client.say("WATCH", "b")
    assert denied(client.heard().removeprefix(OK))
    client.say("UNWATCH")
    client.say("WATCH", "b")
    client.send(call("MULTI") + call("GET", "b") + call("EXEC"))
    client.own.answer(OK, OK, OK, QUEUED, b"*1\r\n$-1\r\n")
    client.say("MULTI")
    client.say("GET", "a")
    client.own.answer(OK, QUEUED)
    assert b"DENIED" not in client.heard()


def test_a_policy_that_came_in_a_transaction_holds_from_its_end_also_where_redis_never_began_it() -> None:
    route = FakeRoute()
    client = Client(route)
    client.say("MULTI")
    route.put_in_force(TRANSPARENT)
    client.adopt()
    assert client.effective_policy.generation == 1
    client.own.answer(b"-NOPERM no\r\n")
    assert client.effective_policy.generation == 2
