"""A login is answered, right or wrong, whatever was sent before it in the same write.

Redis 7.2 to 8 do not answer a failing login while other replies are on their way to its client, be they to commands of
the client or to Keyrail's own (`CLIENT SETNAME` on a new connection). So what Redis answers one command at a time,
Keyrail has to answer however the commands are cut. Inside MULTI, where Redis itself loses step, a login is refused.
"""

from __future__ import annotations

import random
import re

import pytest

from tests.conftest import Fleet, kind_named, seeds
from tests.engines import EXPECTED, IN_BETWEEN, NEWEST_REDIS, OLDEST
from tests.resp import Address, Wire, pack

Argv = tuple[str, ...]

ENGINES = [
    pytest.param(name, marks=pytest.mark.long if name == IN_BETWEEN else ()) for name in (*EXPECTED, NEWEST_REDIS)
]
USERS = {"user": "app on >secret ~* &* +@all"}
IN_MULTI = (
    b"-ERR Keyrail: log in outside of the transaction: Redis 7.2 to 8 do not answer a failing login inside of one\r\n"
)
_ID = re.compile(rb"(\$2\r\nid\r\n):\d+\r\n")

RESET: Argv = ("RESET",)
ANSWERED: Argv = ("CLIENT", "REPLY", "ON")
LOGINS: tuple[Argv, ...] = (
    ("AUTH", "app", "wrong"),
    ("AUTH", "app", "wrong"),
    ("AUTH", "nobody", "secret"),
    ("AUTH", "app", "secret"),
    ("AUTH", "default", "any"),
    ("AUTH", "a", "b", "c"),
    ("HELLO", "2", "AUTH", "app", "wrong"),
    ("HELLO", "3", "AUTH", "app", "wrong", "SETNAME", "n"),
    ("HELLO", "3", "SETNAME", "m", "AUTH", "app", "wrong"),
    ("HELLO", "3", "AUTH", "app", "secret", "SETNAME", "o"),
    ("HELLO", "2", "AUTH", "app", "secret"),
)
NAMES: tuple[Argv, ...] = (
    ("CLIENT", "SETNAME", "a"),
    ("CLIENT", "SETNAME", "b"),
    ("CLIENT", "SETNAME", ""),
    ("CLIENT", "SETINFO", "LIB-NAME", "lib"),
    ("CLIENT", "SETINFO", "LIB-VER", "1.2"),
    ("CLIENT", "GETNAME"),
)
QUEUED: tuple[Argv, ...] = (("PING",), ("GET", "k"), ("SET", "k", "w"), ("SELECT", "1"), ("ACL", "WHOAMI"))
OTHERS: tuple[Argv, ...] = (
    *QUEUED,
    ("SELECT", "0"),
    ("HELLO", "3"),
    ("HELLO", "2"),
    ("CLIENT", "NO-EVICT", "OFF"),
    ("WATCH", "k"),
    ("UNWATCH",),
    ("BLPOP", "none", "0.01"),
    RESET,
    ("CLIENT", "REPLY", "OFF"),
    ("CLIENT", "REPLY", "SKIP"),
    ANSWERED,
)


def made_up(chance: random.Random) -> list[Argv]:
    """What one client sends."""
    found: list[Argv] = []
    for _ in range(chance.randrange(2, 12)):
        kind = chance.random()
        if kind < 0.1:
            inside = [chance.choice(LOGINS if chance.random() < 0.2 else QUEUED) for _ in range(chance.randrange(4))]
            found += [("MULTI",), *inside, (chance.choice(("EXEC", "EXEC", "DISCARD")),)]
        else:
            found.append(chance.choice(LOGINS if kind < 0.45 else NAMES if kind < 0.75 else OTHERS))
    for position in [at for at, argv in enumerate(found) if argv == RESET][::-1]:
        found.insert(position, ANSWERED)  # under CLIENT REPLY OFF Redis 6.2 does not answer it
    return [*found, ANSWERED, ("ACL", "WHOAMI"), ("CLIENT", "GETNAME")]


def silenced(commands: list[Argv]) -> list[bool]:
    """Which commands get no reply (networking.c, clientCommand and resetClient)."""
    found, mode = [], "ON"
    for argv in commands:
        before, mode = mode, "ON" if mode == "SKIP" else mode
        if argv[:2] == ("CLIENT", "REPLY"):
            mode = argv[2] if before != "OFF" or argv[2] != "SKIP" else "OFF"
            found.append(argv[2] != "ON")
        else:
            found.append(before != "ON")
    return found


def without_logins_in_multi(commands: list[Argv]) -> tuple[list[Argv], list[bool]]:
    """A login inside MULTI becomes a command that Redis refuses to queue, and which ones these are."""
    found, marks, inside = [], [], False
    for argv in commands:
        login = inside and ("AUTH" in argv)
        found.append(("GET",) if login else argv)
        marks.append(login)
        inside = argv == ("MULTI",) or (inside and argv[0] not in ("EXEC", "DISCARD", "RESET"))
    return found, marks


def without_name_in_front(commands: list[Argv]) -> list[Argv]:
    """Redis 6.2 and 7.0 set a name that stands in front of a failing login: see docs/deviations.md."""
    named = ("HELLO", "3", "SETNAME", "m", "AUTH", "app", "wrong")
    return [("HELLO", "3", "AUTH", "app", "wrong") if argv == named else argv for argv in commands]


def one_by_one(address: Address, commands: list[Argv]) -> list[bytes]:
    """The replies where each command waits for the reply before it."""
    sent, marks = without_logins_in_multi(commands)
    heard = []
    with Wire(address) as wire:
        for argv, silent, mark in zip(sent, silenced(commands), marks, strict=True):
            wire.send(pack(*argv))
            if not silent:
                frame = wire.frame()
                heard.append(IN_MULTI if mark else _ID.sub(rb"\1:0\r\n", frame))
    return heard


def cut(address: Address, commands: list[Argv], chance: random.Random) -> list[bytes]:
    """The replies where they leave in a few writes."""
    heard = []
    silent = silenced(commands)
    with Wire(address) as wire:
        position = 0
        while position < len(commands):
            end = min(len(commands), position + chance.choice((1, 2, 3, 20)))
            wire.send(b"".join(pack(*argv) for argv in commands[position:end]))
            heard += [_ID.sub(rb"\1:0\r\n", frame) for frame in wire.frames(silent[position:end].count(False))]
            position = end
    return heard


@pytest.mark.parametrize("sharing", [True, False], ids=["pooled", "unpooled"])
@pytest.mark.parametrize("engine_name", ENGINES)
@pytest.mark.parametrize("seed", seeds(1, 12))
def test_any_conversation_is_answered_as_one_by_one(fleet: Fleet, engine_name: str, sharing: bool, seed: int) -> None:
    engine = fleet.engine(kind_named(engine_name).name, "failing logins", USERS)
    keyrail = fleet.keyrail(engine_name, pooling=sharing, role="failing logins")
    chance = random.Random(seed)
    for _ in range(30):
        commands = made_up(chance)
        if engine_name in (OLDEST, IN_BETWEEN):
            commands = without_name_in_front(commands)
        engine.do("FLUSHALL")
        engine.do("SET", "k", "v")
        expected = one_by_one(engine.address, commands)
        engine.do("FLUSHALL")
        engine.do("SET", "k", "v")
        assert cut(keyrail.address, commands, chance) == expected, commands
