"""Two tenants of a real cluster, with the same names for keys and channels: each has its own, while slots move, through
one address and as cluster clients of several."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import redis
from redis.cluster import RedisCluster

from proxy.commands.slots import slot_of
from tests.cluster.nodes import RealCluster
from tests.engines import free_port
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import decode, eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="tenants are Keyrail's own")

NAMES = ("acme", "globex")
POLICY = """
keyrail: 1
apps: {acme: {match: {user: acme}}, globex: {match: {user: globex}}}
tenants: {prefix: "{app}:", apps: [acme, globex]}
cross_slot: split
defaults: {mode: enforce}
rules:
  lifetimes: {lifetime: {default: 1h, types: [string, hash, list], keys: "t:*"}}
  small: {whole_collections: {max: 3}}
  walk: {keys_by_scan: {keys: 1000}}
"""
WITHOUT_RULES = POLICY.partition("rules:")[0] + "rules: {}"
KEYS = [f"key:{number}" for number in range(60)]


@pytest.fixture(scope="module")
def prepared(cluster: RealCluster) -> Iterator[RealCluster]:
    """A cluster that knows the tenants' users."""
    for node in cluster.nodes:
        for name in NAMES:
            node.do("ACL", "SETUSER", name, "on", ">secret", "~*", "&*", "+@all")
    yield cluster
    for node in cluster.nodes:
        node.do("ACL", "DELUSER", *NAMES)


@pytest.fixture
def empty(prepared: RealCluster) -> RealCluster:
    for node in prepared.primaries():
        node.do("FLUSHALL")
    return prepared


def served(
    cluster: RealCluster, start: Callable[..., Keyrail], folder: Path, policy: str = POLICY, **options: Any
) -> Keyrail:
    file = folder / "tenants.yaml"
    file.write_text(policy, encoding="utf-8")
    running = start(f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}", policy=file, **options)
    eventually(lambda: running.http("/readyz")[0] == 200)
    return running


@pytest.fixture
def keyrail(empty: RealCluster, new_keyrail: Callable[..., Keyrail], tmp_path: Path) -> Keyrail:
    return served(empty, new_keyrail, tmp_path)


def client_of(keyrail: Keyrail, name: str, protocol: int = 3) -> Any:
    return redis.Redis(port=keyrail.address.port, username=name, password="secret", protocol=protocol)


def stored(cluster: RealCluster) -> set[bytes]:
    return {key for node in cluster.primaries() for key in cast("list[bytes]", node.do("KEYS", "*"))}


def names_of(tenant: str, keys: list[str]) -> set[bytes]:
    return {f"{tenant}:{key}".encode() for key in keys}


@pytest.mark.parametrize("protocol", [2, 3])
def test_each_has_its_own_keys_on_all_nodes(empty: RealCluster, keyrail: Keyrail, protocol: int) -> None:
    acme, globex = (client_of(keyrail, name, protocol) for name in NAMES)
    for client, mark in ((acme, "a"), (globex, "g")):
        assert client.mset({key: mark + key for key in KEYS})
        assert client.mget(KEYS) == [(mark + key).encode() for key in KEYS]
        assert client.exists(*KEYS) == len(KEYS)
    assert stored(empty) == names_of("acme", KEYS) | names_of("globex", KEYS)
    for key in KEYS[:10]:
        assert empty.owner(slot_of(b"acme:" + key.encode())).do("GET", f"acme:{key}") == b"a" + key.encode()
    assert {*acme.scan_iter(count=7)} == {*acme.keys()} == {key.encode() for key in KEYS}
    assert {*acme.scan_iter("key:1*")} == {key.encode() for key in KEYS if key.startswith("key:1")}
    assert acme.dbsize() == globex.dbsize() == len(KEYS)
    assert acme.exists(acme.randomkey())
    assert acme.delete(*KEYS, "other") == len(KEYS)
    assert (acme.dbsize(), acme.randomkey()) == (0, None)
    assert (acme.keys(), len(globex.keys())) == ([], len(KEYS))
    assert acme.set("t:1", "v")
    assert acme.mset({"t:2": "v", "t:3": "v"})
    acme.rpush("list", 1, 2, 3, 4)
    with pytest.raises(redis.ResponseError, match="would read 4 members of the key 'list'"):
        acme.lrange("list", 0, -1)
    large = b"v" * 3_000_000
    assert acme.set("large", large)
    assert acme.get("large") == large
    assert empty.owner(slot_of(b"acme:large")).do("STRLEN", "acme:large") == len(large)
    assert acme.set("t:4", large)
    assert acme.rpush("t:5", large) == acme.hset("t:6", "f", 1) == 1
    assert all(3500 < acme.ttl(f"t:{number}") <= 3600 for number in range(1, 7))
    with acme.pipeline() as unit:
        unit.watch("{u}1")
        unit.multi()
        assert unit.set("{u}1", 1).incr("{u}2").execute() == [True, 1]
    info = acme.info()
    assert (info["cluster_enabled"], info["tcp_port"]) == (0, keyrail.address.port)
    assert not {"db0", "slave0"} & info.keys()
    with pytest.raises(redis.ResponseError, match="hash to the same slot"):
        acme.rename("a", "b")


