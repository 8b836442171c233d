"""Odd requests of a tenant, whose keys the engine itself finds in what it gets: each has the prefix, whatever stands
where. No reply names or shows what is another tenant's."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from proxy.commands.table import STANDARD
from tests.conftest import Fleet, rest_is_long, seeds
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Closed, Wire
from tests.tenants.invocations import MARK
from tests.tenants.monitor import Monitor
from tests.tenants.test_against_engines import LINES, in_front, login, prepared

pytestmark = pytest.mark.skipif(DIRECT, reason="tenants are Keyrail's own")

SECRET, HIDDEN = b"s3cret", b"h1dden"
ODD = """
STREAMS KEYS COUNT WEIGHTS AGGREGATE MATCH STORE STOREDIST BY GET LIMIT ASC ALPHA NOVALUES WITHSCORES WITHVALUES
FIELDS FNX FXX NX XX EX PX EXAT KEEPTTL PERSIST LEFT RIGHT MIN MAX SUM BEFORE AFTER REPLACE ABSTTL DB IDX LEN
MINMATCHLEN FREQ GROUP NOACK BLOCK CLAIM IDMP MINID MAXLEN ~ = LASTID TYPE BCAST PREFIX OPTIN REDIRECT NOMKSTREAM
JUSTID RANK FULL IFEQ ACKED DIFF ANDOR ONE FROMMEMBER BYRADIUS BYBOX REV BYLEX BYSCORE SAMPLES 0 1 2 3 -1 -0 +1 01
1.5 9999999999 99999999999999999999 $ > - + * # ( [ inf nan
"""
NAMES = [
    "a",
    "l",
    "x",
    "h",
    "globex:a",
    "globex:l",
    "acme:a",
    "",
    "*",
    "glob*",
    "\\g*",
    "../globex:a",
    "\0",
    "weight_*",
]
WORDS = ODD.split()


OTHERS = """
SET {0}a s
RPUSH {0}l s 3 1
SADD {0}s s
HSET {0}h f s
ZADD {0}z 1 s
XADD {0}x 1-1 f s
SET {0}weight_1 s
SET {0}h1dden s
"""


@pytest.fixture
def shared(fleet: Fleet, engine_name: str) -> Engine:
    engine = prepared(fleet.engine(engine_name))
    engine.do("CONFIG", "SET", "notify-keyspace-events", "KEA")
    for line in OTHERS.strip().split("\n"):
        engine.do(*(SECRET if word == "s" else word.format("globex:") for word in line.split()))
    return engine


@pytest.fixture
def keyrail(fleet: Fleet, engine_name: str, shared: Engine, tmp_path: Path) -> Keyrail:
    return in_front(fleet, engine_name, tmp_path)


LEFT_OUT = frozenset({"QUIT", "MULTI", "EXEC", "DISCARD", "CLIENT", "WAIT", "WAITAOF", "MONITOR", "SYNC", "PSYNC"})
"""Those after which replies do not follow requests one by one. Commands that wait are left out, too."""
NO_KEYS = frozenset({"OBJECT|HELP", "XGROUP|HELP", "XINFO|HELP", "MEMORY|HELP"})
"""For which COMMAND GETKEYS of Redis 6.2 takes any argument for a key."""


def odd(chance: random.Random, words: list[str]) -> list[str]:
    """The request with a few changes."""
    made = [MARK.sub(lambda _: chance.choice(NAMES), word) for word in words]
    for _ in range(chance.choice((0, 1, 1, 1, 2, 3))):
        at = chance.randrange(1, len(made) + 1)
        word = chance.choice(NAMES if chance.random() < 0.4 else WORDS)
        match chance.randrange(6):
            case 0:
                made.insert(at, word)
            case 1:
                made[at:at] = [word, chance.choice(NAMES + WORDS)]
            case 2 if at < len(made):
                made[at] = word
            case 3 if at < len(made):
                del made[at]
            case 4 if at < len(made):
                other = chance.randrange(1, len(made))
                made[at], made[other] = made[other], made[at]
            case _:
                made += made[1:]
    return [word.swapcase() if chance.random() < 0.1 and word in WORDS else word for word in made]


def waits(words: list[str]) -> bool:
    spec = STANDARD.spec_of([word.encode() for word in words[:2]])
    return words[0] in LEFT_OUT or "blocking" in spec.categories or "BLOCK" in map(str.upper, words)


def keys_by_engine(wire: Wire, argv: list[bytes]) -> list[bytes]:
    found = wire.value("COMMAND", "GETKEYS", *argv)
    return [key for key in found if isinstance(key, bytes)] if isinstance(found, list) else []


@pytest.mark.parametrize("engine_name", rest_is_long("valkey-9.1", "redis-6.2", "redis-7.0", "redis-8.2"))
@pytest.mark.parametrize("seed", seeds(1, 20))
def test_each_key_that_the_engine_finds_has_the_prefix(keyrail: Keyrail, shared: Engine, seed: int) -> None:
    chance = random.Random(seed)
    monitor = Monitor(shared)
    lines = [words for words in LINES if not waits(words)]
    commands = [spec.display.split() for spec in STANDARD.specs if spec.id]
    wire = login(keyrail.wire(), "acme")
    for _ in range(4000):
        words = odd(
            chance, chance.choice(lines) if chance.random() < 0.85 else [*chance.choice(commands), "{a}", "{x}"]
        )
        if waits(words):
            continue
        try:
            reply = wire.ask(*words)
        except (Closed, OSError):
            wire = login(keyrail.wire(), "acme")
            continue
        assert SECRET not in reply, (words, reply)
        assert HIDDEN not in reply, (words, reply)
        if words[0] in ("SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "RESET") or reply.startswith(b">"):
            wire.close()
            wire = login(keyrail.wire(), "acme")
    seen, others = 0, []
    with shared.wire() as direct:
        for command in monitor.commands():
            if command.spec.name in NO_KEYS:
                continue
            found = keys_by_engine(direct, command.argv)
            seen += len(found)
            others += [command.argv] * any(not key.startswith((b"acme:", b"keyrail:")) for key in found)
    assert others == []
    assert seen > 1000
