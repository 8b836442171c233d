"""MULTI with a cluster upstream: answered at once, and sent to the node of the first key."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proxy.cluster.own_answers import has_its_arguments
from proxy.commands.command import Command
from proxy.commands.over_nodes import Destination
from proxy.commands.table import STANDARD, ConnectionState
from proxy.session.cluster.nodeless_multi import MOST_KEPT, MOST_KEPT_BYTES
from proxy.session.commands.switching import HELD_SECONDS
from proxy.session.ports.pool_key import PoolKey
from proxy.session.state import POOLED
from tests.cluster.test_every_command import invocations
from tests.hotpath.test_split import arguments
from tests.session.clustered import NODES, Routed
from tests.session.given import FakeRoute, call, route_with

OF_ONE_NODE = {
    Destination.SLOT,
    Destination.ANY,
    Destination.ONE_NODE,
    Destination.PUBLISH,
    Destination.TRANSACTION,
    Destination.WAIT,
}
CHANGING = {
    ConnectionState.MULTI,
    ConnectionState.EXEC,
    ConnectionState.DISCARD,
    ConnectionState.WATCH,
    ConnectionState.SUBSCRIBE,
    ConnectionState.UNSUBSCRIBE,
    ConnectionState.UNKNOWN,
    ConnectionState.REFUSED,
    ConnectionState.IDLE,
    ConnectionState.KEYRAIL,
}
"""Commands of these are refused inside MULTI, or end it, or are about more than one node."""


def begun() -> Routed:
    client = Routed(FakeRoute())
    client.say("MULTI")
    assert client.heard() == b"+OK\r\n"
    assert not client.is_pinned()
    return client


def test_the_first_key_names_the_node_and_multi_goes_in_front() -> None:
    client = begun()
    client.say("SET", "c", "1")
    assert client.own.key.node is NODES[1]
    assert arguments(client.own.taken()) == [[b"MULTI"], [b"SET", b"c", b"1"]]
    client.own.answer(b"+OK\r\n", b"+QUEUED\r\n")
    assert client.heard() == b"+QUEUED\r\n"
    client.say("EXEC")
    client.own.answer(b"*1\r\n+OK\r\n")
    assert client.heard() == b"*1\r\n+OK\r\n"
    assert client.state is POOLED


def test_commands_without_keys_wait_for_it_and_keep_their_places() -> None:
    client = begun()
    client.say("PING")
    client.say("INFO", "server")
    assert client.heard() == b"+QUEUED\r\n" * 2
    client.say("GET", "a")
    assert client.own.key.node is NODES[2]
    assert arguments(client.own.taken()) == [[b"MULTI"], [b"PING"], [b"INFO", b"server"], [b"GET", b"a"]]
    client.own.answer(b"+OK\r\n", b"+QUEUED\r\n", b"+QUEUED\r\n", b"+QUEUED\r\n")
    assert client.heard() == b"+QUEUED\r\n"
    client.say("EXEC")
    client.own.answer(b"*3\r\n+PONG\r\n$15\r\ntcp_port:7001\r\n\r\n$-1\r\n")
    assert client.heard() == b"*3\r\n+PONG\r\n$15\r\ntcp_port:6379\r\n\r\n$-1\r\n"


def test_without_any_key_it_runs_on_any_node() -> None:
    client = begun()
    client.say("PUBLISH", "a", "b")
    client.say("EXEC")
    assert arguments(client.own.taken()) == [[b"MULTI"], [b"PUBLISH", b"a", b"b"], [b"EXEC"]]
    client.own.answer(b"+OK\r\n", b"+QUEUED\r\n", b"*1\r\n:0\r\n")
    assert client.heard() == b"+QUEUED\r\n*1\r\n:0\r\n"


def without_keys() -> list[tuple[bytes, ...]]:
    """Commands of each kind that may stand in a transaction, and name no key."""
    found: dict[str, tuple[bytes, ...]] = {}
    for argv in invocations():
        command = Command(STANDARD, list(argv))
        name, state = command.spec.display, command.spec.state
        goes_to_one = command.spec.over_nodes.destination in OF_ONE_NODE
        if not name or not goes_to_one or not has_its_arguments(command) or state in CHANGING or name == "SPUBLISH":
            continue
        if not command.spec.may_have_keys or (command.known_keys == () and b"0" in argv):
            found.setdefault(name, argv)
    return list(found.values())


@pytest.mark.parametrize("argv", without_keys(), ids=lambda argv: argv[0].decode())
def test_no_command_without_keys_takes_the_transaction_to_a_node(argv: tuple[bytes, ...]) -> None:
    client = begun()
    client.send(call(*argv))
    assert client.heard() == b"+QUEUED\r\n"
    client.send(call("SET", "a", "1") + call("EXEC"))
    assert client.own.key.node is NODES[2]
    assert arguments(client.own.taken()) == [[b"MULTI"], [*argv], [b"SET", b"a", b"1"], [b"EXEC"]]


def test_those_that_are_named_here_are_among_them() -> None:
    assert {argv[0] for argv in without_keys()} >= {b"EVAL", b"EVALSHA", b"FCALL", b"UNWATCH", b"WAIT", b"PUBLISH"}


def test_keys_that_nobody_can_tell_name_a_node() -> None:
    client = begun()
    client.say("EVAL", "return 1", "x")
    assert client.is_pinned(), "the node complains"


def test_no_more_bytes_than_so_many_wait() -> None:
    client = begun()
    client.say("ECHO", "x" * 1000)
    assert not client.is_pinned()
    client.say("EVAL", "x" * MOST_KEPT_BYTES, "0")
    assert client.is_pinned()


def test_no_more_than_so_many_wait() -> None:
    client = begun()
    for _ in range(MOST_KEPT):
        client.say("PING")
    assert not client.is_pinned()
    client.say("PING")
    assert len(arguments(client.own.taken())) == MOST_KEPT + 2


@pytest.mark.parametrize(
    ("words", "reply"),
    [
        (("EXEC",), b"*0\r\n"),
        (("DISCARD",), b"+OK\r\n"),
        (("EXEC", "x"), b"-EXECABORT Transaction discarded because of: wrong number of arguments"),
        (("RESET",), b"+RESET\r\n"),
    ],
)
def test_an_empty_one_ends_without_any_node(words: tuple[str, ...], reply: bytes) -> None:
    client = begun()
    client.say(*words)
    assert client.heard().startswith(reply)
    assert client.state is POOLED
    client.say("GET", "c")
    assert client.taken() == [[], [[b"GET", b"c"]], []]


@pytest.mark.parametrize("words", [("DBSIZE",), ("KEYS", "*"), ("SCRIPT", "LOAD", "return 1")])
def test_a_command_that_is_refused_makes_exec_fail(words: tuple[str, ...]) -> None:
    client = begun()
    client.say(*words)
    error = client.heard()
    assert error.startswith(b"-ERR keyrail: " + words[0].encode())
    assert error.endswith(b": not inside MULTI\r\n")
    client.say("EXEC")
    assert client.heard() == b"-EXECABORT Transaction discarded because of previous errors.\r\n"
    client.say("MULTI")
    client.say("MGET", "a", "c")
    client.heard()
    client.say("SET", "c", "1")
    sent = arguments(client.own.taken())
    assert sent[0] == [b"MULTI"]
    assert sent[1] == [b"GET"], "what Redis refuses for its arity"
    assert sent[2] == [b"SET", b"c", b"1"]


def test_a_rule_that_refuses_makes_exec_fail() -> None:
    client = Routed(route_with("defaults: {mode: enforce}\nrules: {no-set: {refuse: [SET]}}\n"))
    client.say("MULTI")
    client.say("SET", "c", "1")
    assert b"-DENIED" in client.heard()
    client.say("EXEC")
    assert client.heard().startswith(b"-EXECABORT")
    assert client.taken() == [[], [], []]


def test_where_no_node_can_be_had_exec_fails_and_the_client_stays() -> None:
    client = begun()
    client.nodes.lost = {0, 1, 2}
    client.say("PING")
    client.send(call("EXEC"))
    client.heard()
    client.route.moment += HELD_SECONDS + 1
    client.nodes.looking[0].arrived()
    assert client.heard() == b"-EXECABORT Transaction discarded because of: CLUSTERDOWN Hash slot not served\r\n"
    assert client.state is POOLED
    assert not client.gone
    assert client.intake.simple == client.plain_commands(), "what comes next needs no session"


def test_where_no_node_can_be_had_the_client_follows_the_policy_that_has_come_meanwhile() -> None:
    client = begun()
    client.nodes.lost = {0, 1, 2}
    client.say("PING")
    adopted = client.effective_policy
    client.effective_policy = replace(adopted)
    client.adopt()
    client.send(call("EXEC"))
    client.route.moment += HELD_SECONDS + 1
    client.nodes.looking[0].arrived()
    assert client.effective_policy is adopted


def test_a_refused_multi_closes_the_client_before_it_takes_single_commands_for_a_transaction() -> None:
    client = begun()
    client.say("SET", "c", "1")
    client.own.answer(b"-NOPERM no\r\n")
    assert client.cause == "multi_refused"


def test_a_command_about_one_node_leaves_the_client_free_for_all_nodes() -> None:
    client = begun()
    client.say("CONFIG", "GET", "hz")
    assert client.heard() == b"+QUEUED\r\n"
    client.say("SET", "c", "1")
    client.say("CLIENT", "ID")
    client.say("SELECT", "0")
    client.say("EXEC")
    sent = [b" ".join(words) for words in arguments(client.own.taken())]
    assert sent == [b"MULTI", b"CONFIG GET hz", b"SET c 1", b"CLIENT ID", b"SELECT 0", b"EXEC"]
    client.own.answer(b"+OK\r\n", b"+QUEUED\r\n" * 4, b"*4\r\n*0\r\n+OK\r\n:7\r\n+OK\r\n")
    assert client.heard().endswith(b"*4\r\n*0\r\n+OK\r\n:7\r\n+OK\r\n")
    assert client.state is POOLED
    client.say("GET", "a")
    assert client.taken()[2] == [[b"GET", b"a"]]


@pytest.mark.parametrize(
    "words", [("AUTH", "me", "x"), ("HELLO", "3"), ("SELECT", "1"), ("SELECT", "x"), ("CLIENT", "SETNAME", "me")]
)
def test_what_concerns_all_nodes_is_refused_in_a_transaction(words: tuple[str, ...]) -> None:
    client = begun()
    client.say("SET", "c", "1")
    client.own.answer(b"+OK\r\n", b"+QUEUED\r\n")
    client.heard()
    client.say(*words)
    client.say("EXEC")
    upstream = client.own
    assert [argv[0] for argv in arguments(upstream.taken())] == [b"MULTI", b"SET", b"GET", b"EXEC"]
    upstream.answer(b"-ERR wrong number of arguments for 'get' command\r\n", b"-EXECABORT x\r\n")
    assert client.heard() == b"-ERR keyrail: %b is about all nodes: not inside MULTI\r\n-EXECABORT x\r\n" % (
        b" ".join(word.encode() for word in words[: 2 if words[0] == "CLIENT" else 1])
    )
    assert client.state is POOLED


def test_nobody_else_gets_the_connection_of_a_transaction_with_a_command_that_is_not_known() -> None:
    client = begun()
    client.say("SET", "c", "1")
    client.say("MODULE.COMMAND")
    client.say("EXEC")
    upstream = client.own
    upstream.answer(b"+OK\r\n", b"+QUEUED\r\n" * 2, b"*2\r\n+OK\r\n+OK\r\n")
    assert client.state is POOLED
    assert client.route.closed_gracefully == [upstream]
    assert client.route.released == []


class WithoutLogin(FakeRoute):
    """Nodes that ask for a password since."""

    def unauthenticated(self, key: PoolKey) -> bool:
        return True


def test_reset_ends_it_also_where_nobody_has_logged_in() -> None:
    client = Routed(WithoutLogin())
    client.say("MULTI")
    client.say("RESET")
    assert client.heard() == b"+OK\r\n+RESET\r\n"
    assert client.state is POOLED