class Writer(threading.Thread):
    """A tenant's client that appends numbers to lists, in pipelines and transactions, until it is told to stop."""

    def __init__(self, client: Any, name: str) -> None:
        super().__init__(daemon=True)
        self.client, self.name_of_tenant = client, name.encode()
        self.over = threading.Event()
        self.acknowledged: dict[str, list[bytes]] = {key: [] for key in KEYS}
        self.fault: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            number = 0
            while not self.over.is_set():
                number += 1
                self._append(number)
        except BaseException as fault:  # noqa: BLE001 - `finish` raises it
            self.fault = fault

    def _append(self, number: int) -> None:
        value, wanted = b"%b %d" % (self.name_of_tenant, number), KEYS[number % 20 :: 20]
        with self.client.pipeline(transaction=False) as pipeline:
            for key in wanted:
                pipeline.rpush(key, value)
            told = pipeline.execute(raise_on_error=False)
        for key, reply in zip(wanted, told, strict=True):
            if isinstance(reply, int):
                self.acknowledged[key].append(value)
            else:
                assert str(reply).startswith(("CLUSTERDOWN", "TRYAGAIN")), reply
        with self.client.pipeline() as unit:
            key = wanted[0]
            try:
                unit.rpush(key, value + b" unit").lindex(key, -1)
                assert unit.execute()[1] == value + b" unit"
            except redis.ResponseError:
                return
            self.acknowledged[key].append(value + b" unit")

    def finish(self) -> None:
        self.over.set()
        self.join()
        if self.fault is not None:
            raise self.fault


def test_no_write_is_lost_and_none_is_anothers_while_slots_move(empty: RealCluster, keyrail: Keyrail) -> None:
    writers = [Writer(client_of(keyrail, name), name) for name in NAMES]
    moving = sorted({slot_of(f"{name}:{key}".encode()) for name in NAMES for key in KEYS[:25]})
    for slot in moving:
        source = empty.owner(slot)
        target = next(each for each in empty.primaries() if each is not source)
        empty.open_slot(slot, source, target)
        empty.move_keys(slot, source, target, empty.keys_in(slot, source, 1))
        empty.move_keys(slot, source, target)
        empty.close_slot(slot, target)
    for each in writers:
        each.finish()
    empty.settle()
    for name, each in zip(NAMES, writers, strict=True):
        assert sum(map(len, each.acknowledged.values())) > len(moving)
        for key in KEYS:
            full = f"{name}:{key}"
            assert empty.owner(slot_of(full.encode())).do("LRANGE", full, 0, -1) == each.acknowledged[key]
    assert stored(empty) <= {name for tenant in NAMES for name in names_of(tenant, KEYS)}


def flushed(client: Any) -> bool:
    """Whether it is done; not while Keyrail learns where a slot has gone."""
    try:
        return bool(client.flushdb())
    except redis.exceptions.ClusterDownError:
        return False


