"""KEYRAIL NODE n1 …: the policy judges what it carries as if it had been sent plainly, and only that node gets it."""

from __future__ import annotations

import pytest

from proxy.commands.command import Command
from proxy.commands.slots import slot_of
from proxy.commands.table import STANDARD, Lane
from proxy.hotpath.cluster.router import Router
from proxy.policy.load import load_policy
from proxy.policy.model import Policy
from proxy.policy_yaml.shipped import packaged
from proxy.session.commands.switching import HELD_SECONDS
from tests.cluster.test_every_command import invocations
from tests.hotpath.routed import owners
from tests.hotpath.test_split import arguments
from tests.policy.given import policy as policy_of
from tests.session.clustered import NODES, ClusterRoute, Routed
from tests.session.given import HOME, Client, FakeRoute, call, route_with

POLICIES = {
    "strict": load_policy(packaged("strict")),
    "own": policy_of(
        """
        defaults: {mode: enforce}
        rules:
          few: {allow_only: ["@read", "@write", "@admin", KEYRAIL, INFO]}
          unlink: {replace: {DEL: UNLINK}}
          lifetime: {lifetime: {default: 5m}}
          small: {sizes: {value: 1KB}}
          quiet: {refuse: [CONFIG SET, FLUSHALL, SCRIPT, SPUBLISH]}
        """
    ),
}
OWNERS = owners(3)
ROUTER = Router(OWNERS)
REFUSED = (b"-DENIED", b"-ERR keyrail: ", b"-ERR This instance has cluster support disabled", b"-CROSSSLOT")
"""How Keyrail's own refusals begin, with a cluster upstream."""


def sent_by(client: Routed) -> dict[int | None, list[list[bytes]]]:
    """What each node has been sent, on any connection."""
    found: dict[int | None, list[list[bytes]]] = {}
    for upstream in client.route.all_upstreams():
        node = upstream.key.node
        found.setdefault(node.number, []).extend(arguments(upstream.taken()))
    return {number: commands for number, commands in found.items() if commands}


def outcome(policy: Policy, *words: bytes | str) -> tuple[bytes, dict[int | None, list[list[bytes]]], Routed]:
    """What a new client hears, and what goes to nodes."""
    client = Routed(FakeRoute(policy), ROUTER)
    client.send(call(*words))
    told = client.heard(), sent_by(client), client
    client.connection_lost()
    return told


@pytest.mark.parametrize("name", POLICIES)
def test_no_command_gets_around_the_policy_or_the_cluster(name: str) -> None:
    policy, refused, carried = POLICIES[name], 0, 0
    for argv in (argv for argv in invocations() if argv[0] != b"KEYRAIL"):
        keys = Command(STANDARD, argv).known_keys
        number = OWNERS[slot_of(keys[0].name)] if keys else 1
        node = f"n{number + 1}"
        heard, sent, plain = outcome(policy, *argv)
        answer, there, wrapped = outcome(policy, "KEYRAIL", "NODE", node, *argv)
        assert len(there) <= 1, argv
        assert there.keys() <= {number}, argv
        if heard.startswith(b"-DENIED keyrail/") and not sent:
            assert (answer, there) == (heard, {}), argv
            assert wrapped.route.hits == (plain.route.hits or wrapped.route.hits[-1:]), (
                "what the plan refuses, it counts"
            )
            refused += 1
        elif heard.startswith(REFUSED) and not sent:
            assert answer.startswith(b"-"), argv
            assert there == {}, argv
        elif there:
            assert answer == b"", argv
            assert len(there[number]) == 1, argv
            assert not keys or there == sent, argv
            carried += 1
    assert refused > 100
    assert carried > 20


