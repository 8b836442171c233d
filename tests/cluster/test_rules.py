"""Rules before a real cluster do what they do before one Redis: a client with keys of all nodes hears the same, and its
keys have the same lifetimes, also while their slot is on its way to another node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, cast

import pytest

from proxy.commands.slots import slot_of
from tests.cluster.nodes import RealCluster, pipelined
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Failure, Value, eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay knows no rules")

POLICY = """
keyrail: 1
cross_slot: split
defaults: {mode: enforce}
schema:
  few: {key: "{{{tag}}}:few", size: {members: 2, unknown: refuse}}
rules:
  sizes: {schema: size, sample: 99%, remember: 1s}
  few-keys: {fan_out: {max: 5}}
  whole: {whole_collections: {max: 10, remember: 1s, unknown: refuse}}
  caps: {collections: {members: 20, sample: 99%, remember: 1s, unknown: refuse}}
  budget: {keys_by_scan: {keys: 200, bytes: 100KB, time: 60s, count: 20}}
  lifetimes: {lifetime: {default: 5m, types: all, keys: "*:t:*", without_proof: refuse}}
  data-only: {values: {refuse: php}, except: "*:raw"}
  kept: {refuse: [DEL], keys: "*:kept"}
  seldom: {limits: {keys: "*:seldom", rate: 12/h}}
"""
TAGS = ("b", "c", "a")
"""A hash tag of each primary."""
PRESENT = [
    "HSET {}:big f0 0 f1 1 f2 2 f3 3 f4 4 f5 5 f6 6 f7 7 f8 8 f9 9 f10 10",
    "HSET {}:small f 1",
    "SADD {}:full 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19",
    "SADD {}:more x y",
    "RPUSH {}:t:list a",
    "SET {}:t:string v",
    "SET {}:t:stays 1",
]
ONE_KEY = [
    *("HGETALL {}:big", "HGETALL {}:small", "SMEMBERS {}:full", "SMEMBERS {}:none", "HGET {}:big f1", "SADD {}:full x"),
    *("LRANGE {}:t:list 0 -1", "INCR {}:t:new", "INCR {}:t:new", "HSET {}:t:hash f v", "RPUSH {}:t:pushed a b"),
    *("SADD {}:t:set a", "XADD {}:t:x 1-1 f v", "SET {}:t:set-to v", "SETNX {}:t:once v", "GETSET {}:t:got v"),
    *("APPEND {}:t:appended v", "ZADD {}:t:z 1 m", "RPUSH {}:t:string x", "INCR {}:t:stays", "INCR {}:t:string"),
    *("SADD {}:few a", "SADD {}:few b", "SADD {}:few c", "SADD {}:few d", "SMOVE {}:more {}:few x"),
    *("EVAL return(redis.call('incr',KEYS[1])) 1 {}:t:script", "LINDEX {}:t:pushed 0", "KEYS {}:t:pushed"),
    *('SET {}:php s:1:"x";', 'SET {}:raw s:1:"x";', "DEL {}:kept", "DEL {}:raw"),
]
SEVERAL_KEYS = [
    *("SUNION {}:full {}:more", "SUNIONSTORE {}:sum {}:full {}:more", "SUNIONSTORE {}:sum {}:more {}:none"),
    *("SUNIONSTORE {}:few {}:full {}:more", "RENAME {}:full {}:few"),
    *("SUNIONSTORE {}:t:sum {}:more {}:more", "RENAME {}:t:list {}:t:renamed", "COPY {}:t:stays {}:t:copied"),
]
"""While their slot is open, a node that has some of their keys refuses these with TRYAGAIN."""
REFUSED = {
    b"DENIED keyrail/whole": 3,
    b"DENIED keyrail/caps": 1,
    b"DENIED keyrail/sizes": 4,
    b"DENIED keyrail/data-only": 1,
    b"DENIED keyrail/kept": 1,
    b"WRONGTYPE Operation against a key holding the wrong kind of value": 1,
    b"ERR value is not an integer or out of range": 1,
}
"""The errors among the replies, up to their first colon: each rule has something to refuse."""
Session = dict[str, Value]
"""Replies by their commands, and how long each key lives then."""


class Plain(NamedTuple):
    """One Redis, and Keyrail before it."""

    engine: Engine
    keyrail: Keyrail


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("rules") / "policy.yaml"
    file.write_text(POLICY, encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def keyrail(cluster: RealCluster, policy: Path) -> Iterator[Keyrail]:
    """Before the cluster that the tests of this file share."""
    started = Keyrail(f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}", policy=policy)
    eventually(lambda: started.http("/readyz")[0] == 200)
    yield started
    started.close()


@pytest.fixture(scope="module")
def plain(cluster: RealCluster, policy: Path) -> Iterator[Plain]:
    engine = Engine(cluster.kind)
    started = Keyrail(engine.url, policy=policy)
    yield Plain(engine, started)
    started.close()
    engine.close()


@pytest.fixture(autouse=True)
def _empty(cluster: RealCluster, plain: Plain) -> None:
    for node in (plain.engine, *cluster.primaries()):
        node.do("FLUSHALL")


def present(node: Engine, tag: str) -> None:
    """Keys that were there before any client came."""
    with node.wire() as wire:
        pipelined(wire, [tuple(line.format(f"{{{tag}}}").split()) for line in PRESENT])


def session(keyrail: Keyrail, tag: str, asked: Sequence[str]) -> Session:
    """What a client hears whose keys have this tag."""
    found: Session = {}
    with keyrail.wire() as wire:
        for line in asked:
            words = line.replace("{}", f"{{{tag}}}").split()
            found[" ".join(words)] = wire.value(*words)
        for name in sorted({word for line in asked for word in line.split() if word.startswith("{}:")}):
            key = name.replace("{}", f"{{{tag}}}")
            found[f"TTL {key}"] = left if (left := cast("int", wire.value("TTL", key))) < 0 else 240 < left <= 300
    return found


@contextmanager
def moving(cluster: RealCluster, tag: str, state: str) -> Iterator[None]:
    """The slot of this tag is in a state of its move while the block runs; behind it, the slot has moved."""
    slot = slot_of(tag.encode())
    source = cluster.owner(slot)
    target = next(node for node in cluster.primaries() if node is not source)
    if state != "still":
        cluster.open_slot(slot, source, target)
    if state in ("moved keys", "moved slot"):
        cluster.move_keys(slot, source, target)
    if state == "moved slot":
        cluster.close_slot(slot, target)
    yield
    if state in ("open", "moved keys"):
        cluster.move_keys(slot, source, target)
        cluster.close_slot(slot, target)
    cluster.settle()


@pytest.mark.parametrize("state", ["still", "open", "moved keys", "moved slot"])
def test_as_before_one_redis(cluster: RealCluster, keyrail: Keyrail, plain: Plain, state: str) -> None:
    asked = ONE_KEY if state in ("open", "moved keys") else [*ONE_KEY, *SEVERAL_KEYS]
    for tag in (f"{tag}{state.replace(' ', '')}" for tag in TAGS):
        for node in (plain.engine, cluster.owner(slot_of(tag.encode()))):
            present(node, tag)
        expected = session(plain.keyrail, tag, asked)
        with moving(cluster, tag, state):
            assert session(keyrail, tag, asked) == expected
        lifetimes = [expected[f"TTL {{{tag}}}:t:{name}"] for name in ("new", "script", "stays", "string")]
        assert lifetimes == [True, True, -1, -1]
        refused = Counter(each.text.split(b":")[0] for each in expected.values() if isinstance(each, Failure))
        assert asked == ONE_KEY or refused == REFUSED


SPREAD = [f"{{{tag}}}:{number}" for number in range(30) for tag in TAGS]
OVER_NODES = [
    *(("MGET", *SPREAD[:5]), ("MGET", *SPREAD[:6]), ("EXISTS", *SPREAD[3:8]), ("EXISTS", *SPREAD[3:9])),
    *(
        ("MSET", *[word for key in SPREAD[:5] for word in (key, "w")]),
        ("MSET", *[word for key in SPREAD[:6] for word in (key, "w")]),
    ),
    *(
        ("DEL", *SPREAD[:6]),
        ("DEL", *SPREAD[:4]),
        ("UNLINK", *SPREAD[4:9]),
        ("KEYS", "*"),
        ("KEYS", "*b*1*"),
        ("KEYS", SPREAD[20]),
    ),
    *(("INCR", f"{{{TAGS[number % 3]}}}:seldom") for number in range(15)),
]


def test_keys_of_all_nodes(keyrail: Keyrail, plain: Plain) -> None:
    """Numbers of keys, walks with a budget, and a limit that all nodes' keys share."""
    with keyrail.wire() as wire, plain.keyrail.wire() as direct:
        for each in (wire, direct):
            pipelined(each, [("SET", key, key) for key in SPREAD])
        for words in OVER_NODES:
            found, expected = wire.value(*words), direct.value(*words)
            assert alike(found) == alike(expected), words
        for each in (wire, direct):
            pipelined(each, [("SET", f"{{{number}}}", "x") for number in range(200)])
        refusal = cast("Failure", direct.value("KEYS", "*"))
        assert refusal.text.startswith(b"DENIED keyrail/budget")
        assert wire.value("KEYS", "*") == refusal
    eventually(lambda: keyrail.metric("keyrail_verdicts_total", rule="seldom", what="refused") == 3)


