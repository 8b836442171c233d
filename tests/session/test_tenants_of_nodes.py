"""With a cluster upstream, a tenant's command reaches the nodes that the same command with the prefix in its names
reaches: whole, in pieces, and behind a MULTI that stands whole before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from proxy.cluster.cluster_answers import Presented
from proxy.cluster.shares import Advertised, shared_out
from proxy.commands.command import Command
from proxy.commands.slots import slot_of
from proxy.commands.table import STANDARD
from proxy.commands.tenant_commands import ScriptTerms
from proxy.hotpath.cluster.router import Router
from proxy.session.policy import tenancy
from proxy.tenants.requests import NotOfferedError, prefixed, walk_of
from proxy.wire.encode import encode_command
from tests.hotpath.routed import owners
from tests.policy.given import policy
from tests.session.clustered import ClusterRoute, Routed
from tests.session.given import LARGE, FakeRoute, call
from tests.session.test_streaming_to_nodes import served
from tests.session.test_tenants import TenantRoute
from tests.tenants.invocations import INVOCATIONS, sent

ROUTER = Router(owners(3))
BIG = b"x" * (2 * LARGE)
POLICY = policy("""
apps: {acme: {match: {user: default}}}
tenants: {prefix: "{app}:", apps: [acme]}
rules: {}
""")
TRUSTING = policy("""
apps: {acme: {match: {user: default}}}
tenants: {prefix: "{app}:", apps: [acme], scripts: trusted}
rules: {}
""")
ENDS = frozenset({"QUIT", "RESET", "AUTH", "HELLO"})
Argv = tuple[bytes, ...]


def tenant(*commands: Argv) -> Routed:
    """A client of the tenant that has sent this."""
    client = Routed(TenantRoute(POLICY), ROUTER)
    client.send(b"".join(call(*argv) for argv in commands))
    return client


def in_pieces(argv: Argv, place: int) -> tuple[Routed, bool]:
    """The same, in two pieces, and whether something of the first left before the second had come."""
    client, data = tenant(), call(*argv)
    cut = len(call(*argv[: place + 1])) - LARGE
    client.send(data[:cut])
    early = any(upstream.partial is not None for upstream in client.route.all_upstreams())
    client.send(data[cut:])
    return client, early


def other(*commands: Sequence[bytes]) -> Routed:
    """A client of none."""
    client = Routed(FakeRoute(), ROUTER)
    client.send(b"".join(call(*argv) for argv in commands))
    return client


def full(argv: Argv) -> list[bytes]:
    return prefixed(Command(STANDARD, argv), b"acme:").argv


def offered() -> Iterator[Argv]:
    for words in INVOCATIONS:
        argv = tuple(sent(words))
        try:
            full(argv)
        except NotOfferedError:
            continue
        if words[0] not in ENDS and walk_of(Command(STANDARD, argv)) is None:
            yield argv


def test_it_reaches_the_nodes_of_its_full_names() -> None:
    spread: set[int] = set()
    for argv in offered():
        expected = served(other(full(argv)))
        assert served(tenant(argv)) == expected, argv
        spread.update(expected)
    assert spread == {0, 1, 2}


def test_so_it_does_behind_multi() -> None:
    for argv in offered():
        if len(full(argv)) > 1 and STANDARD.spec_of(list(argv)).may_have_keys:
            unit = ((b"MULTI",), argv, (b"EXEC",))
            assert served(tenant(*unit)) == served(other((b"MULTI",), full(argv), (b"EXEC",))), argv


def test_a_command_that_is_not_offered_says_nothing_of_the_node_of_its_transaction() -> None:
    for key in (b"a", b"b", b"c"):
        client = tenant((b"MULTI",), (b"MOVE", b"a", b"1"), (b"SET", key, b"v"), (b"EXEC",))
        (commands,) = served(client).values()
        assert [b"SET", b"acme:" + key, b"v"] in commands
        assert client.heard().count(b"-DENIED keyrail: MOVE is not offered") == 1


def test_so_it_does_with_a_large_value() -> None:
    streamed = set()
    for argv in offered():
        for place in range(1, len(argv)):
            large = (*argv[:place], argv[place] + BIG, *argv[place + 1 :])
            try:
                names = full(large)
            except NotOfferedError:
                continue
            if names[place] != large[place]:
                continue  # a name, or a pattern of names
            client, early = in_pieces(large, place)
            assert served(client) == served(other(names)), (argv, place)
            if early:
                streamed.add(argv[0])
    assert {b"SET", b"APPEND", b"RPUSH", b"HSET", b"XADD"} <= streamed


def test_a_large_name_is_collected() -> None:
    for argv in ((b"GET", BIG), (b"DEL", b"a", b"{a}" + BIG), (b"SPUBLISH", BIG, b"m")):
        client, early = in_pieces(argv, next(place for place, word in enumerate(argv) if BIG in word))
        assert not early
        assert served(client) == served(other(full(argv))), argv
    client, early = in_pieces((b"EVAL", b"return redis.call('KEYS', '*')", b"1", b"a", BIG), 4)
    assert (early, served(client)) == (False, {})
    assert client.heard().startswith(b"-DENIED keyrail: EVAL is not offered to tenants: its script calls KEYS")


def test_the_keys_of_a_tenant_are_those_of_the_nodes_of_its_address() -> None:
    """Cluster clients add up what all addresses say; the count of one address is not told at another one."""
    route = TenantRoute(POLICY)
    for own in (0, 1):
        client = Routed(route, ROUTER)
        shown = presented(client)
        address = shown.shares[own].primary
        client.nodes.shown = shown._replace(own=address)
        client.origin = client.origin._replace(listener=f"{address.host}:{address.port}")
        client.say("DBSIZE")
        asked = []
        while route.asked:
            key, questions, answered = route.asked.pop()
            assert [list(words[:4]) for words in questions] == [[b"SCAN", b"0", b"MATCH", b"acme:*"]]
            asked.append(key.node.number)
            route.moment += 0.5
            answered([b"*2\r\n$1\r\n0\r\n*1\r\n$6\r\nacme:a\r\n"])
        assert asked == list(shown.shares[own].nodes)
        assert client.heard() == b":%d\r\n" % len(asked)


def test_scripts_that_are_trusted_go_where_their_full_keys_are() -> None:
    lines = (
        "EVAL x 1 a acme:a",
        "EVAL x 2 {b}1 {b}2 v",
        "EVALSHA 00 1 c",
        "EVAL_RO x 1 a",
        "FCALL f 1 b",
    )
    for line in lines:
        argv = tuple(line.encode().split())
        client = Routed(TenantRoute(TRUSTING), ROUTER)
        client.send(call(*argv))
        names = prefixed(Command(STANDARD, argv), b"acme:", ScriptTerms.TRUST).argv
        expected = other(names)
        reached = served(client)
        assert reached == served(expected), line
        assert len(reached) == 1
        assert client.heard() == expected.heard()


def presented(client: Routed) -> Presented:
    addresses = [Advertised("10.0.1.1", 6380), Advertised("10.0.1.2", 6380)]
    client.nodes.shown = Presented(addresses[0], shared_out(owners(3), addresses))
    return client.nodes.shown


def test_a_cluster_client_gets_what_others_get() -> None:
    for argv in (b"SLOTS", b"SHARDS", b"NODES", b"INFO", b"MYID", b"MYSHARDID", b"LINKS", b"HELP"):
        clients = tenant(), other()
        for client in clients:
            presented(client)
            client.say("CLUSTER", argv)
            client.say("READONLY")
            client.say("READWRITE")
        told = [client.heard() for client in clients]
        assert told[0] == told[1]
        assert told[0].endswith(b"+OK\r\n" * 2)


def test_slots_are_those_of_full_names() -> None:
    client = tenant()
    presented(client)
    client.say("CLUSTER", "KEYSLOT", "a")
    assert client.heard() == b":%d\r\n" % slot_of(b"acme:a")
    slot = slot_of(b"acme:a")
    client.say("CLUSTER", "COUNTKEYSINSLOT", slot)
    (owner,) = [number for number, upstream in enumerate(client.taken()) if upstream]
    assert owner == owners(3)[slot]
    client.at(owner).answer(b"*3\r\n$6\r\nacme:a\r\n$6\r\nglob:a\r\n$6\r\nacme:b\r\n")
    assert client.heard() == b":2\r\n"
    client.say("CLUSTER", "FLUSHSLOT", slot)
    client.say("ASKING")
    assert client.heard().count(b"is not offered to tenants") == 2


def test_a_redirect_is_followed_under_the_full_name() -> None:
    client = Routed(_Following(POLICY))
    client.say("GET", "a")
    owner = owners(3)[slot_of(b"acme:a")]
    client.at(owner).taken()
    client.at(owner).answer(b"-MOVED %d 127.0.0.1:700%d\r\n" % (slot_of(b"acme:a"), (owner + 1) % 3))
    assert client.heard() == b""
    assert client.at((owner + 1) % 3).taken() == call("GET", "acme:a")
    client.at((owner + 1) % 3).answer(b"$6\r\nacme:a\r\n")
    assert client.heard() == b"$6\r\nacme:a\r\n"


class _Following(TenantRoute, ClusterRoute):
    """Connections to nodes of which redirects are followed."""


def test_a_node_that_is_found_by_the_tenants_own_names_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenancy, "begun_for_redis", lambda session, command, length: command)
    with pytest.raises(AssertionError):
        test_so_it_does_with_a_large_value()
    monkeypatch.setattr(tenancy, "raw_for_redis", lambda tenant, command: encode_command(command.argv))
    with pytest.raises(AssertionError):
        test_so_it_does_behind_multi()
