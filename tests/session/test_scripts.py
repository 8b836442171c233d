"""A session's part in the rules about scripts: it asks the other workers before it answers NOSCRIPT, learns functions
from Redis's replies, and edits the reply to SCRIPT EXISTS to agree."""

from __future__ import annotations

from hashlib import sha1

import pytest

from proxy.policy.decision import Decision
from proxy.rules.scripts import memory
from proxy.rules.scripts.memory import script_key
from proxy.rules.scripts.seen import NOSCRIPT
from proxy.rules.scripts.text import ScriptCalls, read_script
from proxy.rules.verdict import Rewrite
from proxy.session.dispatcher.dispatcher import Dispatcher
from tests.rules.given import scripts_of
from tests.session.given import Client, FakeRoute, Upstream, call, route_with
from tests.steps import steps

RULES = "defaults: {mode: enforce}\nrules: {%s: {scripts: {commands: follow_rules, dynamic_calls: refuse}}}\n"
TEXT = b"return 1"
SHA = sha1(TEXT, usedforsecurity=False).hexdigest()


@pytest.fixture
def route(request: pytest.FixtureRequest) -> FakeRoute:
    """A route of which nobody has seen any script: rules of another name remember for themselves."""
    name = "s" + sha1(request.node.nodeid.encode(), usedforsecurity=False).hexdigest()
    return route_with(RULES % name)


def asked(route: FakeRoute) -> list[set[bytes]]:
    return [{name for _, name in keys} for _, keys in route.sought]


def answer(route: FakeRoute, client: Client, calls: bytes | None = None) -> None:
    """The other workers have been asked about everything that was sought."""
    sought, route.sought = route.sought, []
    for waiter, keys in sought:
        for key in keys if calls is not None else ():
            for rule in scripts_of(client.effective_policy.compiled):
                rule.memory.learn(key, read_script(calls or b""))
        waiter.arrived()


def upstream(client: Client) -> Upstream:
    assert isinstance(client.sender.upstream, Upstream)
    return client.sender.upstream


def test_alone_there_is_nobody_to_ask(route: FakeRoute) -> None:
    client = Client(route)
    client.say("EVALSHA", SHA, 0)
    assert client.heard() == NOSCRIPT
    client.say("EVAL", TEXT, 0)
    client.say("EVALSHA", SHA, 0)
    assert upstream(client).taken() == call("EVAL", TEXT, 0) + call("EVALSHA", SHA, 0)


@pytest.mark.parametrize("seen", [TEXT, None], ids=["seen by another worker", "seen by nobody"])
def test_the_other_workers_are_asked_once_while_only_this_client_waits(route: FakeRoute, seen: bytes | None) -> None:
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


def test_what_is_known_needs_no_asking(route: FakeRoute) -> None:
    route.workers = True
    client = Client(route)
    client.say("SCRIPT", "LOAD", TEXT)
    upstream(client).answer(b"$40\r\n%b\r\n" % SHA.encode())
    client.say("EVALSHA", SHA, 0)
    assert upstream(client).taken().endswith(call("EVALSHA", SHA, 0))
    assert route.sought == []


def test_a_large_argument_does_not_keep_others_from_being_asked(route: FakeRoute) -> None:
    route.workers = True
    client = Client(route)
    client.say("EVALSHA", SHA, 0, "x" * 5000)
    assert asked(route) == [{SHA.encode()}]
    answer(route, client)
    assert client.heard() == NOSCRIPT


def test_a_transaction_about_scripts_waits_on_an_upstream_of_its_own(route: FakeRoute) -> None:
    route.workers = True
    client = Client(route)
    client.send(call("MULTI") + call("SCRIPT", "EXISTS", SHA) + call("EXEC"))
    assert asked(route) == [{SHA.encode()}]
    answer(route, client)
    assert upstream(client) is client.state.upstream
    assert upstream(client).taken() == call("MULTI") + call("SCRIPT", "EXISTS", SHA) + call("EXEC")
    upstream(client).answer(b"+OK\r\n", b"+QUEUED\r\n", b"*1\r\n*1\r\n:1\r\n")
    assert client.heard().endswith(b"*1\r\n*1\r\n:0\r\n")


def test_script_exists_agrees_with_evalsha(route: FakeRoute) -> None:
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


DECOY = b"""#!lua name=decoy
redis.register_function('other', function() return 1 end)
if false then redis.register_function('f', function() return 1 end) end"""
DANGEROUS = b"#!lua name=d\nredis.register_function('f', function() return redis.call(args[1]) end)"