@pytest.mark.parametrize("node", ["n1", "N2", "n3"])
def test_the_named_node_alone_gets_it_and_answers_in_order(node: str) -> None:
    client = Routed(FakeRoute())
    number = int(node[1]) - 1
    client.send(call("GET", "b") + call("keyrail", "Node", node, "DBSIZE") + call("GET", "b"))
    expected: list[list[list[bytes]]] = [[[b"GET", b"b"]], [], []]
    expected[number].append([b"DBSIZE"])
    assert client.taken() == expected
    client.at(number).answer(*[b"$1\r\nv\r\n"] * (number == 0), b":7\r\n")
    if number:
        assert client.heard() == b"", "the reply before it comes first"
        client.at(0).answer(b"$1\r\nv\r\n")
    assert client.heard() == b"$1\r\nv\r\n:7\r\n"
    assert client.taken()[0] == [[b"GET", b"b"]], "what came behind it goes on"
    assert client.sender.pending_replies == 1


@pytest.mark.parametrize("words", [("GET", "b"), ("KEYRAIL", "NODE", "n1", "GET", "b")])
def test_it_counts_as_the_command_that_it_carries(words: tuple[str, ...]) -> None:
    client = Routed(route_with("rules: {}\n"))
    client.say(*words)
    client.at(0).answer(b"$-1\r\n")
    client.send(" ".join(words).encode() + b"\r\n")
    client.at(0).answer(b"$-1\r\n")
    calls = client.route.calls
    assert {spec.name: calls[spec.id] for spec in STANDARD.specs if calls[spec.id]} == {"GET": 2}
    (counted,) = client.route.counters.harvest(10).key_counts
    assert (counted.key, counted.count, counted.reads) == (b"b", 2, 2)


@pytest.mark.parametrize("sent", [call("KEYRAIL", "NODE", "n1", "KEYS", "*"), b"KEYRAIL NODE n1 KEYS *\r\n"])
def test_so_it_does_when_it_has_waited(sent: bytes) -> None:
    client = Routed(route_with("rules: {}\n"))
    client.send(call("GET", "b") + sent)
    client.at(0).answer(b"$-1\r\n")
    client.at(0, Lane.SLOW).answer(b"*0\r\n")
    assert client.heard() == b"$-1\r\n*0\r\n"
    calls = client.route.calls
    assert {spec.name: calls[spec.id] for spec in STANDARD.specs if calls[spec.id]} == {"GET": 1, "KEYS": 1}


def test_rewritten_as_the_policy_says() -> None:
    client = Routed(route_with("defaults: {mode: enforce}\nrules: {lazy: {replace: {DEL: UNLINK}}}\n"))
    client.say("KEYRAIL", "NODE", "n1", "DEL", "b")
    assert client.taken() == [[[b"UNLINK", b"b"]], [], []]


def test_what_a_rule_adds_commands_to_is_refused() -> None:
    client = Routed(route_with("defaults: {mode: enforce}\nrules: {ttl: {lifetime: {default: 5m}}}\n"))
    client.say("KEYRAIL", "NODE", "n1", "INCR", "b")
    assert b"a rule of the policy adds commands to INCR" in client.heard()
    assert client.taken() == [[], [], []]


def test_limits_are_paid_by_what_it_carries() -> None:
    client = Routed(route_with("defaults: {mode: enforce}\nrules: {few: {limits: {per: user, rate: 1/m}}}\n"))
    client.say("KEYRAIL", "NODE", "n1", "GET", "b")
    client.at(0).answer(b"$-1\r\n")
    client.heard()
    client.say("KEYRAIL", "NODE", "n1", "GET", "b")
    assert client.heard().startswith(b"-DENIED keyrail/few: ")


