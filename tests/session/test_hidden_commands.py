"""Hidden commands with a client's own: what is sent, what is hidden, and the client's reply if Redis refuses one."""

from __future__ import annotations

import pytest

from proxy.commands.table import Lane
from tests.hotpath.test_split import arguments
from tests.policy.given import policy
from tests.session.clustered import ClusterRoute, Routed
from tests.session.given import HOME, LARGE, Client, FakeRoute, Upstream, call, route_with

GIVES = """
rules:
  lifetimes: {lifetime: {default: 5m, types: [string, hash, list], keys: "k*"}, mode: enforce}
  strict: {lifetime: {default: 5m, without_proof: refuse, keys: "r*"}, mode: enforce}
  slides: {lifetime: {default: 5m, sliding: true, keys: "s*"}, mode: enforce}
"""
OK, QUEUED = b"+OK\r\n", b"+QUEUED\r\n"
EXPIRE = call("EXPIRE", "k", 300, "NX")
UNIT = call("MULTI") + call("EXISTS", "k") + call("INCR", "k") + call("EXEC")


def begin() -> tuple[FakeRoute, Client, Upstream]:
    route = route_with(GIVES)
    return route, Client(route), route.upstream(HOME)


def test_one_unit_and_what_follows() -> None:
    route, client, upstream = begin()
    client.say("INCR", "k")
    client.say("PING")
    assert upstream.taken() == UNIT + call("PING")
    upstream.answer(OK, QUEUED, QUEUED, b"*2\r\n:0\r\n:1\r\n", b"+PONG\r\n")
    assert client.heard() == b":1\r\n+PONG\r\n"
    assert upstream.taken() == EXPIRE
    assert client.sender.pending_replies == 1
    upstream.answer(b":1\r\n")
    assert (client.heard(), client.sender.pending_replies) == (b"", 0)
    assert [what for _, _, what in route.hits] == ["accompanied", "followed"]


def test_a_key_that_was_there_is_left_alone() -> None:
    _, client, upstream = begin()
    client.say("INCR", "k")
    upstream.answer(OK, QUEUED, QUEUED, b"*2\r\n:1\r\n:7\r\n")
    assert client.heard() == b":7\r\n"
    assert upstream.taken() == UNIT
    assert client.sender.pending_replies == 0


def test_what_redis_says_to_the_command_is_what_the_client_hears() -> None:
    """At the queue, at EXEC, or in EXEC's array."""
    aborted = b"-EXECABORT Transaction discarded because of previous errors.\r\n"
    because = b"-EXECABORT Transaction discarded because of: OOM command not allowed\r\n"
    for replies, heard in (
        ((OK, QUEUED, b"-OOM no\r\n", aborted), b"-OOM no\r\n"),
        ((OK, QUEUED, QUEUED, because), b"-OOM command not allowed\r\n"),
        ((OK, QUEUED, QUEUED, b"*2\r\n:0\r\n-ERR not an integer\r\n"), b"-ERR not an integer\r\n"),
        ((b"-NOAUTH a\r\n", b"-NOAUTH b\r\n", b"-NOAUTH c\r\n", b"-NOAUTH d\r\n"), b"-NOAUTH c\r\n"),
        ((b"-NOPERM\r\n", b":0\r\n", b":1\r\n", b"-ERR EXEC without MULTI\r\n"), b":1\r\n"),
    ):
        _, client, upstream = begin()
        client.say("INCR", "k")
        upstream.answer(*replies)
        assert client.heard() == heard
        assert upstream.taken() == UNIT
        assert (client.sender.pending_replies, upstream.head) == (0, None)


def test_where_redis_refuses_what_goes_along_nothing_more_does() -> None:
    route, client, upstream = begin()
    client.say("INCR", "k")
    upstream.answer(OK, b"-NOPERM exists\r\n", QUEUED, b"-EXECABORT Transaction discarded\r\n")
    assert client.heard().startswith(b"-DENIED keyrail/lifetimes: Redis refused a hidden command")
    upstream.taken()
    client.say("INCR", "k")
    assert upstream.taken() == call("INCR", "k")
    client.say("INCR", "r")
    upstream.answer(b":1\r\n")
    assert client.heard().startswith(
        b":1\r\n-DENIED keyrail/strict: INCR may create the key 'r' (argument 1 of INCR) without a TTL"
    )
    assert route.hits[-1] == ("strict", "enforce", "refused")


def test_an_upstream_whose_transaction_may_be_open_is_given_up() -> None:
    route, client, upstream = begin()
    client.say("INCR", "k")
    upstream.answer(OK, QUEUED, QUEUED, b"-ERR what\r\n")
    assert route.discarded == [upstream]


def test_the_error_of_what_follows_is_counted_and_not_shown() -> None:
    route, client, upstream = begin()
    client.say("LPUSH", "k", "a")
    assert upstream.taken() == call("LPUSH", "k", "a")
    upstream.answer(b":1\r\n")
    assert upstream.taken() == EXPIRE
    upstream.answer(b"-NOPERM expire\r\n")
    assert client.heard() == b":1\r\n"
    assert route.hits[-1] == ("lifetimes", "enforce", "error")


