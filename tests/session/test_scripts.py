"""What a session adds to the rules about scripts: it asks the other workers before it says NOSCRIPT, learns functions
from Redis's replies, and lets SCRIPT EXISTS agree."""

from __future__ import annotations

from hashlib import sha1

import pytest

from proxy.rules.script_memory import script_key
from proxy.rules.script_text import read_script
from proxy.rules.scripts import NOSCRIPT
from tests.session.given import Client, Route, Upstream, call, route_with

RULES = "defaults: {mode: enforce}\nrules: {%s: {scripts: {commands: follow_rules, dynamic_calls: refuse}}}\n"
TEXT = b"return 1"
SHA = sha1(TEXT, usedforsecurity=False).hexdigest()


@pytest.fixture
def route(request: pytest.FixtureRequest) -> Route:
    """A route of which nobody has seen any script: rules of another name remember for themselves."""
    name = "s" + sha1(request.node.nodeid.encode(), usedforsecurity=False).hexdigest()
    return route_with(RULES % name)


def asked(route: Route) -> list[set[bytes]]:
    return [{name for _, name in keys} for _, keys in route.sought]


def answer(route: Route, client: Client, calls: bytes | None = None) -> None:
    """The other workers have been asked about everything that was sought."""
    for _, keys in route.sought:
        for key in keys if calls is not None else ():
            for _, rule in client.regime.policy.scripts:
                rule.memory.learn(key, read_script(calls or b""))
    route.sought.clear()
    client.arrived()


def upstream(client: Client) -> Upstream:
    assert isinstance(client.ledger, Upstream)
    return client.ledger


def test_alone_there_is_nobody_to_ask(route: Route) -> None:
    client = Client(route)
    client.say("EVALSHA", SHA, 0)
    assert client.heard() == NOSCRIPT
    client.say("EVAL", TEXT, 0)
    client.say("EVALSHA", SHA, 0)
    assert upstream(client).taken() == call("EVAL", TEXT, 0) + call("EVALSHA", SHA, 0)


@pytest.mark.parametrize("seen", [TEXT, None], ids=["seen by another worker", "seen by nobody"])
def test_the_other_workers_are_asked_once_while_only_this_client_waits(route: Route, seen: bytes | None) -> None:
    route.workers = True
    client, other = Client(route), Client(route)
    client.say("EVALSHA", SHA.upper(), 0)
    client.say("GET", "a")
    other.say("GET", "b")
    assert asked(route) == [{SHA.encode()}]
    assert route.upstream().taken() == call("GET", "b")
    assert client.heard() == b""
    answer(route, client, seen)
    assert route.sought == []
    if seen is None:
        assert client.heard() == NOSCRIPT
        assert route.upstream().taken() == call("GET", "a")
    else:
        assert upstream(client).taken().startswith(call("EVALSHA", SHA.upper(), 0))


def test_what_is_known_needs_no_asking(route: Route) -> None:
    route.workers = True
    client = Client(route)
    client.say("SCRIPT", "LOAD", TEXT)
    upstream(client).answer(b"$40\r\n%b\r\n" % SHA.encode())
    client.say("EVALSHA", SHA, 0)
    assert upstream(client).taken().endswith(call("EVALSHA", SHA, 0))
    assert route.sought == []


def test_a_large_argument_does_not_keep_others_from_being_asked(route: Route) -> None:
    route.workers = True
    client = Client(route)
    client.say("EVALSHA", SHA, 0, "x" * 5000)
    assert asked(route) == [{SHA.encode()}]
    answer(route, client)
    assert client.heard() == NOSCRIPT


def test_nobody_waits_in_a_transaction_that_shares_its_upstream(route: Route) -> None:
    route.workers = True
    client = Client(route)
    client.send(call("MULTI") + call("SCRIPT", "EXISTS", SHA) + call("EXEC"))
    assert route.sought == []
    sent = route.upstream().taken()
    assert sent == call("MULTI") + call("SCRIPT", "EXISTS", SHA) + call("EXEC")
    route.upstream().answer(b"+OK\r\n", b"+QUEUED\r\n", b"*1\r\n*1\r\n:1\r\n")
    assert client.heard().endswith(b"*1\r\n*1\r\n:0\r\n")


def test_script_exists_agrees_with_evalsha(route: Route) -> None:
    route.workers = True
    client = Client(route)
    client.say("EVAL", TEXT, 0)
    upstream(client).answer(b":1\r\n")
    client.heard()
    unknown = "f" * 40
    client.say("SCRIPT", "EXISTS", SHA, unknown, "e" * 40)
    assert asked(route) == [{unknown.encode(), b"e" * 40}]
    answer(route, client)
    upstream(client).answer(b"*3\r\n:1\r\n:1\r\n:0\r\n")
    assert client.heard() == b"*3\r\n:1\r\n:0\r\n:0\r\n"


LIBRARY = b"#!lua name=l\nredis.register_function('f', function() return 1 end)"


@pytest.mark.parametrize(("reply", "known"), [(b"$1\r\nl\r\n", True), (b"-ERR Library 'l' already exists\r\n", False)])
def test_a_library_is_known_when_redis_has_taken_it(route: Route, reply: bytes, known: bool) -> None:
    client = Client(route)
    client.say("FUNCTION", "LOAD", LIBRARY)
    client.say("FCALL", "f", 0)
    upstream(client).answer(reply)
    assert client.heard().startswith(reply)
    client.say("FCALL", "f", 0)
    assert upstream(client).taken().endswith(call("FCALL", "f", 0)) is known


def test_a_session_without_such_a_rule_asks_nothing() -> None:
    route = Route()
    route.workers = True
    client = Client(route)
    client.say("EVALSHA", SHA, 0)
    assert upstream(client).taken() == call("EVALSHA", SHA, 0)
    assert script_key(SHA.encode()) not in {key for _, keys in route.sought for key in keys}


@pytest.mark.parametrize(
    ("rules", "command"),
    [
        ("audited: {scripts: {commands: follow_rules}, mode: audit}", "EVALSHA"),
        ("audited: {scripts: {commands: follow_rules}, mode: audit}", "SCRIPT EXISTS"),
        ("lenient: {scripts: {dynamic_calls: warn}, mode: enforce}", "EVALSHA"),
        ("lenient: {scripts: {commands: follow_rules, dynamic_calls: warn}, mode: enforce}", "FCALL"),
        ("lenient: {scripts: {commands: follow_rules, dynamic_calls: allow}, mode: enforce}", "EVALSHA"),
        ("lenient: {scripts: {commands: follow_rules, dynamic_calls: allow}, mode: enforce}", "SCRIPT EXISTS"),
    ],
)
def test_nobody_is_asked_where_the_answer_changes_nothing(rules: str, command: str) -> None:
    route = route_with(f"rules: {{{rules}}}")
    route.workers = True
    client = Client(route)
    client.say(*command.split(), SHA, 0)
    assert route.sought == []
    assert upstream(client).taken() == call(*command.split(), SHA, 0)