def listed(name: bytes, function: bytes, code: bytes = b"", resp3: bool = False) -> bytes:
    """FUNCTION LIST's reply: one library with one function."""
    mapping = b"%%%d\r\n" if resp3 else b"*%d\r\n"
    unit = 1 if resp3 else 2
    described = (mapping % (2 * unit)) + b"$4\r\nname\r\n" + bulk(function) + b"$5\r\nflags\r\n" + b"*0\r\n"
    fields = [b"library_name", bulk(name), b"engine", bulk(b"LUA"), b"functions", b"*1\r\n" + described]
    if code:
        fields += [b"library_code", bulk(code)]
    body = b"".join(bulk(each) if i % 2 == 0 else each for i, each in enumerate(fields))
    return b"*1\r\n" + mapping % (len(fields) // 2 * unit) + body


def bulk(text: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(text), text)


def tell(route: FakeRoute, *replies: bytes) -> list[tuple[bytes, ...]]:
    """Answer what is asked of Redis; the questions."""
    questions = []
    for reply in replies:
        _, (question,), answered = route.asked.pop(0)
        questions.append(tuple(question))
        answered([reply])
    return questions


@pytest.mark.parametrize("resp3", [False, True])
def test_redis_is_asked_whose_a_function_is(route: FakeRoute, resp3: bool) -> None:
    client, other = Client(route), Client(route)
    client.say("FCALL", "F", 0)
    other.say("GET", "a")
    assert route.upstream().taken() == call("GET", "a")
    questions = tell(route, listed(b"l", b"f", resp3=resp3), listed(b"l", b"f", LIBRARY, resp3=resp3))
    assert questions == [(b"FUNCTION", b"LIST"), (b"FUNCTION", b"LIST", b"LIBRARYNAME", b"l", b"WITHCODE")]
    assert upstream(client).taken() == call("FCALL", "F", 0)
    client.say("FCALL", "f", 0)
    assert not route.asked, "the answer holds for a second"
    assert upstream(client).taken() == call("FCALL", "f", 0)


def test_a_decoy_that_may_register_a_function_says_nothing_about_it(route: FakeRoute) -> None:
    client = Client(route)
    client.say("FUNCTION", "LOAD", DECOY)
    upstream(client).answer(b"$5\r\ndecoy\r\n")
    client.heard()
    client.say("FCALL", "f", 0)
    tell(route, listed(b"d", b"f"), listed(b"d", b"f", DANGEROUS))
    assert client.heard().startswith(b"-DENIED keyrail/")
    assert call("FCALL", "f", 0) not in upstream(client).taken()


@pytest.mark.parametrize("reply", [b"-NOPERM no\r\n", b"+OK\r\n"])
def test_a_function_that_redis_does_not_tell_of_is_dynamic(route: FakeRoute, reply: bytes) -> None:
    client = Client(route)
    client.say("FUNCTION", "LOAD", LIBRARY)
    upstream(client).answer(b"$1\r\nl\r\n")
    client.heard()
    client.say("FCALL", "f", 0)
    tell(route, reply)
    assert b"Keyrail cannot tell what it calls: Redis does not tell this user which library" in client.heard()


def test_a_function_that_nobody_has_gets_redis_own_error(route: FakeRoute) -> None:
    client = Client(route)
    client.say("FCALL", "g", 0)
    tell(route, listed(b"l", b"f"))
    assert client.heard() == b"-ERR Function not found\r\n"


def test_a_library_that_is_loaded_is_asked_about_again(route: FakeRoute) -> None:
    client = Client(route)
    client.say("FCALL", "f", 0)
    tell(route, listed(b"l", b"f"), listed(b"l", b"f", LIBRARY))
    upstream(client).answer(b":1\r\n")
    client.say("FUNCTION", "LOAD", "REPLACE", LIBRARY)
    upstream(client).answer(b"$1\r\nl\r\n")
    client.heard()
    client.say("FCALL", "f", 0)
    assert len(route.asked) == 1


def rewrite(patch: pytest.MonkeyPatch, argv: list[bytes]) -> None:
    """A rule rewrites each command of this name, and changes its reply."""
    judge, name = Dispatcher._judge, argv[0]
    decision = Decision(Rewrite(argv, lambda frame: b"+as " + frame[1:]))
    patch.setattr(
        Dispatcher, "_judge", lambda self, item: decision if item.command.argv[0] == name else judge(self, item)
    )


def test_the_library_of_a_rewritten_command_is_learnt_and_its_reply_is_edited(
    route: FakeRoute, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(route)
    client.say("FCALL", "f", 0)
    tell(route, listed(b"l", b"f"), listed(b"l", b"f", LIBRARY))
    upstream(client).answer(b":1\r\n")
    client.heard()
    rewrite(monkeypatch, [b"FUNCTION", b"LOAD", b"REPLACE", LIBRARY])
    client.say("FUNCTION", "LOAD", LIBRARY)
    upstream(client).answer(b"$1\r\nl\r\n")
    assert client.heard() == b"+as 1\r\nl\r\n"
    client.say("FCALL", "f", 0)
    assert len(route.asked) == 1


def test_a_reply_inside_a_transaction_is_learnt_from_and_edited(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(route_with(RULES % "edits"))
    client.send(call("MULTI"))
    rewrite(monkeypatch, [b"SELECT", b"3"])
    client.send(call("SELECT", "1") + call("EXEC"))
    upstream(client).answer(b"+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n")
    assert client.heard() == b"+OK\r\n+QUEUED\r\n*1\r\n+as OK\r\n"
    assert client.key.database == 3


def test_inside_multi_the_last_answer_counts_and_without_one_nothing_is_known(route: FakeRoute) -> None:
    client = Client(route)
    client.send(call("MULTI") + call("FCALL", "f", 0) + call("EXEC"))
    assert not route.asked
    assert call("FCALL", "f", 0) not in upstream(client).taken()
    fresh = Client(route)
    fresh.say("FCALL", "f", 0)
    tell(route, listed(b"l", b"f"), listed(b"l", b"f", LIBRARY))
    assert upstream(fresh).taken() == call("FCALL", "f", 0)
    upstream(fresh).answer(b":1\r\n")
    fresh.send(call("MULTI") + call("FCALL", "f", 0) + call("EXEC"))
    assert call("FCALL", "f", 0) in upstream(fresh).taken()


def test_a_session_without_such_a_rule_asks_nothing() -> None:
    route = FakeRoute()
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
        ("lenient: {scripts: {commands: follow_rules, dynamic_calls: allow}, mode: enforce}", "FCALL"),
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


def test_no_script_of_a_client_over_its_limit_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = "scripts: {commands: follow_rules}"
    client = Client(
        route_with(f"defaults: {{mode: enforce}}\nrules: {{over: {{{scripts}}}, few: {{limits: {{rate: 2/h}}}}}}\n")
    )
    read: list[bytes] = []

    def read_and_note(text: bytes) -> ScriptCalls:
        read.append(text)
        return read_script(text)

    monkeypatch.setattr(memory, "read_script", read_and_note)
    for number in range(10):
        client.say("EVAL", b"return %d" % number, 0)
    assert len(read) == 2


def test_a_limit_by_key_counts_the_keys_that_a_script_names() -> None:
    scripts = "scripts: {commands: follow_rules}, mode: enforce"
    hot = 'limits: {keys: "hot*", rate: 1/h}, mode: enforce'
    names = "names: {segments: 1..}, mode: enforce"
    client = Client(route_with(f"rules: {{own: {{{scripts}}}, hot: {{{hot}}}, names: {{{names}}}}}\n"))
    text = "return redis.call('GET', 'hot')"
    client.say("EVAL", text, 0)
    upstream(client).answer(b"$-1\r\n")
    client.heard()
    client.say("EVAL", text, 0)
    assert b"keyrail/hot: more than 1 commands/h about hot*" in client.heard()


def test_many_short_commands_with_a_long_script_take_turns_with_others(route: FakeRoute) -> None:
    """4,000 of them fit into one read, and each has all calls of its script judged."""
    text = b"".join(b"redis.call('SET', 'k%d', ARGV[1]) " % i for i in range(90))
    client, other, sent = Client(route), Client(route), 30
    client.say("EVAL", text, 0, "x")
    sha = sha1(text, usedforsecurity=False).hexdigest()
    upstream(client).taken()
    ran, turns = [], 0

    def turn() -> None:
        ran.append(upstream(client).taken().count(b"EVALSHA"))

    taken = steps(lambda: client.send(call("EVALSHA", sha, 0, "x") * sent))
    turn()
    assert taken < 100 * 90 * 3
    while route.timers and turns < 1000:
        other.send(call("PING"))
        route.timers.pop(0)()
        turn()
        turns += 1
    assert (sum(ran), max(ran)) == (sent, 3)
    assert client.judged_calls == 0
    for _ in range(sent + 1):
        upstream(client).answer(b"$-1\r\n")
    assert client.heard() == b"$-1\r\n" * (sent + 1)


def test_a_client_that_leaves_before_its_turn_runs_nothing_more(route: FakeRoute) -> None:
    text = b"".join(b"redis.call('SET', 'k%d', ARGV[1]) " % i for i in range(201))
    client = Client(route)
    client.send(call("EVAL", text, 0, "x") * 3)
    before = upstream(client)
    assert before.taken().count(b"EVAL") == 1
    client.connection_lost()
    while route.timers:
        route.timers.pop(0)()
    assert before.taken() == b""


def test_explanations_take_turns_too(route: FakeRoute) -> None:
    client = Client(route)
    client.say("KEYRAIL", "EXPLAIN", "EVAL", TEXT, 0)
    one = client.heard()
    client.send(call("KEYRAIL", "EXPLAIN", "EVAL", TEXT, 0) * 30)
    heard = client.heard()
    assert len(one) <= len(heard) < 15 * len(one)
    while route.timers:
        route.timers.pop(0)()
        heard += client.heard()
    assert heard == one * 30
