"""With a cluster upstream, a client whose command finds no private connection in time gets CLUSTERDOWN, and stays."""

from __future__ import annotations

import pytest

from proxy.hotpath.intake.intake import FINISHED
from proxy.session.cluster.node_connections import CLUSTERDOWN
from proxy.session.commands.switching import HELD_SECONDS
from tests.session.clustered import NODES, Routed
from tests.session.given import HOME, LARGE, FakeRoute, call

REFUSED = b"-CLUSTERDOWN keyrail: n3 has not accepted this login: WRONGPASS no such user\r\n"
ABORTED = b"-EXECABORT Transaction discarded because of previous errors.\r\n"


def wait_in_vain(client: Routed, seconds: float = 3 * HELD_SECONDS) -> None:
    """Nobody gets a connection, and no look at the cluster brings one, for so long."""
    for _ in range(20):
        client.route.moment += seconds / 20
        waiting, client.route.waiting = client.route.waiting, []
        for waiter in waiting:
            if not waiter.gone:
                waiter.close("no_upstream")
        looking, client.nodes.looking = client.nodes.looking, []
        for waiter in looking:
            if not waiter.gone:
                waiter.arrived()
        timers, client.route.timers = client.route.timers, []
        for act in timers:
            act()


KILL = ("SCRIPT", "KILL")
COMMANDS: list[tuple[str, ...]] = [
    ("WATCH", "a"),
    ("BLPOP", "a", "0"),
    ("XREAD", "BLOCK", "0", "STREAMS", "a", "$"),
    ("SUBSCRIBE", "x"),
    ("PSUBSCRIBE", "x*"),
    ("SSUBSCRIBE", "a"),
    ("WAIT", "1", "0"),
    ("NOSUCHCOMMAND", "a"),
    KILL,
    ("AUTH", "user", "password"),
    ("SELECT", "1"),
    ("SET", "a", "x" * 2 * LARGE),
    ("BLPOP", "x" * 2 * LARGE, "0"),
]


def name(words: tuple[str, ...]) -> str:
    return " ".join(words)[:20]


@pytest.mark.parametrize("words", COMMANDS, ids=name)
def test_it_gets_clusterdown_and_stays(words: tuple[str, ...]) -> None:
    client = Routed(FakeRoute())
    client.route.starving = True
    client.send(call(*words))
    wait_in_vain(client)
    assert client.heard() == (CLUSTERDOWN if words != KILL else b"-CLUSTERDOWN keyrail: no connection to n1\r\n")
    assert not client.gone
    client.route.feed()
    client.say("GET", "b")
    client.at(0).answer(b"$1\r\nx\r\n")
    assert client.heard() == b"$1\r\nx\r\n"


@pytest.mark.parametrize("words", [("SELECT", "0"), ("HELLO", "2"), ("CLIENT", "NOSUCH"), ("HELLO", "4")], ids=name)
def test_what_needs_any_connection_of_a_pool_stays_too(words: tuple[str, ...]) -> None:
    client = Routed(FakeRoute())
    client.route.lacking.add((b"CLIENT", b"NOSUCH"))
    client.route.upstream()
    client.route.starving = True
    client.send(call(*words))
    wait_in_vain(client)
    assert (client.heard(), client.cause) == (CLUSTERDOWN, None)
    client.route.feed()
    client.say("GET", "b")
    client.at(0).answer(b"$1\r\nx\r\n")
    assert client.heard() == b"$1\r\nx\r\n"


@pytest.mark.parametrize("words", [*COMMANDS, ("GET", "a"), ("MGET", "a", "b"), ("DBSIZE",), ("PUBLISH", "a", "b")])
def test_it_is_closed_where_only_a_login_brings_a_connection(words: tuple[str, ...]) -> None:
    client = Routed(FakeRoute())
    client.enter(HOME._replace(user="app"))
    client.route.known_users.add("app")
    client.say("GET", "b")
    client.route.starving = True
    client.send(call(*words))
    client.route.upstream(client.key._replace(node=NODES[0])).answer(b"$1\r\nx\r\n")
    assert client.heard() == b"$1\r\nx\r\n"
    waiting, client.route.waiting = client.route.waiting, []
    assert waiting != []
    for waiter in waiting:
        if not waiter.gone:
            waiter.close("login_lost")
    assert (client.leaving, client.cause, client.heard()) == (True, "login_lost", b"")
    assert (client.intake.phase, client.sender.pending_replies) == (FINISHED, 0), "it is closed at once"


@pytest.mark.parametrize(
    "words",
    [
        ("GET", "a"),
        ("MGET", "a", "b"),
        ("WATCH", "a"),
        ("BLPOP", "a", "0"),
        ("SUBSCRIBE", "x"),
        ("SSUBSCRIBE", "a"),
        ("KEYRAIL", "NODE", "n3", "INFO"),
        ("SET", "a", "x" * 2 * LARGE),
    ],
    ids=lambda words: " ".join(words)[:20],
)
def test_the_error_names_the_node_that_refuses_the_login(words: tuple[str, ...]) -> None:
    client = Routed(FakeRoute())
    client.route.starving = True
    client.route.refusals[NODES[2]] = "WRONGPASS no such user"
    client.send(call(*words))
    wait_in_vain(client)
    assert client.heard() == REFUSED
    assert not client.gone


def test_a_transaction_says_it_too() -> None:
    client = Routed(FakeRoute())
    client.route.starving = True
    client.route.refusals[NODES[2]] = "WRONGPASS no such user"
    client.send(call("MULTI") + call("GET", "a") + call("EXEC"))
    wait_in_vain(client)
    assert client.heard() == b"+OK\r\n" + REFUSED + ABORTED
    for words in ("MULTI",), ("GET", "a"), ("EXEC",):
        client.send(call(*words))
        wait_in_vain(client)
    assert client.heard() == b"+OK\r\n" + REFUSED + ABORTED


def test_a_transaction_fails_as_a_whole() -> None:
    client = Routed(FakeRoute())
    client.route.starving = True
    client.send(call("MULTI"))
    client.send(call("INCR", "a"))
    client.send(call("ECHO", "x") + call("EXEC"))
    wait_in_vain(client)
    assert client.heard() == b"+OK\r\n" + CLUSTERDOWN + b"+QUEUED\r\n" + ABORTED
    client.send(call("MULTI"))
    client.send(call("ECHO", "x"))
    client.send(call("EXEC"))
    wait_in_vain(client)
    aborted = b"-EXECABORT Transaction discarded because of: " + CLUSTERDOWN[1:]
    assert client.heard() == b"+OK\r\n+QUEUED\r\n" + aborted
    client.route.feed()
    client.say("GET", "a")
    client.at(2).answer(b"$-1\r\n")
    assert client.heard() == b"$-1\r\n"


def test_others_who_ask_about_the_same_command_do_not_wait_for_ever() -> None:
    client = Routed(FakeRoute())
    client.route.starving = True
    client.say("NOSUCHCOMMAND", "a")
    assert client.route.ports.capabilities.probing((b"NOSUCHCOMMAND",))
    wait_in_vain(client)
    assert not client.route.ports.capabilities.probing((b"NOSUCHCOMMAND",))
