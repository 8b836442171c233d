"""An address that leads to the new primary after a failover, while connections to the old one stay open.

Proves with real servers that no client gets a connection to the old one, a replica by then which is cut off: neither
one that was in use when an error told of the failover, nor where nobody writes. And reads go to replicas again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from tests.engines import Engine, free_port
from tests.keyrail_process import DIRECT, Keyrail
from tests.moving_address import Way, way_to
from tests.resp import Wire, eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay leaves its connections where they are")


def behind_one_address(
    servers: list[Engine], new_keyrail: Callable[..., Keyrail], login: str, case: Callable[[Keyrail, Way], None]
) -> None:
    async def main() -> None:
        async with way_to(servers[0]) as way:
            keyrail = await asyncio.to_thread(new_keyrail, f"redis://{login}127.0.0.1:{way.port}")
            try:
                await asyncio.to_thread(case, keyrail, way)
            finally:
                await asyncio.to_thread(keyrail.close)

    for each in servers:
        each.do("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-@dangerous")
    servers[0].do("SET", "k", "old")
    servers[0].do("WAIT", 1, 0)
    asyncio.run(main())


def fail_over(way: Way, servers: list[Engine]) -> None:
    """The replica takes over, and nobody reaches the other one any more but by connections that are open."""
    old, new = servers
    new.do("REPLICAOF", "NO", "ONE")
    old.do("REPLICAOF", "127.0.0.1", free_port())
    new.do("SET", "k", "new")
    way.engine = new


def own_connection_reads(wire: Wire) -> bytes:
    """What a client reads by a connection of its own."""
    assert wire.ask("WATCH", "k") == b"+OK\r\n"
    found = wire.ask("GET", "k")
    assert wire.ask("UNWATCH") == b"+OK\r\n"
    return found


@pytest.mark.parametrize("login", ["", "app:secret@"])
def test_a_connection_in_use_is_not_given_to_the_next_client(
    servers: list[Engine], new_keyrail: Callable[..., Keyrail], login: str
) -> None:
    """Also where Redis tells neither its run_id (INFO) nor its role by ROLE."""

    def case(keyrail: Keyrail, way: Way) -> None:
        with keyrail.wire() as user, keyrail.wire() as writer, keyrail.wire() as next_user:
            assert user.ask("WATCH", "k") == b"+OK\r\n"
            fail_over(way, servers)
            assert writer.ask("SET", "other", "v").startswith(b"-READONLY")
            eventually(lambda: writer.ask("SET", "other", "v") == b"+OK\r\n")
            assert user.ask("GET", "k") == b"$3\r\nold\r\n"
            assert user.ask("UNWATCH") == b"+OK\r\n"
            assert own_connection_reads(next_user) == b"$3\r\nnew\r\n"
            assert own_connection_reads(user) == b"$3\r\nnew\r\n"

    behind_one_address(servers, new_keyrail, login, case)


def test_a_new_connection_shows_where_the_others_must_lead(
    servers: list[Engine], new_keyrail: Callable[..., Keyrail]
) -> None:
    """Nobody writes, so no error tells of the failover."""

    def case(keyrail: Keyrail, way: Way) -> None:
        with keyrail.wire() as reader, keyrail.wire() as user:
            assert reader.ask("GET", "k") == b"$3\r\nold\r\n"
            fail_over(way, servers)
            assert own_connection_reads(user) == b"$3\r\nnew\r\n"
            eventually(lambda: reader.ask("GET", "k") == b"$3\r\nnew\r\n")

    behind_one_address(servers, new_keyrail, "", case)


@pytest.mark.parametrize("stays", [True, False], ids=["somebody stays with the old one", "nobody does"])
def test_reads_go_to_the_replicas_of_the_new_primary(
    new_engine: Callable[..., Engine], new_keyrail: Callable[..., Keyrail], stays: bool
) -> None:
    old, new, third = servers = [new_engine("redis-7.0", {"repl-diskless-sync-delay": "0"}) for _ in range(3)]

    def case(keyrail: Keyrail, way: Way) -> None:
        def moved() -> float:
            assert wire.ask("KEYRAIL", "INFO").startswith(b"*"), "with it, figures are those of now"
            return keyrail.metric("keyrail_replica_reads_total", outcome="moved")

        def is_moved(before: float) -> bool:
            return wire.ask("GET", "k").startswith(b"$") and moved() > before

        with keyrail.wire() as wire, keyrail.wire() as subscriber:
            eventually(lambda: is_moved(0))
            if stays:
                assert subscriber.ask("SUBSCRIBE", "c").startswith(b"*")
            new.do("REPLICAOF", "NO", "ONE")
            for each in (old, third):
                each.do("REPLICAOF", "127.0.0.1", new.port)
            way.engine = new
            eventually(lambda: wire.ask("SET", "k", "new") == b"+OK\r\n")
            before = moved()
            eventually(lambda: is_moved(before))
            assert wire.ask("GET", "k") == b"$3\r\nnew\r\n"

    for each in (new, third):
        each.do("REPLICAOF", "127.0.0.1", old.port)
    read_from_replicas = partial(new_keyrail, extra=("--read-from", "replicas"))
    behind_one_address(servers, read_from_replicas, "", case)
