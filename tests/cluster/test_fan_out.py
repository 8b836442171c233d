"""Commands of all nodes, sent as ``fan_out`` says, are answered as one plain Redis with the same keys answers them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from proxy.cluster.cluster_answers import DISABLED, Presented
from proxy.cluster.fan_out import fan_out, goes_to_several
from proxy.cluster.own_answers import own_answer
from proxy.cluster.shares import Advertised, shared_out
from proxy.commands.command import Command
from proxy.commands.over_nodes import Destination
from proxy.commands.slots import slot_of
from proxy.commands.table import STANDARD
from tests.cluster.nodes import RealCluster
from tests.engines import Engine
from tests.hotpath.routed import owners
from tests.resp import Value, decode

KEYS = [b"key:%d" % number for number in range(40)]
SCRIPT = "return 'made up'"
SHA = hashlib.sha1(SCRIPT.encode()).hexdigest()
LIBRARY = "#!lua name=made_up\nredis.register_function('made_up', function() return 1 end)"


def command(*words: str) -> Command:
    return Command(STANDARD, [word.encode() for word in words])


def on_cluster(cluster: RealCluster, protocol: int, *words: str, chance: float = 0.5) -> bytes:
    """The joined reply of a real cluster."""
    asked = command(*words)
    assert goes_to_several(asked)
    nodes = cluster.primaries()
    out = fan_out(asked, [f"n{number}" for number in range(1, len(nodes) + 1)], protocol, chance)
    frames = []
    for node, commands in zip(nodes, out.requests, strict=True):
        with node.wire(protocol) as wire:
            frames += [wire.ask(*argv) for argv in commands]
    return out.joined(frames)


def filled(cluster: RealCluster, engine: Engine) -> None:
    """Both have the same keys, and no others."""
    on_cluster(cluster, 2, "FLUSHALL")
    primaries = {cluster.id(node): node for node in cluster.primaries()}
    ranges: Any = cluster.nodes[0].do("CLUSTER", "SLOTS")
    for key in KEYS:
        name = next(shown[2].decode() for first, last, shown, *_ in ranges if first <= slot_of(key) <= last)
        primaries[name].do("SET", key, key)
        engine.do("SET", key, key)


@pytest.fixture
def plain(cluster: RealCluster, new_engine: Callable[..., Engine]) -> Iterator[Engine]:
    """One Redis of the same version; both have the same keys."""
    engine = new_engine(cluster.kind.name)
    filled(cluster, engine)
    yield engine
    on_cluster(cluster, 2, "FLUSHALL")
    on_cluster(cluster, 2, "SCRIPT", "FLUSH")
    on_cluster(cluster, 2, "FUNCTION", "FLUSH")


SAME = [
    ["DBSIZE"],
    ["KEYS", "*"],
    ["KEYS", "key:1*"],
    ["KEYS", "no*"],
    ["SCRIPT", "LOAD", SCRIPT],
    ["SCRIPT", "EXISTS", SHA, "0" * 40],
    ["SCRIPT", "KILL"],
    ["FUNCTION", "LOAD", LIBRARY],
    ["FUNCTION", "LIST"],
    ["FUNCTION", "LIST", "LIBRARYNAME", "made*", "WITHCODE"],
    ["FUNCTION", "DELETE", "made_up"],
    ["FUNCTION", "DELETE", "made_up"],
    ["FUNCTION", "KILL"],
    ["PUBSUB", "CHANNELS"],
    ["PUBSUB", "NUMSUB", "a", "b"],
    ["PUBSUB", "NUMPAT"],
    ["PUBSUB", "SHARDNUMSUB", "a"],
    ["CONFIG", "SET", "maxmemory", "0"],
    ["CONFIG", "SET", "no-such-option", "0"],
    ["CONFIG", "RESETSTAT"],
    ["ACL", "SETUSER", "made-up", "on"],
    ["ACL", "DELUSER", "made-up"],
    ["ACL", "SETUSER", "made-up", "nonsense"],
    ["SLOWLOG", "RESET"],
    ["LATENCY", "RESET"],
    ["CLIENT", "PAUSE", "1"],
    ["CLIENT", "UNPAUSE"],
    ["SCRIPT", "FLUSH"],
    ["FUNCTION", "FLUSH", "ASYNC"],
    ["FLUSHDB"],
    ["RANDOMKEY"],
    ["FLUSHALL", "NONSENSE"],
    ["FLUSHALL", "ASYNC"],
    ["DBSIZE"],
]


@pytest.mark.parametrize("protocol", [2, 3])
def test_the_reply_is_that_of_one_redis(cluster: RealCluster, plain: Engine, protocol: int) -> None:
    with plain.wire(protocol) as wire:
        for words in SAME:
            direct, joined = wire.ask(*words), on_cluster(cluster, protocol, *words)
            assert joined[:1] == direct[:1], words
            assert ordered(decode(joined)) == ordered(decode(direct)), words


def ordered(value: Value) -> str | list[str]:
    """Elements in an order of their own: nodes answer in theirs."""
    return sorted(map(repr, value)) if isinstance(value, list) else repr(value)


def test_a_random_key_is_one_of_all(cluster: RealCluster, plain: Engine) -> None:
    found = {decode(on_cluster(cluster, 2, "RANDOMKEY", chance=step / 20)) for step in range(20)}
    assert found <= set(KEYS)
    assert len({slot_of(key) * 3 // 16384 for key in found if isinstance(key, bytes)}) == 3, "keys of each node"


def test_subscribers_of_all_nodes_are_counted(cluster: RealCluster) -> None:
    wires = [node.wire() for node in cluster.primaries()]
    for wire in wires:
        wire.ask("SUBSCRIBE", "here")
    try:
        assert decode(on_cluster(cluster, 2, "PUBSUB", "NUMSUB", "here", "no")) == [b"here", 3, b"no", 0]
        assert decode(on_cluster(cluster, 2, "PUBSUB", "CHANNELS")) == [b"here"]
    finally:
        for wire in wires:
            wire.close()


# What is answered without any node


PRESENTED = Presented(Advertised("127.0.0.1", 6379), shared_out(owners(3), [Advertised("127.0.0.1", 6379)]))


def test_what_goes_to_nodes_is_not_answered_here() -> None:
    for spec in STANDARD.specs[1:]:
        argv = [word.encode() for word in spec.display.split()]
        argv += [b"x"] * (abs(spec.arity) - len(argv))
        for presented in (None, PRESENTED):
            answered = own_answer(Command(STANDARD, argv, spec), presented, 2, valkey=False)
            if spec.over_nodes.destination.refusal:
                assert answered is not None, spec.name
                assert answered.startswith(b"-ERR ")
            elif spec.over_nodes.destination is not Destination.HERE and not spec.name.startswith("CLUSTER"):
                assert answered is None, spec.name


def test_a_command_without_its_arguments_has_the_engines_own_error() -> None:
    for words in (["CLUSTER", "KEYSLOT"], ["CLUSTER"], ["CLUSTER", "NONSENSE"], ["CLUSTER", "MEET"], ["READONLY", "x"]):
        for presented in (None, PRESENTED):
            assert own_answer(command(*words), presented, 2, valkey=False) is None, words


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["DEBUG", "OBJECT", "k"], "run it on the nodes"),
        (["SHUTDOWN"], "run it on the nodes"),
        (["CLIENT", "TRACKING", "ON"], "it is about one connection to Redis, and a client uses one to each node"),
        (["CLIENT", "REPLY", "OFF"], "it is about one connection to Redis, and a client uses one to each node"),
        (["MONITOR"], "it does not fit a cluster"),
    ],
)
def test_refusals(words: list[str], reason: str) -> None:
    refused = own_answer(command(*words), None, 2, valkey=False)
    name = command(*words).name
    assert refused == f"-ERR keyrail: {name} is not available with a cluster upstream: {reason}\r\n".encode()


def test_what_is_about_the_cluster() -> None:
    assert own_answer(command("CLUSTER", "MEET", "h", "1"), None, 2, valkey=False) == DISABLED
    refused = own_answer(command("CLUSTER", "MEET", "h", "1"), PRESENTED, 2, valkey=False)
    assert refused == b"-ERR keyrail: CLUSTER MEET is not available with a cluster upstream: run it on the nodes\r\n"
    assert own_answer(command("CLUSTER", "COUNTKEYSINSLOT", "1"), None, 2, valkey=False) == DISABLED
    assert own_answer(command("CLUSTER", "COUNTKEYSINSLOT", "1"), PRESENTED, 2, valkey=False) is None
