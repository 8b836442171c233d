"""A cache of a real engine: what Redis answers is what memory answers, however readers and writers are mixed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from proxy.hotpath.cache.cached_reply import ReplyMemory
from proxy.hotpath.upstream.in_flight import ReplySink
from proxy.local_cache.expected import CacheBounds, CachedRequest
from proxy.local_cache.fills import PING_EVERY
from proxy.net.cache.tracked_database import TrackedDatabase
from proxy.net.cache.tracking_setup import FieldTtls
from proxy.net.config.address import parse_upstream
from proxy.net.connection.connect import open_upstream
from proxy.net.connection.group_counts import counts_in
from proxy.net.connection.own_connections import OwnConnections
from proxy.net.connection.upstream import Keeper, UpstreamConnection
from proxy.session.ports.pool_key import SOLE_NODE, PoolKey
from proxy.wire.encode import encode_command
from tests.conftest import Fleet
from tests.engines import Engine
from tests.resp import until

BOUNDS = CacheBounds(max_age=30.0, max_value=1000, memory=ReplyMemory(1 << 20), served=1, audited=0)
PATIENCE = 20.0


class Client(ReplySink):
    """A client of the worker, with a connection of its own; what it has read of each key never goes back."""

    def __init__(self, upstream: UpstreamConnection) -> None:
        super().__init__()
        self.upstream = upstream
        self.known: dict[bytes, int] = {}

    async def ask(self, *argv: bytes | str | int) -> bytes:
        """Forward a command that has been announced to the cache."""
        self.requested += 1
        self.pending_replies += 1
        reply = await self.upstream.ask(argv)
        self.pending_replies -= 1
        return reply


class Worker:
    """A tracked database, and what clients do through it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.events: list[str] = []
        self.loop = asyncio.get_running_loop()
        self.users = counts_in(memoryview(bytearray(16)), 1, 0).users
        self.tracked = TrackedDatabase(
            lambda _, keeper: self.open(keeper), lambda _: None, self.loop, self.users, self.events.append, SOLE_NODE
        )
        server = self.tracked.server_of(b"")
        assert server is not None
        self.server = server
        self.server.wanted = True
        self.hits = 0
        self._ticker = self.loop.create_task(self._tick())
        self._keeper = OwnConnections(self.events.append)
        self._clients: list[UpstreamConnection] = []

    async def open(self, keeper: Keeper, protocol: int = 3) -> UpstreamConnection:
        address = parse_upstream(self.engine.url)
        return (await open_upstream(address, None, keeper, PoolKey(None, 0, protocol), self.loop)).upstream

    async def client(self) -> Client:
        upstream = await self.open(self._keeper, 2)
        self._clients.append(upstream)
        return Client(upstream)

    async def _tick(self) -> None:
        while True:
            self.tracked.tick()
            await asyncio.sleep(PING_EVERY / 5)

    async def connected(self) -> None:
        await until(lambda: self.tracked.connected and self.server.source.until > self.loop.time())

    async def close(self) -> None:
        self._ticker.cancel()
        self.tracked.close()
        for upstream in self._clients:
            upstream.abort()
        await asyncio.sleep(0)

    def found(self, *argv: bytes, now: float | None = None) -> bytes | None:
        """The reply from memory, as a client would get it now."""
        if self.tracked.unread():
            return None
        reply = self.tracked.cache.find(encode_command(argv), self.loop.time() if now is None else now)
        return None if reply is None else reply.resp3

    async def filled(self, *argv: bytes, fields: tuple[bytes, ...] = ()) -> bool:
        """Fill a reply; whether one is found then."""
        over = asyncio.Event()
        read = CachedRequest(argv[1], encode_command(argv), fields, bytes)
        if not self.tracked.fill(read, BOUNDS, over.set):
            return False
        await asyncio.wait_for(over.wait(), PATIENCE)
        return self.found(*argv) is not None

    async def read(self, client: Client, key: bytes) -> None:
        """GET through the cache, or from Redis if it has nothing; a client never goes back."""
        reply = self.found(b"GET", key)
        if reply is not None:
            self.hits += 1
        elif not await self.filled(b"GET", key):
            self.tracked.cache.hold(key, client, client.requested + 1)
            reply = await client.ask("GET", key)
        else:
            return
        version = 0 if reply.startswith((b"_", b"$-1")) else int(reply.split(b"\r\n")[1])
        assert version == 0 or version >= client.known.get(key, 0), f"{key!r} went back to {version}: {client.known}"
        client.known[key] = max(version, client.known.get(key, 0))


