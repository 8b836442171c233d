"""Upstreams that forbid or hide commands, or have another role than expected.

Proves: Keyrail starts and works if COMMAND, CONFIG, CLIENT, OBJECT, MONITOR or ACL are blocked; if it must log in
itself; with different users per client, who never share an upstream. WAIT covers the client's own writes. READONLY
errors of a replica are forwarded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import kind_named
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Closed, eventually, pack

NewEngine = Callable[..., Engine]
NewKeyrail = Callable[..., Keyrail]
BLOCKED = ("COMMAND", "CONFIG", "CLIENT", "OBJECT", "MONITOR", "ACL")
LATER = pytest.mark.skipif(DIRECT, reason="Keyrail's own doing")


def test_managed_services(new_engine: NewEngine, new_keyrail: NewKeyrail, engine_name: str) -> None:
    """All of them gone at once, as a provider would do it: renamed to nothing."""
    engine = new_engine(engine_name, {f"rename-command {name}": '""' for name in BLOCKED})
    keyrail = new_keyrail(engine.url, policy=None)
    with keyrail.wire() as wire, keyrail.wire(protocol=3) as modern, engine.wire() as direct:
        for command in ("SET k v", "GET k", "INCR n", "EVAL return(1) 0", *(f"{name} GET x" for name in BLOCKED[:1])):
            assert wire.ask(*command.split())[:1] == direct.ask(*command.split())[:1]
        assert wire.ask("WATCH", "k") == b"+OK\r\n"
        wire.send(pack("MULTI") + pack("GET", "k") + pack("EXEC"))
        assert wire.frames(3)[-1] == b"*1\r\n$1\r\nv\r\n"
        assert modern.ask("HGETALL", "none") == b"%0\r\n"
        assert modern.ask("SUBSCRIBE", "x").startswith(b">3")
        assert modern.ask("GET", "k") == b"$1\r\nv\r\n"
    if not DIRECT:
        assert keyrail.http("/readyz")[0] == 200
        keyrail.await_line("route default: Keyrail does not know the keys of module commands [(]COMMAND: ")
        off = 'feature="Keyrail does not know the keys of module commands (COMMAND: '
        eventually(lambda: off in keyrail.http("/metrics")[1])


@pytest.mark.parametrize("blocked", [["HELLO"], ["INFO", "PING", "EVAL", "SELECT"]], ids=["hello", "others"])
@LATER
def test_what_keyrail_itself_would_like_to_ask(
    new_engine: NewEngine, new_keyrail: NewKeyrail, blocked: list[str]
) -> None:
    engine = new_engine("redis-6.2", {f"rename-command {name}": '""' for name in blocked})
    keyrail = new_keyrail(engine.url)
    with keyrail.wire() as wire, engine.wire() as direct:
        assert wire.ask("SET", "k", "v") == b"+OK\r\n"
        for name in blocked:
            assert wire.ask(name, "0") == direct.ask(name, "0")
            assert wire.ask("GET", "k") == b"$1\r\nv\r\n"


@LATER
def test_keyrail_logs_in_itself(
    new_engine: NewEngine, new_keyrail: NewKeyrail, engine_name: str, pooling: bool
) -> None:
    """With a user and password and a database in its URL, its clients need none."""
    engine = new_engine(engine_name, {"user app": "on >pw ~* &* +@all"} if engine_name != "redis-6.2" else None)
    if engine_name == "redis-6.2":
        engine.do("ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all")
    keyrail = new_keyrail(f"redis://app:pw@127.0.0.1:{engine.port}/2", pooling=pooling)
    with keyrail.wire() as wire, engine.wire() as direct:
        assert wire.ask("SET", "k", "v") == b"+OK\r\n"
        assert wire.ask("ACL", "WHOAMI") == b"$3\r\napp\r\n"
        assert direct.ask("GET", "k") == b"$-1\r\n"
        direct.ask("SELECT", "2")
        assert direct.ask("GET", "k") == b"$1\r\nv\r\n"
        assert wire.ask("SELECT", "0") == b"+OK\r\n"
        assert wire.ask("GET", "k") == b"$-1\r\n"
        assert wire.ask("RESET") == b"+RESET\r\n"
        assert wire.ask("GET", "k") == b"$1\r\nv\r\n"


def test_users_never_share_an_upstream(new_engine: NewEngine, new_keyrail: NewKeyrail, pooling: bool) -> None:
    """Each command runs with its own client's rights, however they are mixed."""
    engine = new_engine()
    for user in ("red", "blue"):
        engine.do("ACL", "SETUSER", user, "on", f">{user}-pw", f"~{user}:*", "+@all")
    keyrail = new_keyrail(engine.url, pooling=pooling)
    wires = {user: [keyrail.wire(protocol) for protocol in (2, 3, 2)] for user in ("red", "blue", "default")}
    for user, clients in wires.items():
        for wire in clients:
            if user != "default":
                assert wire.ask("AUTH", user, f"{user}-pw") == b"+OK\r\n"
    for round_ in range(50):
        for user, clients in wires.items():
            for wire in clients:
                wire.send(pack("ACL", "WHOAMI") + pack("SET", f"red:{round_}", user) + pack("GET", f"blue:{round_}"))
        for user, clients in wires.items():
            for wire in clients:
                who, red, blue = wire.frames(3)
                assert who == b"$%d\r\n%s\r\n" % (len(user), user.encode())
                assert red.startswith(b"-NOPERM") == (user == "blue")
                assert blue.startswith(b"-NOPERM") == (user == "red")
    for clients in wires.values():
        for wire in clients:
            wire.close()


