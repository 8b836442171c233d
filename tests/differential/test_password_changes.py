"""Clients that are connected while somebody sets, changes and removes the password are answered as directly.

So are those that come once it is removed. While there is one, those that come without it share connections from before:
they are left out.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest

from tests.conftest import seeds
from tests.engines import EXPECTED, IN_BETWEEN, NEWEST_REDIS, Engine
from tests.keyrail_process import Keyrail
from tests.resp import Address, Wire, pack

NewEngine = Callable[..., Engine]
NewKeyrail = Callable[..., Keyrail]
Argv = tuple[str, ...]
Step = tuple[int, list[Argv]]
"""Which client, and what it sends in one write; the clients are numbered as they come."""

ENGINES = [
    pytest.param(name, marks=pytest.mark.long if name == IN_BETWEEN else ()) for name in (*EXPECTED, NEWEST_REDIS)
]
SIX_PAIRS: Argv = ("MSET", *(f"{kind}{i}" for i in range(6) for kind in "kv"))
COMMANDS: tuple[Argv, ...] = (("GET", "k"), ("SET", "k", "v"), ("PING",), SIX_PAIRS)
PROTOCOLS = (2, 3, 3, 2)
_ID = re.compile(rb"(\$2\r\nid\r\n):\d+\r\n")


def made_up(chance: random.Random) -> list[Step]:
    """Three phases: a password is set, changed and removed by one of the clients; each sends something in each."""
    steps: list[Step] = [(who, [("GET", "k")]) for who in range(len(PROTOCOLS))]
    last, by_acl = len(PROTOCOLS), chance.random() < 0.5
    for password in ("one", "two", ""):
        # In one way throughout: CONFIG SET changes nothing where its value is what it was, whatever ACL SETUSER did.
        change: Argv = ("CONFIG", "SET", "requirepass", password)
        if by_acl:
            change = ("ACL", "SETUSER", "default", *(("resetpass", f">{password}") if password else ("nopass",)))
        steps.append((chance.randrange(len(PROTOCOLS)), [change]))
        logins: tuple[Argv, ...] = (
            *(("AUTH", password), ("AUTH", "wrong"), ("AUTH", "default", password), ("AUTH", "nobody", password)),
            *(("HELLO", "3", "AUTH", "default", password), ("HELLO", "2", "AUTH", "default", password)),
        )
        new = range(len(PROTOCOLS), last := last + 3) if not password else ()
        steps += [(who, [SIX_PAIRS]) for who in new]
        for _ in range(12):
            who = chance.choice((*range(len(PROTOCOLS)), *new))
            sent = [
                chance.choice(logins if chance.random() < 0.4 else COMMANDS) for _ in range(chance.choice((1, 2, 4)))
            ]
            steps.append((who, sent))
    return steps


def played(address: Address, steps: list[Step]) -> list[list[bytes]]:
    """The replies to each step. Direct Redis 7.2 to 8 leave out those to failing logins behind other commands, so
    each command waits for the reply before it there."""
    wires: dict[int, Wire] = {}
    heard = []
    try:
        for who, sent in [(who, []) for who in range(len(PROTOCOLS))] + steps:
            if who not in wires:
                wires[who] = Wire(address, protocol=PROTOCOLS[who % len(PROTOCOLS)])
            heard.append([_ID.sub(rb"\1:0\r\n", wires[who].ask(*argv)) for argv in sent])
    finally:
        for wire in wires.values():
            wire.close()
    return heard


def played_at_once(address: Address, steps: list[Step]) -> list[list[bytes]]:
    """The same, each step in one write."""
    wires = {who: Wire(address, protocol=protocol) for who, protocol in enumerate(PROTOCOLS)}
    heard: list[list[bytes]] = [[] for _ in PROTOCOLS]
    try:
        for who, sent in steps:
            if who not in wires:
                wires[who] = Wire(address, protocol=PROTOCOLS[who % len(PROTOCOLS)])
            wires[who].send(b"".join(pack(*argv) for argv in sent))
            heard.append([_ID.sub(rb"\1:0\r\n", frame) for frame in wires[who].frames(len(sent))])
    finally:
        for wire in wires.values():
            wire.close()
    return heard


@pytest.mark.parametrize("engine_name", ENGINES)
@pytest.mark.parametrize("seed", seeds(2, 10))
def test_who_is_connected_is_answered_as_directly(
    new_engine: NewEngine, new_keyrail: NewKeyrail, engine_name: str, seed: int
) -> None:
    steps = made_up(random.Random(seed))
    expected = played(new_engine(engine_name).address, steps)
    keyrail = new_keyrail(new_engine(engine_name).url)
    assert played_at_once(keyrail.address, steps) == expected, steps


NEEDS_ITS_OWN: tuple[Argv, ...] = (
    ("WATCH", "k"),
    ("BLPOP", "q", "0.1"),
    ("SUBSCRIBE", "c"),
    ("MULTI",),
    ("SELECT", "1"),
    ("CLIENT", "TRACKING", "ON"),
)


@pytest.mark.parametrize("protocol", [2, 3])
def test_who_lacks_a_connection_while_there_is_a_password_is_told_and_stays(
    new_engine: NewEngine, new_keyrail: NewKeyrail, protocol: int
) -> None:
    """Each of these needs a new connection, which Redis gives to nobody without a login."""
    keyrail = new_keyrail(new_engine().url)
    with keyrail.wire() as administrator:
        clients = [keyrail.wire(protocol) for _ in NEEDS_ITS_OWN]
        try:
            for client in clients:
                assert client.ask("SET", "k", "v") == b"+OK\r\n"
            assert administrator.ask("CONFIG", "SET", "requirepass", "secret") == b"+OK\r\n"
            for client, argv in zip(clients, NEEDS_ITS_OWN, strict=True):
                assert client.ask(*argv) == b"-NOAUTH Authentication required.\r\n", argv
                assert client.ask("AUTH", "secret") == b"+OK\r\n"
                assert client.ask("WATCH", "k") == b"+OK\r\n"
                assert client.ask("GET", "k") == b"$1\r\nv\r\n"
        finally:
            for client in clients:
                client.close()