def test_between_watch_and_exec_no_transaction_is_sent() -> None:
    """Its EXEC would end the WATCH. The proof stands right before the command."""
    _, client, _ = begin()
    client.say("WATCH", "k")
    client.say("INCR", "k")
    own = client.own
    assert own.taken() == call("WATCH", "k") + call("EXISTS", "k") + call("INCR", "k")
    own.answer(OK, b":0\r\n", b":1\r\n")
    assert (client.heard(), own.taken()) == (OK + b":1\r\n", EXPIRE)
    own.answer(b":1\r\n")
    client.say("RENAME", "a", "k")
    assert own.taken() == call("RENAME", "a", "k") + call("TYPE", "k")
    client.say("MULTI")
    assert own.taken() == b""
    own.answer(OK, b"+hash\r\n")
    assert own.taken() == EXPIRE
    own.answer(b":0\r\n")
    assert own.taken() == call("MULTI")


@pytest.mark.parametrize(("existed", "reply"), [(b":1\r\n", b":2\r\n"), (b":0\r\n", b"-OOM no\r\n")])
def test_between_watch_and_exec_nothing_is_stamped_without_proof(existed: bytes, reply: bytes) -> None:
    _, client, _ = begin()
    client.say("WATCH", "w")
    client.say("INCR", "k")
    own = client.own
    own.taken()
    own.answer(OK, existed, reply)
    assert (client.heard(), own.taken()) == (OK + reply, b"")


def test_between_watch_and_exec_a_refused_proof_ends_all_others() -> None:
    """The command has run by then; those behind it are refused where the policy wants proof."""
    route, client, _ = begin()
    client.say("WATCH", "w")
    client.say("INCR", "r")
    own = client.own
    own.answer(OK, b"-NOPERM exists\r\n", b":1\r\n")
    assert route.hits[-1] == ("strict", "enforce", "error")
    own.taken()
    client.say("INCR", "r")
    assert own.taken() == b""
    assert client.heard().startswith(OK + b":1\r\n-DENIED keyrail/strict")


@pytest.mark.parametrize("behind", ["BLPOP q 0", "CLIENT TRACKING ON", "ASKING", "WATCH w", "QUIT"])
def test_what_follows_goes_ahead_of_what_would_keep_it(behind: str) -> None:
    """Behind a command that blocks, say, it would wait, and be lost if the client left meanwhile."""
    client = Client(route_with(GIVES, pooling=False))
    client.say("LPUSH", "k", "a")
    client.say(*behind.split())
    own = client.own
    assert own.taken() == call("LPUSH", "k", "a")
    own.answer(b":1\r\n")
    assert own.taken() == EXPIRE
    own.answer(b":1\r\n")
    assert own.taken() == call(*behind.split())


def test_nothing_follows_where_its_reply_would_not_come() -> None:
    for mode in ("OFF", "SKIP"):
        route = route_with(GIVES, pooling=False)
        client = Client(route)
        client.set_reply_mode(mode)
        client.say("LPUSH", "k", "a")
        assert (client.own.taken(), client.sender.pending_replies) == (call("LPUSH", "k", "a"), 0)
        assert route.hits[-1] == ("lifetimes", "enforce", "skipped")


def test_nothing_follows_a_client_that_asks_for_a_slot() -> None:
    """ASKING holds for one command; it is not known which of them a hidden one would take it from."""
    route, client, _ = begin()
    client.say("ASKING")
    client.say("INCR", "k")
    own = client.own
    own.answer(OK, b":1\r\n")
    assert own.taken() == call("ASKING") + call("INCR", "k")
    assert route.hits[-1] == ("lifetimes", "enforce", "skipped")


def test_a_queued_end_of_tracking_is_none() -> None:
    """It may be thrown away with its transaction."""
    route, client, _ = begin()
    client.say("CLIENT", "TRACKING", "ON")
    own = client.own
    own.answer(OK)
    for command in ("MULTI", "CLIENT TRACKING OFF", "DISCARD"):
        client.say(*command.split())
        own.answer(QUEUED if command.startswith("C") else OK)
    own.taken()
    client.say("GET", "s")
    assert own.taken() == call("GET", "s")
    assert route.hits[-1] == ("slides", "enforce", "skipped")


def test_a_subscription_waits_for_what_follows() -> None:
    """In RESP2 a client that is subscribed may do little else, and so may its hidden commands."""
    _, client, _ = begin()
    client.say("UNSUBSCRIBE")
    client.say("LPUSH", "k", "a")
    client.say("SUBSCRIBE", "c")
    own = client.own
    own.answer(b"*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n", b":1\r\n")
    assert own.taken() == call("UNSUBSCRIBE") + call("LPUSH", "k", "a") + EXPIRE
    own.answer(b":1\r\n")
    assert client.own.taken() == call("SUBSCRIBE", "c")


