"""Histories of one client of three nodes whose every reply says whose it is.

The client sends single commands and commands over several slots, in one or several writes. The nodes are slow and fast
in turn, and each may send any command elsewhere (ASK, MOVED), back (TRYAGAIN, CLUSTERDOWN) or refuse a part of it.
Answers of Keyrail's own (refusals, reads from memory) come in between. No two commands have a key in common: the reply
to one that reads values is its keys, and a number is the sum of the numbers of its keys.
"""

from __future__ import annotations

import random
import re
import traceback
from collections import Counter
from collections.abc import Sequence
from itertools import count
from typing import cast

from proxy.commands.cached_reads import cache_role
from proxy.commands.slots import slot_of
from proxy.commands.table import STANDARD
from proxy.hotpath.cache.cache_use import CacheUse
from proxy.hotpath.cache.cached_reads import CachedReads
from proxy.hotpath.cache.cached_reply import ReplyMemory
from proxy.hotpath.cache.cached_requests import part_of
from proxy.hotpath.cache.reply_cache import ReplyCache
from proxy.hotpath.cluster.router import Router
from proxy.hotpath.upstream.in_flight import ReplySink
from proxy.policy.model import TRANSPARENT
from proxy.wire.encode import encode_array, encode_bulk
from tests.hotpath.routed import owners
from tests.local_cache.given import trusted
from tests.policy.given import policy as policy_of
from tests.resp import FrameReader, decode
from tests.session.clustered import NODES, TAGS, ClusterRoute, Routed
from tests.session.given import Upstream, call

STEPS = 40
ROUNDS = 200
"""In so many rounds all replies of a history come."""
SLOW = 0.05
SPEEDS = (0.8, 0.5, SLOW)
"""How often nodes answer: one that moves slots is slow."""

SUMS = (b"DEL", b"UNLINK", b"EXISTS", b"TOUCH")
PLAIN = ("GET", "GET", "GET", "INCR")
SPLIT = ("MGET", "DEL", "EXISTS", "UNLINK", "TOUCH")
OTHERS = ("MSET", "ECHO", "FLUSHALL", "CACHED", "CACHED MGET", "DBSIZE")
HOT = [b"hot%d" % number for number in range(3)]
ROLES = bytes(map(cache_role, STANDARD.specs))
RULES = """
defaults: {mode: enforce}
cross_slot: split
rules:
  no-flush: {refuse: [FLUSHALL]}
  unlink: {replace: {DEL: UNLINK}}
"""
POLICIES = (TRANSPARENT, policy_of(RULES))
ROUTERS = Router(owners(3))
TROUBLES = (
    "-ASK {slot} 127.0.0.1:700{other}\r\n",
    "-MOVED {slot} 127.0.0.1:700{other}\r\n",
    "-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
    "-CLUSTERDOWN Hash slot not served\r\n",
    "-NOPERM of {key}\r\n",
)
ELSEWHERE = (b"-TRYAGAIN", b"-CLUSTERDOWN", b"-ERR keyrail: the slot")


class Node:
    """One connection to a node, which answers one command after the other. ``replies`` have not arrived yet."""

    def __init__(self, chance: random.Random, upstream: Upstream, troubles: Sequence[str]) -> None:
        self.chance = chance
        self.upstream = upstream
        self.trouble = 0.0
        self.troubles = troubles
        self.requests = FrameReader()
        self.replies = b""
        self.asking = False

    def step(self) -> list[bytes] | None:
        """Answer one more command, which is returned, if there is one."""
        self.requests.feed(self.upstream.taken())
        frame = self.requests.frame()
        if frame is None:
            return None
        argv = cast("list[bytes]", decode(frame))
        asking, self.asking = self.asking, argv == [b"ASKING"]
        self.replies += b"+OK\r\n" if self.asking else self._reply(argv, asking)
        return argv

    def _reply(self, argv: Sequence[bytes], asking: bool) -> bytes:
        keys = keys_of(argv)
        if keys and self.chance.random() < (self.trouble / 4 if asking else self.trouble):
            return self._trouble(keys[0])
        return run(argv)

    def _trouble(self, key: bytes) -> bytes:
        slot, other = slot_of(key), (self.upstream.key.node.number + self.chance.choice([1, 2])) % len(NODES)
        error = self.chance.choice(self.troubles)
        return error.format(slot=slot, other=other, key=key.decode()).encode()

    def arrive(self, most: int) -> bool:
        """Some bytes of what it has answered reach Keyrail."""
        piece, self.replies = self.replies[:most], self.replies[most:]
        if piece:
            self.upstream.answer(piece)
        assert not self.upstream.complaints, self.upstream.complaints
        return bool(piece)


