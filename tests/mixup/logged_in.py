"""Clients that log in as their own users; Keyrail's own commands must stay out of their transactions.

Few connections belong to a logged-in user, and only that user's clients share them: Keyrail's own commands about this
user's keys go over the connections of the user's transactions. EXEC's array shows a mistake: it must have as many
members as the client queued, and each must be the reply to its own command.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tests.engines import Engine
from tests.mixup.swarm import Client, Role, Swarm, Wrong, array, bulk
from tests.resp import pack

USERS = ("alone", "few", "many")
PASSWORD = "hunters"
OK, QUEUED = b"+OK\r\n", b"+QUEUED\r\n"

_Asked = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Expected:
    """The effect of a policy on these clients: whether it refuses, and which keys it makes expire."""

    refuses: bool
    expire: tuple[str, ...] = ()


def create_users(engine: Engine) -> None:
    """Make the users known to Redis."""
    for user in USERS:
        engine.do("ACL", "SETUSER", user, "on", f">{PASSWORD}", "~*", "&*", "+@all")


def user_of(name: str) -> str:
    """The first member has a user for itself, two share one, and all others the third."""
    index = int(name.rpartition("-")[2])
    return USERS[0] if index == 0 else USERS[1] if index < 3 else USERS[2]


def _commands(key: str, token: bytes, chance: random.Random) -> list[_Asked]:
    """Writes of all types on keys that are new, and reads behind them, with their replies."""
    named = {kind: f"{key}:{kind}" for kind in ("hash", "string", "list", "set", "zset", "counter", "once")}
    pairs: list[list[_Asked]] = [
        [(pack("HSET", named["hash"], "field", token), b":1\r\n"), (pack("HGET", named["hash"], "field"), bulk(token))],
        [(pack("SET", named["string"], token), OK), (pack("GET", named["string"]), bulk(token))],
        [(pack("RPUSH", named["list"], token, b"x"), b":2\r\n"), (pack("LINDEX", named["list"], "0"), bulk(token))],
        [(pack("SADD", named["set"], token), b":1\r\n"), (pack("SISMEMBER", named["set"], token), b":1\r\n")],
        [(pack("ZADD", named["zset"], "1", token), b":1\r\n"), (pack("ZCARD", named["zset"]), b":1\r\n")],
        [(pack("INCRBY", named["counter"], "7"), b":7\r\n"), (pack("DEL", f"{key}:none"), b":0\r\n")],
        [(pack("SETNX", named["once"], token), b":1\r\n"), (pack("GETSET", named["once"], "x"), bulk(token))],
    ]
    chance.shuffle(pairs)
    return [asked for pair in pairs[: chance.randrange(1, len(pairs) + 1)] for asked in pair]


def _transaction(commands: Sequence[_Asked]) -> list[_Asked]:
    queued = [(command, QUEUED) for command, _ in commands]
    return [(pack("MULTI"), OK), *queued, (pack("EXEC"), array(*(reply for _, reply in commands)))]


def _aborted(commands: Sequence[_Asked], token: bytes) -> list[tuple[bytes, bytes | None]]:
    queued: list[tuple[bytes, bytes | None]] = [(command, QUEUED) for command, _ in commands]
    queued.insert(len(queued) // 2, (pack("KEYS", token), None))
    return [(pack("MULTI"), OK), *queued, (pack("EXEC"), None)]


async def _ask_in_steps(client: Client, asked: Sequence[_Asked], name: str) -> None:
    for each in asked:
        await client.ask([each], name)


async def _expect_refused(client: Client, commands: Sequence[_Asked], token: bytes, name: str) -> None:
    asked = _aborted(commands, token)
    client.send(b"".join(command for command, _ in asked))
    for command, expected in asked:
        if expected is not None:
            await client.expect(expected, name)
        elif not (reply := await client.frame()).startswith((b"-DENIED keyrail/", b"-EXECABORT")):
            raise Wrong(f"{name}: {command!r} was answered {reply[:200]!r}")


async def _expect_lifetimes(client: Client, key: str, commands: Sequence[_Asked], kinds: Sequence[str]) -> None:
    # A follow-up may leave after the command's own reply: it gets a few turns of the loop, no more.
    sent = b"".join(command for command, _ in commands)
    for kind in kinds:
        if f"{key}:{kind}".encode() not in sent:
            continue
        for _ in range(200):
            client.send(pack("TTL", f"{key}:{kind}"))
            if await client.frame() != b":-1\r\n":
                break
        else:
            raise Wrong(f"{key}:{kind} has no TTL after {sent!r}")


def logged_in_under(expected: Expected) -> Role:
    """The role under a policy that does what is expected here."""

    async def logged_in(swarm: Swarm, name: str, chance: random.Random) -> None:
        client = await swarm.connect(name)
        await client.ask([(pack("AUTH", user_of(name), PASSWORD), OK)], name)
        for turn in range(chance.randrange(3, 30)):
            token = f"{name}:{turn}:{chance.randrange(1 << 40)}".encode()
            key = f"swarm:{{{name}}}:{chance.randrange(1 << 60)}"
            commands = _commands(key, token, chance)
            way = chance.randrange(6)
            if way == 0:
                await client.ask(commands, name)
            elif way == 1:
                await _ask_in_steps(client, _transaction(commands), name)
            elif way == 2:
                await _ask_in_steps(client, [(pack("WATCH", f"{key}:watched"), OK), *_transaction(commands)], name)
            elif way == 3 and expected.refuses:
                await _expect_refused(client, commands, token, name)
                commands = []
            else:
                echo = (pack("ECHO", token), bulk(token))
                await client.ask([echo, *_transaction(commands), echo], name)
            await _expect_lifetimes(client, key, commands, expected.expire)
            swarm.count(name, 1 + len(commands))
            if swarm.over:
                break
        client.leave(abruptly=chance.random() < 0.3)

    return logged_in
