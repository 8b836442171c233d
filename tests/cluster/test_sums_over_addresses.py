"""A cluster of Keyrails with as many addresses as a cluster has nodes: what clients add up, join or compare over all
addresses is what the nodes of that cluster say, wherever subscribers are."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple, cast

import pytest
from redis.cluster import RedisCluster

from proxy.commands.slots import slot_of
from tests.cluster.nodes import RealCluster
from tests.conftest import kind_named, seeds
from tests.engines import Engine, free_port
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Address, Value, Wire, eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay knows no cluster")

PRIMARIES = 3
KEYS = [f"key:{number}" for number in range(90)]
KINDS = ("SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE")


class Shape(NamedTuple):
    """So many addresses of Keyrail, and nodes of a cluster of that shape: those of the same number are alike, primaries
    first. ``behind`` are the primaries of the cluster behind Keyrail."""

    keyrail: Sequence[Address]
    direct: Sequence[Address]
    behind: Sequence[Engine]


@pytest.fixture(scope="module")
def single(cluster: RealCluster) -> Iterator[RealCluster]:
    """A cluster of one node."""
    started = RealCluster(kind_named(cluster.kind.name), primaries=1, replicas=0)
    yield started
    started.close()


@pytest.fixture(scope="module", params=[1, 3, 4, 6])
def shape(cluster: RealCluster, single: RealCluster, request: pytest.FixtureRequest) -> Iterator[Shape]:
    ports = sorted(free_port() for _ in range(request.param))
    listeners = [text for port in ports for text in ("--listen", f"redis://127.0.0.1:{port}")]
    advertised = ["--present", "cluster", "--advertise", ",".join(f"127.0.0.1:{port}" for port in ports)]
    with ExitStack() as stack:
        keyrail = Keyrail(
            f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}", workers=2, extra=[*advertised, *listeners]
        )
        stack.callback(keyrail.close)
        eventually(lambda: keyrail.http("/readyz")[0] == 200)
        nodes = single.nodes if len(ports) == 1 else cluster.nodes[: len(ports)]
        made = Shape(
            [Address(port=port) for port in ports], [node.address for node in nodes], cluster.nodes[:PRIMARIES]
        )
        for each in (cluster, single):
            with RedisCluster(host="127.0.0.1", port=each.nodes[0].port) as client:
                client.flushall()
                for key in KEYS:
                    client.set(key, key)
        eventually(lambda: all(sorted(told(a, "KEYS *")) == sorted(told(b, "KEYS *")) for a, b in alike(made)))
        yield made


def alike(shape: Shape) -> list[tuple[Address, Address]]:
    return list(zip(shape.keyrail, shape.direct, strict=True))


def told(address: Address, line: str) -> Any:
    with Wire(address) as wire:
        return wire.value(*line.split())


def every(addresses: Sequence[Address], line: str) -> list[Any]:
    return [told(address, line) for address in addresses]


# Subscribers


class Subscriber(NamedTuple):
    at: int
    verb: str
    names: list[str]


def subscribers(chance: random.Random, addresses: int, tag: str) -> list[Subscriber]:
    """Some clients. Shard channels are subscribed to where their slot is shown."""
    made = []
    for number in range(chance.randrange(1, 7)):
        verb, at = chance.choice(KINDS), chance.randrange(addresses)
        names = [f"{tag}:{name}" for name in chance.sample("abc", chance.randrange(1, 4))]
        if verb == "SSUBSCRIBE":
            names = names[:1]
            at = slot_of(names[0].encode()) * min(PRIMARIES, addresses) // 16384
        elif verb == "PSUBSCRIBE" and at >= PRIMARIES:
            names = [f"{name}:{number}" for name in names]  # NUMPAT tells equal ones of one server once
        made.append(Subscriber(at, verb, names))
    return made


def subscribed(stack: ExitStack, addresses: Sequence[Address], clients: Sequence[Subscriber], protocol: int) -> None:
    for client in clients:
        wire = stack.enter_context(Wire(addresses[client.at], protocol=protocol))
        wire.say(client.verb, *client.names)
        for _ in client.names:
            assert wire.frame()[:1] in (b"*", b">")


def nobody_listens(addresses: Sequence[Address]) -> bool:
    return not any(every(addresses, "PUBSUB NUMPAT"))


def counts(addresses: Sequence[Address], tag: str) -> list[list[Any]]:
    """What each address says, command by command."""
    names = " ".join(f"{tag}:{name}" for name in "abcd")
    return [
        [sorted(each) for each in every(addresses, f"PUBSUB CHANNELS {tag}:*")],
        [sorted(each) for each in every(addresses, f"PUBSUB SHARDCHANNELS {tag}:*")],
        every(addresses, f"PUBSUB NUMSUB {names}"),
        every(addresses, f"PUBSUB SHARDNUMSUB {names}"),
        every(addresses, "PUBSUB NUMPAT"),
    ]


def helpers(port: int, tag: str) -> list[Any]:
    """What redis-py makes of it."""
    names = [f"{tag}:{name}" for name in "abcd"]
    with RedisCluster(host="127.0.0.1", port=port) as client:
        every_node = RedisCluster.ALL_NODES
        return [
            sorted(client.pubsub_channels(f"{tag}:*", target_nodes=every_node)),
            sorted(client.pubsub_shardchannels(f"{tag}:*", target_nodes=every_node)),
            sorted(client.pubsub_numsub(*names, target_nodes=every_node)),
            sorted(client.pubsub_shardnumsub(*names, target_nodes=every_node)),
            client.pubsub_numpat(target_nodes=every_node),
        ]


@pytest.mark.parametrize("seed", seeds(2, 30))
def test_subscribers_are_counted_where_they_are_and_once(shape: Shape, seed: int) -> None:
    chance, tag = random.Random(seed), f"s{seed}"
    clients = subscribers(chance, len(shape.keyrail), tag)
    protocol = chance.choice([2, 3])
    found = []
    for addresses in (shape.direct, shape.keyrail):
        eventually(partial(nobody_listens, addresses))
        with ExitStack() as stack:
            subscribed(stack, addresses, clients, protocol)
            found.append((counts(addresses, tag), helpers(addresses[0].port, tag)))
    (direct, by_direct_helpers), (keyrail, by_helpers) = found
    assert by_helpers == by_direct_helpers, clients
    if all(client.at < PRIMARIES for client in clients):
        assert keyrail == direct, clients
    else:
        # Keyrail has no server for an address beyond the primaries: its subscribers are counted at its primary.
        none = [part for name in "abcd" for part in (f"{tag}:{name}".encode(), 0)]
        for of_command, nothing in zip(keyrail, [[], [], none, none, 0], strict=True):
            assert all(each == nothing for each in of_command[PRIMARIES:]), clients


def test_what_is_replicated_is_the_same_at_replicas(shape: Shape) -> None:
    lines = ["DBSIZE", "KEYS *", "FUNCTION LIST"]
    of_one_node = ["INFO keyspace", "SCAN 0 COUNT 1000"]
    for line in [*lines, *of_one_node] if len(shape.keyrail) > 1 else lines:
        for keyrail, direct in alike(shape):
            assert shown(told(keyrail, line)) == shown(told(direct, line)), line
    everything = sorted(key.encode() for key in KEYS)
    primaries = shape.keyrail[:PRIMARIES]
    assert sorted(key for keys in every(primaries, "KEYS *") for key in keys) == everything
    assert sum(every(primaries, "DBSIZE")) == len(KEYS)
    with RedisCluster(host="127.0.0.1", port=primaries[0].port) as client:
        assert sorted(client.scan_iter(count=7)) == everything
    for address in shape.keyrail:
        assert told(address, "RANDOMKEY") in told(address, "KEYS *")


def shown(value: Value) -> object:
    return sorted(map(repr, map(shown, value))) if isinstance(value, list) else value


@pytest.mark.parametrize("shape", [3, 4, 6], indirect=True, scope="module")
def test_what_has_happened_on_a_server_is_told_once(shape: Shape) -> None:
    """Behind each of these addresses is one node, or none."""
    for number, node in enumerate(shape.behind):
        node.do("SLOWLOG", "RESET")
        before = cast("list[bytes]", node.do("CONFIG", "GET", "slowlog-log-slower-than"))[1]
        node.do("CONFIG", "SET", "slowlog-log-slower-than", 0)
        for _ in range(number):
            node.do("PING")
        node.do("CONFIG", "SET", "slowlog-log-slower-than", before)
    lengths = [cast("int", node.do("SLOWLOG", "LEN")) for node in shape.behind]
    none = [0] * (len(shape.keyrail) - PRIMARIES)
    assert every(shape.keyrail, "SLOWLOG LEN") == lengths + none
    assert [len(log) for log in every(shape.keyrail, "SLOWLOG GET -1")] == lengths + none
    assert every(shape.keyrail, "LASTSAVE")[:PRIMARIES] == [node.do("LASTSAVE") for node in shape.behind]
    for line in ("CLIENT LIST", "ACL LOG", "LATENCY LATEST", "LATENCY HISTORY command", "LATENCY HISTOGRAM"):
        for protocol in (2, 3):
            for address in shape.keyrail[PRIMARIES:]:
                with Wire(address, protocol=protocol) as wire:
                    assert not text_of(wire.value(*line.split())), line
    assert all(every(shape.keyrail[:PRIMARIES], "CLIENT LIST"))


def text_of(value: Value) -> object:
    return value.removeprefix(b"txt:") if isinstance(value, bytes) else value


def test_scripts_and_settings_sent_to_all_addresses_are_everywhere(shape: Shape) -> None:
    digest = every(shape.keyrail, "SCRIPT LOAD return(7)")[0].decode()
    assert every(shape.keyrail, f"SCRIPT EXISTS {digest}") == [[1]] * len(shape.keyrail)
    assert every(shape.keyrail, f"EVALSHA {digest} 0") == [7] * len(shape.keyrail)
    every(shape.keyrail, "SCRIPT FLUSH")
    assert every(shape.keyrail, f"SCRIPT EXISTS {digest}") == [[0]] * len(shape.keyrail)
