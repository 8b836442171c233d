"""Judging, routing, waiting, and changing upstreams: pending replies at one upstream at a time, no command judged
twice."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from proxy.commands.command import Command
from proxy.commands.table import STANDARD, Lane
from proxy.hotpath.upstream.in_flight import FORWARD
from proxy.policy.apps import Caller
from proxy.policy.decision import Decision, HiddenCommands
from proxy.policy.model import TRANSPARENT, Mode
from proxy.rules.verdict import PASS, Rewrite, Surround
from proxy.session.commands import sending
from proxy.session.commands.exec_abort import ABORTING_COMMAND
from proxy.session.dispatcher.dispatcher import Dispatcher
from proxy.session.policy import judging
from proxy.session.policy.judging import judge
from proxy.session.ports.client import ClientTransport, EffectivePolicy
from proxy.session.ports.pool_key import PoolKey
from proxy.session.session import Session
from proxy.wire.request import Request
from tests.policy.given import policy
from tests.session.clustered import Routed
from tests.session.given import HOME, RULES, Client, FakeRoute, call, route_with

OK = b"+OK\r\n"


def test_plain_commands_share_an_upstream() -> None:
    route = FakeRoute()
    one, two = Client(route), Client(route)
    one.send(call("GET", "a") + call("GET", "b"))
    two.say("GET", "c")
    one.say("GET", "d")
    upstream = route.upstream()
    assert upstream.taken() == call("GET", "a") + call("GET", "b") + call("GET", "c") + call("GET", "d")
    upstream.answer(b"+a\r\n+b\r\n+c\r\n+d\r\n")
    assert (one.heard(), two.heard()) == (b"+a\r\n+b\r\n+d\r\n", b"+c\r\n")


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("name", ["MOD.FIRST", "MOD.SECOND"])
def test_a_command_that_waits_while_an_engine_without_it_comes_is_one_that_nobody_knows(
    clustered: bool, name: str
) -> None:
    """Its id means another command there, or none."""
    described = [[each, 2, [b"write"], 1, 1, 1, [b"@write"], [], [], []] for each in (b"mod.first", b"mod.second")]
    other = STANDARD.completed_by([[b"mod.other", -2, [b"write"], 0, 0, 0, [b"@write"], [], [], []]])
    route = FakeRoute()
    route.put_in_force(TRANSPARENT, STANDARD.completed_by(described))
    client = Routed(route) if clustered else Client(route)
    route.starving = True
    client.say(name, "c")
    assert client.held is not None
    router = client.intake.config.router
    route.put_in_force(TRANSPARENT, other)
    client.adopt()
    client.intake.config.router = router
    route.feed()
    client.own.answer(b"-ERR unknown command 'MOD'\r\n")
    assert client.heard() == b"-ERR unknown command 'MOD'\r\n"
    assert [place for place, _ in client.intake.calls.take() if place >= len(STANDARD.specs)] == []


LIMITED = """
defaults: {mode: enforce}
rules:
  names: {names: {max_length: 10}}
  few: {limits: {per: user, concurrency: 5}}
