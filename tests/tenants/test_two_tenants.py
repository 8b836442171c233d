"""Two tenants of one Redis that try to reach each other's keys: each is answered as if it were alone.

Everything that a tenant sends through Keyrail is also sent directly to a Redis of its own, and all replies must be the
same, but for commands that are not offered. In the end the shared Redis has exactly what these have, behind the
prefixes, and what others had put there before. The servers are simulated, and each history is made from a seed.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from proxy.session.ports import counted_keys
from proxy.tenants import requests
from tests.conftest import seeds
from tests.policy.given import policy
from tests.resp import decode
from tests.simulation.engine import Server
from tests.simulation.network import Weather
from tests.simulation.world import Client, Keyrail, World, run

TENANTS = policy("""
apps:
  acme: {match: {user: acme}}
  globex: {match: {user: globex}}
tenants: {prefix: "{app}:", apps: [acme, globex]}
defaults: {mode: enforce}
rules:
  lazy: {replace: {DEL: UNLINK}}
  lifetimes: {lifetime: {default: 1h, keys: "t:*"}}
  walk: {keys_by_scan: {keys: 1000}}
  small: {whole_collections: {max: 50}}
""")
WITHOUT_RULES = policy("""
apps: {acme: {match: {user: acme}}, globex: {match: {user: globex}}}
tenants: {prefix: "{app}:", apps: [acme, globex], flush: walk, only_keyrail: yes}
rules: {}
""")
KEYS = [
    "a",
    "b",
    "t:1",
    "globex:a",
    "acme:a",
    "acme:acme:a",
    "globex:",
    "",
    "*",
    "{a}",
    "a\r\nb",
    "outside",
    "l",
    "h",
    "z",
]
PATTERNS = ["*", "a*", "globex:*", "acme:*", "?", "[ag]*", "\\*", "*a", "", "**", "[^x]*", "\\", "*:*"]
OFFERED = """
GET {k}|SET {k} {v}|SET {k} {v} EX 100|SETNX {k} {v}|GETSET {k} {v}|GETDEL {k}|APPEND {k} {v}|STRLEN {k}|INCR {k}
DECRBY {k} 2|MGET {k} {k} {k}|MSET {k} {v} {k} {v}|MSETNX {k} 1 {k} 2|MSETEX 2 {k} 1 {k} 2 EX 100|DEL {k} {k}
UNLINK {k}|EXISTS {k} {k}|TOUCH {k}|TYPE {k}|PERSIST {k}|EXPIRE {k} 100|RENAME {k} {k}|HSET {k} f {v}|HGET {k} f
HMGET {k} f g|HGETALL {k}|HLEN {k}|HDEL {k} f|LPUSH {k} {v}|RPUSH {k} 1 2|LPOP {k}|RPOP {k}|LLEN {k}|LRANGE {k} 0 -1
SADD {k} {v}|SREM {k} {v}|SCARD {k}|SMEMBERS {k}|BLPOP {k} {k} 0.01|BRPOP {k} 0.01|KEYS {p}|KEYS {p}|SCAN 0
SCAN 0 MATCH {p}|SCAN 0 MATCH {p} COUNT 100|SCAN 0 COUNT 10 MATCH {p} MATCH {p}|WATCH {k}|UNWATCH|MULTI|MULTI|EXEC
EXEC|EXEC|DISCARD|PING|ECHO {k}|PUBLISH {k} x|PUBSUB NUMSUB {k} {k}|PUBSUB CHANNELS {p}|SELECT 0|SELECT 1|GET
DBSIZE|DBSIZE|RANDOMKEY|FLUSHDB
""".replace("\n", "|").strip("|")
REFUSED = """
FLUSHALL|EVAL "return redis.call('GET','globex:a')" 0|SCRIPT FLUSH|PSUBSCRIBE __keyspace*:a
PUBSUB NUMPAT|MONITOR|CONFIG GET *|CLIENT LIST|WEIRD {k}|KEYRAIL PATTERNS
SWAPDB 0 1|MOVE {k} 1
""".replace("\n", "|").strip("|")
LEFT_OUT_BY_RULES = frozenset({"FLUSHDB", "KEYS", "PERSIST", "MULTI", "EXEC", "DISCARD", "SELECT", "MSETNX"})
"""The rules change replies to these, or those in transactions, or ask in the client's database."""
WALKS = frozenset({"DBSIZE", "FLUSHDB", "KEYS", "RANDOMKEY"})
"""Keyrail walks for these, which it cannot inside MULTI."""
UNITS = frozenset({"DISCARD", "EXEC", "MULTI", "WATCH"})
"""A user whose only connection is watching has none for a walk."""
ABORTING = ["GET"]
"""In the place of a refused command, what Redis itself refuses."""


