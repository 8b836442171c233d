"""Commands that need a private upstream: for one reply, or until the client disconnects."""

from __future__ import annotations

import pytest

from proxy.commands.table import STANDARD, Lane
from proxy.hotpath.upstream.upstream_pipeline import MARK
from proxy.policy.model import TRANSPARENT
from proxy.session.state import Keeping
from tests.session.given import Client, FakeRoute, call, route_with

OK = b"+OK\r\n"
UNKNOWN = b"-ERR unknown command 'MY.OWN', with args beginning with: \r\n"
REFUSING = "defaults: {mode: enforce}\nrules:\n  no-flush: {refuse: [FLUSHALL]}\n"


@pytest.mark.parametrize(
    "command",
    [
        ["BLPOP", "q", "0"],
        ["BRPOPLPUSH", "a", "b", "1"],
        ["XREAD", "BLOCK", "0", "STREAMS", "s", "$"],
    ],
)
def test_pinned_until_its_reply(command: list[str]) -> None:
    route = FakeRoute()
    client = Client(route)
    client.send(call("GET", "a") + call(*command) + call("GET", "b"))
    assert route.lent == []
    route.upstream().answer(b"+a\r\n")
    own = client.own
    assert own.taken() == call(*command) + call("GET", "b")
    own.answer(b"*-1\r\n")
    assert client.own is own
    own.answer(b"+b\r\n")
    assert not client.is_pinned()
    assert route.released == [own]
    assert client.heard() == b"+a\r\n*-1\r\n+b\r\n"


def test_a_command_that_does_not_block_in_this_form_is_pooled() -> None:
    route = FakeRoute()
    client = Client(route)
    client.say("XREAD", "STREAMS", "s", "0")
    assert client.state.upstream is None


@pytest.mark.parametrize(
    "command",
    [
        ["CLIENT", "ID"],
        ["CLIENT", "INFO"],
        ["CLIENT", "TRACKING", "ON"],
        ["CLIENT", "NO-EVICT", "ON"],
        ["READONLY"],
        ["ASKING"],
    ],
)
def test_pinned_for_the_rest_of_the_session(command: list[str]) -> None:
    route = FakeRoute()
    client = Client(route)
    client.say(*command)
    own = client.own
    own.answer(OK)
    client.say("GET", "a")
    assert own.taken() == call(*command) + call("GET", "a")
    own.answer(b"+a\r\n")
    assert (client.state.upstream, route.released) == (own, [])


def test_a_client_is_blocked_until_the_reply_comes_whatever_else_it_is_owed() -> None:
    """One that leaves while it is blocked is not waited for; one that half-closes behind it gets its answers."""
    client = Client(FakeRoute())
    client.send(call("BLPOP", "q", 0) + call("GET", "a"))
    own = client.own
    for reply, blocked in ((b"", 1), (b"*2\r\n$1\r\n", 0), (b"q\r\n$1\r\nx\r\n", 0)):
        own.answer(reply)
        assert client.state.blocked == blocked
    assert client.sender.pending_replies == 1
    own.answer(b"$-1\r\n")
    assert client.heard() == b"*2\r\n$1\r\nq\r\n$1\r\nx\r\n$-1\r\n"


def test_wait_speaks_of_writes_that_its_upstream_covers() -> None:
    route = FakeRoute()
    client = Client(route)
    client.send(call("SET", "k", "v") + call("WAIT", 1, 100))
    assert route.lent == []
    route.upstream().answer(OK)
    own = client.own
    hidden = own.taken()
    assert call("PING") in hidden
    for _ in range(4):
        if own.head is not None and not client.state.blocked:
            own.answer(OK)
    assert (hidden + own.taken()).endswith(call("WAIT", 1, 100))
    while client.sender.pending_replies > 1:
        own.answer(OK)
    own.answer(b":1\r\n")
    assert client.heard() == OK + b":1\r\n"
    assert client.state.upstream is None


def test_monitor_is_relayed_from_its_first_line_on() -> None:
    route = FakeRoute()
    client = Client(route)
    client.send(call("GET", "a") + call("MONITOR") + call("GET", "b"))
    route.upstream().answer(b"+a\r\n")
    own = client.own
    said = b'+OK\r\n+1.0 "GET" "b"\r\n-ERR\r\n$1\r\nb\r\n'
    own.answer(said)
    assert own.taken() == call("MONITOR") + call("GET", "b")
    own.answer(said)
    assert client.heard() == b"+a\r\n" + said * 2
    assert (client.sender.pending_replies, own.complaints) == (0, [])


MARKED = b"-ERR unknown command '%b', with args beginning with: \r\n" % MARK
LINE = b'+1.0 "PING"\r\n'