@pytest.mark.parametrize("protocol", [2, 3])
def test_flushdb_deletes_its_own_keys_on_all_nodes_while_no_slot_moves(
    empty: RealCluster, new_keyrail: Callable[..., Keyrail], tmp_path: Path, protocol: int
) -> None:
    flushes = WITHOUT_RULES.replace("globex]}", "globex], flush: walk, only_keyrail: yes}")
    keyrail = served(empty, new_keyrail, tmp_path, flushes, workers=2)
    acme, globex = (client_of(keyrail, name, protocol) for name in NAMES)
    for client in (acme, globex):
        client.mset(dict.fromkeys([*KEYS, *(f"{{one}}{number}" for number in range(300))], "v"))
    theirs = {name for name in stored(empty) if name.startswith(b"globex:")}
    slot = slot_of(f"acme:{KEYS[0]}".encode())
    source = empty.owner(slot)
    target = next(each for each in empty.primaries() if each is not source)
    empty.open_slot(slot, source, target)
    with pytest.raises(redis.ResponseError, match=r"slots of the cluster are moving.*; no key of this tenant is gone"):
        acme.flushdb()
    empty.move_keys(slot, source, target)
    empty.close_slot(slot, target)
    empty.settle()
    eventually(lambda: flushed(acme))
    assert stored(empty) == theirs
    acme.mset(dict.fromkeys(KEYS, "v"))
    assert acme.flushdb(asynchronous=True)
    assert stored(empty) == theirs
    node = empty.owner(slot)
    node.do("ACL", "SETUSER", "acme", "-cluster|nodes" if protocol == 2 else "-unlink")
    acme.set(KEYS[0], "v")
    with pytest.raises(redis.ResponseError, match=r"this user may not run (CLUSTER NODES|UNLINK); no key of this"):
        acme.flushdb()
    node.do("ACL", "SETUSER", "acme", "+@all")


@pytest.mark.parametrize("protocol", [2, 3])
def test_messages_stay_with_the_tenant(empty: RealCluster, keyrail: Keyrail, protocol: int) -> None:
    kind = b"*" if protocol == 2 else b">"
    hello = ("HELLO", protocol, "AUTH")
    with keyrail.wire() as acme, keyrail.wire() as globex, keyrail.wire() as says:
        for wire, name in ((acme, "acme"), (globex, "globex"), (says, "globex")):
            assert not wire.ask(*hello, name, "secret").startswith(b"-")
        for wire in (acme, globex):
            assert wire.ask("SUBSCRIBE", "c") == kind + b"3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"
            assert wire.ask("PSUBSCRIBE", "[c]*") == kind + b"3\r\n$10\r\npsubscribe\r\n$4\r\n[c]*\r\n:2\r\n"
            assert wire.ask("SSUBSCRIBE", "s") == kind + b"3\r\n$10\r\nssubscribe\r\n$1\r\ns\r\n:1\r\n"
        assert says.ask("PUBLISH", "c", "m") == b":2\r\n"
        assert says.ask("SPUBLISH", "s", "m") == b":1\r\n"
        assert decode(says.ask("PUBSUB", "CHANNELS")) == [b"c"]
        slot = slot_of(b"globex:s")
        source = empty.owner(slot)
        target = next(each for each in empty.primaries() if each is not source)
        empty.move_slots([slot], source, target)
        eventually(lambda: says.ask("SPUBLISH", "s", "after") == b":1\r\n")
        heard: Any = [decode(frame) for frame in globex.frames(4)]
        assert sorted(heard) == [
            [b"message", b"c", b"m"],
            [b"pmessage", b"[c]*", b"c", b"m"],
            [b"smessage", b"s", b"after"],
            [b"smessage", b"s", b"m"],
        ]
        assert acme.silent(0.2)


@pytest.fixture
def telling(empty: RealCluster) -> Iterator[RealCluster]:
    """A cluster whose nodes send keyspace notifications."""
    for node in empty.primaries():
        node.do("CONFIG", "SET", "notify-keyspace-events", "KEA")
    yield empty
    for node in empty.nodes:
        node.do("CONFIG", "SET", "notify-keyspace-events", "")


@pytest.mark.parametrize("protocol", [2, 3])
def test_notifications_of_all_nodes_are_about_own_keys(telling: RealCluster, keyrail: Keyrail, protocol: int) -> None:
    kind = b"*" if protocol == 2 else b">"
    with keyrail.wire() as wire:
        assert not wire.ask("HELLO", protocol, "AUTH", "acme", "secret").startswith(b"-")
        told = wire.ask("SUBSCRIBE", "__keyevent@0__:set")
        assert told == kind + b"3\r\n$9\r\nsubscribe\r\n$18\r\n__keyevent@0__:set\r\n:1\r\n"
        told = wire.ask("PSUBSCRIBE", "__keyspace@0__:key:1*")
        assert told == kind + b"3\r\n$10\r\npsubscribe\r\n$21\r\n__keyspace@0__:key:1*\r\n:2\r\n"
        for name in NAMES:
            client = client_of(keyrail, name)
            for key in KEYS[:20]:
                client.set(key, "v")
        heard: Any = [decode(frame) for frame in wire.frames(31)]
        expected = [[b"message", b"__keyevent@0__:set", key.encode()] for key in KEYS[:20]]
        channels = [f"__keyspace@0__:{key}".encode() for key in KEYS[:20] if key.startswith("key:1")]
        expected += [[b"pmessage", b"__keyspace@0__:key:1*", channel, b"set"] for channel in channels]
        assert sorted(heard) == sorted(expected)
        assert wire.silent(0.2)


