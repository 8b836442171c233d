"""Nodes of one cluster that differ, in their versions while it is upgraded and in their ACLs, with Keyrail before it:
what rules send is what all of them have, and let the user run."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from proxy.commands.slots import slot_of
from tests.cluster.nodes import RealCluster
from tests.conftest import kind_named
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Wire, eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay knows no cluster")

POLICY = """
keyrail: 1
defaults: {mode: enforce}
rules:
  lifetimes: {lifetime: {default: 5m, without_proof: refuse}}
  lazy: {replace: {DEL: UNLINK}}
"""
TAGS = ("b", "c", "a")
"""A hash tag of each primary."""
_NUMBERS = count()


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY, encoding="utf-8")
    return file


def served(cluster: RealCluster, new_keyrail: Callable[..., Keyrail], policy: Path, login: str = "") -> Keyrail:
    keyrail = new_keyrail(f"redis+cluster://{login}127.0.0.1:{cluster.nodes[0].port}", policy=policy)
    eventually(lambda: keyrail.http("/readyz")[0] == 200)
    return keyrail


def write(wire: Wire, name: str, tags: tuple[str, ...] = TAGS) -> None:
    """Keys of these tags, which get their lifetimes in several ways."""
    for tag in tags:
        keys = [f"{{{tag}}}:{name}:{number}" for number in range(4)]
        assert wire.ask("MSET", keys[0], "v", keys[1], "v") == b"+OK\r\n"
        assert wire.ask("INCR", keys[2]) == b":1\r\n"
        assert wire.ask("HSET", keys[3], "f", "v") == b":1\r\n"
        assert [wire.value("TTL", key) in range(200, 301) for key in keys] == [True] * 4, (tag, name)


def sends_msetex(cluster: RealCluster, wire: Wire) -> bool:
    """Whether each node gets lifetimes by MSETEX, which Redis 7.0 does not have and Valkey 9.1 has."""
    write(wire, f"again {next(_NUMBERS)}")
    return all(each.calls("msetex") for each in cluster.living())


def upgraded(cluster: RealCluster, old: Engine, to: str) -> Engine:
    """A replica of another version takes over from this primary, which ends."""
    new = cluster.add(kind_named(to))
    new.do("CLUSTER", "REPLICATE", cluster.id(old))
    cluster.settle()
    cluster.failover(new)
    cluster.settle()
    cluster.forget(old)
    old.kill()
    return new


@pytest.mark.parametrize(
    ("before", "after"),
    [("redis-7.0", "valkey-9.1"), pytest.param("redis-6.2", "redis-7.0", marks=pytest.mark.long)],
)
def test_an_upgrade(
    new_cluster: Callable[..., RealCluster],
    new_keyrail: Callable[..., Keyrail],
    policy: Path,
    before: str,
    after: str,
) -> None:
    cluster = new_cluster(kind_named(before).name, replicas=0)
    keyrail = served(cluster, new_keyrail, policy)
    old = list(cluster.nodes)
    with keyrail.wire() as wire:
        for number, node in enumerate(old):
            write(wire, f"before {number}")
            new = upgraded(cluster, node, after)
            keyrail.await_line(rf"127.0.0.1:{new.port} is a primary")
            for attempt in range(10):
                assert sum(each.calls("msetex") for each in cluster.living()) == 0 or node is old[-1]
                write(wire, f"{number}.{attempt}")
        for number in range(len(old)):  # what was written before the last of them was upgraded, too
            for tag in TAGS:
                assert wire.ask("GET", f"{{{tag}}}:before {number}:0") == b"$1\r\nv\r\n"

        if after == "valkey-9.1":
            eventually(lambda: sends_msetex(cluster, wire))


def test_an_older_node_joins(
    new_cluster: Callable[..., RealCluster], new_keyrail: Callable[..., Keyrail], policy: Path
) -> None:
    cluster = new_cluster("valkey-9.1", replicas=0)
    keyrail = served(cluster, new_keyrail, policy)
    with keyrail.wire() as wire:
        eventually(lambda: sends_msetex(cluster, wire))
        older = cluster.add(kind_named("redis-7.0"))
        keyrail.await_line(rf"127.0.0.1:{older.port} is a primary of 0 slots")
        tags = ("x", "y", "z")
        for slot in sorted(map(slot_of, (b"x", b"y", b"z"))):
            cluster.move_slots([slot], cluster.owner(slot), older)
        cluster.settle()
        write(wire, "after", (*tags, *TAGS))
    assert older.calls("incr") == len(tags)


@pytest.mark.parametrize(
    "logs_in",
    [
        pytest.param(True, id="client's user"),
        pytest.param(False, id="own user", marks=pytest.mark.long),
    ],
)
def test_what_one_node_forbids_is_sent_to_none(
    new_cluster: Callable[..., RealCluster], new_keyrail: Callable[..., Keyrail], policy: Path, logs_in: bool
) -> None:
    cluster = new_cluster("valkey-9.1", replicas=0)
    for node in cluster.nodes:
        node.do("ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all")
    cluster.nodes[2].do("ACL", "SETUSER", "app", "-unlink")
    keyrail = served(cluster, new_keyrail, policy, "" if logs_in else "app:pw@")
    with keyrail.wire() as wire:
        assert not logs_in or wire.ask("AUTH", "app", "pw") == b"+OK\r\n"

        def deleted() -> None:
            for tag in TAGS:
                assert wire.ask("SET", tag, "v") == b"+OK\r\n"
                assert wire.ask("DEL", tag) == b":1\r\n", tag

        for _ in range(10):
            deleted()
        assert [node.calls("unlink") for node in cluster.nodes] == [0, 0, 0]
        assert [node.calls("del") for node in cluster.nodes] == [10, 10, 10]
        cluster.nodes[2].do("ACL", "SETUSER", "app", "+unlink")

        def unlinks() -> bool:
            deleted()
            return all(node.calls("unlink") for node in cluster.nodes)

        eventually(unlinks)
