"""Clients of a cluster that know what each of their keys must hold, while slots move and nodes come and go.

A key belongs to one connection of one client, so its history is known: for each key the client keeps all values that it
may have. A reply that fits none of them is a finding, wherever it comes from: another client's reply, a lost write, a
command that ran twice or behind a later one. Most of the time one value is possible. There are more where a connection
was closed (what was not answered may have run), and where a primary is lost with writes that no replica has.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tests.mixup.swarm import Client, Ended, Role, Swarm, Wrong
from tests.resp import Failure, Value, decode, pack

TAGS = [f"{{t{number}}}" for number in range(10)]
MOST_POSSIBLE = 64
"""A key that may hold more values than this proves nothing any more."""

State = bytes | int | tuple[bytes, ...] | None
Words = tuple[bytes | str | int, ...]
Effect = Callable[[State], tuple[Value, State]]
"""What a command makes of its key: the reply, and what the key holds then."""


@dataclass(slots=True)
class World:
    """All clients' keys, and the slots that lose acknowledged writes now, by their hash tags. ``losses`` counts how
    often each slot has begun to; it is another object from then on. Clients send no ``transactions`` if there are to be
    none; ``under_way`` are the pipelines that may have some."""

    lives: list[Life] = field(default_factory=list)
    losing: frozenset[str] = frozenset()
    losses: Counter[str] = field(default_factory=Counter)
    refused: Counter[bytes] = field(default_factory=Counter)
    transactions: bool = True
    under_way: int = 0

    def begin_losing(self, tags: frozenset[str]) -> None:
        """From now on, these slots may lose what is acknowledged."""
        self.losing = tags
        self.losses = self.losses + Counter(tags)

    def end_losing(self) -> None:
        """No more."""
        self.losing = frozenset()


@dataclass(slots=True)
class Life:
    """What one connection knows of its keys; a key that is not there has never been written. ``losses`` are those of
    the world when it sent what it awaits."""

    world: World
    name: str
    possible: dict[str, frozenset[State]] = field(default_factory=dict)
    losses: Counter[str] = field(default_factory=Counter)

    def states(self, key: str) -> frozenset[State]:
        return self.possible.get(key, frozenset([None]))

    def learn(self, key: str, states: Iterable[State]) -> None:
        """The key holds one of these; or still what it held, if its node may have been lost with what it acknowledged.

        A reply may come long after the node has sent it, behind those of other nodes.
        """
        tag = key.partition(":")[0]
        losing = tag in self.world.losing or self.losses[tag] != self.world.losses[tag]
        self.possible[key] = frozenset(states) | (self.states(key) if losing else frozenset())

    def may_have_run(self, key: str, effect: Effect) -> None:
        self.possible[key] = self.states(key) | {effect(state)[1] for state in self.states(key)}


def refused(life: Life, reply: Value) -> bool:
    """The command has not run, since its slot has no node now, or its keys are on the move."""
    if isinstance(reply, Failure) and (word := reply.text.split(b" ")[0]) in (b"CLUSTERDOWN", b"TRYAGAIN"):
        life.world.refused[word] += 1
        return True
    return False


@dataclass(slots=True)
class One:
    """A command with one key."""

    words: Words
    key: str
    effect: Effect

    @property
    def commands(self) -> tuple[Words, ...]:
        return (self.words,)

    def hear(self, life: Life, replies: Sequence[Value]) -> None:
        if not refused(life, replies[0]):
            self.ran(life, replies[0])

    def ran(self, life: Life, reply: Value) -> None:
        outcomes = [self.effect(state) for state in life.states(self.key)]
        fitting = [after for said, after in outcomes if said == reply]
        if not fitting:
            raise Wrong(f"{life.name}: {short(self.words)} -> {short(reply)}, and not {short(outcomes)}")
        life.learn(self.key, fitting)

    def lost(self, life: Life) -> None:
        life.may_have_run(self.key, self.effect)


@dataclass(slots=True)
class Same:
    """Commands without a key of their own: each reply is known, or has a type."""

    commands: tuple[Words, ...]
    replies: tuple[Value | type, ...]

    def hear(self, life: Life, replies: Sequence[Value]) -> None:
        for words, reply, expected in zip(self.commands, replies, self.replies, strict=True):
            if not refused(life, reply):
                right = isinstance(reply, expected) if isinstance(expected, type) else reply == expected
                if not right:
                    raise Wrong(f"{life.name}: {short(words)} -> {short(reply)}, and not {short(expected)}")

    def lost(self, life: Life) -> None:
        pass


@dataclass(slots=True)
class Many:
    """MGET, or DEL, of keys of several nodes."""

    verb: str
    keys: list[str]

    @property
    def commands(self) -> tuple[Words, ...]:
        return ((self.verb, *self.keys),)

    def hear(self, life: Life, replies: Sequence[Value]) -> None:
        (reply,) = replies
        if refused(life, reply):
            if self.verb != "MGET":
                self.lost(life)  # its keys on other nodes may be gone
        elif self.verb == "MGET":
            if not isinstance(reply, list) or len(reply) != len(self.keys):
                raise Wrong(f"{life.name}: {short(self.commands)} -> {short(reply)}")
            for key, found in zip(self.keys, reply, strict=True):
                One(("GET of MGET", key), key, lambda state: (as_reply(state), state)).ran(life, found)
        else:
            least = sum(None not in life.states(key) for key in self.keys)
            most = sum(life.states(key) != {None} for key in self.keys)
            if not isinstance(reply, int) or not least <= reply <= most:
                raise Wrong(f"{life.name}: {short(self.commands)} -> {short(reply)}, and not {least} to {most}")
            for key in self.keys:
                life.learn(key, [None])

    def lost(self, life: Life) -> None:
        if self.verb != "MGET":
            for key in self.keys:
                life.may_have_run(key, lambda _: (1, None))


@dataclass(slots=True)
class Transaction:
    """MULTI … EXEC of commands with keys of one slot, behind a WATCH or not."""

    members: list[One]
    watched: str = ""

    @property
    def commands(self) -> tuple[Words, ...]:
        watch: list[Words] = [("WATCH", self.watched)] if self.watched else []
        return (*watch, ("MULTI",), *(member.words for member in self.members), ("EXEC",))

    def hear(self, life: Life, replies: Sequence[Value]) -> None:
        *before, ran = replies
        if self.watched and refused(life, before[0]):
            before = before[1:]  # the transaction runs all the same, as on a node itself
        expected = [b"OK"] * (len(before) - len(self.members)) + [b"QUEUED"] * len(self.members)
        whole = True
        for said, right in zip(before, expected, strict=True):
            if refused(life, said):
                whole = False
            elif said != right and (whole or not isinstance(said, Failure)):
                raise Wrong(f"{life.name}: {short(self.commands)} -> {short(replies)}")
        if isinstance(ran, list) and whole and len(ran) == len(self.members):
            for member, reply in zip(self.members, ran, strict=True):
                member.ran(life, reply)
        elif ran is None and self.watched:
            pass
        elif not refused(life, ran) and not (isinstance(ran, Failure) and ran.text.startswith(b"EXECABORT")):
            raise Wrong(f"{life.name}: {short(self.commands)} -> {short(replies)}")

    def lost(self, life: Life) -> None:
        for member in self.members:
            member.lost(life)


Item = One | Same | Many | Transaction


def short(what: object) -> str:
    text = str(what)
    return text if len(text) < 400 else f"{text[:300]} … {text[-60:]}"


def as_reply(state: State) -> Value:
    return list(state) if isinstance(state, tuple) else state


class Repertoire:
    """The commands of one client's life; all that it writes is unique."""

    def __init__(self, name: str, chance: random.Random) -> None:
        self.chance = chance
        self.name = f"{name}.{chance.randrange(1 << 40)}"
        self.number = 0

    def pipeline(self, *, transactions: bool) -> list[Item]:
        makers = (self._one, self._many, self._transaction, self._fixed)
        weights = (16, 3, 4 * transactions, 4)
        return [self.chance.choices(makers, weights)[0]() for _ in range(self.chance.choice((1, 1, 4, 30)))]

    def unique(self) -> bytes:
        self.number += 1
        size = self.chance.choices((0, 20_000, 90_000, 1_300_000), (400, 10, 4, 1))[0]
        return f"{self.name}.{self.number}.".encode() + b"x" * size

    def key(self, kind: str, tag: str = "") -> str:
        return f"{tag or self.chance.choice(TAGS)}:{kind}:{self.name}:{self.chance.randrange(3)}"

    def _one(self, tag: str = "", *, waits: bool = True) -> One:
        kind = self.chance.choice(("set", "get", "incr", "eval", "push", "range", "pop" if waits else "get"))
        if kind in ("set", "get"):
            key, value = self.key("s", tag), self.unique()
            if kind == "get":
                return One(("GET", key), key, lambda state: (as_reply(state), state))
            return One(("SET", key, value), key, lambda _: (b"OK", value))
        if kind in ("incr", "eval"):
            key = self.key("i", tag)
            script = ("EVAL", "return redis.call('incr', KEYS[1])", 1, key)
            return One(("INCR", key) if kind == "incr" else script, key, incremented)
        key, value = self.key("l", tag), self.unique()
        if kind == "push":
            return One(("RPUSH", key, value), key, lambda state: (len(items(state)) + 1, (*items(state), value)))
        if kind == "range":
            return One(("LRANGE", key, 0, -1), key, lambda state: (list(items(state)), state))
        return One(("BLPOP", key, "0.02"), key, lambda state: popped(key, items(state)))

    def _many(self) -> Many:
        keys = list(dict.fromkeys(self.key("s") for _ in range(self.chance.choice((2, 5, 12)))))
        return Many(self.chance.choice(("MGET", "MGET", "DEL", "UNLINK")), keys)

    def _transaction(self) -> Transaction:
        tag = self.chance.choice(TAGS)
        members = [self._one(tag, waits=False) for _ in range(self.chance.choice((1, 2, 5)))]
        return Transaction(members, self.key("s", tag) if self.chance.random() < 0.25 else "")

    def _fixed(self) -> Same:
        token = self.unique()
        return self.chance.choice(
            (
                Same((("ECHO", token),), (token,)),
                Same((("CLIENT", "SETNAME", token[:30]), ("CLIENT", "GETNAME")), (b"OK", token[:30])),
                Same((("DBSIZE",), ("SCAN", "0"), ("KEYS", "nothing*")), (int, list, [])),
                Same((("PUBLISH", token, "m"), ("SPUBLISH", token, "m")), (0, 0)),
                Same((("EXEC",), ("GET",), ("PING", token)), (Failure, Failure, token)),
                Same((("SCRIPT", "EXISTS", "a" * 40), ("RANDOMKEY",)), ([0], object)),
            )
        )


