"""Servers with keys, that answer what a scan asks, and clusters of them. All is in memory, and steps are the tests'.

SCAN goes through the buckets of a table by the keys' hashes. A table that shrinks has larger buckets, so the cursor
falls back to the beginning of one, and keys come again, as in Redis. A process has hashes of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Any
from zlib import crc32

import hiredis

from proxy.commands import slots
from proxy.net.config.endpoint import Endpoint
from proxy.net.topology.slot_map import ClusterNode, OpenSlot, SlotMap, SlotRange
from proxy.rules.stored import Fault, StoredFault, StoredKey
from proxy.server.stored.model import ValueForm
from proxy.server.stored.node_walk import Request

slot_of = cache(slots.slot_of)


def of_slots(keys: Iterable[bytes], of: Collection[int]) -> list[bytes]:
    """The keys of these slots."""
    wanted = frozenset(of)
    return [key for key in keys if slot_of(key) in wanted]


_HASH_BITS = 32
CHANGING = (b"UNLINK", b"PEXPIREAT", b"PERSIST")
ALLOWED_BUSY = (b"WATCH", b"MULTI", b"DISCARD", b"UNWATCH")
SLOTS = 16_384


@dataclass(frozen=True)
class FakeFinding:
    rule: str
    mode: str
    excepted: bool
    fault: StoredFault


@dataclass(frozen=True)
class FakeJudged:
    pattern: str
    app: str
    team: str
    findings: tuple[FakeFinding, ...]
    form: tuple[str, ValueForm] | None = None
    own: tuple[bytes, str] | None = None


class FakeJudge:
    """The first letter of a key is its app; keys without a TTL are wrong, large lists may be. It keeps what it saw."""

    def __init__(self) -> None:
        self.judged: list[StoredKey] = []

    def judge(self, key: StoredKey) -> FakeJudged:
        self.judged.append(key)
        found = []
        if key.ttl is None:
            found.append(FakeFinding("ttl", "enforce", False, StoredFault(Fault.NO_TTL, "no TTL")))
        if self.wants_members(key) and (key.members is None or key.members > 10):
            found.append(
                FakeFinding("size", "warn", False, StoredFault(Fault.TOO_LARGE, "over 10", key.members is not None))
            )
        return FakeJudged(key.name[:1].decode() + ":*", key.name[:1].decode(), "", tuple(found))

    def wants_head(self, _key: StoredKey) -> bool:
        return False

    def wants_members(self, key: StoredKey) -> bool:
        return key.type == "list"


@dataclass
class Value:
    """What is stored under a key."""

    type: bytes = b"string"
    ttl: int = -1
    memory: int = 64
    members: int = 3
    idle: int = 0


def error(text: str) -> hiredis.ReplyError:
    return hiredis.ReplyError(text)


class FakeServer:
    """One process, with the databases ``held``. ``refuses`` has the commands that its user may not run."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.held: dict[int, dict[bytes, Value]] = {0: {}}
        self.bits = 4
        self.salt = random.randrange(1 << 32)
        self.refuses: set[bytes] = set()
        self.asked: list[tuple[bytes, ...]] = []
        self.seconds = 1_800_000_000
        self.changed: list[tuple[int, tuple[bytes, ...], Value]] = []
        """What was done to keys: the database, the command, and the value before that."""
        self.shown: dict[bytes, tuple[bytes, int]] = {}
        """The type and PTTL of each key when PTTL was asked for last."""
        self.watched: list[tuple[bytes, Value | None]] = []
        self.queued: list[tuple[bytes, ...]] | None = None
        self.objects: hiredis.ReplyError | None = None
        """What OBJECT answers, if not the idle time."""
        self.busy = 0
        """So many of the commands that come next find a script that runs."""
        self.evaluating = self._eval
        """What a script does, and ``changing``, which every change goes through: tests put theirs around it."""
        self.changing = self._change

    def answer(self, request: Request) -> list[Any]:
        """The replies to a request."""
        replies, asking = [], False
        for command in request.commands:
            self.asked.append(command)
            replies.append(self._one(request.database, command, asking))
            asking = command == (b"ASKING",)
        return replies

    def lose_connection(self) -> None:
        """What belongs to the connection ends with it."""
        self.queued, self.watched = None, []

    def place(self, key: bytes) -> int:
        return crc32(key, self.salt)

    def redirect(self, key: bytes, asking: bool) -> hiredis.ReplyError | None:
        """Where a key is, if not here."""
        return None

    def _one(self, database: int | None, command: tuple[bytes, ...], asking: bool) -> Any:
        name, held = command[0], self.held.get(database or 0, {})
        if name in self.refuses:
            return error(f"NOPERM this user has no permissions to run the '{name.decode().lower()}' command")
        if self.busy and name not in ALLOWED_BUSY:
            self.busy -= 1
            return error("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.")
        if self.queued is not None and name in (b"WATCH", b"MULTI"):
            return error(f"ERR {name.decode()} inside MULTI is not allowed")
        if self.queued is not None and name not in (*CHANGING, b"EXEC", b"DISCARD"):
            return b"QUEUED"
        match name:
            case b"INFO":
                lines = [f"db{number}:keys={len(keys)},expires=0" for number, keys in self.held.items() if keys]
                return "\r\n".join(["# Keyspace", *lines]).encode()
            case b"DBSIZE":
                return len(held)
            case b"SCAN":
                return self._scan(held, int(command[1]), int(command[3]))
            case b"ASKING" | b"PING":
                return b"OK"
            case b"TIME":
                return [b"%d" % self.seconds, b"0"]
            case b"DISCARD" if self.queued is None:
                return error("ERR DISCARD without MULTI")
            case b"DISCARD":
                self.lose_connection()
                return b"OK"
            case b"MULTI":
                self.queued = []
                return b"OK"
            case b"UNWATCH":
                self.watched = []
                return b"OK"
            case b"EXEC":
                return self._exec(database or 0)
        key = command[3] if name == b"EVAL" else command[1] if name in CHANGING else command[-1]
        if (elsewhere := self.redirect(key, asking)) is not None:
            return elsewhere
        value = held.get(key)
        if self.queued is not None and name in CHANGING:
            self.queued.append(command)
            return b"QUEUED"
        match name:
            case b"WATCH":
                self.watched.append((key, value))
                return b"OK"
            case b"EVAL":
                return self.evaluating(database or 0, value, command[4:])
            case b"OBJECT":
                return self.objects or (None if value is None else value.idle)
            case b"TYPE":
                return b"none" if value is None else value.type
            case b"PTTL":
                self.shown[key] = (b"none", -2) if value is None else (value.type, value.ttl)
                return self.shown[key][1]
            case b"MEMORY":
                return None if value is None else value.memory
            case b"LLEN":
                return 0 if value is None else value.members
        raise AssertionError(f"a scan has no reason to send {command}")

    def _eval(self, database: int, value: Value | None, arguments: Sequence[bytes]) -> Any:
        # What the script of ``changes/checked.py`` does; tests of real engines prove it.
        kind, least, most, idle, until, at, *command = arguments
        if value is None:
            return b"gone"
        if value.type != kind or not int(least) <= value.ttl <= int(most) or (idle and value.idle < int(idle)):
            return b"changed"
        if until and 1000 * self.seconds > int(until):
            return b"late"
        if at and 1000 * self.seconds + value.ttl != int(at):
            return b"changed"
        self.changing(database, tuple(command))
        return b"done"

    def _change(self, database: int, command: tuple[bytes, ...]) -> int:
        held, (name, key, *rest) = self.held[database], command
        if key not in held:
            return 0
        self.changed.append((database, command, held[key]))
        if name == b"UNLINK":
            del held[key]
        else:
            ttl = -1 if name == b"PERSIST" else int(rest[0]) - 1000 * self.seconds
            assert name in CHANGING
            assert ttl > 0 or name == b"PERSIST"
            held[key] = replace(held[key], ttl=ttl)
        return 1

    def _exec(self, database: int) -> Any:
        assert self.queued is not None
        queued, watched = self.queued, self.watched
        self.lose_connection()
        same = all(self.held[database].get(key) is value for key, value in watched)
        return [self.changing(database, command) for command in queued] if same else None

    def _scan(self, held: Iterable[bytes], cursor: int, count: int) -> list[Any]:
        width = 1 << (_HASH_BITS - self.bits)
        at = cursor - cursor % width
        ordered = sorted(held, key=self.place)
        found: list[bytes] = []
        while at < 1 << _HASH_BITS:
            found += [key for key in ordered if at <= self.place(key) < at + width]
            at += width
            if len(found) >= min(count, 3):
                break
        return [b"%d" % (at % (1 << _HASH_BITS)), found]


