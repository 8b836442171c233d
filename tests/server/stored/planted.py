"""A keyspace by a seed, of which it is known what is wrong with each key, and whose it is; and a judge that keeps what
it says of each key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from random import Random
from textwrap import dedent

from proxy.rules.stored import Fault, StoredKey
from proxy.server.stored.judging import Judged, StoredJudge
from tests.policy.given import policy

POLICY = dedent(
    """\
    defaults: {mode: enforce}
    apps:
      shop: {team: checkout, contact: "#checkout", match: {user: shop}}
      web: {team: front, match: {user: web}}
      jobs: {team: batch, match: {user: jobs}}
    schema:
      cart: {key: "cart:{id}", type: hash, ttl: {default: 2h, max: 1d}, size: {members: 20}, app: shop}
      page: {key: "page:{path...}", type: string, ttl: {default: 30m, min: 20m, max: 1h}, size: 1KB, app: web}
      queue: {key: "queue:{name}", type: list, ttl: none, size: {members: 30}, app: jobs}
    rules:
      types: {schema: type}
      sizes: {schema: size}
      lifetimes: {schema: ttl}
      prefixes: {names: {prefixes: {shop: ["cart:", "order:"], web: ["page:"], jobs: ["queue:"], default: ["free:"]}}}
      order-names: {names: {max_length: 40, characters: printable-ascii}}
    """
)
"""Shop owns its orders by their prefix alone: no entry of the schema says anything about them."""
COUNTS = {
    Fault.NO_TTL: 2071,
    Fault.BAD_NAME: 50,
    Fault.NOBODYS: 20,
    Fault.TOO_LARGE: 12,
    Fault.WRONG_TYPE: 3,
    Fault.TTL_TOO_LONG: 31,
}
"""So many keys have this fault, and no other one."""
DAY = 86_400
Argv = tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Planted:
    """A key: whose it is, what is wrong with it, and the commands that make it."""

    name: bytes
    app: str
    faults: frozenset[Fault]
    commands: tuple[Argv, ...]


def _cart(name: bytes, ttl: int | None = 3600, fields: int = 3) -> tuple[Argv, ...]:
    pairs = (text for number in range(fields) for text in (b"item:%d" % number, b"2"))
    made: Argv = (b"HSET", name, *pairs)
    return (made,) if ttl is None else (made, (b"EXPIRE", name, b"%d" % ttl))


def _page(name: bytes, ttl: int | None = 900, size: int = 100) -> tuple[Argv, ...]:
    made: Argv = (b"SET", name, b"x" * size)
    return (made,) if ttl is None else ((*made, b"EX", b"%d" % ttl),)


def _queue(name: bytes, length: int = 5) -> tuple[Argv, ...]:
    return ((b"RPUSH", name, *(b"job:%d" % number for number in range(length))),)


def _ordinary(random: Random, number: int) -> Planted:
    match random.randrange(5):
        case 0:
            name = b"cart:o%d" % number
            return Planted(name, "shop", frozenset(), _cart(name, random.choice([7200, DAY]), random.choice([1, 20])))
        case 1:
            name = b"page:o%d:en" % number
            # What is left of a TTL proves nothing about a minimum.
            return Planted(name, "web", frozenset(), _page(name, random.choice([1000, 3600]), random.choice([1, 1024])))
        case 2:
            name = b"queue:o%d" % number
            return Planted(name, "jobs", frozenset(), _queue(name, random.choice([1, 30])))
        case 3:
            name = b"order:o%d" % number
            return Planted(name, "shop", frozenset(), _page(name, random.choice([None, 99 * DAY]), 4000))
        case _:
            name = b"free:o%d" % number
            return Planted(name, "", frozenset(), _page(name, None, 10))


def _faulty(random: Random) -> Iterator[Planted]:
    for number in range(COUNTS[Fault.NO_TTL]):
        if number % 3:
            yield Planted(name := b"page:n%d" % number, "web", frozenset({Fault.NO_TTL}), _page(name, None))
        else:
            yield Planted(name := b"cart:n%d" % number, "shop", frozenset({Fault.NO_TTL}), _cart(name, None))
    for number in range(COUNTS[Fault.BAD_NAME]):
        name = random.choice([b"order:%d with spaces", b"order:%d\x1b[2J", b"order:%d:" + b"long" * 10]) % number
        yield Planted(name, "shop", frozenset({Fault.BAD_NAME}), _page(name, None, 10))
    for number in range(COUNTS[Fault.NOBODYS]):
        name = random.choice([b"tmp:%d", b"car:%d", b"test%d", b"cart%d:x"]) % number
        yield Planted(name, "", frozenset({Fault.NOBODYS}), _page(name, random.choice([None, 60 * DAY]), 10))
    for number in range(COUNTS[Fault.TOO_LARGE]):
        name = (b"cart:l%d", b"page:l%d", b"queue:l%d")[number % 3] % number
        made = (_cart(name, fields=21), _page(name, size=1025), _queue(name, 31 + 1000 * number))[number % 3]
        yield Planted(name, ("shop", "web", "jobs")[number % 3], frozenset({Fault.TOO_LARGE}), made)
    for number in range(COUNTS[Fault.WRONG_TYPE]):
        name = (b"cart:w%d", b"page:w%d", b"queue:w%d")[number] % number
        wrong = (_page(name), _cart(name), ((b"SADD", name, b"a"),))[number]
        yield Planted(name, ("shop", "web", "jobs")[number], frozenset({Fault.WRONG_TYPE}), wrong)
    for number in range(COUNTS[Fault.TTL_TOO_LONG]):
        if number % 2:
            yield Planted(name := b"cart:t%d" % number, "shop", frozenset({Fault.TTL_TOO_LONG}), _cart(name, DAY + 600))
        else:
            yield Planted(name := b"page:t%d" % number, "web", frozenset({Fault.TTL_TOO_LONG}), _page(name, 5000))


@cache
def keyspace(seed: int, ordinary: int) -> dict[bytes, Planted]:
    """The faulty keys among so many ordinary ones, by their names, in a random order."""
    random = Random(seed)
    found = [*_faulty(random), *(_ordinary(random, number) for number in range(ordinary))]
    random.shuffle(found)
    keys = {each.name: each for each in found}
    assert len(keys) == len(found)
    return keys


def owners(keys: Iterable[Planted]) -> Counter[tuple[Fault, str]]:
    """How many of these keys have each fault, by owner."""
    return Counter((fault, each.app) for each in keys for fault in each.faults)


class Recording(StoredJudge):
    """Judges by ``POLICY``, and keeps what it has said of each key, and how often it was asked."""

    def __init__(self) -> None:
        super().__init__(policy(POLICY), now=0.0)
        self.times: Counter[bytes] = Counter()
        self.told: dict[bytes, tuple[str, frozenset[Fault]]] = {}

    def judge(self, key: StoredKey) -> Judged:
        judged = super().judge(key)
        self.times[key.name] += 1
        self.told[key.name] = judged.app, frozenset(each.fault.fault for each in judged.findings)
        return judged