def items(state: State) -> tuple[bytes, ...]:
    return state if isinstance(state, tuple) else ()


def incremented(state: State) -> tuple[Value, State]:
    count = (state if isinstance(state, int) else 0) + 1
    return count, count


def popped(key: str, held: tuple[bytes, ...]) -> tuple[Value, State]:
    return ([key.encode(), held[0]], held[1:] or None) if held else (None, None)


def keeper_in(world: World) -> Role:
    """The role in this world."""

    async def keeper(swarm: Swarm, name: str, chance: random.Random) -> None:
        client = await swarm.connect(name, chance.choice((2, 3)))
        commands = Repertoire(name, chance)
        life = Life(world, commands.name)
        world.lives.append(life)
        while not swarm.over:
            transactions = world.transactions
            sent = commands.pipeline(transactions=transactions)
            life.losses = world.losses
            world.under_way += transactions
            try:
                await exchange(swarm, client, life, sent)
            finally:
                world.under_way -= transactions

    async def exchange(swarm: Swarm, client: Client, life: Life, sent: Sequence[Item]) -> None:
        client.send(b"".join(pack(*words) for item in sent for words in item.commands))
        for number, item in enumerate(sent):
            try:
                replies = [decode(await client.frame()) for _ in item.commands]
            except (Ended, TimeoutError):
                for left in sent[number:]:
                    left.lost(life)
                raise
            item.hear(life, replies)
            swarm.count("keeper", len(replies))

    return keeper


def written(world: World) -> dict[str, frozenset[State]]:
    """All keys, with what they may hold."""
    found: defaultdict[str, frozenset[State]] = defaultdict(frozenset)
    for life in world.lives:
        found.update({key: states for key, states in life.possible.items() if len(states) <= MOST_POSSIBLE})
    return found