@pytest.mark.parametrize("rule", ["refuse: [KEYRAIL NODE]", "refuse: [KEYRAIL]", "allow_only: [GET, KEYRAIL INFO]"])
def test_a_policy_can_refuse_it_as_such(rule: str) -> None:
    client = Routed(route_with(f"defaults: {{mode: enforce}}\nrules: {{closed: {{{rule}}}}}\n"))
    client.say("KEYRAIL", "NODE", "n1", "GET", "b")
    assert client.heard().startswith(b"-DENIED keyrail/closed: ")
    assert client.route.all_upstreams() == []


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("n9", "PING"), b"-ERR keyrail: n9 is no primary of this cluster: its primaries are n1, n2, n3\r\n"),
        (("", "PING"), b"-ERR keyrail:  is no primary of this cluster: its primaries are n1, n2, n3\r\n"),
        (("n1\r\n+OK" + "x" * 40, "PING"), b"-ERR keyrail: n1  +ok"),
        (("n1",), b"-ERR wrong number of arguments for 'keyrail|node' command\r\n"),
        ((), b"-ERR wrong number of arguments for 'keyrail|node' command\r\n"),
        (("n1", "GET", "a"), b"-ERR keyrail: the keys of this GET are on n3, not on n1\r\n"),
        (("n1", "MGET", "a", "b"), b"-CROSSSLOT "),
        (("n1", "KEYRAIL", "NODE", "n1", "PING"), b"-ERR keyrail: KEYRAIL NODE cannot be sent to a named node"),
        (("n1", "KEYRAIL", "INFO"), b"-ERR keyrail: KEYRAIL INFO cannot be sent to a named node"),
        (("n1", "MULTI"), b"-ERR keyrail: MULTI cannot be sent to a named node"),
        (("n1", "SELECT", "1"), b"-ERR keyrail: SELECT cannot be sent to a named node"),
        (("n1", "AUTH", "x"), b"-ERR keyrail: AUTH cannot be sent to a named node"),
        (("n1", "SUBSCRIBE", "x"), b"-ERR keyrail: SUBSCRIBE cannot be sent to a named node"),
        (("n1", "BLPOP", "b", "0"), b"-ERR keyrail: BLPOP cannot be sent to a named node"),
        (("n1", "CLIENT", "CAPA", "redirect"), b"-ERR keyrail: CLIENT CAPA cannot be sent to a named node"),
        (("n1", "READONLY"), b"-ERR This instance has cluster support disabled"),
        (("n1", "CLUSTER", "NODES"), b"-ERR This instance has cluster support disabled"),
        (
            ("n1", "SHUTDOWN"),
            b"-ERR keyrail: SHUTDOWN is not available with a cluster upstream: run it on the nodes\r\n",
        ),
        (("n1", "MONITOR"), b"-ERR keyrail: MONITOR is not available with a cluster upstream"),
        (("n1", "NOSUCH"), b"-ERR keyrail: NOSUCH cannot be sent to a named node"),
        (("n1", "CON\0FIG", "GET", "x"), b"-ERR "),
    ],
)
def test_mistakes(words: tuple[str, ...], error: bytes) -> None:
    client = Routed(FakeRoute())
    client.say("KEYRAIL", "NODE", *words)
    assert client.heard().startswith(error)
    assert sent_by(client) == {}
    client.say("GET", "b")
    assert client.taken()[0] == [[b"GET", b"b"]]


def test_one_server_has_no_nodes() -> None:
    client = Client(FakeRoute())
    client.say("KEYRAIL", "NODE", "n1", "INFO")
    assert client.heard() == b"-ERR keyrail: KEYRAIL NODE is for clusters, and the upstream is not one\r\n"


def test_inside_multi_it_fails_the_transaction() -> None:
    client = Routed(FakeRoute())
    client.say("MULTI")
    client.say("KEYRAIL", "NODE", "n1", "GET", "b")
    client.say("EXEC")
    ok, error, end, _ = client.heard().split(b"\r\n")
    assert ok == b"+OK"
    assert error.startswith(b"-ERR keyrail: KEYRAIL NODE is not available inside MULTI")
    assert end.startswith(b"-EXECABORT")