def alike(value: Value) -> Value:
    """The same, but that keys of several nodes come in any order, and time goes on."""
    if isinstance(value, Failure):
        return Failure(value.text.split(b"; retry after")[0])
    return sorted(value, key=str) if isinstance(value, list) else value


def test_walks_while_slots_move(cluster: RealCluster, keyrail: Keyrail) -> None:
    """KEYS has all keys whose slots stay, or says why not."""
    slot = slot_of(SPREAD[0].encode())
    everything = {key.encode() for key in SPREAD}
    staying = {key for key in everything if slot_of(key) != slot}

    def move() -> None:
        for _ in range(10):
            source = cluster.owner(slot)
            cluster.move_slots([slot], source, next(node for node in cluster.primaries() if node is not source))
            cluster.settle()

    with keyrail.wire() as wire, ThreadPoolExecutor() as beside:
        pipelined(wire, [("SET", key, "x") for key in SPREAD])
        moving = beside.submit(move)
        answers: list[Value] = []
        while not moving.done():
            answers.append(wire.value("KEYS", "*"))
        moving.result()
        eventually(lambda: alike(wire.value("KEYS", "*")) == alike([*everything]))
    for reply in answers:
        if isinstance(reply, Failure):
            assert reply.text == b"CLUSTERDOWN keyrail: slots have moved meanwhile: try again"
        else:
            assert staying <= {*cast("list[bytes]", reply)} <= everything
    assert any(isinstance(reply, list) for reply in answers)