def monitoring(route: FakeRoute) -> Client:
    client = Client(route)
    client.say("MONITOR")
    client.own.answer(OK)
    assert client.heard() == OK
    return client


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("ending", ["RESET", "QUIT", "PSYNC"])
def test_no_answer_of_keyrail_overtakes_what_is_relayed(ending: str, size: int) -> None:
    """Redis has not answered what the client has sent before: nobody can tell how many replies are still to come."""
    route = FakeRoute()
    client = monitoring(route)
    own = client.own
    last = ("PSYNC", "?", "-1") if ending == "PSYNC" else (ending,)
    client.send(call("PING") + call("GET") + call(*last) + call("GET", "b"))
    assert client.heard() == b""
    before = b"+PONG\r\n" + LINE + b"-ERR of a script: KEYRAIL-MARK\r\n"
    said = before + MARKED + (b"$1\r\nb\r\n" if ending == "PSYNC" else b"")
    for start in range(0, len(said), size):
        own.answer(said[start : start + size])
    heard = client.heard()
    if ending == "PSYNC":
        assert heard.startswith(before + b"-DENIED ")
        assert heard.endswith(b"\r\n$1\r\nb\r\n")
    else:
        assert heard == before + (b"+RESET\r\n" if ending == "RESET" else OK)
    assert (client.cause, client.sender.pending_replies) == ("quit" if ending == "QUIT" else None, ending == "RESET")
    if ending == "RESET":
        assert own in route.closed_gracefully
        route.upstream().answer(b"$1\r\nb\r\n")
        assert client.heard() == b"$1\r\nb\r\n"


def test_answers_of_keyrail_among_what_is_relayed_keep_their_order() -> None:
    client = monitoring(FakeRoute())
    client.send(call("KEYRAIL", "HELP", "x") + call("PING") + call("PSYNC", "?", "-1"))
    client.own.answer(MARKED + b"+PONG\r\n" + MARKED)
    first, pong, second = client.heard().splitlines()
    assert (first[:10], pong, second[:8]) == (b"-ERR wrong", b"+PONG", b"-DENIED ")


def test_a_monitor_that_redis_refuses_relays_nothing() -> None:
    route = FakeRoute()
    client = Client(route)
    client.send(call("MONITOR") + call("GET", "b"))
    client.own.answer(b"-NOPERM\r\n")
    assert client.sender.pending_replies == 1
    client.own.answer(b"+b\r\n")
    assert client.heard() == b"-NOPERM\r\n+b\r\n"


# CLIENT REPLY


def test_replies_are_off_until_they_are_on_again() -> None:
    client = Client(FakeRoute())
    client.set_reply_mode("OFF")
    client.send(call("GET", "a") + call("INCR", "b"))
    own = client.own
    client.send(call("CLIENT", "REPLY", "ON") + call("GET", "c"))
    assert client.sender.pending_replies == 2
    own.answer(OK, b"+c\r\n")
    assert client.heard() == OK + b"+c\r\n"
    assert own.taken().count(b"GET") == 2


def test_one_reply_is_skipped() -> None:
    client = Client(FakeRoute())
    client.set_reply_mode("SKIP")
    client.send(call("GET", "a") + call("GET", "b"))
    assert client.sender.pending_replies == 1
    client.own.answer(b"+b\r\n")
    assert (client.heard(), client.own.complaints) == (b"+b\r\n", [])


def test_two_skips_skip_one() -> None:
    client = Client(FakeRoute())
    client.set_reply_mode("SKIP")
    client.send(call("CLIENT", "REPLY", "SKIP") + call("GET", "a") + call("GET", "b"))
    assert client.sender.pending_replies == 1


def test_a_mode_that_does_not_exist_is_redis_to_refuse() -> None:
    client = Client(FakeRoute())
    client.say("CLIENT", "REPLY", "MAYBE")
    client.own.answer(b"-ERR syntax error\r\n")
    assert client.heard() == b"-ERR syntax error\r\n"
    client.set_reply_mode("SKIP")
    client.say("CLIENT", "REPLY", "MAYBE")
    client.say("GET", "a")
    assert client.sender.pending_replies == 1


def test_who_may_not_choose_is_told_so_and_hears_what_follows() -> None:
    client = Client(FakeRoute())
    client.send(call("CLIENT", "REPLY", "OFF") + call("PING"))
    client.own.answer(b"-NOPERM no\r\n")
    assert client.sender.pending_replies == 1
    assert (client.heard(), client.cause) == (b"-NOPERM no\r\n", None)