def run(engine: Engine, play: Callable[[Worker], Awaitable[None]]) -> Worker:
    async def played() -> Worker:
        worker = Worker(engine)
        try:
            await worker.connected()
            await play(worker)
        finally:
            await worker.close()
        return worker

    return asyncio.run(played())


@pytest.fixture
def engine(fleet: Fleet, engine_name: str) -> Engine:
    engine = fleet.engine(engine_name)
    engine.do("FLUSHALL")
    return engine


def test_a_change_by_anybody_is_seen(engine: Engine) -> None:
    async def play(worker: Worker) -> None:
        direct = await worker.client()
        for change in (
            ["SET", "k", "2"],
            ["DEL", "k"],
            ["SET", "k", "3"],
            ["PEXPIRE", "k", "50000"],
            ["RENAME", "k", "other"],
            ["COPY", "other", "k"],
            ["EVAL", "return redis.call('set', 'k', '4')", "0"],
            ["FLUSHDB"],
            ["APPEND", "k", "5"],
            ["FLUSHALL"],
        ):
            assert await worker.filled(b"GET", b"k")
            await direct.upstream.ask(change)
            await until(lambda: worker.found(b"GET", b"k") is None)

    run(engine, play)


def test_what_redis_has_sent_is_taken_in_before_an_answer(engine: Engine) -> None:
    """Although the event loop has not come to it; who waits is told when the loop goes on."""

    async def play(worker: Worker) -> None:
        assert await worker.filled(b"GET", b"k")
        engine.do("SET", "k", "2")
        engine.do("PING")  # behind it, the invalidation has left
        assert worker.found(b"GET", b"k") is None
        assert not worker.tracked.unread()
        over: list[bool] = []
        read = CachedRequest(b"k", encode_command([b"GET", b"k"]), (), bytes)
        worker.tracked.take_changes()
        assert worker.tracked.fill(read, BOUNDS, lambda: over.append(True))
        await asyncio.sleep(0)  # the question has been sent
        assert any(engine.do("PING") and worker.found(b"GET", b"k") for _ in range(1000))
        assert over == []
        await until(lambda: bool(over))

    run(engine, play)


