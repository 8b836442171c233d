"""A tenant gets from real engines, through Keyrail, what it would get from one of its own; and two tenants that try to
reach each other's keys leave exactly what they would have left alone."""

from __future__ import annotations

import random
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from proxy.commands.command import KeysUnknownError
from tests.conftest import Fleet, seeds
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Wire, decode, pack
from tests.tenants.invocations import INVOCATIONS, MARK, PREFIX, sent
from tests.tenants.monitor import Monitor
from tests.tenants.script_grammar import made
from tests.tenants.test_two_tenants import KEYS, PATTERNS

pytestmark = pytest.mark.skipif(DIRECT, reason="tenants are Keyrail's own")

POLICY = """
keyrail: 1
apps: {acme: {match: {user: acme}}, globex: {match: {user: globex}}}
tenants: {prefix: "{app}:", apps: [acme, globex]}
rules: {}
"""
UNLIKE = frozenset(
    (
        *(
            "ACL",
            "AUTH",
            "CLIENT",
            "CLUSTER",
            "COMMAND",
            "DUMP",
            "HELLO",
            "HRANDFIELD",
            "INFO",
            "LASTSAVE",
            "LOLWUT",
            "MEMORY",
            "OBJECT",
        ),
        *("QUIT", "RESET", "SPOP", "TIME", "WAITAOF", "XINFO", "TTL", "PTTL", "HTTL", "HPTTL", "EXPIRETIME"),
        *("PEXPIRETIME", "HEXPIRETIME", "HPEXPIRETIME", "KEYS", "SCAN", "RANDOMKEY"),
    )
)
"""Commands whose replies differ from one server to another, from one moment to the next, or in their order."""
ALONE = frozenset({"CLIENT", "WATCH", "UNWATCH", "MULTI", "EXEC", "DISCARD", "SELECT", "KEYS", "DBSIZE", "RANDOMKEY"})
"""Commands that do not stand inside a transaction here."""
VALUES = {
    b"string": ("GET", "{}"),
    b"hash": ("HGETALL", "{}"),
    b"list": ("LRANGE", "{}", "0", "-1"),
    b"set": ("SORT", "{}", "ALPHA"),
    b"zset": ("ZRANGE", "{}", "0", "-1", "WITHSCORES"),
    b"stream": ("XRANGE", "{}", "-", "+"),
}
LEFT_OUT = frozenset(
    (
        *("BLMOVE", "BLMPOP", "BLPOP", "BRPOP", "BRPOPLPUSH", "BZMPOP", "BZPOPMAX", "BZPOPMIN"),
        *("SPOP", "SRANDMEMBER", "ZRANDMEMBER"),
        *("HSCAN", "SORT", "SORT_RO", "SSCAN", "ZSCAN"),
    )
)
"""Of commands with anybody's keys: those that may wait, and those whose reply is random, or in an order of the server's
own."""
SETS = frozenset({"SDIFF", "SINTER", "SMEMBERS", "SUNION"})
"""Members come in the order of a hash table, which each server process has of its own."""
NOT_HERE = re.compile(r"QUIT|RESET|AUTH|HELLO|.*SUBSCRIBE")
LINES = [words for words in INVOCATIONS if not NOT_HERE.fullmatch(words[0])]


def prepared(engine: Engine) -> Engine:
    engine.do("FLUSHALL")
    for user in ("acme", "globex"):
        engine.do("ACL", "SETUSER", user, "on", ">secret", "~*", "&*", "+@all")
    return engine


@pytest.fixture
def shared(fleet: Fleet, engine_name: str) -> Engine:
    engine = prepared(fleet.engine(engine_name))
    for key in ("a", "l", "h", "x", "z", "outside"):
        engine.do("SET", key, "outside")
    return engine


def in_front(fleet: Fleet, engine_name: str, folder: Path) -> Keyrail:
    """A Keyrail with these tenants."""
    file = folder / "tenants.yaml"
    file.write_text(POLICY, encoding="utf-8")
    return fleet.keyrail(engine_name, policy=file)


@pytest.fixture
def keyrail(fleet: Fleet, engine_name: str, shared: Engine, tmp_path: Path) -> Keyrail:
    return in_front(fleet, engine_name, tmp_path)


@pytest.fixture
def alone(fleet: Fleet, engine_name: str) -> Engine:
    return prepared(fleet.engine(engine_name, "alone"))


def login(wire: Wire, user: str) -> Wire:
    assert wire.ask("AUTH", user, "secret") == b"+OK\r\n"
    return wire


def comparable(words: list[str], frame: bytes) -> object:
    """What must be the same of a reply."""
    if words[0] in ("KEYS", "SCAN") and not frame.startswith(b"-"):
        found: Any = decode(frame)
        # Redis matches the empty name by no pattern but a single star; behind a prefix it is not empty.
        return sorted(filter(None, found if words[0] == "KEYS" else found[1]))
    if words[0] in SETS and not frame.startswith(b"-"):
        members: Any = decode(frame)
        return frame[:1], sorted(members)
    # Where a walk has taken long, as on a busy machine, a count of before is told.
    return frame[:1] if words[0] in UNLIKE or words[0] == "DBSIZE" else frame


