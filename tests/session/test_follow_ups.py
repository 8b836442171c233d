"""Hidden follow-ups have one owner: each is sent, on its command's connection or another, or it is counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from proxy.session.commands.follow_ups import MOST_WAITING
from tests.policy.given import policy
from tests.session.clustered import NODES, ClusterRoute, Routed
from tests.session.given import HOME, LARGE, Client, Upstream, call, route_with
from tests.session.test_hidden_commands import EXPIRE, GIVES, OK, QUEUED, begin


def test_what_follows_a_write_between_watch_and_exec_is_sent_at_once() -> None:
    """The write itself has broken what is watched, if it has; waiting could only lose what follows."""
    _, client, shared = begin()
    client.say("WATCH", "k")
    own = client.own
    own.answer(OK)
    client.say("LPUSH", "k", "a")
    own.taken()
    own.answer(b":1\r\n")
    assert own.taken() == EXPIRE
    client.say("MULTI")
    assert own.taken() == b""
    own.answer(b":1\r\n")
    client.say("INCR", "k")
    own.answer(OK, QUEUED, QUEUED)
    client.say("EXEC")
    assert own.taken() == call("MULTI") + call("EXISTS", "k") + call("INCR", "k") + call("EXEC")
    own.answer(b"*2\r\n:0\r\n:1\r\n")
    assert client.heard() == OK + b":1\r\n" + OK + QUEUED + b"*1\r\n:1\r\n"
    assert own.taken() == EXPIRE
    assert client.is_pinned()
    own.answer(b":1\r\n")
    assert not client.is_pinned()
    assert shared.taken() == b""


@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("moves", [False, True])
def test_what_is_lost_with_its_connection_is_sent_elsewhere(leaves: bool, moves: bool) -> None:
    """The client knows that its write has been done, and nobody else would give the key its TTL."""
    route, client, upstream = begin()
    if moves:  # the write has run in another database than that of the connection now
        client.say("MULTI")
        upstream = client.own
        upstream.answer(OK)
        for words in (("LPUSH", "k", "a"), ("SELECT", "1")):
            client.say(*words)
        client.say("EXEC")
        upstream.answer(*[QUEUED] * upstream.taken().count(b"LPUSH"), QUEUED, b"*2\r\n:1\r\n+OK\r\n")
    else:
        client.say("LPUSH", "k", "a")
        upstream.answer(b":1\r\n")
    assert b"EXPIRE" in upstream.taken()
    if leaves:
        client.connection_lost()
    assert route.asked == []
    upstream.abandon()
    assert [questions for _, questions, _ in route.asked] == [[[b"EXPIRE", b"k", b"300", b"NX"]]]
    assert route.asked[0][0].database == HOME.database
    route.asked[0][2]([b":1\r\n"])
    assert [what for _, _, what in route.hits].count("followed") == 1


def test_a_renewal_of_a_watched_key_waits_for_exec() -> None:
    """It would make EXEC fail. Of many for one key the last one is sent, and those of other keys wait for nothing."""
    route, client, _ = begin()
    client.say("WATCH", "s1", "s2")
    own = client.own
    own.answer(OK)
    for key in ("s1", "s2", "s1", "s3"):
        client.say("GET", key)
    own.taken()
    own.answer(*[b"+v\r\n"] * 4)
    assert own.taken() == call("EXPIRE", "s3", 300, "GT")
    own.answer(b":1\r\n")
    client.say("MULTI")
    own.answer(OK)
    client.say("EXEC")
    renewals = [call("EXPIRE", key, 300, "GT") for key in ("s1", "s2")]
    assert own.taken() == call("MULTI") + call("EXEC") + b"".join(renewals)
    own.answer(b"*0\r\n", b":1\r\n", b":1\r\n")
    assert not client.is_pinned()
    assert [what for _, _, what in route.hits].count("followed") == 3


def test_no_more_than_so_many_renewals_wait_and_they_leave_in_slices() -> None:
    route, client, _ = begin()
    names = [f"s{i}" for i in range(MOST_WAITING + 10)]
    client.say("WATCH", *names)
    own = client.own
    own.answer(OK)
    for name in names:
        client.say("GET", name)
        own.answer(*[b"+v\r\n"] * client.sender.pending_replies)
    assert own.taken().count(b"EXPIRE") == 0
    assert len(client.deferred or ()) == MOST_WAITING
    assert client.heard().count(b"-DENIED keyrail: the lifetimes of 1024 keys") == 10
    client.say("UNWATCH")
    sent, replies = 0, [OK]
    while (snapshot := own.taken().count(b"EXPIRE")) > 0:
        assert snapshot <= 64
        sent += snapshot
        own.answer(*replies, *[b":1\r\n"] * snapshot)
        replies = []
    assert sent == MOST_WAITING
    assert not client.is_pinned()
    assert [what for _, _, what in route.hits].count("refused") == 10


@pytest.mark.parametrize("behind", ["MULTI", "AUTH ann pw", "HELLO 3 AUTH ann pw", "LPUSH k " + "v" * (LARGE + 20)])
def test_what_changes_the_connection_waits_for_what_follows(behind: str) -> None:
    """Inside MULTI it would be queued, behind AUTH run by another user, in the middle of a value become part of it."""
    client = Client(route_with(GIVES, pooling=False))
    client.say("LPUSH", "k", "a")
    own = client.own
    whole = call(*behind.split())
    client.send(whole[:-2])
    client.send(whole[-2:])
    assert own.taken() == call("LPUSH", "k", "a")
    own.answer(b":1\r\n")
    assert own.taken() == EXPIRE
    own.answer(b":1\r\n")
    assert own.taken() == whole


def test_a_write_that_something_may_follow_waits_for_what_blocks() -> None:
    """If the client left meanwhile, its upstream would be closed, and what the write did would not be known."""
    route, client, _ = begin()
    client.say("BLPOP", "q", 0)
    client.say("LPUSH", "k", "a")
    own = client.own
    assert own.taken() == call("BLPOP", "q", 0)
    own.answer(b"-WRONGTYPE\r\n")
    shared = route.upstream()
    assert shared.taken() == call("LPUSH", "k", "a")
    shared.answer(b":1\r\n")
    assert shared.taken() == EXPIRE


def test_what_follows_a_write_in_another_database_goes_there() -> None:
    """A SELECT that is queued moves the connection before it is known what is to follow."""
    route, client, _ = begin()
    for command in ("MULTI", "LPUSH k a", "SELECT 1", "LPUSH k b"):
        client.say(*command.split())
    own = client.own
    own.answer(OK, QUEUED, QUEUED, QUEUED)
    client.say("EXEC")
    own.taken()
    own.answer(b"*3\r\n:1\r\n+OK\r\n:1\r\n")
    assert own.taken() == (call("MULTI") + call("SELECT", 0) + EXPIRE + call("SELECT", 1) + call("EXEC") + EXPIRE)
    own.answer(OK, QUEUED, QUEUED, QUEUED, b"*3\r\n+OK\r\n:1\r\n+OK\r\n", b":1\r\n")
    assert [what for _, _, what in route.hits].count("followed") == 2


def test_what_follows_a_script_that_fails() -> None:
    """The script's writes before its error stay, whatever the error says."""
    _, client, _ = begin()
    client.say("EVAL", "x", 1, "k")
    slow = client.sender.upstream
    assert isinstance(slow, Upstream)
    assert slow.taken() == call("MULTI") + call("TTL", "k") + call("EVAL", "x", 1, "k") + call("TYPE", "k") + call(
        "EXEC"
    )
    slow.answer(OK, QUEUED, QUEUED, QUEUED, b"*3\r\n:-2\r\n-ERR what\r\n+string\r\n")
    assert client.heard() == b"-ERR what\r\n"
    assert slow.taken() == EXPIRE
    slow.answer(b":1\r\n")
    client.say("EVALSHA", "f" * 40, 1, "k")
    slow.taken()
    slow.answer(OK, QUEUED, QUEUED, QUEUED, b"*3\r\n:-2\r\n-NOSCRIPT no\r\n+string\r\n")
    assert slow.taken() == EXPIRE
    slow.answer(b":1\r\n")
    client.say("EVALSHA", "f" * 40, 1, "k")
    slow.taken()
    slow.answer(OK, QUEUED, QUEUED, QUEUED, b"*3\r\n:-2\r\n-NOSCRIPT no\r\n+none\r\n")
    assert slow.taken() == b"", "it did not run"