@LATER
def test_a_changed_password_does_not_leave_doors_open(new_engine: NewEngine, new_keyrail: NewKeyrail) -> None:
    """When the last connection that some client's own login opened is lost, its clients are closed and log in again."""
    engine = new_engine()
    engine.do("ACL", "SETUSER", "app", "on", ">old", "~*", "+@all")
    keyrail = new_keyrail(engine.url)
    wires = [keyrail.wire() for _ in range(3)]
    for wire in wires:
        assert wire.ask("AUTH", "app", "old") == b"+OK\r\n"
        assert wire.ask("SET", "k", "v") == b"+OK\r\n"
    engine.do("ACL", "SETUSER", "app", "resetpass", ">new")
    engine.do("CLIENT", "KILL", "USER", "app")
    for wire in wires:
        assert wire.remaining() == []
    with keyrail.wire() as wire:
        assert wire.ask("AUTH", "app", "old").startswith(b"-WRONGPASS")
        assert wire.ask("AUTH", "app", "new") == b"+OK\r\n"


@pytest.fixture(scope="module")
def pairs() -> Iterator[Callable[[str], tuple[Engine, Engine]]]:
    """For each engine a primary and its replica, in step."""
    found: dict[str, tuple[Engine, Engine]] = {}

    def of(name: str) -> tuple[Engine, Engine]:
        if name not in found:
            primary = Engine(kind_named(name), {"repl-diskless-sync": "yes", "repl-diskless-sync-delay": "0"})
            replica = Engine(kind_named(name), {"replicaof": f"127.0.0.1 {primary.port}"})
            found[name] = primary, replica
            replica.await_info("replication", "master_link_status", "up")
            primary.await_info("replication", "connected_slaves", "1")
        return found[name]

    yield of
    for engines in found.values():
        for engine in engines:
            engine.close()


@pytest.fixture
def pair(pairs: Callable[[str], tuple[Engine, Engine]], engine_name: str) -> tuple[Engine, Engine]:
    return pairs(engine_name)


def test_wait_speaks_about_ones_own_writes(pair: tuple[Engine, Engine], new_keyrail: NewKeyrail, pooling: bool) -> None:
    """A frozen replica has acknowledged nothing: a WAIT on a fresh connection would claim that it had."""
    primary, replica = pair
    keyrail = new_keyrail(primary.url, pooling=pooling)
    with keyrail.wire() as wire, keyrail.wire() as noise:
        assert wire.ask("SET", "k", "v") == b"+OK\r\n"
        assert wire.ask("WAIT", "1", "30000") == b":1\r\n"
        replica.freeze()
        try:
            for round_ in range(5):
                assert noise.ask("GET", "k")[:1] == b"$"
                assert wire.ask("SET", "k", round_) == b"+OK\r\n"
                assert wire.ask("WAIT", "1", "30") == b":0\r\n"
            wire.send(pack("SET", "k", "pipelined") + pack("WAIT", "1", "30"))
            assert wire.frames(2) == [b"+OK\r\n", b":0\r\n"]
        finally:
            replica.thaw()
        assert wire.ask("WAIT", "1", "30000") == b":1\r\n"


def test_a_replica_says_so(pair: tuple[Engine, Engine], new_keyrail: NewKeyrail, pooling: bool) -> None:
    _, replica = pair
    keyrail = new_keyrail(replica.url, pooling=pooling)
    with keyrail.wire() as wire:
        for _ in range(5):
            try:
                assert wire.ask("SET", "k", "v").startswith(b"-READONLY")
                assert wire.ask("GET", "absent") == b"$-1\r\n"
            except Closed:
                pytest.fail("READONLY is a reply, not a reason to close")


@LATER
def test_after_a_failover_connections_go_where_the_name_leads_then(
    pair: tuple[Engine, Engine], new_keyrail: NewKeyrail, tmp_path: Path
) -> None:
    """A link to a socket is as good a name as one of DNS: it is followed for each connection."""
    primary, replica = pair
    name = tmp_path / "name"
    name.symlink_to(primary.path)
    keyrail = new_keyrail(f"unix://{name}")
    with keyrail.wire() as wire:
        assert wire.ask("SET", "k", "v") == b"+OK\r\n"
        primary.do("REPLICAOF", "127.0.0.1", replica.port)
        replica.do("REPLICAOF", "NO", "ONE")
        name.unlink()
        name.symlink_to(replica.path)
        try:
            eventually(lambda: wire.ask("SET", "k", "w") == b"+OK\r\n")
            assert replica.do("GET", "k") == b"w"
        finally:
            primary.do("REPLICAOF", "NO", "ONE")
            replica.do("REPLICAOF", "127.0.0.1", primary.port)
            replica.await_info("replication", "master_link_status", "up")


@LATER
def test_the_start_says_which_commands_of_rules_redis_lacks_and_which_it_refuses(
    new_engine: NewEngine, new_keyrail: NewKeyrail
) -> None:
    told = "has no MSETEX; lifetimes on MSET and MSETNX use a follow-up EXPIRE instead"
    keyrail = new_keyrail(new_engine("redis-7.0").url, policy="cache")
    keyrail.await_line(f"route default: Redis 7[.]0[.][0-9]+ {told}$")
    eventually(lambda: f'{told}"' in keyrail.http("/metrics")[1])
    engine = new_engine("valkey-9.1")
    engine.do("ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all", "-msetex")
    keyrail = new_keyrail(f"redis://app:pw@127.0.0.1:{engine.port}", policy="cache")
    keyrail.await_line("route default: the user may not run MSETEX, which rules of the policy send$")
