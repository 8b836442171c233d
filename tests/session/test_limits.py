"""Limits in a session: the intake pays for runs by itself, a change of user or name changes the tokens, and a client
over the limit of connections gets one error, in order, and is closed."""

import pytest

from tests.policy.given import policy
from tests.session.given import Client, FakeRoute, call

RATE = "defaults: {mode: %s}\nrules: {fair: {limits: {per: client_name, rate: 10/m}}}"
FEW = "defaults: {mode: %s}\nrules: {few: {limits: {per: client_name, connections: 1}}}"
OK = b"+OK\r\n"


def fresh(rules: str) -> FakeRoute:
    """A route where nothing has been spent yet."""
    return FakeRoute(policy(rules))


def refusals(route: FakeRoute) -> int:
    return sum(what == "refused" for *_, what in route.hits)


def test_runs_are_paid_for_and_the_rest_refused_in_its_place() -> None:
    route = fresh(RATE % "enforce")
    client = Client(route)
    client.send(call("GET", "a") * 13)
    assert route.upstream().taken() == call("GET", "a") * 10
    route.upstream().answer(OK * 10)
    heard = client.heard()
    assert heard.startswith(OK * 10 + b"-DENIED keyrail/fair: ")
    assert heard.count(b"-DENIED") == refusals(route) == 3
    # Those that were too many were judged one by one.
    assert client.sender.forwarded == 10
    route.moment += 6.0
    client.send(call("GET", "b") * 2)
    assert route.upstream().taken() == call("GET", "b")


def test_audit_counts_and_passes() -> None:
    route = fresh(RATE % "audit")
    client = Client(route)
    client.send(call("GET", "a") * 13)
    assert (client.sender.pending_replies, refusals(route)) == (13, 3)


def test_clients_share_what_their_subject_has_and_a_new_name_is_another_subject() -> None:
    route = fresh(RATE % "enforce")
    one, two = Client(route), Client(route)
    one.send(call("GET", "a") * 6)
    two.send(call("GET", "a") * 6)
    assert (route.upstream().taken(), refusals(route)) == (call("GET", "a") * 10, 2)
    two.say("CLIENT", "SETNAME", "other")
    two.send(call("GET", "a") * 11)
    assert (route.upstream().taken(), refusals(route)) == (call("GET", "a") * 10, 3)


def test_a_transaction_is_aborted_by_what_is_too_much_in_it() -> None:
    route = fresh(RATE % "enforce")
    client = Client(route)
    client.send(call("MULTI") + call("GET", "a") * 11 + call("EXEC"))
    sent = route.upstream().taken()
    assert sent.startswith(call("MULTI") + call("GET", "a") * 10)
    assert sent.endswith(call("EXEC"))
    assert sent.count(call("GET", "a")) == 10
    assert refusals(route) == 1


def test_one_client_too_many_is_refused_and_closed() -> None:
    route = fresh(FEW % "enforce")
    one, two = Client(route), Client(route)
    one.say("GET", "a")
    two.send(call("PING") + call("GET", "a") + call("GET", "b"))
    assert (one.sender.pending_replies, one.cause) == (1, None)
    assert (two.cause, refusals(route)) == ("limited", 1)
    assert route.upstream().taken() == call("GET", "a") + call("PING")
    route.upstream().answer(OK, b"+PONG\r\n")
    assert two.heard().startswith(b"+PONG\r\n-DENIED keyrail/few: more than 1 connections from this client name; ")
    one.close("client")
    three = Client(route)
    three.say("GET", "c")
    assert three.cause is None


def test_one_client_too_many_ends_its_transaction_first() -> None:
    route = fresh(FEW % "enforce")
    one, two = Client(route), Client(route)
    one.say("GET", "a")
    two.send(call("MULTI") + call("GET", "a") + call("EXEC") + call("GET", "b"))
    assert (two.state.transaction, two.cause, refusals(route)) == (None, "limited", 2)
    assert not route.discarded


def test_in_audit_one_client_too_many_is_counted_once() -> None:
    route = fresh(FEW % "audit")
    one, two = Client(route), Client(route)
    one.say("GET", "a")
    two.send(call("GET", "a") + call("GET", "b"))
    two.say("GET", "c")
    assert (two.cause, two.sender.pending_replies, refusals(route)) == (None, 3, 1)


@pytest.mark.parametrize("leaves", [True, False])
def test_a_place_is_free_when_its_client_leaves_or_is_somebody_else(leaves: bool) -> None:
    route = fresh(FEW % "enforce")
    one, two = Client(route), Client(route)
    one.say("GET", "a")
    if leaves:
        one.close("client")
    else:
        one.say("CLIENT", "SETNAME", "other")
    two.say("GET", "b")
    assert two.cause is None


def test_commands_under_way_are_those_of_all_the_subjects_clients() -> None:
    route = fresh("defaults: {mode: enforce}\nrules: {busy: {limits: {concurrency: 5}}}")
    one, two = Client(route), Client(route)
    one.send(call("GET", "a") * 3)
    two.send(call("GET", "b") * 4)
    assert route.upstream().taken() == call("GET", "a") * 3 + call("GET", "b") * 2
    route.upstream().answer(OK * 3)
    route.moment += 1.0
    assert (one.sender.pending_replies, two.sender.pending_replies, refusals(route)) == (0, 4, 2)
    one.send(call("GET", "c") * 2)
    # Of the pending replies of the second two are refusals that have not left yet.
    assert (route.upstream().taken(), refusals(route)) == (call("GET", "c"), 3)
    route.upstream().answer(OK * 3)
    route.moment += 1.0
    one.send(call("GET", "d") * 5)
    assert (route.upstream().taken(), refusals(route)) == (call("GET", "d") * 5, 3)


@pytest.mark.parametrize("cut", [0, len(call("MULTI")) + 3], ids=["whole", "in pieces"])
def test_a_refused_exec_ends_its_transaction(cut: int) -> None:
    """Redis ends it for any bad EXEC. Were it left open, others on the same upstream would join it."""
    route = fresh("defaults: {mode: enforce}\nrules: {few: {limits: {commands: [EXEC], rate: 1/m}}}")
    client, other = Client(route), Client(route)
    data = (call("MULTI") + call("SET", "a", 1) + call("EXEC")) * 2
    client.send(data[:cut])
    client.send(data[cut:])
    other.say("GET", "b")
    upstream = client.own if cut else route.upstream()
    sent = upstream.taken()
    assert sent.count(call("EXEC", "-")) == 1
    assert client.state.transaction is None
    upstream.answer(OK, b"+QUEUED\r\n", b"*1\r\n+OK\r\n", OK, b"+QUEUED\r\n", b"-EXECABORT wrong number\r\n")
    heard = client.heard()
    assert heard.startswith(OK + b"+QUEUED\r\n*1\r\n+OK\r\n" + OK + b"+QUEUED\r\n-DENIED keyrail/few: ")
    assert b"EXECABORT" not in heard
    assert not client.is_pinned()
