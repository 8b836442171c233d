"""A model of Redis with one tracking connection, and of a worker whose clients read and write through a reply cache.

Nothing happens by itself: each step is one event somewhere, so a list of steps is one interleaving. After each answer
from memory the model checks what an application could notice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from proxy.hotpath.cached_reply import ReplyMemory
from proxy.hotpath.in_flight import ReplySink
from proxy.hotpath.reply_cache import ReplyCache
from proxy.local_cache.fills import CacheBounds, CachedRequest, Fills
from proxy.wire.encode import encode_command

KEYS = (b"a", b"b", b"large")
BOUNDS = CacheBounds(max_age=2.0, max_value=100, memory=ReplyMemory(1 << 20), served=1, audited=0)
MOST_STALE = 1.1
"""Seconds: what Redis has changed so long ago is seen, whether or not Redis still says anything."""


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
    version: int = 0

    def look(self, key: bytes) -> int:
        return self.values[key].seen(self.now) if key in self.values else 0

    def write(self, key: bytes, expires: float | None, *, delete: bool = False, silent: bool = False) -> int:
        """A new version, which is returned; deleted keys have one too."""
        self.version += 1
        self._set(key, Value(0 if delete else self.version, self.now, expires))
        if not silent:
            self.invalidate(key)
        return self.version

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
        self.tracked.clear()
        self._push(b"_\r\n", KEYS)

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


@dataclass
class Sent:
    """A command of a client: what it does when Redis runs it, and what the client knows when it is answered."""

    client: ReplySink
    kind: str
    key: bytes
    expires: float | None = None
    result: dict[bytes, int] = field(default_factory=dict)


class World:
    """A worker with two clients, each with a connection of its own to Redis."""

    def __init__(self) -> None:
        self.redis = ModelRedis()
        self.cache = ReplyCache()
        self.clients = (ReplySink(), ReplySink())
        self.to_redis: dict[ReplySink, deque[Sent]] = {client: deque() for client in self.clients}
        self.to_client: dict[ReplySink, deque[Sent]] = {client: deque() for client in self.clients}
        self.known: dict[bytes, int] = {}
        self.served = 0
        self.connect()

    def connect(self) -> None:
        self.redis.disconnect()
        self.fills = Fills(self.cache, self._ask, self.redis.now)

    def _ask(self, data: bytes) -> None:
        words = data.split(b"\r\n")
        while len(words) > 1:
            count = int(words[0][1:])
            self.redis.asked.append(words[2 : 1 + 2 * count : 2])
            words = words[1 + 2 * count :]

    # Steps

    def read(self, key: bytes) -> None:
        """A client reads. Without a reply in memory, a fill is begun."""
        request = encode_command([b"GET", key])
        reply = self.cache.find(request, self.redis.now)
        if reply is None:
            read = CachedRequest(key, request, (), lambda frame: frame.replace(b"_", b"$-1"))
            self.fills.begin(read, BOUNDS, self.redis.now, lambda: None)
        elif reply.resp3 is not None:
            self.served += 1
            self._check(key, 0 if reply.resp3 == b"_\r\n" else int(reply.resp3.split(b"\r\n")[1].rstrip(b".")))

    def send(self, client: ReplySink, kind: str, key: bytes, expires: float | None = None) -> None:
        """A client's command is forwarded: a write, a read that Redis answers, or one whose keys are unknown."""
        client.requested += 1
        client.pending_replies += 1
        if kind == "script":
            self.cache.hold_back(client, client.requested)
        elif kind == "swap":
            self.cache.hold_back(client, client.requested, forget=True)
        else:
            self.cache.hold(key, client, client.requested)
        self.to_redis[client].append(Sent(client, kind, key, expires))

    def run(self, client: ReplySink) -> None:
        """Redis runs the next command of a client."""
        if not self.to_redis[client]:
            return
        sent = self.to_redis[client].popleft()
        redis = self.redis
        match sent.kind:
            case "look":
                sent.result[sent.key] = redis.look(sent.key)
            case "delete":
                sent.result[sent.key] = redis.write(sent.key, None, delete=True)
            case "swap":
                for key in KEYS:
                    sent.result[key] = redis.write(key, None, silent=True)
            case _:
                expires = None if sent.expires is None else redis.now + sent.expires
                sent.result[sent.key] = redis.write(sent.key, expires)
        self.to_client[client].append(sent)

    def answer(self, client: ReplySink) -> None:
        """The worker gets the reply, and the client knows what it has done or seen."""
        if self.to_client[client]:
            sent = self.to_client[client].popleft()
            client.pending_replies -= 1
            for key, version in sent.result.items():
                self.known[key] = max(self.known.get(key, 0), version)

    def deliver(self, size: int) -> None:
        """The worker reads so many bytes of its tracking connection."""
        self.fills.receive(self.redis.deliver(size), self.redis.now)

    def tick(self) -> None:
        if not self.fills.tick(self.redis.now):
            self.lose()

    def lose(self) -> None:
        self.fills.lost()
        self.connect()

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

    # Checks

    def _check(self, key: bytes, served: int) -> None:
        redis = self.redis
        current = redis.look(key)
        if served != current and not redis.told(key):
            raise Noticed(f"{key!r}: {served} came from memory, Redis has {current}, and says no more about it")
        states = redis.history.get(key, [])
        last = next((place for place, state in enumerate(states) if state.version == served and served), None)
        if served and last is None:
            raise Noticed(f"{key!r}: version {served} never was")
        if served and served < self.known.get(key, 0):
            raise Noticed(f"{key!r}: version {served} came from memory, but a client knows {self.known[key]}")
        if not served and self._was_there_since_known(key):
            raise Noticed(f"{key!r} is missing in memory, but was there since a client knows {self.known[key]}")
        if current != served and self._ended(key, served) < redis.now - MOST_STALE:
            raise Noticed(f"{key!r}: {served} is too old")
        if served:
            self.known[key] = max(self.known.get(key, 0), served)

    def _ended(self, key: bytes, served: int) -> float:
        """When the version was the current one for the last time."""
        states = self.redis.history.get(key, [])
        ends = [self.redis.now if not states else states[0].since] if not served else []
        for place, state in enumerate(states):
            end = states[place + 1].since if place + 1 < len(states) else self.redis.now
            if state.version == served:
                ends.append(end if state.expires is None or not served else min(end, state.expires))
            elif not served and state.expires is not None and state.expires < end:
                ends.append(end)
        return max(ends, default=0.0)

    def _was_there_since_known(self, key: bytes) -> bool:
        """Whether the key has not been missing since the state that a client knows."""
        known = self.known.get(key, 0)
        if not known:
            return False
        since = [state for state in self.redis.history[key] if state.version >= known or not state.version]
        for place, state in enumerate(self.redis.history[key]):
            if state.version == known:
                since = self.redis.history[key][place:]
        return not any(
            not state.version or (state.expires is not None and state.expires <= self.redis.now) for state in since
        )
