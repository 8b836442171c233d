"""Simulated nodes, replicas and Sentinels answer as real ones in their place do, whatever they are asked meanwhile.

The simulated ones have the addresses and ids of the real ones. Replies are compared byte for byte, but for offsets,
times and epochs, and for what a real server tells beyond that.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import pytest

from tests.cluster.nodes import STEADY, RealCluster
from tests.conftest import kind_named, rest_is_long, seeds
from tests.engines import Engine
from tests.failover.group import NAME, RealGroup
from tests.resp import decode, eventually, pack
from tests.simulation.cluster import Cluster
from tests.simulation.connection import Connection
from tests.simulation.engine import Server
from tests.simulation.loop import VirtualLoop
from tests.simulation.network import Network
from tests.simulation.sentinel import Group
from tests.simulation.slots import slot_of
from tests.simulation.test_against_engines import Written, frames_of

KINDS = rest_is_long("valkey-9.1", "redis-7.0")
STEPS = 150
KEYS = ("{b}1", "{b}2", "{a}1", "{c}1", "{c}2", "{c}3", "{c}4")
"""Of the first primary, of the second one, and of the slot that moves."""
MOVING, UNSERVED = slot_of(b"c"), slot_of(b"d")

_DATA = """
get K; get K; set K V; set K V; mget K K; mset K V K V; del K K; exists K K; incr K; rpush K V; lrange K 0 -1; type K;
eval E 1 K V; eval F 2 K K; eval F 1 K; get {d}1; mget K {d}1; set {d}1 V; multi; multi; exec; exec; discard; watch K;
unwatch; wait 1 0; role; info replication; flushall x
"""
_CLUSTER = """
asking; asking; asking; readonly; readwrite; cluster keyslot K; cluster countkeysinslot S; cluster getkeysinslot S 9;
cluster myid; cluster nodes; cluster slots; cluster shards; cluster info; cluster nosuch; select 1; spublish K V;
ssubscribe K; sunsubscribe K
"""
_SENTINEL = f"""
sentinel get-master-addr-by-name {NAME}; sentinel get-master-addr-by-name x; sentinel sentinels {NAME};
sentinel sentinels x; sentinel replicas {NAME}; sentinel replicas x; sentinel myid; sentinel nosuch; ping
"""


def commands(text: str) -> list[list[str]]:
    """The words of each."""
    return [line.split() for line in text.split(";")]


def filled(words: Sequence[str], chance: random.Random) -> list[str]:
    """A command with keys and values."""
    choices: dict[str, Sequence[str]] = {
        "K": KEYS,
        "V": ("1", "v"),
        "S": (str(MOVING), str(slot_of(b"b"))),
        "E": ("return redis.call('SET', KEYS[1], ARGV[1])",),
        "F": ("return redis.call('GET', KEYS[1])",),
    }
    return [chance.choice(choices.get(word, (word,))) for word in words]


class Both:
    """A connection to a simulated server, and one to the real server in its place."""

    def __init__(self, loop: VirtualLoop, server: Server, engine: Engine, protocol: int) -> None:
        self.loop, self.server, self.engine = loop, server, engine
        self.connection = Connection(server)
        self.connection.connection_made(Written())
        self.connection.protocol = protocol
        self.wire = engine.wire(protocol)

    def ask(self, *words: str) -> None:
        """Both answer the same."""
        self.wire.say(*words)
        self.connection.data_received(pack(*words))
        passes(self.loop)
        while self.connection.blocked is not None:
            passes(self.loop)
        self.compare(words)

    def compare(self, words: Sequence[str] = ()) -> None:
        """Both have sent the same since."""
        for simulated in frames_of(self.connection.transport.taken()):
            real = self.wire.frame()
            if not agree(words, simulated, real):
                pytest.fail(f"{self.engine.port}: {words} simulated\n{simulated!r}, real\n{real!r}")

    def end(self) -> None:
        """Neither has sent anything else."""
        self.wire.half_close()
        assert list(self.wire.remaining()) == []


def passes(loop: VirtualLoop, seconds: float = 0.1) -> None:
    """Time, in the simulated world."""
    loop.run_until_complete(asyncio.sleep(seconds))


# What must be alike


def agree(words: Sequence[str], simulated: bytes, real: bytes) -> bool:
    """Whether a reply is what the real server says, as far as servers may say the same."""
    meaning = LOOSE.get(" ".join(words[:2]))
    if meaning is None or b"-" in (simulated[:1], real[:1]):
        return simulated == real
    ours, theirs = meaning(simulated), meaning(real)
    return ours <= theirs if isinstance(ours, set) else bool(ours == theirs)


def is_loose(words: Sequence[str]) -> bool:
    """Whether its reply is compared by its meaning, or depends on the moment at which it runs in a transaction."""
    return words[0] == "wait" or " ".join(words[:2]) in LOOSE


def _role(frame: bytes) -> Any:
    value = cast("list[Any]", decode(frame))
    if value[0] == b"master":
        return [[host, port] for host, port, _ in value[2]]
    return value[:4]


def _lines(frame: bytes) -> Any:
    text = re.sub(rb"(offset[:=]|lag=|replid:|epoch:)[0-9a-f]+|,type=replica", rb"\1", cast("bytes", decode(frame)))
    return {line for line in text.split(b"\r\n") if not line.startswith(b"#")}


def _nodes(frame: bytes) -> Any:
    lines = [line.split() for line in cast("bytes", decode(frame)).replace(b",nofailover", b"").splitlines()]
    return sorted(line[:4] + line[7:] for line in lines)


def _shards(frame: bytes) -> Any:
    value = cast("list[Any]", decode(re.sub(rb"(replication-offset\r\n):\d+", rb"\1:0", frame)))
    for shard in value:
        shard[3].sort(key=repr)
    return sorted(value, key=repr)


def _entries(*fields: bytes) -> Callable[[bytes], Any]:
    def meaning(frame: bytes) -> Any:
        entries = [dict(zip(each[::2], each[1::2], strict=True)) for each in cast("list[Any]", decode(frame))]
        return sorted([entry[field] for field in fields] for entry in entries)

    return meaning


LOOSE: dict[str, Callable[[bytes], Any]] = {
    "role": _role,
    "info replication": _lines,
    "cluster info": _lines,
    "cluster nodes": _nodes,
    "cluster shards": _shards,
    "cluster getkeysinslot": lambda frame: sorted(cast("list[bytes]", decode(frame))),
    "sentinel sentinels": _entries(b"ip", b"port", b"runid"),
    "sentinel replicas": _entries(b"ip", b"port", b"flags", b"role-reported", b"master-link-status"),
}
"""What is compared instead of bytes. A set of lines must be among those of the real server."""


# Clusters


class Twins:
    """A cluster, simulated and real, and a slot that moves from one primary to the other and back."""

    def __init__(self, real: RealCluster, protocol: int) -> None:
        self.loop, self.real = VirtualLoop(), real
        places = [("127.0.0.1", each.port) for each in real.nodes]
        self.cluster = Cluster(Network(self.loop, random.Random(1)), 2, 1, places)
        self.nodes = list(zip(self.cluster.nodes, real.nodes, strict=True))
        for node, engine in self.nodes:
            node.id, node.server.valkey = real.id(engine), real.kind.is_valkey
            if real.kind.is_valkey:
                node.shard = cast("bytes", engine.do("CLUSTER", "MYSHARDID")).decode()
            node.assign(UNSERVED, None)
        self.at = [Both(self.loop, node.server, engine, protocol) for node, engine in (*self.nodes, self.nodes[0])]
        self.source, self.target = 0, 1
        self.is_open = False

    def act(self, chance: random.Random) -> None:
        """Something happens to the slot."""
        (source, from_real), (target, to_real) = self.nodes[self.source], self.nodes[self.target]
        held = sorted(source.keys_in({MOVING}))
        if not self.is_open:
            self.cluster.open([MOVING], source, target)
            to_real.do("CLUSTER", "SETSLOT", MOVING, "IMPORTING", source.id)
            from_real.do("CLUSTER", "SETSLOT", MOVING, "MIGRATING", target.id)
            self.is_open = True
        elif held:
            key = chance.choice(held)
            self.cluster.migrate([key], source, target)
            from_real.do("MIGRATE", "127.0.0.1", to_real.port, key, 0, 5000)
        else:
            self.cluster.close([MOVING], source, target)
            for engine in (to_real, from_real):
                engine.do("CLUSTER", "SETSLOT", MOVING, "NODE", target.id)
            self.source, self.target, self.is_open = self.target, self.source, False
        self.settle()
        for each in self.at:
            each.compare()

    def settle(self) -> None:
        """All nodes know what has happened, and replicas have what their primaries have."""
        passes(self.loop)
        self.real.settle()
        eventually(lambda: self._offset(0) == self._offset(2) and self._offset(1) == self._offset(3))

    def _offset(self, number: int) -> str:
        return self.real.nodes[number].info("replication")["master_repl_offset"]

    def end(self, chance: random.Random) -> None:
        """The real one is as it was."""
        self.at.clear()
        while self.is_open or self.source:
            self.act(chance)
        for engine in self.real.nodes[:2]:
            engine.do("FLUSHALL")


@pytest.fixture(scope="module", params=KINDS)
def real(request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    """Two primaries with a replica each. Nobody owns one of the slots."""
    options = STEADY | {"cluster-require-full-coverage": "no"}
    started = RealCluster(kind_named(request.param), options, primaries=2, replicas=1)
    for _ in range(2):  # what was under way the first time may have told of it again
        for each in started.nodes:
            with each.wire() as wire:
                wire.ask("CLUSTER", "DELSLOTS", UNSERVED)
        started.settle()
    yield started
    started.close()


@pytest.mark.parametrize("seed", seeds(2, 20))
def test_nodes_of_a_cluster_answer_the_same(real: RealCluster, protocol: int, seed: int) -> None:
    chance, twins = random.Random(seed), Twins(real, protocol)
    known = commands(_DATA) + commands(_CLUSTER)
    try:
        for _ in range(STEPS):
            if chance.random() < 0.1:
                twins.act(chance)
            at = chance.choice(twins.at)
            words = filled(chance.choice(known), chance)
            if at.connection.queue is not None and is_loose(words):
                continue
            if at.server.primary is not None:
                twins.settle()
            at.ask(*words)
        for each in twins.at:
            each.end()
    finally:
        twins.end(chance)


# Sentinels, and what they watch


@pytest.fixture(params=KINDS)
def group(request: pytest.FixtureRequest) -> Iterator[RealGroup]:
    """A primary with one replica, so that it is clear which one is promoted."""
    started = RealGroup(kind_named(request.param), replicas=1)
    yield started
    started.close()


def simulated(loop: VirtualLoop, real: RealGroup) -> Group:
    """The same group, simulated."""
    ports = [*(each.public for each in real.servers), *(each.port for each in real.sentinels)]
    made = Group(Network(loop, random.Random(1)), 1, 3, [("127.0.0.1", port) for port in ports])
    for sentinel, engine in zip(made.sentinels, real.sentinels, strict=True):
        sentinel.id = cast("bytes", engine.do("SENTINEL", "MYID")).decode()
    for one in made.sentinels:
        one.others = {each.id: each.server.address for each in made.sentinels if each is not one}
        one.server.valkey = real.servers[0].kind.is_valkey
    for each in made.servers:
        each.valkey = real.servers[0].kind.is_valkey
    return made


def test_sentinels_and_replicas_answer_the_same(group: RealGroup, protocol: int) -> None:
    loop, chance = VirtualLoop(), random.Random(1)
    twin = simulated(loop, group)
    watch = loop.create_task(twin.watch())
    passes(loop)
    pairs = [*zip(twin.servers, group.servers, strict=True)]
    watching = [*zip((each.server for each in twin.sentinels), group.sentinels, strict=True)]
    for round_number in range(2):
        data = [Both(loop, server, engine, protocol) for server, engine in pairs]
        sentinels = [Both(loop, server, engine, protocol) for server, engine in watching]
        for each in sentinels:
            for words in commands(_SENTINEL):
                each.ask(*words)
            each.ask("subscribe", "+switch-master")
        for _ in range(STEPS):
            each = chance.choice(data)
            group.settle()
            words = filled(chance.choice(commands(_DATA)), chance)
            if each.connection.queue is None or not is_loose(words):
                each.ask(*words)
        for each in data:
            each.end()
        if round_number == 0:
            group.fail_over()
            loop.run_until_complete(twin.failover())
            passes(loop, 15.0)
            for each in sentinels:
                each.compare()
            group.settle()
        for each in sentinels:
            each.end()
    watch.cancel()
