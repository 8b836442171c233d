"""Clients of a tenant: what reaches Redis has the prefix, what reaches the client has not, and whoever becomes a client
of another tenant on a connection that knows names is closed."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import cast

import pytest

from proxy.commands.command import Command
from proxy.commands.table import STANDARD, Lane, Table
from proxy.hotpath.plan.hot_path_config import HotPathConfig
from proxy.policy.apps import App, Caller, identify
from proxy.policy.compile import CompiledPolicy
from proxy.policy.decision import Decision
from proxy.policy.model import Policy
from proxy.rules.context import Context
from proxy.rules.memory import Memory
from proxy.session.ports.client import ClientTransport, EffectivePolicy
from proxy.session.ports.login_port import Credentials, LoginReply
from proxy.session.ports.pool_key import UNAUTHENTICATED, PoolKey
from tests.policy.given import compile_policy
from tests.policy.given import policy as policy_of
from tests.session.given import FAST, LARGE, PLAIN, Client, FakeRoute, Upstream, call

RULES = """
apps:
  acme: {match: {user: "acme*"}}
  globex: {match: {user: globex}}
  other: {match: {user: other}}
tenants: {prefix: "{user}:", apps: [acme, globex]}
defaults: {mode: enforce}
rules:
  lazy: {replace: {DEL: UNLINK}}
  lifetimes: {lifetime: {default: 5m, types: [string, hash], keys: "k*"}}
  slides: {lifetime: {default: 5m, sliding: true, keys: "s*"}}
  small: {whole_collections: {max: 3}}