def test_what_follows_a_transaction_that_redis_did_not_begin() -> None:
    """A user may be without MULTI: then all of it runs at once, and EXEC tells of nothing."""
    _, client, _ = begin()
    for command in ("MULTI", "INCR k"):
        client.say(*command.split())
    own = client.own
    own.taken()
    own.answer(b"-NOPERM multi\r\n", b":0\r\n", b":1\r\n")
    assert (client.heard(), own.taken()) == (b"-NOPERM multi\r\n:1\r\n", EXPIRE)


def test_what_can_not_be_sent_on_its_connection_goes_over_another() -> None:
    """Behind CLIENT REPLY its reply would not come."""
    route, client, _ = begin()
    client.say("WATCH", "s")
    client.say("GET", "s")
    client.own.answer(OK, b"+v\r\n")
    client.set_reply_mode("SKIP")
    client.say("RESET")
    assert route.closed_gracefully
    (key, questions, answered) = route.asked.pop()
    assert (key, questions) == (HOME, [[b"EXPIRE", b"s", b"300", b"GT"]])
    answered([b":1\r\n"])
    assert route.hits[-1] == ("slides", "enforce", "followed")


def test_what_can_be_sent_nowhere_is_counted() -> None:
    """First as the client's own user, then with the route's login, which may be the only one there is."""
    route, client, _ = begin()
    route.known_users.add("ann")
    client.say("AUTH", "ann", "pw")
    client.own.answer(OK)
    client.say("WATCH", "s")
    client.say("GET", "s")
    client.own.answer(OK, b"+v\r\n")
    route.discard(client.own)
    client.close("upstream_lost")
    for user in ("ann", None):
        (key, _, answered) = route.asked.pop()
        assert key.user == user
        answered(None)
    assert route.hits[-1] == ("slides", "enforce", "skipped")