def keys_of(argv: Sequence[bytes]) -> Sequence[bytes]:
    """The keys of a command that the histories have."""
    match argv[0].upper():
        case b"MSET":
            return argv[1::2]
        case b"ECHO" | b"DBSIZE" | b"FLUSHALL":
            return ()
    return argv[1:]


def value(key: bytes) -> bytes:
    """The value of a key is its name, and as many bytes as that says."""
    size = int(key.rpartition(b":")[2] if b":" in key else b"0")
    return encode_bulk(key + bytes(size))


def number(key: bytes) -> int:
    """The number of a key that counts."""
    return int(re.sub(rb"^\{.\}|:.*$", b"", key))


def run(argv: Sequence[bytes]) -> bytes:
    """The reply of one node to a command, or of one Redis with all keys."""
    name = argv[0].upper()
    if name in SUMS:
        return b":%d\r\n" % sum(map(number, argv[1:]))
    match name:
        case b"GET" | b"ECHO":
            return value(argv[1])
        case b"INCR":
            return b":%d\r\n" % number(argv[1])
        case b"MGET":
            return b"*%d\r\n" % len(argv[1:]) + b"".join(map(value, argv[1:]))
        case b"DBSIZE":
            return b":1\r\n"
    return b"+OK\r\n"


class History:
    """What happens to the client, by chance of this seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        # Each history has some of what can be: what makes all others wait is not in all of them.
        self.others = tuple(kind for kind in OTHERS if self.chance.random() < 0.2)
        self.troubles = self.chance.sample(TROUBLES, self.chance.choice([1, 2, len(TROUBLES)]))
        self.refuses = self.chance.random() < 0.5
        self.route = ClusterRoute(POLICIES[self.refuses], window=64)
        self.client = Routed(self.route, ROUTERS)
        if self.chance.random() < 0.1:
            self.client.intake.config.split_commands = None  # the session splits
        self.remembers = self.chance.random() < 0.5
        if self.remembers:
            self.client.intake.cached_reads = self._memory()
        self.trouble = self.chance.choice([0.1, 0.3, 0.6])
        self.large = self.chance.random() < 0.2
        self.speeds = self.chance.sample(SPEEDS, len(NODES))
        self.numbers = count(1000)
        for tag in TAGS:  # it has a connection to each node
            self.client.say("GET", f"{{{tag}}}0")
            at = self.client.at({"a": 2, "b": 0, "c": 1}[tag])
            assert at.taken() == call("GET", f"{{{tag}}}0")
            at.answer(b"$-1\r\n")
        assert self.client.heard() == b"$-1\r\n" * 3
        self.asked: list[list[bytes]] = []
        self.told = 0
        self.frames = FrameReader()
        self.nodes: dict[int, Node] = {}
        self.lines: list[str] = []

    def _memory(self) -> CachedReads:
        cache = ReplyCache()
        source, memory = trusted(cache), ReplyMemory(1 << 20)
        cache.become_hot(set(HOT), ())
        for key in HOT:
            for request, reply in ((call("GET", key), encode_bulk(key)), (part_of(key), encode_array([key]))):
                found = cache.begin_fill(key)
                assert found is not None
                cache.keep(source, 0, memory, found, request, reply, reply, 0.75, 1e9, 1, 2)
                cache.end_fill(found)
        return CachedReads(cache, [cache], ROLES, lambda: 1.0, lambda: False, [CacheUse(1)])

    def play(self, steps: Sequence[int]) -> None:
        """Run these steps of it, and let all that is pending come to an end."""
        for step in steps:
            self.chance.seed(f"{self.seed} {step}")
            self.chance.choices(
                [self.speaks, self.nodes_answer, self.speeds_change, self.time_passes], [0.25, 0.65, 0.05, 0.05]
            )[0]()
            self.check_places()
            self.listen()
        self.chance.seed(f"{self.seed} end")
        rounds = 0
        while rounds < ROUNDS and self.told < len(self.asked):
            rounds += 1
            for connection in self.connections():
                self.goes_on(connection, 8)
            self.time_passes(0.2)
            self.listen()
        assert not self.client.gone, f"closed: {self.client.cause}"
        assert self.told == len(self.asked), f"{self.asked[self.told]} has no reply"
        sender = self.client.sender
        assert (sender.pending_replies, sender.order, sender.redirecting) == (0, None, False)

    # What happens

    def speaks(self) -> None:
        """One or a few commands, in one write or cut somewhere."""
        tags = self.chance.sample(TAGS, self.chance.choice([1, 2, 2, 3]))
        kinds = self.chance.choice([PLAIN, SPLIT, PLAIN + SPLIT + self.others])
        asked = [self.command(self.chance.choice(kinds), tags) for _ in range(self.chance.choice([1, 1, 2, 3, 6]))]
        self.asked += asked
        self.lines += [f"the client sends {b' '.join(argv).decode()}" for argv in asked]
        data = b"".join(call(*argv) for argv in asked)
        cut = self.chance.choice([len(data), self.chance.randrange(len(data))])
        for piece in filter(None, (data[:cut], data[cut:])):
            self.client.send(piece)

    def command(self, kind: str, tags: Sequence[str]) -> list[bytes]:
        """The words of the next command; if it is no split one, its keys are of these nodes."""
        if kind == "CACHED":
            return [b"GET", self.chance.choice(HOT)]
        if kind == "CACHED MGET":
            return [b"MGET", *self.chance.sample(HOT, 2)]
        if kind in ("FLUSHALL", "DBSIZE"):
            return [kind.encode()]
        split = kind in SPLIT
        chosen = self.chance.choices(TAGS if split else tags, k=self.chance.choice([1, 2, 2, 3]) if split else 1)
        keys = [self.key(chosen[0] if kind == "MSET" else tag) for tag in chosen]
        return [kind.encode(), *([word for key in keys for word in (key, b"v")] if kind == "MSET" else keys)]

    def key(self, tag: str) -> bytes:
        """One that no other command has."""
        name = b"{%b}%d" % (tag.encode(), next(self.numbers))
        return b"%b:%d" % (name, self.chance.choice([9, 9000, 70_000])) if self.large else name

    def connections(self) -> list[Node]:
        """All connections to nodes."""
        for upstream in self.route.all_upstreams():
            if id(upstream) not in self.nodes:
                self.nodes[id(upstream)] = Node(self.chance, upstream, self.troubles)
        for node in self.nodes.values():
            slow = self.speeds[node.upstream.key.node.number] == SLOW
            node.trouble = self.trouble if slow else self.trouble / 10
        return list(self.nodes.values())

    def nodes_answer(self) -> None:
        """Some nodes answer what they were sent, or some of it; some of their bytes arrive."""
        for each in self.connections():
            if self.chance.random() < self.speeds[each.upstream.key.node.number]:
                self.goes_on(each, self.chance.choice([1, 2, 8]))

    def goes_on(self, connection: Node, most: int) -> None:
        """The same of this connection, for up to so many commands."""
        while most > 0 and (argv := connection.step()) is not None:
            most -= 1
            self.lines.append(f"n{connection.upstream.key.node.number + 1} answers {b' '.join(argv).decode()}")
        size = len(connection.replies)
        connection.arrive(self.chance.choice([size, size, self.chance.randint(1, max(1, size))]))

    def speeds_change(self) -> None:
        """Another node is the slow one."""
        self.speeds = self.chance.sample(SPEEDS, len(NODES))
        self.lines.append(f"nodes answer this often: {self.speeds}")

    def time_passes(self, seconds: float = 0.05) -> None:
        """Commands may be sent again."""
        self.route.moment += seconds
        timers, self.route.timers = self.route.timers, []
        for act in timers:
            act()
        looking, self.client.nodes.looking = self.client.nodes.looking, []
        for waiter in looking:
            waiter.arrived()

    # What must hold

    def check_places(self) -> None:
        """Whoever has a reply in flight awaits it."""
        due: Counter[ReplySink] = Counter()
        for each in self.route.all_upstreams():
            for entry in each.entries():
                due[entry.sink] += entry.due
        for sink, replies in due.items():
            assert sink.client() is None or sink.pending_replies >= replies, "nobody awaits a reply that is in flight"

    def listen(self) -> None:
        """Each reply is the one of the command whose turn it is."""
        self.frames.feed(self.client.heard())
        while (frame := self.frames.frame()) is not None:
            assert self.told < len(self.asked), f"nobody has asked for {frame[:80]!r}"
            argv = self.asked[self.told]
            self.told += 1
            assert self.is_reply_to(argv, frame), f"{argv} got {frame[:80]!r}"
            self.lines.append(f"the client hears {frame[:40]!r}")

    def is_reply_to(self, argv: Sequence[bytes], frame: bytes) -> bool:
        """Whether only this command can have the reply."""
        if argv[0] == b"FLUSHALL" and self.refuses:
            return frame.startswith(b"-DENIED")
        if frame.startswith(b"-"):
            names_key = any(b"-NOPERM of " + key in frame for key in keys_of(argv))
            return self.trouble > 0 and bool(keys_of(argv)) and (names_key or frame.startswith(ELSEWHERE))
        return frame == (b":3\r\n" if argv[0] == b"DBSIZE" else run(argv))


def fault(seed: int, steps: Sequence[int]) -> tuple[str, list[str]] | None:
    """What went wrong in these steps of a history, and what happened until then; None if nothing did."""
    history = History(seed)
    try:
        history.play(steps)
    except Exception as error:  # noqa: BLE001 - whatever the program raises is what is looked for
        at = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} at {at.filename}:{at.lineno}: {error}", history.lines
    return None