"""
POLICY, MEMORY = policy_of(RULES), Memory()
NAMED = policy_of(RULES.partition("rules:")[0] + "rules: {short: {names: {segments: 1..3}}}")
OK, QUEUED = b"+OK\r\n", b"+QUEUED\r\n"


_bound: dict[tuple[int, str], CompiledPolicy] = {}


def bound_for(policy: Policy, app: App) -> CompiledPolicy:
    """Binding takes long."""
    if (id(policy), app.name) not in _bound:
        _bound[id(policy), app.name] = compile_policy(policy, STANDARD, None, 7, app=app, memory=MEMORY)
    return _bound[id(policy), app.name]


class TenantRoute(FakeRoute):
    """A route that tells apps apart, as real ones do."""

    def put_in_force(self, policy: Policy, table: Table = STANDARD) -> None:
        super().put_in_force(policy, table)
        self.by_app: dict[str, EffectivePolicy] = {}

    def effective_policy(self, key: PoolKey, caller: Caller) -> EffectivePolicy:
        whole = super().effective_policy(key, caller)
        app = identify(whole.compiled.policy.apps, caller)
        if app is None:
            return whole
        if app.name not in self.by_app:
            bound = bound_for(whole.compiled.policy, app)
            parts = (self.counters, self.request, FAST, PLAIN, self.window, self.sampler)
            config = HotPathConfig(bound.plan, STANDARD.lookup, STANDARD.keys, *parts)
            self.by_app[app.name] = EffectivePolicy(config, bound, STANDARD, self.generation)
        return self.by_app[app.name]


def begin(user: str = "acme", protocol: int = 2, traces: int = 0) -> tuple[TenantRoute, Client, Upstream]:
    route, key = TenantRoute(POLICY, traces=traces), PoolKey(user, 0, protocol)
    route.known_users |= {user, "acme", "globex", "other"}
    return route, Client(route, key), route.upstream(key)


def test_keys_have_the_prefix_at_redis() -> None:
    _, client, upstream = begin()
    client.say("MGET", "a", "globex:a", "")
    client.say("RENAME", "a", "b")
    client.say("DEL", "a")
    client.say("PING", "acme:")
    sent = (call("MGET", "acme:a", "acme:globex:a", "acme:"), call("RENAME", "acme:a", "acme:b"))
    assert upstream.taken() == b"".join(sent) + call("UNLINK", "acme:a") + call("PING", "acme:")
    replies = b"*3\r\n$6\r\nacme:a\r\n$-1\r\n$-1\r\n" + OK + b":1\r\n$5\r\nacme:\r\n"
    upstream.answer(replies)
    assert client.heard() == replies, "values stay as they are"


def test_what_the_plan_passes_with_a_prefix_is_not_judged_where_it_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[str] = []
    judge = CompiledPolicy.judge

    def seen(compiled: CompiledPolicy, command: Command, context: Context) -> Decision:
        judged.append(command.name)
        return judge(compiled, command, context)

    monkeypatch.setattr(CompiledPolicy, "judge", seen)
    route, key = TenantRoute(NAMED, traces=100), PoolKey("acme", 0, 2)
    route.known_users.add("acme")
    client, upstream = Client(route, key), route.upstream(key)
    client.say("GET", "a")  # a connection is chosen for the first
    judged.clear()
    for words in (("MGET", "a", "b"), ("GET", "a:b:c:d"), ("SET", "a", "v")):
        client.say(*words)
    assert judged == ["GET"]
    assert call("MGET", "acme:a", "acme:b") + call("SET", "acme:a", "v") in upstream.taken()


def test_other_clients_have_no_prefix_and_keep_their_plan() -> None:
    _, client, upstream = begin("other")
    client.say("GET", "acme:a")
    assert upstream.taken() == call("GET", "acme:a")
    assert client.tenant is None
    spec = STANDARD.find("PING")
    assert spec is not None
    assert not client.intake.config.plan.judges(spec.id)
    _, own, _ = begin("acme")
    assert own.intake.config.plan.judges(spec.id)


@pytest.mark.parametrize("protocol", [2, 3])
def test_names_in_replies_lose_the_prefix_at_every_split(protocol: int) -> None:
    entries = b"*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$6\r\nacme:f\r\n$6\r\nacme:v\r\n"
    head = b"*1\r\n*2\r\n" if protocol == 2 else b"%1\r\n"
    replies = [head + b"$6\r\nacme:x\r\n" + entries, b"*2\r\n$1\r\n0\r\n*1\r\n$6\r\nacme:k\r\n", b":1\r\n"]
    replies.append(b"-NOGROUP No such key 'acme:x' or consumer group 'g'\r\n")
    own = [head + b"$1\r\nx\r\n" + entries, b"*2\r\n$1\r\n0\r\n*1\r\n$1\r\nk\r\n", *replies[2:3]]
    own.append(replies[3].replace(b"acme:", b""))
    group = ("XREADGROUP", "GROUP", "g", "c", "STREAMS", "x", ">")
    asked: list[tuple[str, ...]] = [("XREAD", "STREAMS", "x", "0"), ("SCAN", "0"), ("LLEN", "l"), group]
    for transaction in (False, True):
        told = b"".join(replies)
        expected = b"".join(own)
        if transaction:
            told = OK + QUEUED * 4 + b"*4\r\n" + told
            expected = OK + QUEUED * 4 + b"*4\r\n" + expected
        for cut in range(len(told)):
            _, client, upstream = begin(protocol=protocol)
            lines = [("MULTI",), *asked, ("EXEC",)] if transaction else asked
            client.send(b"".join(call(*words) for words in lines))
            upstream = client.own if transaction else upstream
            assert upstream.taken().count(b"acme:") == 4
            upstream.answer(told[:cut])
            upstream.answer(told[cut:])
            assert client.heard() == expected, cut


def test_a_reply_that_is_no_error_passes_in_pieces() -> None:
    _, client, upstream = begin()
    client.say("GET", "a")
    upstream.answer(b"$100\r\nacme:")
    assert client.heard() == b"$100\r\nacme:"


def test_what_is_not_offered_is_refused_and_aborts_a_transaction() -> None:
    _, client, _ = begin()
    client.say("FLUSHDB")
    assert client.heard().startswith(b"-DENIED keyrail: FLUSHDB is not offered to tenants: ")
    client.say("EVAL", "return KEYS", 0)
    client.say("MADE.UP", "a")
    client.say("GET")
    assert client.heard().count(b"-") == 3
    client.send(call("MULTI") + call("FLUSHDB") + call("EXEC"))
    sent = b"".join(route_taken(client))
    assert b"FLUSHDB" not in sent
    assert (sent[: len(call("MULTI"))], sent[-len(call("EXEC")) :]) == (call("MULTI"), call("EXEC"))


def test_declared_keys_of_trusted_scripts_have_the_prefix() -> None:
    key = PoolKey("acme", 0, 2)
    route = TenantRoute(policy_of(RULES.replace("apps: [acme, globex]}", "apps: [acme, globex], scripts: trusted}")))
    client, upstream = Client(route, key), route.upstream(key, Lane.SLOW)
    client.say("EVAL", "return KEYS[1]", 1, "acme:a", "a")
    assert upstream.taken() == call("EVAL", "return KEYS[1]", 1, "acme:acme:a", "a")
    upstream.answer(b"$11\r\nacme:acme:a\r\n")
    assert client.heard() == b"$11\r\nacme:acme:a\r\n", "only the script knows what it returns"
    client.say("SCRIPT", "FLUSH")
    assert client.heard().startswith(b"-DENIED keyrail: SCRIPT FLUSH is not offered to tenants")


def send_in_two(client: Client, data: bytes) -> None:
    """A large argument is announced before it has arrived."""
    for piece in filter(None, (data[:45], data[45:])):
        client.send(piece)


def test_large_values_pass_with_the_prefix() -> None:
    value = b"v" * 2 * LARGE
    for words, sent in (
        (("SET", "a", value), call("SET", "acme:a", value)),
        (("SET", "k", value), call("SET", "acme:k", value, "EX", 300)),
        (("MSET", "a", value, "b", 1), call("MSET", "acme:a", value, "acme:b", 1)),
    ):
        for send in (Client.send, send_in_two):
            _, client, upstream = begin()
            send(client, call(*words))
            assert client.own.taken() == sent
            client.own.answer(OK)
            assert (client.heard(), client.is_pinned(), upstream.taken()) == (OK, False, b"")


def test_wherever_a_large_request_is_cut_its_keys_have_the_prefix() -> None:
    value = b"v" * 2 * LARGE
    for words, sent in (
        (("SET", "acme:k\r\n", value), call("SET", "acme:acme:k\r\n", value)),
        (("SET", "k", value), call("SET", "acme:k", value, "EX", 300)),
        (("LINSERT", "l", "BEFORE", "p", value), call("LINSERT", "acme:l", "BEFORE", "p", value)),
        (("MSET", "a", value, "b", 1), call("MSET", "acme:a", value, "acme:b", 1)),
        (("MSET", "b", 1, "", value), call("MSET", "acme:b", 1, "acme:", value)),
    ):
        data = call(*words)
        cuts = [(cut, cut + 1) for cut in range(1, len(data) - 1)]
        for places in (*cuts, tuple(range(1, len(data)))):
            _, client, upstream = begin()
            for start, end in pairwise((0, *places, len(data))):
                client.send(data[start:end])
            assert client.own.taken() == sent, places
            client.own.answer(OK)
            assert client.heard() == OK
            client.say("GET", "a")
            assert upstream.taken() == call("GET", "acme:a")


def test_a_large_argument_is_no_name() -> None:
    for words, why in (
        (("DEL", "a", b"k" * 2 * LARGE), b"its argument 2 has 128 bytes, too many for a name"),
        (("EVAL", "return KEYS", 0, b"k" * 2 * LARGE), b"EVAL is not offered to tenants"),
    ):
        _, client, _ = begin()
        send_in_two(client, call(*words))
        assert why in client.heard()
        client.say("GET", "a")
        assert b"".join(route_taken(client)) == call("GET", "acme:a")


def route_taken(client: Client) -> list[bytes]:
    return [upstream.taken() for upstream in client.route.all_upstreams()]


def test_traces_know_the_prefix_beside_the_tenants_own_names() -> None:
    route, client, upstream = begin(traces=100)
    route.follows = True
    for number in range(8):
        client.say("GET", f"user:{number}")
        upstream.answer(b"$1\r\nv\r\n")
    send_in_two(client, call("SET", "a", b"v" * 2 * LARGE))
    client.own.answer(OK)
    assert {each.prefix for each in route.observed} == {b"acme:"}
    assert [each.command.argv[1] for each in route.observed] == [*(b"user:%d" % number for number in range(8)), b"a"]
    assert route.runs == [("acme:user:{int}", 1)]


def test_what_rules_add_has_the_prefix() -> None:
    _, client, upstream = begin()
    client.say("SET", "k", "v")
    assert upstream.taken() == call("SET", "acme:k", "v", "EX", 300)
    upstream.answer(OK)
    client.say("INCR", "k")
    assert upstream.taken() == call("MULTI") + call("EXISTS", "acme:k") + call("INCR", "acme:k") + call("EXEC")
    upstream.answer(OK, QUEUED, QUEUED, b"*2\r\n:0\r\n:1\r\n")
    assert client.heard() == OK + b":1\r\n"
    assert upstream.taken() == call("EXPIRE", "acme:k", 300, "NX")


def test_a_renewal_of_a_watched_key_waits_under_its_full_name() -> None:
    _, client, _ = begin()
    client.say("WATCH", "s1")
    own = client.own
    assert own.taken() == call("WATCH", "acme:s1")
    own.answer(OK)
    client.say("GET", "s1")
    own.answer(b"$1\r\nv\r\n")
    assert own.taken() == call("GET", "acme:s1")
    client.say("UNWATCH")
    own.answer(OK)
    assert call("EXPIRE", "acme:s1", 300, "GT") in b"".join((own.taken(), *route_taken(client)))


def test_what_rules_ask_has_the_prefix_and_is_known_of_that_tenant_alone() -> None:
    route, client, _ = begin()
    client.say("HGETALL", "h")
    _, questions, answered = route.asked.pop()
    assert [list(question) for question in questions] == [[b"HLEN", b"acme:h"]]
    answered([b":4\r\n"])
    assert b"would read 4 members of the key 'h'" in client.heard()
    client.say("HGETALL", "h")
    assert b"would read 4 members of the key 'h'" in client.heard()
    other = Client(route, PoolKey("globex", 0, 2))
    other.say("HGETALL", "h")
    _, questions, answered = route.asked.pop()
    assert [list(question) for question in questions] == [[b"HLEN", b"globex:h"]]
    answered([b":1\r\n"])
    assert route.upstream(PoolKey("globex", 0, 2)).taken() == call("HGETALL", "globex:h")


@pytest.mark.parametrize("user", ["acme:x", "acme*", "acme{a}", "acme b", "acme" * 40])
def test_a_name_that_could_begin_anothers_prefix_reaches_no_key(user: str) -> None:
    route, client, upstream = begin(user)
    for words in (("GET", "a"), ("HGETALL", "h"), ("KEYS", "*"), ("SET", "a", b"v" * 2 * LARGE)):
        send_in_two(client, call(*words))
        assert b"its user cannot be part of the tenant's prefix" in client.heard()
    assert not route.asked
    client.say("PING")
    assert upstream.taken() == call("PING")


def test_who_becomes_another_tenant_is_closed() -> None:
    _, client, _ = begin()
    client.say("AUTH", "globex", "p")
    client.own.answer(OK)
    assert (client.heard(), client.cause) == (OK, None), "nothing has been said to it under the old prefix"
    assert client.tenant is not None
    assert client.tenant.prefix == b"globex:"
    client.say("GET", "a")
    for upstream in client.route.all_upstreams():
        if upstream.taken().endswith(call("GET", "globex:a")):
            upstream.answer(b"$-1\r\n")
    client.say("AUTH", "acme", "p")
    client.own.answer(OK)
    assert client.heard() == b"$-1\r\n" + OK
    assert client.cause == "tenant_changed"


def test_a_new_prefix_closes_those_who_know_names() -> None:
    route, client, upstream = begin()
    fresh = Client(route, PoolKey("acme", 0, 2))
    client.say("GET", "a")
    route.put_in_force(policy_of(RULES.replace("{user}:", "eu:{user}:")))
    client.adopt()
    fresh.adopt()
    assert client.cause == "tenant_changed"
    upstream.answer(b"$1\r\nv\r\n")
    assert client.heard() == b"$1\r\nv\r\n"
    fresh.say("GET", "a")
    assert upstream.taken().endswith(call("GET", "eu:acme:a"))
    assert fresh.cause is None


def logged_in_by_a_file() -> tuple[TenantRoute, Client]:
    """A client that a file of users has let in as acme, and that has named a key."""
    route = TenantRoute(POLICY)
    route.logins.local = True
    for name in (b"acme", b"globex"):
        route.logins.replies[Credentials(name, b"p")] = LoginReply(OK, None, name.decode())
    client, upstream = Client(route, PoolKey(UNAUTHENTICATED, 0, 2)), route.upstream(PoolKey(None, 0, 2))
    nothing = dict.fromkeys(("close", "pause_reading", "resume_reading"), lambda: None)
    wire = SimpleNamespace(write=client.sender.write, is_closing=lambda: False, **nothing)
    client.connected(cast("ClientTransport", wire), "10.1.0.7:5", "")
    client.send(call("AUTH", "acme", "p") + call("GET", "a"))
    assert upstream.taken() == call("GET", "acme:a")
    upstream.answer(b"$-1\r\n")
    client.heard()
    return route, client


@pytest.mark.parametrize(("words", "reply"), [(("AUTH", "globex", "p"), OK), (("RESET",), b"+RESET\r\n")])
def test_who_is_closed_by_a_login_that_a_file_accepts_gets_no_connection(words: tuple[str, ...], reply: bytes) -> None:
    route, client = logged_in_by_a_file()
    client.send(call(*words) + call("GET", "a"))
    assert (client.cause, client.gone) == ("tenant_changed", True)
    assert client.heard() == reply
    assert [each.taken() for each in route.all_upstreams()] == [b""]


@pytest.mark.parametrize("name", [(), ("SETNAME", "me")])
@pytest.mark.parametrize("pooled", [True, False])
@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_answers_the_hello_by_which_who_sends_it_is_closed(
    protocol: int, pooled: bool, name: tuple[str, ...]
) -> None:
    route, client = logged_in_by_a_file()
    if pooled:
        route.upstream(PoolKey(None, 0, protocol))
    else:
        route.pools.clear()
    route.starving = True
    client.send(call("HELLO", protocol, "AUTH", "globex", "p", *name) + call("GET", "a"))
    assert not client.gone, "it waits for a connection"
    assert not any(each.taken() for each in route.all_upstreams())
    route.feed()
    [upstream] = [each for each in route.all_upstreams() if each.head is not None]
    assert upstream.taken() == call("HELLO", protocol, *(() if pooled else name)), "nothing that is sent behind it runs"
    upstream.answer(greeting := b"%1\r\n$5\r\nproto\r\n:3\r\n")
    assert (client.heard(), client.cause, client.gone) == (greeting, "tenant_changed", True)
    assert route.lent == [], "its connection is given back"


def test_a_watch_from_before_the_login_is_no_tenants() -> None:
    _, client, _ = begin("other")
    client.say("WATCH", "acme:a")
    client.own.answer(OK)
    client.say("AUTH", "acme", "p")
    client.own.answer(OK)
    assert client.cause == "tenant_changed"


@pytest.mark.parametrize("protocol", [2, 3])
def test_messages_at_every_split(protocol: int) -> None:
    head = b"*" if protocol == 2 else b">"
    frames = [
        b"3\r\n$9\r\nsubscribe\r\n$6\r\nacme:c\r\n:1\r\n",
        b"3\r\n$7\r\nmessage\r\n$6\r\nacme:c\r\n$6\r\nacme:t\r\n",
        b"3\r\n$11\r\nunsubscribe\r\n$6\r\nacme:c\r\n:0\r\n",
    ]
    told = b"".join(head + frame for frame in frames)
    for cut in range(len(told)):
        _, client, _ = begin(protocol=protocol)
        client.send(call("SUBSCRIBE", "c"))
        own = client.own
        client.send(call("UNSUBSCRIBE"))
        assert own.taken() == call("SUBSCRIBE", "acme:c") + call("UNSUBSCRIBE")
        own.answer(told[:cut])
        own.answer(told[cut:])
        assert client.heard() == told.replace(b"$6\r\nacme:c", b"$1\r\nc"), cut
        assert not client.is_pinned()


def test_what_redis_sends_unasked_is_the_tenants_own_or_dropped() -> None:
    head, null = b">2\r\n$10\r\ninvalidate\r\n", b">2\r\n$10\r\ninvalidate\r\n_\r\n"
    told = (
        head + b"*2\r\n$6\r\nacme:a\r\n$8\r\nglobex:b\r\n" + head + b"*1\r\n$8\r\nglobex:b\r\n" + null + b"$1\r\n7\r\n"
    )
    for cut in range(len(told)):
        _, client, _ = begin(protocol=3)
        client.say("CLIENT", "TRACKING", "ON")
        own = client.own
        assert own.taken() == call("CLIENT", "TRACKING", "ON")
        own.answer(OK)
        client.say("GET", "a")
        own.answer(told[:cut])
        own.answer(told[cut:])
        assert client.heard() == OK + head + b"*1\r\n$1\r\na\r\n" + null + b"$1\r\n7\r\n", cut
        client.on_close()
        own.answer(head + b"*1\r\n$6\r\nacme:a\r\n")
        assert client.heard() == b""


def test_other_clients_hear_all_that_redis_sends() -> None:
    _, client, _ = begin("other", protocol=3)
    client.say("CLIENT", "TRACKING", "ON")
    client.own.answer(OK)
    push = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$6\r\nacme:a\r\n"
    client.own.answer(push)
    assert client.heard() == OK + push


def test_who_becomes_a_tenant_on_its_connection_hears_its_own() -> None:
    _, client, _ = begin("other", protocol=3)
    client.say("CLIENT", "ID")
    client.own.answer(b":7\r\n")
    client.say("AUTH", "acme", "p")
    client.own.answer(OK)
    head = b">2\r\n$10\r\ninvalidate\r\n*1\r\n"
    client.own.answer(head + b"$8\r\nglobex:b\r\n" + head + b"$6\r\nacme:a\r\n")
    assert client.heard() == b":7\r\n" + OK + head + b"$1\r\na\r\n"


@pytest.mark.parametrize("leaves", [True, False])
def test_a_connection_that_is_given_back_edits_nothing(leaves: bool) -> None:
    _, client, _ = begin(protocol=3)
    client.say("WATCH", "a")
    own = client.own
    own.answer(OK)
    assert own.push_edit is not None
    if leaves:
        client.on_close()
    else:
        client.say("UNWATCH")
        own.answer(OK)
    edit: object = own.push_edit
    assert (own.owner, edit) == (None, None)
