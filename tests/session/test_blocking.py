"""Blocking commands with a cluster upstream: sent again where their slot has left, with what is left of their
timeout."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.commands.table import STANDARD, ConnectionState
from proxy.hotpath.cluster.router import UNOWNED
from proxy.session.cluster.blocking import shortened
from proxy.session.commands.switching import HELD_SECONDS
from tests.hotpath.test_split import arguments
from tests.session.clustered import NODES, Routed
from tests.session.given import FakeRoute, Upstream, call

ODD = ("inf", "nan", "1e999", "-5", "5_000", "0x10", "9" * 400 + "e", "1e3")
"""Timeouts that Redis refuses, or reads in another way than Python."""


def blocked(*words: str) -> tuple[Routed, Upstream]:
    client = Routed(FakeRoute())
    client.say(*words)
    (lent,) = client.route.lent
    assert arguments(lent.taken()) == [[word.encode() for word in words]]
    assert client.state.blocked
    return client, lent


@pytest.mark.parametrize(
    "line", ["BLPOP c 5", "BLPOP c 0.001", "BLMPOP 1.23456 1 c LEFT", "XREAD BLOCK 2 STREAMS c 0", "BZPOPMIN c 0"]
)
def test_the_first_time_it_is_sent_as_it_is(line: str) -> None:
    client = Routed(FakeRoute())
    client.route.tick = 0.0001
    client.say(*line.split())
    (lent,) = client.route.lent
    assert arguments(lent.taken()) == [line.encode().split()]


@pytest.mark.parametrize("error", [b"-MOVED 5 127.0.0.1:7001\r\n", b"-ASK 5 h:1\r\n", b"-UNBLOCKED force unblock\r\n"])
def test_where_its_slot_leaves_it_is_sent_to_the_new_owner(error: bytes) -> None:
    client, lent = blocked("BLPOP", "c", "10")
    client.send(call("GET", "a"))
    client.route.moment += 4
    lent.answer(error)
    assert client.heard() == b""
    (waiter,) = client.nodes.looking
    router = client.intake.config.router
    assert router is not None
    router.own(0, 16383, 0)
    waiter.arrived()
    (again,) = client.route.lent
    assert again.key.node is NODES[0]
    assert arguments(again.taken()) == [[b"BLPOP", b"c", b"6.000"]]
    again.answer(b"*2\r\n$1\r\nc\r\n$1\r\nx\r\n")
    assert client.heard() == b"*2\r\n$1\r\nc\r\n$1\r\nx\r\n"
    assert client.taken() == [[[b"GET", b"a"]], [], []], "the next command waited"
    assert client.route.lent == []


def test_behind_ask_it_is_sent_to_the_node_that_is_named_and_blocks_there() -> None:
    client, lent = blocked("BLPOP", "c", "10")
    lent.answer(b"-ASK 5 127.0.0.1:7000\r\n")
    client.send(call("GET", "a"))
    (target,) = client.route.lent
    assert target.key.node is NODES[0]
    assert target.outgoing == [call("ASKING"), call("BLPOP", "c", "10")]
    target.taken()
    client.route.moment += 4
    target.answer(b"+OK\r\n-MOVED 5 127.0.0.1:7001\r\n")
    client.nodes.looking.pop().arrived()
    (owner,) = client.route.lent
    assert owner.key.node is NODES[1]
    assert arguments(owner.taken()) == [[b"BLPOP", b"c", b"6.000"]]
    owner.answer(b"*2\r\n$1\r\nc\r\n$1\r\nx\r\n")
    assert client.heard() == b"*2\r\n$1\r\nc\r\n$1\r\nx\r\n"
    assert client.taken() == [[], [], [[b"GET", b"a"]]], "the next command waited"


def test_nodes_that_send_a_blocked_command_back_and_forth_are_asked_after_a_look_at_the_cluster() -> None:
    client, lent = blocked("BLPOP", "c", "10")
    lent.answer(b"-ASK 5 127.0.0.1:7000\r\n")
    (target,) = client.route.lent
    target.answer(b"+OK\r\n-ASK 5 127.0.0.1:7001\r\n")
    assert client.route.lent == []
    assert len(client.nodes.looking) == 1


@pytest.mark.parametrize("error", [b"-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n", b"-WRONGTYPE no\r\n"])
def test_other_errors_are_the_reply(error: bytes) -> None:
    client, lent = blocked("BLPOP", "c", "10")
    lent.answer(error)
    assert client.heard() == error
    assert not client.nodes.looking


def test_no_error_names_a_node() -> None:
    client, lent = blocked("BLPOP", "c", "10")
    lent.answer(b"-REDIRECT 127.0.0.1:7001\r\n")
    assert b"7001" not in client.heard()


def test_what_is_refused_again_and_again_is_an_error_and_the_client_stays() -> None:
    client, lent = blocked("BLPOP", "c", "0")
    lent.answer(b"-CLUSTERDOWN The cluster is down\r\n")
    client.route.moment += HELD_SECONDS / 2
    client.nodes.looking.pop().arrived()
    (lent,) = client.route.lent
    client.route.moment += HELD_SECONDS / 2
    lent.answer(b"-CLUSTERDOWN The cluster is down\r\n")
    client.nodes.looking.pop().arrived()
    (lent,) = client.route.lent
    client.route.moment += 0.1
    lent.answer(b"-CLUSTERDOWN The cluster is down\r\n")
    assert client.heard() == b"-CLUSTERDOWN The cluster is down\r\n"
    assert not client.gone


def test_several_keys_of_a_slot_that_moves_are_tried_again_and_then_an_error_says_so() -> None:
    client, lent = blocked("BLMOVE", "{c}1", "{c}2", "LEFT", "LEFT", "0")
    for seconds in (0.0, HELD_SECONDS / 2, HELD_SECONDS / 2, 0.1):
        lent.answer(b"-ASK 5 127.0.0.1:7000\r\n")
        (target,) = client.route.lent
        client.route.moment += seconds
        target.answer(b"+OK\r\n-TRYAGAIN Multiple keys request during rehashing of slot\r\n")
        if client.nodes.looking:
            client.nodes.looking.pop().arrived()
            (lent,) = client.route.lent
    assert client.heard() == b"-TRYAGAIN Multiple keys request during rehashing of slot\r\n"
    assert not client.gone


@pytest.mark.parametrize("frame", [b"*-1\r\n", b"*2\r\n$1\r\nc\r\n$1\r\nx\r\n", b"-WRONGTYPE no\r\n"])
def test_what_is_answered_once_its_slot_has_no_owner_any_more_gets_no_second_reply(frame: bytes) -> None:
    client, lent = blocked("BLPOP", "c", "10")
    router = client.intake.config.router
    assert router is not None
    router.own(0, 16383, UNOWNED)
    lent.answer(frame)
    client.route.moment += HELD_SECONDS + 1
    for waiter in client.nodes.looking:
        waiter.arrived()
    assert client.heard() == frame
    assert client.awaited is None


def test_who_leaves_while_blocked_takes_the_connection_with_it() -> None:
    client, lent = blocked("BLPOP", "c", "0")
    assert not client.end_of_stream()
    client.connection_lost()
    assert client.route.discarded == [lent]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("BLPOP a b 10", "BLPOP a b 7.000"),
        ("BLPOP a 0", "BLPOP a 0"),
        ("BLPOP a 3.0005", "BLPOP a 0.002"),
        ("BLPOP a x", "BLPOP a x"),
        ("BLMPOP 10 2 a b LEFT", "BLMPOP 7.000 2 a b LEFT"),
        ("BZPOPMIN a 3.5", "BZPOPMIN a 0.500"),
        ("BLMOVE a b LEFT RIGHT 10", "BLMOVE a b LEFT RIGHT 7.000"),
        ("XREAD COUNT 5 BLOCK 5000 STREAMS a $", "XREAD COUNT 5 BLOCK 2000 STREAMS a $"),
        ("XREAD BLOCK 3001 STREAMS a $", "XREAD BLOCK 1 STREAMS a $"),
        (
            "XREADGROUP GROUP BLOCK c NOACK BLOCK 5000 STREAMS a >",
            "XREADGROUP GROUP BLOCK c NOACK BLOCK 2000 STREAMS a >",
        ),
        ("XREAD STREAMS BLOCK 5000", "XREAD STREAMS BLOCK 5000"),
        *((f"XREAD BLOCK {odd} STREAMS a $", f"XREAD BLOCK {odd} STREAMS a $") for odd in ODD),
        *((f"BLPOP a {odd}", f"BLPOP a {odd}") for odd in ODD),
        *((f"BLMPOP {odd} 2 a b LEFT", f"BLMPOP {odd} 2 a b LEFT") for odd in ODD),
    ],
)
def test_what_is_left_of_a_timeout(line: str, expected: str) -> None:
    argv = line.encode().split()
    assert shortened(STANDARD.spec_of(argv), argv, 3.0) == expected.encode().split()


BLOCKING = (
    "BLPOP {c}q %s",
    "BRPOP {c}q {c}2 %s",
    "BLMOVE {c}q {c}2 LEFT RIGHT %s",
    "BRPOPLPUSH {c}q {c}2 %s",
    "BZPOPMIN {c}q %s",
    "BZPOPMAX {c}q %s",
    "BLMPOP %s 1 {c}q LEFT",
    "BZMPOP %s 1 {c}q MIN",
    "XREAD BLOCK %m STREAMS {c}s $",
    "XREADGROUP GROUP g c BLOCK %m STREAMS {c}s >",
)
"""``%s``: seconds, ``%m``: milliseconds."""


def test_no_command_that_blocks_is_left_out() -> None:
    blocking = {spec.name for spec in STANDARD.specs if spec.state is ConnectionState.BLOCKING}
    assert blocking - {line.split()[0] for line in BLOCKING} == {"BLMOVEM"}, "no engine here has it"


def left_of(argv: list[bytes]) -> float:
    """Milliseconds that Redis 6.2 waits; 0 is for ever."""
    words = [word.upper() for word in argv]
    if b"BLOCK" in words:
        return int(argv[words.index(b"BLOCK") + 1])
    return int(float(argv[1 if words[0] in (b"BLMPOP", b"BZMPOP") else -1]) * 1000)


@given(st.sampled_from(BLOCKING), st.integers(1, 60_000), st.integers(0, 100_000_000))
@example("BLPOP {c}q %s", 1000, 999_999)
@example("BLPOP {c}q %s", 1000, 1_000_000)
@example("BLPOP {c}q %s", 1000, 2_000_000)
def test_what_is_sent_again_never_waits_for_ever_nor_longer(line: str, milliseconds: int, microseconds: int) -> None:
    argv = line.replace("%s", f"{milliseconds / 1000:.3f}").replace("%m", f"{milliseconds}").encode().split()
    before = microseconds / 1e6
    found = shortened(STANDARD.spec_of(argv), argv, before)
    if before > 0:
        assert 0 < left_of(list(found)) <= max(2, milliseconds - before * 1000 + 1)


@pytest.mark.parametrize("line", BLOCKING)
def test_a_timeout_that_has_run_out_is_tried_once_more(line: str) -> None:
    """There may be an element now: Keyrail cannot say that there is none."""
    words = line.replace("%s", "1").replace("%m", "1000").split()
    client = Routed(FakeRoute())
    client.say(*words)
    (lent,) = client.route.lent
    lent.taken()
    client.route.moment += 1.5
    lent.answer(b"-MOVED 5 127.0.0.1:7001\r\n")
    client.nodes.looking.pop().arrived()
    (again,) = client.route.lent
    (argv,) = arguments(again.taken())
    assert 0 < left_of(argv) <= 2
    again.answer(b"*-1\r\n")
    assert client.heard() == b"*-1\r\n"