def test_a_refusal_is_silent_too_and_uses_up_the_skip() -> None:
    client = Client(route_with(REFUSING))
    client.set_reply_mode("SKIP")
    client.send(call("FLUSHALL") + call("GET", "a"))
    assert client.heard() == b""
    assert client.sender.pending_replies == 1
    client.own.answer(b"+a\r\n")
    assert (client.heard(), client.own.complaints) == (b"+a\r\n", [])
    client.set_reply_mode("OFF")
    client.say("FLUSHALL")
    assert (client.heard(), client.sender.pending_replies) == (b"", 0)
    assert b"FLUSHALL" not in client.own.taken()


def test_a_transaction_under_skip_counts_right() -> None:
    client = Client(FakeRoute())
    client.set_reply_mode("SKIP")
    client.send(call("MULTI") + call("GET", "a") + call("EXEC"))
    assert client.sender.pending_replies == 2
    client.own.answer(b"+QUEUED\r\n*1\r\n+a\r\n")
    assert client.heard() == b"+QUEUED\r\n*1\r\n+a\r\n"


# Commands that no table knows


def test_a_command_that_the_engine_does_not_know_either_pins_nobody() -> None:
    route = FakeRoute()
    one, two = Client(route), Client(route)
    one.say("MY.OWN", "x")
    two.say("my.own", "y")
    own = one.own
    assert two.state.upstream is None
    own.answer(UNKNOWN)
    assert (one.heard(), one.state.upstream, route.lacking) == (UNKNOWN, None, {(b"MY.OWN",)})
    sent = b"".join(upstream.taken() for upstream in route.pools.values())
    assert sent == call("my.own", "y")
    assert two.state.upstream is None


def test_a_command_that_it_knows_pins_for_good() -> None:
    route = FakeRoute()
    one, two = Client(route), Client(route)
    one.say("MY.OWN", "x")
    two.say("MY.OWN", "y")
    one.own.answer(b"*1\r\n:1\r\n")
    assert one.on_its_own.keeping is Keeping.FOR_GOOD
    assert route.lacking == set()
    assert two.own.taken() == call("MY.OWN", "y")


def test_an_unknown_subcommand_is_probed_by_its_whole_name() -> None:
    route = FakeRoute()
    client = Client(route)
    client.say("CLIENT", "NOSUCH", "x")
    client.own.answer(b"-ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP.\r\n")
    assert route.lacking == {(b"CLIENT", b"NOSUCH")}
    assert client.state.upstream is None


def test_who_leaves_in_the_middle_of_a_probe_lets_the_next_one_ask() -> None:
    route = FakeRoute()
    one, two = Client(route), Client(route)
    one.say("MY.OWN")
    two.say("MY.OWN")
    first = one.own
    one.on_close()
    assert two.own.taken() == call("MY.OWN")
    first.answer(UNKNOWN)
    assert route.probes != {}, "two is asking"
    two.own.answer(UNKNOWN)
    assert (two.heard(), route.probes) == (UNKNOWN, {})


def test_who_was_to_ask_about_another_name_lets_the_others_ask() -> None:
    """The engine that has come takes the name for a container of commands, so what is asked about is a longer one."""
    route = FakeRoute()
    route.starving = True
    one, two = Client(route), Client(route)
    one.say("MOD", "x")
    two.say("MOD", "y")
    sub = [b"mod|new", 3, [b"write"], 2, 2, 1, [b"@write"], [], [], []]
    described = [[b"mod", -2, [], 0, 0, 0, [], [], [], [sub]]]
    route.put_in_force(TRANSPARENT, STANDARD.completed_by(described))
    for client in (one, two):
        client.adopt()
    route.feed()
    for client in (one, two):
        client.own.answer(b"-ERR unknown subcommand 'x'. Try MOD HELP.\r\n")
        assert client.heard() == b"-ERR unknown subcommand 'x'. Try MOD HELP.\r\n"
        assert (client.awaited, client.probe) == (None, None)
    assert route.probes == {}


def test_of_a_crowd_one_alone_waits_for_an_upstream_to_ask_on() -> None:
    route = FakeRoute()
    one, two, three = Client(route), Client(route), Client(route)
    route.starving = True
    for each in (one, two, three):
        each.say("MY.OWN")
    assert route.waiting == [one]
    route.feed()
    one.own.answer(UNKNOWN)
    assert (one.heard(), route.lent) == (UNKNOWN, [])
    assert b"".join(upstream.taken() for upstream in route.pools.values()) == call("MY.OWN") * 2