def test_encrypted_bytes_are_left_to_the_event_loop(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(worker: Worker) -> None:
        assert await worker.filled(b"GET", b"k")
        monkeypatch.setattr(worker.server, "_encrypted", True)
        engine.do("SET", "k", "2")
        engine.do("PING")
        assert worker.tracked.unread()
        await until(lambda: not worker.tracked.unread())
        assert worker.found(b"GET", b"k") is None
        assert worker.tracked.take_changes() == {b"k": 1}
        assert worker.tracked.take_changes() == {}

    run(engine, play)


def test_a_key_ends_in_memory_when_it_does_in_redis(engine: Engine) -> None:
    async def play(worker: Worker) -> None:
        client = await worker.client()
        for _ in range(20):
            await client.upstream.ask(["SET", "k", "v", "PX", "40"])
            ends = worker.loop.time() + 0.04
            filled = await worker.filled(b"GET", b"k")
            now = worker.loop.time()
            while filled and worker.found(b"GET", b"k", now=now) == b"$1\r\nv\r\n":
                assert now < ends
                await asyncio.sleep(0)
                now = worker.loop.time()

    run(engine, play)


def test_fields_with_a_ttl_of_their_own(engine: Engine) -> None:
    async def play(worker: Worker) -> None:
        client = await worker.client()
        await client.upstream.ask(["HSET", "h", "a", "1", "b", "2"])
        fields_expire = not (await client.upstream.ask(["HEXPIRE", "h", "20", "FIELDS", "1", "a"])).startswith(b"-")
        assert worker.server.field_ttls is (FieldTtls.ASKED if fields_expire else FieldTtls.NONE)
        if not fields_expire:
            return
        read = (b"HMGET", b"h", b"a", b"b")
        assert await worker.filled(*read, fields=(b"a", b"b"))
        kept = worker.tracked.cache.find(encode_command(read), worker.loop.time())
        assert kept is not None
        assert (kept.resp3, kept.ends < worker.loop.time() + 20) == (b"*2\r\n$1\r\n1\r\n$1\r\n2\r\n", True)
        await client.upstream.ask(["HPEXPIRE", "h", "20", "FIELDS", "1", "a"])
        async with asyncio.timeout(PATIENCE):
            while worker.found(*read) != b"*2\r\n_\r\n$1\r\n2\r\n":
                await worker.filled(*read, fields=(b"a", b"b"))

    run(engine, play)


def test_a_killed_connection_leaves_an_empty_cache_and_is_replaced(engine: Engine) -> None:
    async def play(worker: Worker) -> None:
        assert await worker.filled(b"GET", b"k")
        killer = await worker.client()
        await killer.upstream.ask(["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])
        await until(lambda: not worker.tracked.connected)
        assert len(worker.tracked.cache) == 0
        assert worker.found(b"GET", b"k") is None
        await worker.connected()
        while not await worker.filled(b"GET", b"k"):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)

    run(engine, play)


def test_a_frozen_redis_is_not_trusted_for_long(new_engine: Callable[[], Engine]) -> None:
    engine = new_engine()

    async def play(worker: Worker) -> None:
        assert await worker.filled(b"GET", b"k")
        engine.freeze()
        try:
            await until(lambda: worker.found(b"GET", b"k") is None)
            await until(lambda: len(worker.tracked.cache) == 0)
        finally:
            engine.thaw()
        await worker.connected()
        assert "cache_silent" in worker.events

    run(engine, play)


def test_an_engine_that_allows_no_tracking_says_so(fleet: Fleet, engine_name: str) -> None:
    engine = fleet.engine(engine_name)
    engine.do("ACL", "SETUSER", "default", "-client|tracking" if engine.kind.version >= (7, 0) else "-client")

    async def play() -> None:
        worker = Worker(engine)
        try:
            await until(lambda: bool(worker.server.refused))
        finally:
            await worker.close()
        assert "NOPERM" in worker.server.refused
        assert worker.found(b"GET", b"k") is None

    try:
        asyncio.run(play())
    finally:
        engine.do("ACL", "SETUSER", "default", "+@all")


KEYS = [b"k1", b"k2", b"k3"]
WRITE = """
local version = redis.call('incr', 'version')
redis.call('set', ARGV[1], version, 'PX', ARGV[2])
return version
"""
"""Redis counts versions, as connections are not served in the order in which clients send."""


@pytest.mark.parametrize("operations", [1000, pytest.param(3000, marks=pytest.mark.long)])
def test_no_client_misses_its_own_write_or_goes_back(engine: Engine, operations: int) -> None:
    """Versions only grow: each client reads at least what it has written, and what it has read before."""

    async def live(worker: Worker, rng: random.Random) -> None:
        client, cache = await worker.client(), worker.tracked.cache
        done = 0
        while done < operations or worker.hits <= operations:
            done += 1
            key = rng.choice(KEYS)
            action = rng.random()
            if action < 0.9:
                await worker.read(client, key)
                if action < 0.3:
                    await asyncio.sleep(0)
                continue
            position = client.requested + 1
            if action < 0.98:
                if action < 0.95:
                    cache.hold(key, client, position)
                else:
                    cache.hold_back(client, position)
                reply = await client.ask("EVAL", WRITE, 0, key, rng.choice([3, 50_000]))
                version = int(reply[1:])
            else:
                cache.hold(key, client, position)
                await client.ask("PEXPIRE", key, 5)
                version = 0
            client.known[key] = max(version, client.known.get(key, 0))

    async def direct(worker: Worker, rng: random.Random) -> None:
        client = await worker.client()
        for _ in range(operations // 20):
            await client.upstream.ask(["EVAL", WRITE, 0, rng.choice(KEYS), 50_000])
            await asyncio.sleep(0.002)

    async def play(worker: Worker) -> None:
        rngs = [random.Random(seed) for seed in range(6)]
        async with asyncio.TaskGroup() as tasks:
            for rng in rngs[:5]:
                tasks.create_task(live(worker, rng))
            tasks.create_task(direct(worker, rngs[5]))

    run(engine, play)