def test_while_subscribed_it_is_refused() -> None:
    client = Routed(FakeRoute())
    client.say("SUBSCRIBE", "news")
    client.route.lent[0].answer(b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n")
    client.heard()
    client.say("KEYRAIL", "NODE", "n1", "INFO")
    assert client.heard().startswith(b"-ERR Can't execute 'info': only (P|S)SUBSCRIBE")


def test_a_watch_keeps_it_away() -> None:
    client = Routed(FakeRoute())
    client.say("WATCH", "b")
    client.own.answer(b"+OK\r\n")
    client.heard()
    client.say("KEYRAIL", "NODE", "n1", "INFO")
    assert b"on connections with WATCH" in client.heard()


@pytest.mark.parametrize(
    "error", [b"-MOVED 3300 127.0.0.1:7001\r\n", b"-ASK 3300 127.0.0.1:7001\r\n", b"-TRYAGAIN no\r\n"]
)
def test_what_the_node_refuses_is_not_sent_elsewhere(error: bytes) -> None:
    client = Routed(ClusterRoute())
    client.send(call("KEYRAIL", "NODE", "n1", "GET", "b") + call("GET", "b"))
    client.at(0).answer(error)
    heard = client.heard()
    assert heard.startswith(b"-CLUSTERDOWN keyrail: " if b"127" in error else b"-TRYAGAIN")
    assert b"700" not in heard
    assert client.taken() == [[[b"GET", b"b"], [b"GET", b"b"]], [], []], "the plain one behind it goes on"


@pytest.mark.parametrize("word", [b"MOVED", b"ASK"])
def test_a_script_that_answers_like_a_node_has_run(word: bytes) -> None:
    client = Routed(ClusterRoute())
    client.say("KEYRAIL", "NODE", "n1", "EVAL", "return redis.error_reply(ARGV[1])", "1", "b", "MOVED 1 h:1")
    client.at(0, Lane.SLOW).answer(b"-%b 3300 127.0.0.1:7001\r\n" % word)
    told = b"-ERR keyrail: the command answered with an error that begins with %b, and may have run\r\n" % word
    assert client.heard() == told


def test_a_node_that_cannot_be_reached_is_waited_for_and_named() -> None:
    client = Routed(FakeRoute())
    client.route.starving = True
    client.say("KEYRAIL", "NODE", "n2", "DBSIZE")
    assert client.heard() == b""
    client.route.moment += HELD_SECONDS + 1
    client.route.waiting[-1].close("refused")
    client.nodes.looking[-1].arrived()
    assert client.heard() == b"-CLUSTERDOWN keyrail: no connection to n2\r\n"


def test_what_it_shows_of_a_node_is_hidden() -> None:
    client = Routed(FakeRoute())
    client.say("KEYRAIL", "NODE", "n2", "INFO", "replication")
    text = b"role:master\r\nslave0:ip=10.0.0.9,port=7005\r\ncluster_enabled:1\r\n"
    client.at(1).answer(b"$%d\r\n%b\r\n" % (len(text), text))
    assert client.heard() == b"$32\r\nrole:master\r\ncluster_enabled:0\r\n\r\n"


def test_a_slow_one_waits_for_the_replies_before_it() -> None:
    client = Routed(FakeRoute())
    client.send(call("GET", "b") + call("KEYRAIL", "NODE", "n1", "KEYS", "*"))
    assert client.taken() == [[[b"GET", b"b"]], [], []]
    client.at(0).answer(b"$-1\r\n")
    assert client.taken(Lane.SLOW)[0] == [[b"KEYS", b"*"]]


def test_a_rule_that_asks_redis_asks_the_named_node() -> None:
    client = Routed(route_with("defaults: {mode: enforce}\nrules: {walk: {keys_by_scan: {}}}\n"))
    client.say("KEYRAIL", "NODE", "n3", "KEYS", "*")
    ((key, _, answered),) = client.route.asked
    assert key == HOME._replace(node=NODES[2])
    answered([b"*2\r\n$1\r\n0\r\n*1\r\n$1\r\na\r\n"])
    assert client.heard() == b"*1\r\n$1\r\na\r\n"