@pytest.mark.parametrize("last", ["RESET", "QUIT"])
def test_what_waits_goes_ahead_of_the_end_of_its_state(last: str) -> None:
    client = Client(route_with(GIVES, pooling=False))
    for command in ("WATCH s", "GET s"):
        client.say(*command.split())
    own = client.own
    own.taken()
    own.answer(OK, b"+v\r\n")
    client.say(last)
    assert own.taken() == call("EXPIRE", "s", 300, "GT")
    own.answer(b":1\r\n")
    assert own.taken() == call(last)


@pytest.mark.parametrize("state", ["WATCH", "MULTI"])
def test_what_waited_for_a_client_that_leaves_is_sent(state: str) -> None:
    route, client, _ = begin()
    client.say("WATCH", "s")
    client.say("GET", "s")
    own = client.own
    own.answer(OK, b"+v\r\n")
    if state == "MULTI":
        client.say("MULTI")
    own.taken()
    client.close("gone")
    assert own.taken() == (call("DISCARD") if state == "MULTI" else b"") + call("EXPIRE", "s", 300, "GT")
    assert route.closed_gracefully == [own]


# With a cluster upstream


def test_a_transaction_that_ends_for_a_reset_ends_also_if_that_is_refused() -> None:
    client = Routed(route_with(GIVES))
    client.say("WATCH", "s{c}")
    client.say("GET", "s{c}")
    own = client.own
    own.answer(b"+OK\r\n", b"$1\r\nv\r\n")
    client.say("MULTI")
    own.answer(b"+OK\r\n")
    adopted = client.effective_policy
    client.effective_policy = replace(adopted)
    client.adopt()
    assert client.deferred
    client.say("RESET")
    own.answer(b"+OK\r\n", b":1\r\n")
    own.answer(b"-NOPERM no RESET\r\n")
    assert client.heard().endswith(b"-NOPERM no RESET\r\n")
    assert client.state.transaction is None
    assert client.effective_policy is adopted
    assert client.intake.simple == client.plain_commands()


def left_behind() -> tuple[Routed, Upstream]:
    """A client that has left before its LPUSH was answered, and the connection on which the EXPIRE follows."""
    client = Routed(ClusterRoute(policy(GIVES)))
    client.say("LPUSH", "k{a}", "1")
    shared = client.at(2)
    shared.taken()
    client.close("client")
    shared.answer(b":1\r\n")
    assert shared.taken() == call("EXPIRE", "k{a}", 300, "NX")
    return client, shared


def again(client: Routed) -> tuple[Any, Any, Any]:
    """What is asked on a connection of Keyrail's own after a moment."""
    (act,) = client.route.timers
    client.route.timers.clear()
    act()
    (asked,) = client.route.asked
    client.route.asked.clear()
    return asked


@pytest.mark.parametrize(("error", "asking"), [(b"-MOVED", []), (b"-ASK", [[b"ASKING"]])])
def test_what_follows_a_command_of_a_client_that_has_left_is_sent_again_where_its_slot_is_now(
    error: bytes, asking: list[list[bytes]]
) -> None:
    client, shared = left_behind()
    shared.answer(error + b" 15495 127.0.0.1:7001\r\n")
    key, questions, answered = again(client)
    assert key.node is NODES[1]
    assert [list(each) for each in questions] == [*asking, [b"EXPIRE", b"k{a}", b"300", b"NX"]]
    answered([b"-TRYAGAIN not yet\r\n"])
    key, _, answered = again(client)
    assert key.node is NODES[2], "the owner, as far as Keyrail knows"
    answered([b":1\r\n"])
    assert client.route.hits[-1][2] == "followed"
    assert client.route.timers == []


def test_it_is_not_sent_again_for_ever() -> None:
    client, shared = left_behind()
    shared.answer(b"-CLUSTERDOWN down\r\n")
    times = 0
    while client.route.timers:
        _, _, answered = again(client)
        answered([b"-CLUSTERDOWN down\r\n"])
        times += 1
    assert times == 20
    assert client.route.hits[-1][2] == "error"
