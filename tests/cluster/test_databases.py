"""Databases of a Valkey Cluster (`cluster-databases`): each client has its own on all nodes, also while slots move."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from redis import Redis

from proxy.commands.slots import slot_of
from tests.cluster.nodes import RealCluster
from tests.conftest import kind_named
from tests.keyrail_process import Keyrail
from tests.resp import Wire, eventually

KEYS = [f"key:{number}" for number in range(60)]


@pytest.fixture(scope="module")
def databases() -> Iterator[RealCluster]:
    """A cluster with four databases."""
    started = RealCluster(kind_named("valkey-9.1"), {"cluster-databases": "4"}, replicas=0)
    yield started
    started.close()


@pytest.fixture(scope="module")
def keyrail(databases: RealCluster) -> Iterator[Keyrail]:
    running = Keyrail(f"redis+cluster://127.0.0.1:{databases.nodes[0].port}")
    eventually(lambda: running.http("/readyz")[0] == 200)
    yield running
    running.close()


@pytest.fixture
def wire(keyrail: Keyrail) -> Iterator[Wire]:
    with keyrail.wire() as wire:
        assert wire.ask("FLUSHALL") == b"+OK\r\n"
        yield wire


def test_select_holds_on_all_nodes(databases: RealCluster, keyrail: Keyrail, wire: Wire) -> None:
    assert wire.ask("SELECT", 2) == b"+OK\r\n"
    for key in KEYS:
        assert wire.ask("SET", key, "two") == b"+OK\r\n"
    with keyrail.wire() as other:
        assert other.value("DBSIZE") == 0
        assert other.value("EXISTS", *KEYS) == 0
        assert other.ask("SELECT", 4) == b"-ERR DB index is out of range\r\n"
        assert other.ask("SELECT", 2) == b"+OK\r\n"
        assert other.value("MGET", *KEYS) == [b"two"] * len(KEYS)
        assert other.ask("EVAL", "return redis.call('get', KEYS[1])", 1, KEYS[7]) == b"$3\r\ntwo\r\n"
        other.send(b"MULTI\r\nGET key:1\r\nEXEC\r\n")
        assert other.frames(3)[2] == b"*1\r\n$3\r\ntwo\r\n"
        assert other.ask("BLPOP", "none", "0.01") == b"*-1\r\n"
        assert other.ask("RESET") == b"+RESET\r\n"
        assert other.value("EXISTS", *KEYS) == 0
    assert wire.value("DBSIZE") == len(KEYS)
    assert wire.ask("FLUSHDB") == b"+OK\r\n"
    assert all(node.do("DBSIZE") == 0 for node in databases.nodes)


def test_move_copy_and_swapdb(wire: Wire) -> None:
    assert wire.ask("SET", "a", "v") == b"+OK\r\n"
    assert wire.ask("MOVE", "a", 1) == b":1\r\n"
    assert wire.ask("EXISTS", "a") == b":0\r\n"
    assert wire.ask("SELECT", 1) == b"+OK\r\n"
    assert wire.ask("GET", "a") == b"$1\r\nv\r\n"
    assert wire.ask("COPY", "a", "{a}2", "DB", 3) == b":1\r\n"
    assert wire.ask("SWAPDB", 0, 1).startswith(b"-ERR")
    assert wire.ask("GET", "a") == b"$1\r\nv\r\n"
    assert wire.ask("SELECT", 3) == b"+OK\r\n"
    assert wire.ask("GET", "{a}2") == b"$1\r\nv\r\n"


def test_scan_walks_its_database_while_slots_move(databases: RealCluster, keyrail: Keyrail, wire: Wire) -> None:
    assert wire.ask("SET", "{other}1", "x") == b"+OK\r\n"
    with Redis(port=keyrail.address.port, db=1) as client:
        for key in KEYS:
            client.set(key, "one")
        assert sorted(client.scan_iter(count=7)) == sorted(key.encode() for key in KEYS)
        found: set[bytes] = set()
        moved = iter(KEYS)
        cursor, pages = 0, 0
        while cursor or not pages:
            cursor, page = client.scan(cursor, count=5)
            found |= set(page)
            if pages < 3:
                slot = slot_of(next(moved).encode())
                source = databases.owner(slot)
                target = next(each for each in databases.nodes if each is not source)
                databases.move_slots_atomically(slot, slot, source, target)
            pages += 1
            assert pages < 1000
        assert found == {key.encode() for key in KEYS}
        assert client.mget(KEYS) == [b"one"] * len(KEYS)
        assert sorted(client.keys()) == sorted(found)
        assert client.randomkey() in found


def test_a_command_that_is_sent_again_keeps_its_database(databases: RealCluster, wire: Wire) -> None:
    slot = slot_of(b"moving")
    source = databases.owner(slot)
    target = next(each for each in databases.nodes if each is not source)
    assert wire.ask("SELECT", 3) == b"+OK\r\n"
    assert wire.ask("SET", "{moving}1", "three") == b"+OK\r\n"
    databases.move_slots_atomically(slot, slot, source, target)
    assert wire.ask("GET", "{moving}1") == b"$5\r\nthree\r\n", "MOVED"
    databases.settle()
    databases.open_slot(slot, target, source)
    assert wire.ask("SET", "{moving}2", "three") == b"+OK\r\n", "ASK"
    with source.wire() as asking:
        assert asking.ask("SELECT", 3) == b"+OK\r\n"
        assert asking.ask("ASKING") == b"+OK\r\n"
        assert asking.ask("GET", "{moving}2") == b"$5\r\nthree\r\n"
        assert asking.ask("ASKING") == b"+OK\r\n"
        assert asking.ask("DEL", "{moving}2") == b":1\r\n"
    for node in databases.nodes:
        node.do("CLUSTER", "SETSLOT", slot, "STABLE")


def test_a_login_and_a_url_with_a_database(databases: RealCluster, keyrail: Keyrail, wire: Wire) -> None:
    assert wire.ask("ACL", "SETUSER", "shop", "on", ">secret", "~*", "&*", "+@all") == b"+OK\r\n"
    with Redis(port=keyrail.address.port, db=2, username="shop", password="secret") as client:
        for key in KEYS:
            client.set(key, "shop")
    running = Keyrail(f"redis+cluster://127.0.0.1:{databases.nodes[0].port}/2")
    try:
        eventually(lambda: running.http("/readyz")[0] == 200)
        with running.wire() as other:
            assert other.value("MGET", *KEYS) == [b"shop"] * len(KEYS)
            assert other.value("DBSIZE") == len(KEYS)
    finally:
        running.close()
    assert wire.value("EXISTS", *KEYS) == 0


def test_clients_get_the_databases_that_all_nodes_have(
    new_cluster: Callable[..., RealCluster], new_keyrail: Callable[..., Keyrail]
) -> None:
    cluster = new_cluster(kind_named("valkey-9.1").name, {"cluster-databases": "4"}, replicas=0)
    few = cluster.nodes[1]
    few.options["cluster-databases"] = "2"
    few.kill()
    few.start()
    cluster.settle()
    keyrail = new_keyrail(f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}")
    eventually(lambda: keyrail.http("/readyz")[0] == 200)
    with keyrail.wire() as wire:
        assert wire.ask("SELECT", 1) == b"+OK\r\n"
        for number in (2, 3, 4):
            assert wire.ask("SELECT", number) == b"-ERR DB index is out of range\r\n"
        for key in KEYS[:12]:
            assert wire.ask("SET", key, "one") == b"+OK\r\n", "the client is still in database 1"
        few.options["cluster-databases"] = "4"
        few.kill()
        few.start()
        cluster.settle()
        eventually(lambda: wire.ask("SELECT", 2) == b"+OK\r\n")