class FakeNode(FakeServer):
    """A node of a cluster."""

    def __init__(self, random: Random, name: str, cluster: FakeCluster) -> None:
        super().__init__(random)
        self.name = name
        self.epoch = 1
        self.cluster = cluster

    def redirect(self, key: bytes, asking: bool) -> hiredis.ReplyError | None:
        slot, has = slot_of(key), key in self.held[0]
        opened = self.cluster.opened.get(slot)
        if self.cluster.owner[slot] is self:
            return error(f"ASK {slot} there") if opened is not None and not has else None
        if opened is self and asking:
            return None
        return error(f"MOVED {slot} there")


class FakeCluster:
    """Nodes that own slots and move them, key by key or at once."""

    def __init__(self, random: Random, keys: Sequence[bytes], size: int = 3) -> None:
        self.random = random
        self.names = iter(f"{number:040x}" for number in range(1, 1000))
        self.nodes = [FakeNode(random, next(self.names), self) for _ in range(size)]
        self.owner = [self.nodes[slot * size // SLOTS] for slot in range(SLOTS)]
        self.opened: dict[int, FakeNode] = {}
        self.slots = sorted({slot_of(key) for key in keys})
        for key in keys:
            self.owner[slot_of(key)].held[0][key] = Value()

    def seen(self) -> SlotMap:
        """What all nodes agree on."""
        nodes = {}
        for node in self.nodes:
            mine = [SlotRange(slot, slot) for slot in self.slots if self.owner[slot] is node]
            nodes[node.name] = ClusterNode(node.name, Endpoint("host", 1), epoch=node.epoch, slots=tuple(mine))
        opened = (OpenSlot(slot, self.owner[slot].name, target.name) for slot, target in self.opened.items())
        return SlotMap(nodes, frozenset(opened))

    # What operators do

    def open_slot(self) -> None:
        slot, target = self.random.choice(self.slots), self.random.choice(self.nodes)
        if self.owner[slot] is not target:
            self.opened.setdefault(slot, target)

    def move_keys(self) -> None:
        """Some keys of an open slot move."""
        if self.opened:
            slot = self.random.choice([*self.opened])
            self._move(slot, self.owner[slot], self.opened[slot], 0.5)

    def give_back(self) -> None:
        """The keys of an open slot come back, and it is not open any more."""
        if self.opened:
            slot = self.random.choice([*self.opened])
            self._move(slot, self.opened.pop(slot), self.owner[slot], 1.0)

    def close_slot(self) -> None:
        if self.opened:
            self._hand_over(self.random.choice([*self.opened]))

    def move_at_once(self) -> None:
        """Valkey 9's way: all keys of a slot, in one step."""
        slot, target = self.random.choice(self.slots), self.random.choice(self.nodes)
        if slot not in self.opened and self.owner[slot] is not target:
            self.opened[slot] = target
            self._hand_over(slot)

    def promote(self) -> None:
        """A replica, whose hashes are others, takes the place of its primary."""
        at = self.random.randrange(len(self.nodes))
        old = self.nodes[at]
        new = self.nodes[at] = FakeNode(self.random, next(self.names), self)
        new.held = {0: dict(old.held[0])}
        new.epoch = max(node.epoch for node in self.nodes) + 1
        self.owner = [new if node is old else node for node in self.owner]
        self.opened = {slot: new if node is old else node for slot, node in self.opened.items()}

    def _hand_over(self, slot: int) -> None:
        target, source = self.opened.pop(slot), self.owner[slot]
        self._move(slot, source, target, 1.0)
        self.owner[slot] = target
        target.epoch = max(node.epoch for node in self.nodes) + 1

    def _move(self, slot: int, source: FakeNode, target: FakeNode, chance: float) -> None:
        for key in [key for key in source.held[0] if slot_of(key) == slot]:
            if self.random.random() < chance:
                target.held[0][key] = source.held[0].pop(key)
