"""An error that a script makes up changes nothing but its own client's reply; a real failover does.

Proves, for each word from which a proxy might conclude something and for each kind of client: connections and clients
stay. READONLY makes Keyrail ask for the server's role. If it is a replica now, its shared and private connections leave
the pool, and new ones resolve the name again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engines import Engine, client_ids
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Wire, eventually, pack

NewEngine = Callable[..., Engine]
NewKeyrail = Callable[..., Keyrail]

WORDS = (
    *("READONLY", "LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "NOAUTH", "WRONGPASS", "NOPERM", "NOPROTO"),
    *("NOSCRIPT", "EXECABORT", "MOVED 1 h:1", "ASK 1 h:1", "TRYAGAIN", "UNKILLABLE", "OOM", "MISCONF", "NOREPLICAS"),
    *("UNBLOCKED", "DENIED keyrail:", "ERR max number of clients reached", "ERR unknown command 'eval'"),
    *("ERR Protocol error: expected '$', got ' '", "ERR syntax error", "ERR unknown subcommand 'load'"),
)


def shared(wire: Wire, *script: str) -> bytes:
    return wire.ask("EVAL", *script, "0")


def in_multi(wire: Wire, *script: str) -> bytes:
    wire.send(pack("MULTI") + pack("EVAL", *script, "0") + pack("EXEC"))
    return wire.frames(3)[2].partition(b"\r\n")[2]


def pinned(wire: Wire, *script: str) -> bytes:
    wire.send(pack("WATCH", "k") + pack("EVAL", *script, "0") + pack("UNWATCH"))
    return wire.frames(3)[1]


WAYS = (shared, in_multi, pinned)


@pytest.fixture
def engine(new_engine: NewEngine) -> Engine:
    engine = new_engine()
    engine.do("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all")
    return engine


@pytest.mark.parametrize("logs_in", [False, True], ids=["own login", "the client's login"])
def test_errors_that_scripts_make_up_change_nothing(engine: Engine, new_keyrail: NewKeyrail, logs_in: bool) -> None:
    keyrail = new_keyrail(engine.url)
    wires = [keyrail.wire() for _ in range(3)]
    for wire in wires:
        if logs_in:
            assert wire.ask("AUTH", "app", "secret") == b"+OK\r\n"
        assert wire.ask("SET", "k", "v") == b"+OK\r\n"
    for wire, way in zip(wires, WAYS, strict=True):
        assert way(wire, "return 1") == b":1\r\n"
    with engine.wire() as direct:
        before = client_ids(direct)
        for word, (wire, way) in itertools.product(WORDS, zip(wires, WAYS, strict=True)):
            script = f"return redis.error_reply([[{word} x]])"
            assert way(wire, script).startswith(b"-" + word.encode())
            assert [each.ask("GET", "k") for each in wires] == [b"$1\r\nv\r\n"] * 3, word
        assert before <= client_ids(direct), "connections were closed"


@pytest.mark.skipif(DIRECT, reason="a plain relay resolves no name again")
def test_a_replica_is_left_for_whoever_has_the_name_now(
    new_engine: NewEngine, new_keyrail: NewKeyrail, tmp_path: Path
) -> None:
    """The name here is the path of a socket, as the link to it can be turned."""
    old, new = new_engine(), new_engine()
    link = tmp_path / "primary"
    link.symlink_to(old.path)
    keyrail = new_keyrail(f"unix://{link}")
    idle, wire = keyrail.wire(), keyrail.wire()
    for each in (idle, wire):
        each.send(pack("WATCH", "k") + pack("UNWATCH") + pack("SET", "k", "old"))
        each.frames(3)
    old.do("REPLICAOF", "127.0.0.1", new.port)
    link.unlink()
    link.symlink_to(new.path)
    assert wire.ask("SET", "k", "lost").startswith(b"-READONLY")

    def moved() -> bool:
        return wire.ask("SET", "k", "new") == b"+OK\r\n"

    eventually(moved)
    assert idle.ask("SET", "k", "newer") == b"+OK\r\n"
    idle.send(pack("WATCH", "k") + pack("MULTI") + pack("SET", "k", "newest") + pack("EXEC"))
    assert idle.frames(4)[3] == b"*1\r\n+OK\r\n"
    assert new.do("GET", "k") == b"newest"
    with old.wire() as direct:
        eventually(lambda: len(client_ids(direct)) == 1)
