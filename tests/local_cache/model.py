"""A model of Redis with one tracking connection, and of a worker whose clients read and write through a reply cache.

Nothing happens by itself: each step is one event somewhere, so a list of steps is one interleaving. After each answer
from memory the model checks what an application could notice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count

from proxy.hotpath.cache.cached_reply import ReplyMemory, ReplySource
from proxy.hotpath.cache.reply_cache import ReplyCache
from proxy.hotpath.upstream.in_flight import ReplySink
from proxy.local_cache.barrier import Barrier
from proxy.local_cache.expected import CacheBounds, CachedRequest
from proxy.local_cache.fills import Fills
from proxy.wire.encode import encode_command

KEYS = (b"a", b"b", b"large")
BOUNDS = CacheBounds(max_age=2.0, max_value=100, memory=ReplyMemory(1 << 20), served=1, audited=0)
MOST_STALE = 1.1
"""Seconds: what Redis has changed so long ago is seen, whether or not Redis still says anything."""


def trusted(cache: ReplyCache, until: float = 100.0) -> ReplySource:
    """A source that has answered a moment ago."""
    source = ReplySource(cache)
    source.until = until
    return source


def get(key: bytes) -> CachedRequest:
    """GET of this key."""
    return CachedRequest(key, encode_command([b"GET", key]), (), lambda frame: frame.replace(b"_", b"$-1"))


class Noticed(AssertionError):
    """An application could notice that it was answered from memory."""


@dataclass
class Value:
    """What a key holds since ``since``: a version, 0 for nothing, up to ``expires``."""

    version: int
    since: float
    expires: float | None = None

    def seen(self, now: float) -> int:
        """The version that a read gets."""
        return 0 if self.expires is not None and now >= self.expires else self.version


@dataclass
class ModelRedis:
    """One database. ``to_worker`` is what Redis has sent on the tracking connection and the worker has not read."""

    now: float = 100.0
    values: dict[bytes, Value] = field(default_factory=dict)
    history: dict[bytes, list[Value]] = field(default_factory=dict)
    tracked: set[bytes] = field(default_factory=set)
    asked: deque[list[bytes]] = field(default_factory=deque)
    to_worker: bytearray = field(default_factory=bytearray)
    delivered: int = 0
    pushes: list[tuple[int, bytes]] = field(default_factory=list)
    versions: Iterator[int] = field(default_factory=lambda: count(1))

    def look(self, key: bytes) -> int:
        return self.values[key].seen(self.now) if key in self.values else 0

    def write(self, key: bytes, expires: float | None, *, delete: bool = False, silent: bool = False) -> int:
        """A new version, which is returned; deleted keys have one too."""
        version = next(self.versions)
        self._set(key, Value(0 if delete else version, self.now, expires))
        if not silent:
            self.invalidate(key)
        return version

    def expire(self, key: bytes, seconds: float) -> None:
        if self.look(key):
            self._set(key, Value(self.values[key].version, self.now, self.now + seconds))
            self.invalidate(key)

    def _set(self, key: bytes, value: Value) -> None:
        before = self.values.get(key)
        if before is not None and before.expires is not None and before.expires <= self.now:
            self.history.setdefault(key, []).append(Value(0, before.expires))
        self.values[key] = value
        self.history.setdefault(key, []).append(value)

    def remove_expired(self, key: bytes) -> bool:
        """Redis looks at the key, or meets it by chance, and removes it."""
        value = self.values.get(key)
        if value is None or not value.version or value.seen(self.now):
            return False
        self._set(key, Value(0, self.now))
        return True

    def invalidate(self, key: bytes) -> None:
        if key in self.tracked:
            self.tracked.discard(key)
            self._push(b"*1\r\n$%d\r\n%b\r\n" % (len(key), key), [key])

    def _push(self, payload: bytes, keys: Iterable[bytes]) -> None:
        self.to_worker += b">2\r\n$10\r\ninvalidate\r\n" + payload
        self.pushes += [(self.delivered + len(self.to_worker), key) for key in keys]

    def flush(self) -> None:
        for key in KEYS:
            self.write(key, None, delete=True, silent=True)
        self.tell_all(KEYS)

    def tell_all(self, keys: Iterable[bytes]) -> None:
        """All keys have changed, these among them."""
        self.tracked.clear()
        self._push(b"_\r\n", keys)

    def ask(self, data: bytes) -> None:
        """Commands have come on the tracking connection."""
        words = data.split(b"\r\n")
        while len(words) > 1:
            length = int(words[0][1:])
            self.asked.append(words[2 : 1 + 2 * length : 2])
            words = words[1 + 2 * length :]

    def run_asked(self) -> None:
        """Run the next command of the tracking connection. What it expires itself is told behind its reply."""
        if not self.asked:
            return
        name, *arguments = self.asked.popleft()
        if name == b"PING":
            self.to_worker += b"+PONG\r\n"
            return
        key = arguments[0]
        told = key in self.tracked and self.remove_expired(key)
        version = self.look(key)
        if name == b"PTTL":
            expires = self.values[key].expires if version else None
            left = -2 if not version else -1 if expires is None else int((expires - self.now) * 1000)
            self.to_worker += b":%d\r\n" % left
        else:
            value = b"%d" % version + b"." * (200 if key == b"large" else 0)
            self.to_worker += b"$%d\r\n%b\r\n" % (len(value), value) if version else b"_\r\n"
        self.tracked.add(key)
        if told:
            self._push(b"*1\r\n$%d\r\n%b\r\n" % (len(key), key), [key])

    def deliver(self, size: int) -> bytes:
        """The worker reads so many bytes."""
        data = bytes(self.to_worker[:size])
        del self.to_worker[:size]
        self.delivered += len(data)
        self.pushes = [(end, key) for end, key in self.pushes if end > self.delivered]
        return data

    def disconnect(self) -> None:
        """The tracking connection is lost."""
        self.asked.clear()
        self.to_worker.clear()
        self.pushes.clear()
        self.tracked.clear()

    def told(self, key: bytes) -> bool:
        """Whether the worker has not read all of an invalidation that is about the key."""
        return any(each == key for _, each in self.pushes)


class Applications:
    """What applications know of each key, by ``history``: they notice what contradicts it. ``most_stale``: in so many
    seconds what Redis has changed is seen."""

    def __init__(self, history: dict[bytes, list[Value]], most_stale: float = MOST_STALE) -> None:
        self._history = history
        self._most_stale = most_stale
        self._known: dict[bytes, int] = {}
        self._known_to: dict[tuple[ReplySink, bytes], int] = {}
        self.served = 0

    def learn(self, key: bytes, version: int) -> None:
        """A client has written or seen this version."""
        self._known[key] = max(self._known.get(key, 0), version)

    def learn_alone(self, client: ReplySink, key: bytes, version: int) -> None:
        """This client has seen this version, and has told nobody."""
        self._known_to[client, key] = max(self._known_to.get((client, key), 0), version)

    def read(
        self, key: bytes, payload: bytes, current: int, now: float, *, told: bool, client: ReplySink | None = None
    ) -> None:
        """This came from memory, while Redis has the ``current`` version. ``told``: Redis has said that it changed."""
        self.served += 1
        served = 0 if payload == b"_\r\n" else int(payload.split(b"\r\n")[1].rstrip(b"."))
        if served != current and not told:
            raise Noticed(f"{key!r}: {served} came from memory, Redis has {current}, and says no more about it")
        known = self._known.get(key, 0)
        if client is not None and served and served < self._known_to.get((client, key), 0):
            raise Noticed(f"{key!r}: version {served} came from memory, but this client has seen a newer one")
        states = self._history.get(key, [])
        last = next((place for place, state in enumerate(states) if state.version == served and served), None)
        if served and last is None:
            raise Noticed(f"{key!r}: version {served} never was")
        if served and served < known:
            raise Noticed(f"{key!r}: version {served} came from memory, but a client knows {known}")
        if not served and self._was_there_since_known(key, now):
            raise Noticed(f"{key!r} is missing in memory, but was there since a client knows {known}")
        if current != served and self._ended(key, served, now) < now - self._most_stale:
            raise Noticed(f"{key!r}: {served} is too old")
        if served:
            self.learn(key, served)

    def _ended(self, key: bytes, served: int, now: float) -> float:
        """When the version was the current one for the last time."""
        states = self._history.get(key, [])
        ends = [now if not states else states[0].since] if not served else []
        for place, state in enumerate(states):
            end = states[place + 1].since if place + 1 < len(states) else now
            if state.version == served:
                ends.append(end if state.expires is None or not served else min(end, state.expires))
            elif not served and state.expires is not None and state.expires < end:
                ends.append(end)
        return max(ends, default=0.0)

    def _was_there_since_known(self, key: bytes, now: float) -> bool:
        """Whether the key has not been missing since the state that a client knows."""
        known = self._known.get(key, 0)
        if not known:
            return False
        since = [state for state in self._history[key] if state.version >= known or not state.version]
        for place, state in enumerate(self._history[key]):
            if state.version == known:
                since = self._history[key][place:]
        return not any(not state.version or (state.expires is not None and state.expires <= now) for state in since)


@dataclass
class Sent:
    """A command of a client: what it does when Redis runs it, and what the client knows when it is answered."""

    client: ReplySink
    kind: str
    key: bytes
    expires: float | None = None
    result: dict[bytes, int] = field(default_factory=dict)

    def run(self, redis: ModelRedis) -> None:
        """Redis runs it."""
        match self.kind:
            case "look" | "look everywhere":
                self.result[self.key] = redis.look(self.key)
            case "delete":
                self.result[self.key] = redis.write(self.key, None, delete=True)
            case "swap":
                for key in KEYS:
                    self.result[key] = redis.write(key, None, silent=True)
            case _:
                expires = None if self.expires is None else redis.now + self.expires
                self.result[self.key] = redis.write(self.key, expires)


class World:
    """A worker with two clients, each with a connection of its own to Redis."""

    def __init__(self) -> None:
        self.redis = ModelRedis()
        self.cache = ReplyCache()
        self.source = ReplySource(self.cache)
        self.barrier = Barrier(self.cache, lambda: [self.fills])
        self.clients = (ReplySink(), ReplySink())
        self.to_redis: dict[ReplySink, deque[Sent]] = {client: deque() for client in self.clients}
        self.to_client: dict[ReplySink, deque[Sent]] = {client: deque() for client in self.clients}
        self.applications = Applications(self.redis.history)
        self.connect()

    def connect(self) -> None:
        self.redis.disconnect()
        self.fills = Fills(self.cache, self.source, self.redis.ask, self.redis.now)

    # Steps

    def read(self, key: bytes, client: ReplySink | None = None) -> None:
        """A client reads. Without a reply in memory, a fill is begun."""
        read = get(key)
        if client in self.cache.looking:
            return
        reply = self.cache.find(read.request, self.redis.now)
        if reply is None:
            self.fills.begin(read, BOUNDS, self.redis.now, lambda: None)
        elif reply.resp3 is not None:
            told = self.redis.told(key)
            self.applications.read(key, reply.resp3, self.redis.look(key), self.redis.now, told=told, client=client)

    def send(self, client: ReplySink, kind: str, key: bytes, expires: float | None = None) -> None:
        """A client's command is forwarded: a write, a read that Redis answers, or one whose keys are unknown."""
        client.requested += 1
        client.pending_replies += 1
        if kind == "script":
            self.cache.hold_back(client, client.requested)
        elif kind == "swap":
            self.cache.hold_back(client, client.requested, forget=True)
        elif kind == "look everywhere":
            self.cache.look(client, client.requested)
        else:
            self.cache.hold(key, client, client.requested)
        self.to_redis[client].append(Sent(client, kind, key, expires))

    def run(self, client: ReplySink) -> None:
        """Redis runs the next command of a client."""
        if not self.to_redis[client]:
            return
        sent = self.to_redis[client].popleft()
        sent.run(self.redis)
        self.to_client[client].append(sent)

    def answer(self, client: ReplySink) -> None:
        """The worker gets the reply, and the client knows what it has done or seen."""
        if self.to_client[client]:
            sent = self.to_client[client].popleft()
            client.pending_replies -= 1
            for key, version in sent.result.items():
                if sent.kind == "look everywhere":
                    self.applications.learn_alone(client, key, version)
                else:
                    self.applications.learn(key, version)

    def deliver(self, size: int) -> None:
        """The worker reads so many bytes of its tracking connection."""
        self.fills.receive(self.redis.deliver(size), self.redis.now)

    def tick(self) -> None:
        if not self.fills.tick(self.redis.now):
            self.lose()
        self.barrier.settle(self.redis.now)

    def lose(self) -> None:
        lost = self.fills
        lost.lost()
        self.connect()
        self.barrier.passed(lost, self.redis.now)

    def settle(self) -> None:
        """Everything that is under way comes to an end."""
        for client in self.clients:
            while self.to_redis[client]:
                self.run(client)
            while self.to_client[client]:
                self.answer(client)
        for _ in range(3):
            while self.redis.asked:
                self.redis.run_asked()
            self.deliver(len(self.redis.to_worker))
            self.tick()