def stored(engine: Engine, prefix: str = "", database: int = 0) -> dict[bytes, bytes]:
    """What is behind a prefix."""
    with engine.wire() as wire:
        wire.ask("SELECT", database)
        found = wire.value("KEYS", "*")
        assert isinstance(found, list)
        names = [name for name in found if isinstance(name, bytes) and name.startswith(prefix.encode())]
        return {name.removeprefix(prefix.encode()): value_of(wire, name) for name in names}


def value_of(wire: Wire, name: bytes) -> bytes:
    """What a key holds."""
    kind = wire.ask("TYPE", name)[1:-2]
    return kind + wire.ask(*(name if word == "{}" else word for word in VALUES[kind]))


@pytest.mark.parametrize("way", ["one by one", "pipeline", "transactions"])
def test_a_tenant_gets_what_it_would_get_alone(
    keyrail: Keyrail, shared: Engine, alone: Engine, protocol: int, way: str
) -> None:
    with keyrail.wire(protocol=protocol) as through, alone.wire(protocol=protocol) as direct:
        wires = [login(through, "acme"), login(direct, "acme")]
        lines = [words for words in LINES if way != "transactions" or words[0] not in ALONE]
        told: list[list[bytes]] = []
        for wire in wires:
            frames = []
            if way == "one by one":
                frames = [wire.ask(*sent(words)) for words in lines]
            elif way == "pipeline":
                wire.send(b"".join(pack(*sent(words)) for words in lines))
                frames = wire.frames(len(lines))
            else:
                for words in lines:
                    wire.send(pack("MULTI") + pack(*sent(words)) + pack("EXEC"))
                    assert wire.frame() == b"+OK\r\n"
                    queued, whole = wire.frames(2)
                    frames.append(whole.removeprefix(b"*1\r\n") if whole.startswith(b"*1") else queued)
            told.append(frames)
        for words, reply, expected in zip(lines, *told, strict=True):
            assert comparable(words, reply) == comparable(words, expected), words
            if words[0] != "COMMAND" and not {"acme:x", "acme"} & set(words):
                assert PREFIX.encode() not in reply, words
    assert stored(shared, PREFIX) == stored(alone)


def hostile(chance: random.Random) -> list[str]:
    """A command with the names of somebody else."""
    while True:
        words = chance.choice(LINES)
        if words[0] not in ALONE | UNLIKE | LEFT_OUT or words[0] in ("DBSIZE", "KEYS", "SCAN"):
            break
    made = [MARK.sub(lambda _: chance.choice(KEYS), word) for word in words]
    if words[0] == "KEYS":
        made[1] = chance.choice(PATTERNS)
    return made


ADDRESS = re.compile(rb"(?:table|function): 0x")
"""What Lua makes of a value that is no text: each server has its own."""


def told_of_script(chance: random.Random, through: Wire, direct: Wire) -> bool:
    """Whether a script of a tenant ran; if it did, its reply is what the tenant would get alone."""
    script = made(chance)
    keys = [chance.choice(KEYS) for _ in range(script.keys)]
    words = ["EVAL", script.text, str(script.keys), *keys, *script.arguments]
    reply = through.ask(*words)
    if reply.startswith(b"-DENIED keyrail: EVAL is not offered to tenants: its script "):
        return False
    expected = direct.ask(*words)
    assert reply == expected or ADDRESS.search(expected), words
    return True


@pytest.mark.parametrize("seed", seeds(2, 30))
def test_two_tenants_leave_what_each_would_have_left_alone(
    keyrail: Keyrail, shared: Engine, alone: Engine, seed: int
) -> None:
    chance = random.Random(seed)
    monitor, tenants = Monitor(shared), ("acme", "globex")
    with ExitStack() as stack:
        wires = []
        for database, name in enumerate(tenants):
            through = login(stack.enter_context(keyrail.wire()), name)
            direct = login(stack.enter_context(alone.wire()), name)
            direct.ask("SELECT", database)
            wires.append((through, direct))
        ran = 0
        for _ in range(5700):
            through, direct = chance.choice(wires)
            if chance.random() < 0.1:
                ran += told_of_script(chance, through, direct)
                continue
            lines = [hostile(chance) for _ in range(chance.choice((1, 1, 5)))]
            data = b"".join(pack(*words) for words in lines)
            through.send(data)
            direct.send(data)
            told, wanted = through.frames(len(lines)), direct.frames(len(lines))
            for words, reply, expected in zip(lines, told, wanted, strict=True):
                assert comparable(words, reply) == comparable(words, expected), words
    assert ran > 80
    seen = 0
    for command in monitor.commands():
        try:
            keys = [key.name for key in command.keys]
        except KeysUnknownError:
            assert not command.spec.takes(len(command.argv)) or command.argv[-1] == b"", command.argv
            continue
        patterns = [command.argv[1]] if command.spec.name == "KEYS" else []
        assert all(re.match(rb"(acme|globex):", name) for name in (*keys, *patterns)), command.argv
        seen += len(keys)
    assert seen > 1000
    for database, name in enumerate(tenants):
        assert stored(shared, f"{name}:") == stored(alone, database=database)
    outside = {name: value for name, value in stored(shared).items() if not re.match(rb"acme:|globex:", name)}
    assert {shared.do("GET", name.decode()) for name in outside} == {b"outside"}