"""


@pytest.mark.parametrize(("pooling", "known", "judged"), [(True, True, 0), (True, False, 1), (False, True, 1)])
def test_the_plan_decides_about_the_first_command_of_a_client_on_a_pool_that_is_there(
    monkeypatch: pytest.MonkeyPatch, pooling: bool, known: bool, judged: int
) -> None:
    route = FakeRoute(policy(LIMITED), pooling=pooling)
    home = PoolKey("app", 0, 2)
    route.known_users.add("app")
    if pooling:
        Client(route, home).say("GET", "a")
        route.upstream(home).answer(OK)
    if not known:
        route.unknown_users.add("app")
        monkeypatch.setattr(route, "await_user", lambda _waiter, _user: False)
    judged_commands: list[Command] = []

    def watched(session: Session, command: Command) -> Decision:
        judged_commands.append(command)
        return judge(session, command)

    monkeypatch.setattr(judging, "judge", watched)
    Client(route, home).say("GET", "a")
    assert len(judged_commands) == judged


def test_slow_commands_have_a_lane_of_their_own_and_a_client_pending_replies_on_one() -> None:
    route = FakeRoute()
    client = Client(route)
    client.send(call("GET", "a") + call("EVAL", "x", 0) + call("GET", "b"))
    fast, slow = route.upstream(), route.upstream(HOME, Lane.SLOW)
    assert (fast.taken(), slow.taken(), client.is_paused()) == (call("GET", "a"), b"", True)
    fast.answer(OK)
    # Commands behind a slow one stay behind it while its reply is pending.
    assert slow.taken() == call("EVAL", "x", 0) + call("GET", "b")
    slow.answer(OK, OK)
    client.say("GET", "c")
    assert (fast.taken(), slow.taken()) == (call("GET", "c"), b"")


def test_a_client_waits_for_an_upstream_and_loses_nothing() -> None:
    route = FakeRoute()
    route.starving = True
    client = Client(route)
    client.send(call("GET", "a") + call("BLPOP", "q", 0) + call("GET", "b"))
    assert client.is_paused()
    route.feed()
    assert route.upstream().taken() == call("GET", "a")
    route.starving = True
    route.upstream().answer(OK)
    assert route.waiting == [client]
    route.feed()
    assert client.own.taken() == call("BLPOP", "q", 0) + call("GET", "b")
    assert not client.is_paused()


def test_a_command_that_waited_is_not_sent_again_in_place_of_another() -> None:
    route = FakeRoute()
    client = Client(route)
    client.say("GET", "a")
    upstream = route.upstream()
    upstream.usable = False
    client.say("GET", "b")
    upstream.usable = True
    upstream.answer(OK)
    client.say("GET", "c")
    assert upstream.taken() == call("GET", "a") + call("GET", "b") + call("GET", "c")
    upstream.answer(OK, OK)
    client.say("CLIENT", "ID")
    assert (upstream.taken(), client.own.taken()) == (b"", call("CLIENT", "ID"))


def test_a_command_that_waits_is_judged_and_counted_once() -> None:
    route = route_with(RULES + "traffic: {count_keys: on}\n")
    client = Client(route)
    client.say("GET", "a")
    client.say("BLPOP", "q", 0)
    client.say("SET", "k", "v", "NX")
    route.upstream().answer(OK)
    assert client.own.taken() == call("BLPOP", "q", 0) + call("SET", "k", "v", "NX", "EX", 300)
    key_counts = route.counters.harvest(10).key_counts
    assert {key_count.key: key_count.count for key_count in key_counts} == {b"a": 1, b"q": 1, b"k": 1}
    assert [hit[2] for hit in route.hits] == ["rewritten"]


def test_without_pooling_every_client_has_an_upstream_of_its_own() -> None:
    route = FakeRoute(pooling=False)
    one, two = Client(route), Client(route)
    one.say("GET", "a")
    two.say("GET", "b")
    assert (one.own.taken(), two.own.taken()) == (call("GET", "a"), call("GET", "b"))
    one.own.answer(OK)
    one.say("SELECT", 1)
    one.own.answer(OK)
    assert one.own.key == PoolKey(None, 1, 2)
    assert route.pools == {}


def test_who_sends_much_leaves_room_for_others_in_between() -> None:
    route = FakeRoute(window=4)
    flood, other = Client(route), Client(route)
    upstream = route.upstream()
    flood.send(call("GET", "f") * 10)
    other.say("GET", "o")
    assert upstream.taken() == call("GET", "f") * 4 + call("GET", "o")
    upstream.answer(OK * 5)
    assert upstream.taken() == call("GET", "f") * 4
    other.say("GET", "o")
    assert upstream.taken() == call("GET", "o")
    upstream.answer(OK * 5)
    assert upstream.taken() == call("GET", "f") * 2


def test_a_refusal_takes_its_place_among_the_replies() -> None:
    route = route_with(RULES)
    client = Client(route)
    client.send(call("FLUSHALL") + call("GET", "a") + call("flushall") + b"FlushAll async\r\n" + call("GET", "b"))
    assert client.heard().startswith(b"-DENIED keyrail/no-flush: ")
    assert route.upstream().taken() == call("GET", "a") + call("GET", "b")
    route.upstream().answer(b"+a\r\n")
    heard = client.heard()
    assert heard.startswith(b"+a\r\n-DENIED ")
    assert heard.count(b"-DENIED") == 2
    route.upstream().answer(b"+b\r\n")
    assert client.heard() == b"+b\r\n"


def test_passed_rewritten_and_refused_commands_keep_their_order_however_they_are_cut() -> None:
    texts = ["GET a", "FLUSHALL", "SET k v", "SETNX k v", "flushall", "FLUSHALL async", "DEL a b", "PING", "flushALL"]
    stream = b"".join(call(*text.split()) for text in texts)
    wanted = [b"1", b"DENIED", b"2", b"3", b"DENIED", b"DENIED", b"4", b"5", b"DENIED"]
    for cut in range(len(stream) + 1):
        route = route_with(RULES)
        client = Client(route)
        client.send(stream[:cut])
        client.send(stream[cut:])
        sent = route.upstream().taken()
        assert sent == b"".join(
            (
                call("GET", "a"),
                call("SET", "k", "v", "EX", 300),
                call("SET", "k", "v", "NX", "EX", 300),
                call("UNLINK", "a", "b"),
                call("PING"),
            )
        )
        route.upstream().answer(b"+1\r\n+2\r\n+3\r\n+4\r\n+5\r\n")
        assert [line[1:].split()[0] for line in client.heard().splitlines()] == wanted
        assert (client.sender.pending_replies, client.local) == (0, 4)


def test_a_refusal_that_is_decided_beforehand_is_counted_by_the_plan() -> None:
    route = route_with(RULES)
    client = Client(route)
    bound = client.effective_policy.compiled
    flushall = bound.table.lookup.find(Request.from_argv([b"flushall"]))
    before = bound.plan.changed[flushall]
    client.send(call("GET", "a") + call("FLUSHALL", "async") * 3)
    assert bound.plan.changed[flushall] == before + 3
    assert [(hit.rule, hit.what) for hit in bound.lowered[flushall]] == [("no-flush", "refused")]
    assert route.hits == []
    assert route.witnessed == [("no-flush", "FLUSHALL", 2)] * 3, "and shown to whoever tells of it"


def test_a_command_that_gets_another_name_and_arguments_stays_in_its_run() -> None:
    route = route_with(RULES)
    client = Client(route)
    bound = client.effective_policy.compiled
    getset = bound.table.lookup.find(Request.from_argv([b"GETSET"]))
    before = bound.plan.changed[getset]
    client.send(call("GET", "a") + call("GetSet", "k", "v") + call("SET", "k", "v"))
    sent = route.upstream().taken()
    assert sent == call("GET", "a") + call("SET", "k", "v", "EX", 300, "GET") + call("SET", "k", "v", "EX", 300)
    first, run = route.upstream().entries()
    assert (first.due, run.action, run.due) == (1, FORWARD, 2)
    assert bound.plan.changed[getset] == before + 1
    assert ([hit.rule for hit in bound.lowered[getset]], route.hits) == (["lifetime"], [])


def test_rewritten_commands_and_their_replies() -> None:
    route = route_with(RULES)
    client = Client(route)
    client.send(call("del", "a", "b") + call("SETNX", "k", "v") + call("SETNX", "k", "v") + b"DEL c\r\n")
    assert route.upstream().taken() == (
        call("UNLINK", "a", "b") + call("SET", "k", "v", "NX", "EX", 300) * 2 + call("UNLINK", "c")
    )
    route.upstream().answer(b":2\r\n+OK\r\n$-1\r\n:0\r\n")
    assert client.heard() == b":2\r\n:1\r\n:0\r\n:0\r\n"


def test_inline_commands_travel_as_arrays() -> None:
    route = FakeRoute()
    client = Client(route)
    client.send(b"  set k 'a b' \r\n\r\n")
    assert route.upstream().taken() == call("set", "k", "a b")


def test_a_protocol_error_is_answered_behind_what_is_owed() -> None:
    route = FakeRoute()
    client = Client(route)
    client.send(call("GET", "a") + b"*x\r\n" + call("GET", "b"))
    assert client.heard() == b""
    route.upstream().answer(b"+a\r\n")
    assert client.heard() == b"+a\r\n-ERR Protocol error: 1\r\n"
    assert client.cause == "protocol_error"
    assert route.upstream().taken() == call("GET", "a")


def test_inside_multi_a_refusal_makes_redis_abort() -> None:
    route = route_with(RULES)
    client = Client(route)
    client.send(call("MULTI") + call("SET", "a", 1) + call("FLUSHALL") + call("EXEC"))
    upstream = client.own
    assert upstream.taken() == call("MULTI") + call("SET", "a", 1, "EX", 300) + ABORTING_COMMAND + call("EXEC")
    upstream.answer(b"+OK\r\n+QUEUED\r\n-ERR wrong number of arguments for 'get' command\r\n-EXECABORT no\r\n")
    heard = client.heard().splitlines(keepends=True)
    assert heard[:2] == [b"+OK\r\n", b"+QUEUED\r\n"]
    assert heard[2].startswith(b"-DENIED keyrail/no-flush")
    assert heard[3:] == [b"-EXECABORT no\r\n"]
    assert client.sender.pending_replies == 0


# A change of policy


def test_a_new_policy_holds_from_the_next_command() -> None:
    route = FakeRoute()
    client = Client(route)
    client.say("DEL", "a")
    route.put_in_force(policy(RULES))
    client.adopt()
    client.say("DEL", "b")
    assert route.upstream().taken() == call("DEL", "a") + call("UNLINK", "b")


@pytest.mark.parametrize("end", ["EXEC", "DISCARD"])
def test_a_transaction_keeps_the_policy_of_its_multi(end: str) -> None:
    route = FakeRoute()
    client = Client(route)
    client.say("MULTI")
    client.own.answer(OK)
    client.say("DEL", "a")
    route.put_in_force(policy(RULES))
    client.adopt()
    client.say("DEL", "b")
    client.say(end)
    client.say("DEL", "c")
    own = client.own
    assert own.taken() == call("MULTI") + call("DEL", "a") + call("DEL", "b") + call(end)
    own.answer(b"+QUEUED\r\n" * 2 + OK)
    assert route.upstream().taken() == call("UNLINK", "c")


def test_a_command_that_waits_is_not_judged_anew() -> None:
    route = FakeRoute()
    route.starving = True
    client = Client(route)
    client.say("DEL", "a")
    route.put_in_force(policy(RULES))
    client.adopt()
    route.feed()
    assert route.upstream().taken() == call("DEL", "a")


# Leaving


def test_pending_replies_of_one_who_leaves_are_hidden_from_the_others() -> None:
    route = FakeRoute()
    leaver, other = Client(route), Client(route)
    leaver.say("GET", "a")
    other.say("GET", "b")
    leaver.on_close()
    route.upstream().answer(b"$100\r\n", b"x" * 100 + b"\r\n", b"+b\r\n")
    assert (leaver.heard(), other.heard()) == (b"", b"+b\r\n")


def test_a_private_upstream_without_state_outlives_its_client() -> None:
    route = FakeRoute()
    client = Client(route)
    client.say("BLPOP", "q", 1)
    own = client.own
    client.on_close()
    assert route.released == []
    assert own in [*route.discarded, *route.closed_gracefully]
    again = Client(route)
    again.say("BLPOP", "q", 1)
    again.own.answer(b"*-1\r\n")
    assert len(route.released) == 1
    again.on_close()
    assert len(route.discarded) + len(route.closed_gracefully) == 1


@pytest.mark.parametrize("command", ["MULTI", "WATCH k", "SUBSCRIBE a", "CLIENT ID", "MONITOR"])
def test_a_private_upstream_with_state_goes_with_its_client(command: str) -> None:
    route = FakeRoute()
    client = Client(route)
    client.say(*command.split())
    own = client.own
    client.on_close()
    assert own in [*route.discarded, *route.closed_gracefully]
    assert route.released == []


def test_a_client_that_left_while_it_waited_is_not_woken() -> None:
    route = FakeRoute()
    route.starving = True
    client = Client(route)
    client.say("GET", "a")
    client.on_close()
    route.feed()
    assert route.upstream().taken() == b""


def test_answers_to_one_read_leave_as_one() -> None:
    client = Client(route_with(RULES))
    client.send(call("FLUSHALL") * 20)
    (whole,) = client.heard_parts
    assert whole.count(b"-DENIED keyrail/no-flush: ") == whole.count(b"\r\n") == 20


def test_answers_stand_before_the_reply_to_what_came_behind_them() -> None:
    route = route_with(RULES)
    client = Client(route)
    client.send(call("FLUSHALL") + call("GET", "a") + call("FLUSHALL"))
    assert client.heard().count(b"-DENIED") == 1
    route.upstream().answer(OK)
    assert client.heard().startswith(b"+OK\r\n-DENIED")


def test_a_client_that_takes_nothing_is_held_back_in_the_middle_of_a_read() -> None:
    client = Client(route_with(RULES))

    def refuse_to_take(data: bytes) -> None:
        client.heard_parts.append(data)
        client.sender.full = True

    client.sender.write = refuse_to_take
    client.send(call("FLUSHALL") * 1000)
    assert client.is_paused()
    assert b"".join(client.heard_parts).count(b"-DENIED") < 200


def test_a_long_answer_does_not_wait_for_others() -> None:
    client = Client(FakeRoute())
    client.intake.running = True
    sending.answer(client, b"+short\r\n")
    assert client.heard() == b""
    sending.answer(client, b"+" + b"x" * 5000 + b"\r\n")
    assert client.heard().startswith(b"+short\r\n+xxx")


@pytest.mark.parametrize(
    "line",
    [
        "HELLO 3",
        "AUTH ann right",
        "SELECT 1",
        "RESET",
        "QUIT",
        "CLIENT SETNAME x",
        "CLIENT REPLY OFF",
        "SUBSCRIBE c",
        "WATCH k",
        "MULTI",
        "MONITOR",
        "NO.SUCH x",
        "KEYRAIL HELP",
        "WAIT 0 0 hidden",
        "SCRIPT KILL hidden",
        "CLIENT TRACKING ON hidden",
    ],
)
def test_what_a_rule_wants_of_a_command_about_the_connection_is_refused_and_not_dropped(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    route = FakeRoute()
    client = Client(route)
    words = line.removesuffix(" hidden").encode().split()
    if line.endswith(" hidden"):
        surround = Surround(lambda line, replies: (), "a PING", before=((b"PING",),))
        decision = Decision(PASS, hidden=(HiddenCommands(surround, "rule", Mode.ENFORCE),))
    else:
        decision = Decision(Rewrite(words, lambda frame: frame))
    monkeypatch.setattr(Dispatcher, "_judge", lambda self, item: decision)
    client.say(*words)
    assert client.heard().startswith(b"-DENIED keyrail: a rule changes the reply to ")
    assert b"".join(upstream.taken() for upstream in route.all_upstreams()) == b""
    assert client.cause is None


@pytest.mark.parametrize("leaves", [True, False])
def test_a_client_that_needs_no_upstream_any_more_stands_in_no_line(leaves: bool) -> None:
    """None may come in time: then whoever stands in line is closed."""
    route = FakeRoute()
    client = Client(route)
    route.starving = True
    client.say("BLPOP", "a", 0)
    assert len(route.waiting) == 1
    client.arrived()
    assert len(route.waiting) == 1
    if leaves:
        client.connection_lost()
    else:
        route.starving = False
        client.arrived()
        assert client.own.taken().endswith(call("BLPOP", "a", 0))
    assert route.waiting == []


class ByAddress(FakeRoute):
    """A route with a stricter policy for clients of one host."""

    strict: EffectivePolicy | None = None

    def effective_policy(self, key: PoolKey, caller: Caller) -> EffectivePolicy:
        found = super().effective_policy(key, caller)
        return self.strict if self.strict is not None and caller.address == "10.1.0.7" else found


@pytest.mark.parametrize(("address", "refused"), [("10.1.0.7:5", True), ("10.1.0.8:5", False), ("unix", False)])
def test_a_client_is_judged_by_its_address_from_its_first_command(address: str, refused: bool) -> None:
    route = ByAddress(policy(RULES))
    route.strict = route.effective_policy(HOME, Caller("default"))
    route.put_in_force(TRANSPARENT)
    client = Client(route)
    client.connected(cast("ClientTransport", SimpleNamespace(write=client.sender.write)), address, "")
    client.say("FLUSHALL")
    assert client.heard().startswith(b"-DENIED ") is refused


def test_a_client_whose_handshake_took_long_has_the_policy_of_today() -> None:
    route = FakeRoute(TRANSPARENT)
    client = Client(route)
    route.put_in_force(policy(RULES))
    client.connected(cast("ClientTransport", SimpleNamespace(write=client.sender.write)), "10.1.0.7:5", "")
    client.say("FLUSHALL")
    assert client.heard().startswith(b"-DENIED ")