def test_cluster_clients_of_a_tenant(empty: RealCluster, new_keyrail: Callable[..., Keyrail], tmp_path: Path) -> None:
    ports = [free_port() for _ in range(3)]
    listeners = [text for port in ports for text in ("--listen", f"redis://127.0.0.1:{port}")]
    shown = ["--present", "cluster", "--advertise", ",".join(f"127.0.0.1:{port}" for port in ports)]
    keyrail = served(empty, new_keyrail, tmp_path, WITHOUT_RULES, extra=[*shown, *listeners])
    clients: list[Any] = [
        RedisCluster(host="127.0.0.1", port=ports[0], username=name, password="secret", protocol=protocol)
        for name, protocol in zip(NAMES, (2, 3), strict=True)
    ]
    acme, globex = clients
    for client, name in zip(clients, NAMES, strict=True):
        assert {node.port for node in client.get_nodes()} == set(ports), "no node of the cluster is known to a client"
        for key in KEYS:
            assert client.set(key, name)
        assert client.mget_nonatomic(*KEYS) == [name.encode()] * len(KEYS)
        assert client.mset_nonatomic(dict.fromkeys(KEYS, f"{name}!"))
        assert {*client.scan_iter(count=9)} == {key.encode() for key in KEYS}
        found = [key for node in client.get_primaries() for key in client.keys("*", target_nodes=node)]
        assert sorted(found) == sorted(key.encode() for key in KEYS)
        assert sum(client.dbsize(target_nodes=node) for node in client.get_primaries()) == len(KEYS)
        assert client.randomkey(target_nodes="random") in found
        slot = slot_of(f"{name}:{KEYS[0]}".encode())
        assert client.cluster_keyslot(KEYS[0]) == slot
        told = client.execute_command("CLUSTER GETKEYSINSLOT", slot, 10, target_nodes="random")
        assert told in ([KEYS[0]], [KEYS[0].encode()])  # redis-py has both forms
        assert client.execute_command("CLUSTER COUNTKEYSINSLOT", slot, target_nodes="random") == 1
        with client.pipeline(transaction=True) as unit:
            assert unit.set("{u}1", name).get("{u}1").execute()[1] == name.encode()
    assert stored(empty) == names_of("acme", [*KEYS, "{u}1"]) | names_of("globex", [*KEYS, "{u}1"])
    assert acme.delete(*KEYS) == len(KEYS)
    assert globex.mget_nonatomic(*KEYS) == [b"globex!"] * len(KEYS)
    for client in clients:
        client.close()
    assert keyrail.http("/readyz")[0] == 200


def test_scripts_run_where_the_keys_with_the_prefix_are(keyrail: Keyrail, empty: RealCluster) -> None:
    text = "for _, key in ipairs(KEYS) do redis.call('INCR', key) end return redis.call('MGET', unpack(KEYS))"
    with redis.Redis(port=keyrail.address.port, username="acme", password="secret") as client:
        script = client.register_script(text)
        for tag in ("a", "b", "c", "42"):
            assert script(keys=[f"{{{tag}}}:1", f"{{{tag}}}:2"]) == [b"1", b"1"]
            assert script(keys=[f"{{{tag}}}:1", f"{{{tag}}}:2"]) == [b"2", b"2"]
        with client.lock("lock", timeout=10):
            assert client.exists("lock")
        assert not client.exists("lock")
        with pytest.raises(redis.ResponseError, match="DENIED keyrail: EVAL is not offered"):
            client.eval("return KEYS[1]", 1, "{a}:1")
        with pytest.raises(redis.ResponseError, match="hash to the same slot"):
            script(keys=["a", "b"])
    found = [name for node in empty.primaries() for name in cast("list[bytes]", node.do("KEYS", "*"))]
    assert sorted(found) == sorted(f"acme:{{{tag}}}:{n}".encode() for tag in ("a", "b", "c", "42") for n in (1, 2))