class Tenant:
    """Clients of a tenant, and for each one that sends the same to the tenant's own Redis."""

    def __init__(self, world: World, name: str, server: Server, *, rules: bool) -> None:
        self.world, self.name, self.server = world, name, server
        self.chance = random.Random(world.chance.random())
        self.pairs: list[tuple[Client, Client]] = []
        # Users have connections of their own logins only: what rules ask as them needs one of the client's own kind.
        self.protocols = (self.chance.choice((2, 3)),) if rules else (2, 3)
        lines = OFFERED.split("|")
        left_out = LEFT_OUT_BY_RULES | WALKS if rules else self.chance.choice((WALKS, UNITS))
        self.offered = [line for line in lines if line.split(" ")[0] not in left_out]

    async def begin(self, keyrail: Keyrail) -> None:
        for _ in range(2):
            hello = ("HELLO", self.chance.choice(self.protocols), "AUTH", self.name, "secret")
            own = Client(self.world, self.server.address)
            await own.connect()
            await own.ask(*hello)
            self.pairs.append((await keyrail.client(*hello), own))

    def words(self) -> tuple[list[str], bool]:
        offered = self.chance.random() < 0.93
        line = self.chance.choice(self.offered if offered else REFUSED.split("|"))
        names = {"k": lambda: self.chance.choice(KEYS), "p": lambda: self.chance.choice(PATTERNS)}
        words = []
        for word in line.split(" "):
            kind = word.strip("{}")
            words.append(
                names[kind]() if word in ("{k}", "{p}") else str(self.chance.randrange(99)) if word == "{v}" else word
            )
        return words, offered

    async def step(self) -> None:
        through, own = self.pairs[number := self.chance.randrange(2)]
        lines = [self.words() for _ in range(self.chance.choice((1, 1, 2, 5)))]
        sent = [words for words, _ in lines]
        told = await through.pipe(*sent)
        # A refused command counts for a transaction as what Redis refuses.
        alone = [words if offered else ABORTING for words, offered in lines]
        expected = await own.pipe(*(["DBSIZE"] if words == ["RANDOMKEY"] else words for words in alone))
        for (words, offered), reply, reply_alone in zip(lines, told, expected, strict=True):
            if words == ["RANDOMKEY"]:
                expected_keys = (None,) if reply_alone == b":0\r\n" else [key.encode() for key in KEYS]
                assert decode(reply) in expected_keys, (words, reply, reply_alone)
            elif offered:
                assert reply == reply_alone, (self.name, number, words)
            else:
                assert reply.startswith((b"-DENIED keyrail", b"-NOPERM", b"-ERR unknown")), (words, reply)

    async def play(self, steps: int) -> None:
        for _ in range(steps):
            await self.step()


def stored(server: Server, prefix: bytes = b"") -> list[dict[bytes, object]]:
    """What each database has behind a prefix."""
    return [
        {key.removeprefix(prefix): value for key, value in each.values.items() if key.startswith(prefix)}
        for each in server.databases[:2]
    ]


def play(steps: int, rules: bool) -> Callable[[World], Awaitable[None]]:
    async def played(world: World) -> None:
        world.network.weather = Weather(most=world.network.weather.most, lost=0.0)
        shared = world.server(1)
        tenants = [
            Tenant(world, name, world.server(number), rules=rules) for number, name in ((2, "acme"), (3, "globex"))
        ]
        for server in (shared, *(tenant.server for tenant in tenants)):
            server.users |= {b"acme": "secret", b"globex": "secret"}
        outside = Client(world, shared.address)
        await outside.connect()
        for key in KEYS:
            if not key.startswith(("acme:", "globex:")):
                await outside.ask("SET", key, "outside")
        before = stored(shared)
        keyrail = await world.keyrail(f"redis://{shared.address[0]}:6379", TENANTS if rules else WITHOUT_RULES)
        for tenant in tenants:
            await tenant.begin(keyrail)
        playing = [world.start(tenant.play(steps)) for tenant in tenants]
        for each in playing:
            await each
        for tenant in tenants:
            assert stored(shared, tenant.name.encode() + b":") == stored(tenant.server)
        left = [
            {key: value for key, value in each.items() if not key.startswith((b"acme:", b"globex:"))}
            for each in stored(shared)
        ]
        assert left == before

    return played


@pytest.fixture(autouse=True)
def _counts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    # In this weather all walks are long, and their counts would be told for a while.
    monkeypatch.setattr(counted_keys, "_SHORT", 3600.0)


@pytest.mark.parametrize("seed", seeds(6, 400))
def test_each_is_answered_as_if_it_were_alone(seed: int) -> None:
    run(play(120, rules=False), seed)


@pytest.mark.parametrize("seed", seeds(4, 200))
def test_what_rules_ask_and_add_stays_with_the_tenant(seed: int) -> None:
    run(play(60, rules=True), seed)


_places = requests._places
BREAKS: dict[str, tuple[str, Any]] = {
    "the last key has no prefix": ("_places", lambda command, offer: _places(command, offer)[:-1]),
    "a pattern has no prefix": ("_pattern", lambda command, index, prefix: command.argv[index]),
    "glob characters of a name pass": ("glob_escaped", lambda prefix: prefix[:1] + b"*"),
    "names in replies keep the prefix": ("stripped", lambda names, prefix, frame: frame),
}


@pytest.mark.parametrize("broken", BREAKS)
def test_a_leak_is_found(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, instead = BREAKS[broken]
    monkeypatch.setattr(requests, name, instead)
    for seed in range(5):
        try:
            run(play(60, rules=False), seed)
        except AssertionError:
            return
    pytest.fail("nobody noticed")