def test_who_leaves_after_two_unknown_commands_keeps_nobody_from_asking_about_either() -> None:
    route = FakeRoute()
    one, two, three = Client(route), Client(route), Client(route)
    one.say("MY.OWN")
    one.say("YOUR.OWN")
    one.on_close()
    two.say("MY.OWN")
    three.say("YOUR.OWN")
    assert (two.own.taken(), three.own.taken()) == (call("MY.OWN"), call("YOUR.OWN"))


def test_who_waits_for_replies_does_not_keep_others_from_asking() -> None:
    route = FakeRoute()
    one, two = Client(route), Client(route)
    one.say("GET", "k")
    one.say("MY.OWN")
    two.say("MY.OWN")
    assert two.own.taken() == call("MY.OWN")


def test_replication_is_refused() -> None:
    for name in ("PSYNC", "SYNC", "REPLCONF"):
        route = FakeRoute()
        client = Client(route)
        client.say(name, "x", "y")
        assert client.heard().startswith(b"-DENIED keyrail")
        assert route.all_upstreams() == []


@pytest.mark.parametrize("command", [[b"FLUSHALL\x00149"], [b"CONFIG", b"SET\0", "maxmemory", 0], [b"\0FLUSHALL"]])
@pytest.mark.parametrize("inside", [False, True])
def test_a_name_with_a_nul_in_it_is_never_sent(command: list[bytes | str | int], inside: bool) -> None:
    """Engines compare names as C strings: Redis 7.0 runs some of these, depending on their hash."""
    route = FakeRoute()
    client = Client(route)
    if inside:
        client.say("MULTI")
        client.own.answer(OK)
        client.heard()
    client.say(*command)
    sent = b"".join(upstream.taken() for upstream in route.all_upstreams())
    assert b"\0" not in sent
    if inside:
        client.own.answer(b"-ERR wrong number of arguments\r\n")
    assert client.heard() == b"-ERR unknown command: there is a NUL in its name\r\n"


def test_an_argument_with_a_nul_in_it_is_an_argument() -> None:
    client = Client(FakeRoute())
    client.say("MY.OWN", b"a\0b")
    assert client.own.taken() == call("MY.OWN", b"a\0b")


def test_what_the_engine_did_not_know_may_be_loaded_later() -> None:
    """Learnt once, and unlearnt by the first reply that shows it: the next one is on a connection of its own."""
    route = FakeRoute()
    client = Client(route)
    client.say("MY.OWN", "x")
    client.own.taken()
    client.own.answer(UNKNOWN)
    client.say("MY.OWN", "x")
    shared = route.upstream(lane=Lane.SLOW)
    for nothing_said in (UNKNOWN, b"-LOADING Redis is loading the dataset in memory\r\n"):
        shared.answer(nothing_said)
        assert client.heard().endswith(nothing_said)
        client.say("MY.OWN", "x")
        assert shared.usable
    shared.answer(b"+MODE SET\r\n")
    assert client.heard() == b"+MODE SET\r\n"
    assert not shared.usable, "nobody else meets what it has set"
    client.say("MY.OWN", "x")
    assert client.own.taken() == call("MY.OWN", "x")


def test_nothing_overtakes_a_command_that_was_sent_elsewhere() -> None:
    """A client that is woken too often still waits: the commands behind this one wait for its reply."""
    route = FakeRoute(traces=1)
    client = Client(route)
    client.say("GET", "a")
    client.send(call("CLIENT", "UNPAUSE") + call("ECHO", "b") + call("SET", "c", "d"))
    (own,) = route.lent
    shared = route.upstream()
    shared.taken()
    for _ in range(3):
        client.arrived()
    assert shared.taken() == b""
    shared.answer(b"$1\r\nA\r\n")
    client.arrived()
    assert (shared.taken(), client.heard()) == (b"", b"$1\r\nA\r\n")
    own.answer(OK)
    assert shared.taken() == call("ECHO", "b") + call("SET", "c", "d")
    shared.answer(b"$1\r\nb\r\n", OK)
    assert client.heard() == OK + b"$1\r\nb\r\n" + OK


@pytest.mark.parametrize(
    "command",
    [
        ("FAILOVER", "TO", "abort", "6379"),
        ("FAILOVER",),
        ("SHUTDOWN",),
        ("SHUTDOWN", "NOSAVE"),
        ("SHUTDOWN", "ABORT", "NOSAVE"),
    ],
    ids=" ".join,
)
def test_what_begins_something_overtakes_nothing(command: tuple[str, ...]) -> None:
    route = FakeRoute()
    client = Client(route)
    client.say("GET", "a")
    client.say(*command)
    assert route.lent == []
    route.upstream().answer(b"$1\r\nA\r\n")
    (own,) = route.lent
    assert own.taken() == call(*command)