def test_what_it_did_is_seen_to_although_the_client_is_gone() -> None:
    _, client, upstream = begin()
    client.say("INCR", "k")
    client.close("gone")
    upstream.answer(OK, QUEUED, QUEUED, b"*2\r\n:0\r\n:1\r\n")
    assert upstream.taken() == UNIT + EXPIRE
    upstream.answer(b":1\r\n")
    assert upstream.head is None


def test_a_type_is_asked_for_behind_the_command() -> None:
    _, client, upstream = begin()
    client.say("RENAME", "a", "k")
    assert upstream.taken() == call("MULTI") + call("RENAME", "a", "k") + call("TYPE", "k") + call("EXEC")
    upstream.answer(OK, QUEUED, QUEUED, b"*2\r\n+OK\r\n+hash\r\n")
    assert client.heard() == OK
    assert upstream.taken() == EXPIRE
    upstream.answer(b":0\r\n")
    client.say("RENAME", "a", "k")
    upstream.taken()
    upstream.answer(OK, QUEUED, QUEUED, b"*2\r\n+OK\r\n+stream\r\n")
    assert (client.heard(), upstream.taken()) == (OK, b"")


def test_a_streamed_value_has_its_hidden_commands_around_it() -> None:
    _, client, _ = begin()
    value = b"v" * (LARGE + 20)
    whole = call("HSET", "k", "f", value)
    for piece in (whole[:-30], whole[-30:]):
        client.send(piece)
    own = client.own
    assert own.taken() == call("MULTI") + call("EXISTS", "k") + whole + call("EXEC")
    own.answer(OK, QUEUED, QUEUED, b"*2\r\n:0\r\n:1\r\n")
    assert (client.heard(), own.taken()) == (b":1\r\n", EXPIRE)
    own.answer(b":1\r\n")
    whole = call("HSET", "r", "f", value, "g", "small")
    for piece in (whole[:60], whole[60:]):
        client.send(piece)
    assert client.heard().startswith(b"-DENIED keyrail/strict: HSET may create the key 'r'")


@pytest.mark.parametrize("at_once", [True, False])
def test_a_discard_that_redis_refuses_leaves_the_transaction_open(at_once: bool) -> None:
    """A user may be without the command. Nothing of Keyrail's own begins a transaction in that of its client."""
    _, client, _ = begin()
    client.say("MULTI")
    client.say("SET", "x", "1")
    client.own.answer(OK, QUEUED)
    client.own.taken()
    client.say("DISCARD")
    if at_once:
        client.say("INCR", "k")
    assert client.own.taken() == call("DISCARD")
    client.own.answer(b"-NOPERM no DISCARD\r\n")
    if not at_once:
        client.say("INCR", "k")
    sent = client.own.taken()
    assert call("INCR", "k") in sent
    assert call("MULTI") not in sent
    assert client.state.transaction is not None


def test_a_streamed_value_inside_a_transaction() -> None:
    _, client, _ = begin()
    whole = call("HSET", "k", "f", b"v" * (LARGE + 20))
    client.say("MULTI")
    client.send(whole)
    client.say("EXEC")
    own = client.own
    assert own.taken() == call("MULTI") + call("EXISTS", "k") + whole + call("EXEC")
    own.answer(OK, QUEUED, QUEUED, b"*2\r\n:0\r\n:1\r\n")
    assert client.heard() == OK + QUEUED + b"*1\r\n:1\r\n"
    assert own.taken() == EXPIRE


# With a cluster upstream


def refused_in_transaction(error: bytes) -> Routed:
    """A client in whose transaction a node has refused what goes along with a command."""
    client = Routed(ClusterRoute(policy(GIVES)))
    client.say("MULTI")
    client.say("INCR", "k{c}")
    own = client.own
    assert arguments(own.taken()) == [[b"MULTI"], [b"EXISTS", b"k{c}"], [b"INCR", b"k{c}"]]
    own.answer(OK, error, b"-MOVED 5 127.0.0.1:7002\r\n")
    client.say("EXEC")
    own.answer(b"-EXECABORT Transaction discarded because of previous errors.\r\n")
    return client


@pytest.mark.parametrize("error", [b"-MOVED 5 127.0.0.1:7002\r\n", b"-TRYAGAIN later\r\n", b"-CLUSTERDOWN no\r\n"])
def test_that_a_slot_has_moved_is_no_reason_to_send_nothing_along_any_more(error: bytes) -> None:
    client = refused_in_transaction(error)
    client.say("INCR", "k{c}")
    assert arguments(client.at(1).taken()) == [[b"MULTI"], [b"EXISTS", b"k{c}"], [b"INCR", b"k{c}"], [b"EXEC"]]


def test_a_script_that_goes_alone_follows_its_slot_all_the_same() -> None:
    client = refused_in_transaction(b"-NOPERM no EXISTS\r\n")
    client.say("EVAL", "return redis.call('set', KEYS[1], 1)", "1", "k{c}")
    sent = [argv[0] for argv in arguments(client.at(1, Lane.SLOW).taken())]
    assert sent == [b"MULTI", b"EVAL", b"EXEC"]
