"""Clients of a route with a local cache, in front of a real engine: who is answered from memory, and who is not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from proxy.net import local_caches
from proxy.net.address import parse_listen, parse_upstream
from proxy.net.admission import Admission
from proxy.net.entrance import Entrance
from proxy.net.plan_compiler import PlanCompiler
from proxy.net.route import Route
from proxy.net.settings import ListenerSettings, PolicySource, RouteSettings, Settings
from proxy.net.topology import Single
from proxy.net.user_changes import of_one_worker
from proxy.policy.model import Policy
from proxy.wire.encode import encode_command
from tests.conftest import Fleet
from tests.engines import Engine
from tests.policy.given import policy
from tests.resp import FrameReader

PATIENCE = 30.0
ALWAYS = policy("""
    rules:
      cached: {local_cache: {keys: ["k*", "h*"], when: always, max_age: 30s}, mode: enforce}
""")
AUDITED = policy("""
    rules:
      cached: {local_cache: {keys: ["k*"], when: always}, mode: audit}
""")
HOT = policy("""
    rules:
      cached: {local_cache: {keys: ["k*"]}, mode: enforce}
""")


class Client:
    """A client that asks one command after the other, or several at once."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._frames = FrameReader()

    async def ask(self, *argv: bytes | str | int) -> bytes:
        return (await self.pipe(argv))[0]

    async def pipe(self, *commands: tuple[bytes | str | int, ...]) -> list[bytes]:
        words = ([word if isinstance(word, bytes) else str(word).encode() for word in argv] for argv in commands)
        self._writer.write(b"".join(map(encode_command, words)))
        return [await self._frame() for _ in commands]

    async def _frame(self) -> bytes:
        async with asyncio.timeout(PATIENCE):
            while (frame := self._frames.frame()) is None:
                data = await self._reader.read(1 << 16)
                assert data, "closed"
                self._frames.feed(data)
            return frame

    def close(self) -> None:
        self._writer.close()


class Keyrail:
    """A route in this process."""

    def __init__(self, engine: Engine, rules: Policy, traces: int) -> None:
        address = parse_upstream(engine.url)
        self.engine = engine
        self.settings = RouteSettings("r", (), address, PolicySource())
        loop = asyncio.get_running_loop()
        self.route = Route(
            self.settings,
            Settings((self.settings,), traces=traces),
            Single(address),
            rules,
            loop,
            1,
            PlanCompiler(rules).find,
            lambda _: loop.create_future(),
            False,
            None,
            lambda: None,
            Admission(100),
            of_one_worker(),
        )
        self._clients: list[Client] = []

    async def begin(self) -> None:
        await self.route.start()
        async with asyncio.timeout(PATIENCE):
            while not self.route.snapshot()["ready"]:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
        route: Any = self.route
        listener = ListenerSettings(parse_listen("redis://127.0.0.1:0"))
        entrance = Entrance(
            listener, route._connections.pools.home, route._capabilities, route._logins, route.loop.time
        )
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: route._new_client(entrance), "127.0.0.1", 0)

    async def client(self, *first: bytes | str | int) -> Client:
        client = Client(*await asyncio.open_connection(*self._server.sockets[0].getsockname()))
        self._clients.append(client)
        if first:
            assert not (await client.ask(*first)).startswith(b"-")
        return client

    def figures(self) -> dict[str, float]:
        return dict(self.route.snapshot()["local_cache"])

    async def cached(self, client: Client, *read: bytes | str | int) -> bytes:
        """Read until memory has answered."""
        async with asyncio.timeout(PATIENCE):
            while True:
                before = self.figures()["hits"]
                reply = await client.ask(*read)
                if self.figures()["hits"] > before:
                    return reply
                await asyncio.sleep(0.01)

    async def asked(self, client: Client, *read: bytes | str | int) -> tuple[bytes, bool]:
        """The reply, and whether Redis was asked by the client's own command."""
        before = self.figures()
        reply = await client.ask(*read)
        return reply, self.figures()["hits"] == before["hits"]

    async def end(self) -> None:
        for client in self._clients:
            client.close()
        self._server.close()
        self.route.close()
        await asyncio.sleep(0)


@pytest.fixture
def engine(fleet: Fleet, engine_name: str) -> Engine:
    engine = fleet.engine(engine_name)
    engine.do("FLUSHALL")
    return engine


def run(
    engine: Engine, play: Callable[[Keyrail], Awaitable[None]], rules: Policy = ALWAYS, traces: int = 0
) -> dict[str, Any]:
    async def played() -> dict[str, Any]:
        keyrail = Keyrail(engine, rules, traces)
        await keyrail.begin()
        try:
            await play(keyrail)
            return keyrail.route.snapshot()
        finally:
            await keyrail.end()

    return asyncio.run(played())


@pytest.mark.parametrize("traces", [0, 1_000_000])
def test_a_client_reads_what_it_and_others_have_written(engine: Engine, traces: int) -> None:
    async def play(keyrail: Keyrail) -> None:
        writer, reader = await keyrail.client(), await keyrail.client()
        await writer.ask("SET", "k1", "a")
        assert await keyrail.cached(reader, "GET", "k1") == b"$1\r\na\r\n"
        for number in range(50):
            assert await writer.ask("SET", "k1", number) == b"+OK\r\n"
            for client in (writer, reader):
                assert await client.ask("GET", "k1") == b"$%d\r\n%d\r\n" % (len(str(number)), number)
        assert await keyrail.cached(writer, "GET", "k1") == b"$2\r\n49\r\n"

    assert run(engine, play, traces=traces)["verdicts"]["cached"]["unknown"]["enforce answered"] > 0


def test_replies_keep_their_order(engine: Engine) -> None:
    async def play(keyrail: Keyrail) -> None:
        client = await keyrail.client("SET", "k", "v")
        await keyrail.cached(client, "GET", "k")
        replies = await client.pipe(
            ("SET", "x", "1"), ("GET", "k"), ("GET", "x"), ("GET", "k"), ("SET", "k", "w"), ("GET", "k"), ("PING",)
        )
        assert replies == [
            b"+OK\r\n",
            b"$1\r\nv\r\n",
            b"$1\r\n1\r\n",
            b"$1\r\nv\r\n",
            b"+OK\r\n",
            b"$1\r\nw\r\n",
            b"+PONG\r\n",
        ]

    run(engine, play)


@pytest.mark.parametrize(
    "write",
    [
        [("APPEND", "k", "w")],
        [("MULTI",), ("SET", "k", "w"), ("EXEC",)],
        [("EVAL", "redis.call('set', 'k', 'w')", "0")],
        [("RENAME", "kx", "k")],
        [("COPY", "kx", "k", "DB", "0", "REPLACE")],
        [("SELECT", "1"), ("SWAPDB", "0", "1"), ("SELECT", "0")],
        [("FLUSHALL",)],
        [("DEL", "k")],
        [("WATCH", "k"), ("MULTI",), ("SET", "k", "w"), ("EXEC",)],
        [("SELECT", "1"), ("SET", "k", "w"), ("COPY", "k", "k", "DB", "0", "REPLACE"), ("SELECT", "0")],
        [("SET", "k", "x" * (2 << 20))],
    ],
)
@pytest.mark.parametrize("at_once", [False, True])
def test_a_write_is_read_however_it_is_made(
    engine: Engine, write: list[tuple[bytes | str | int, ...]], at_once: bool
) -> None:
    async def play(keyrail: Keyrail) -> None:
        client, reader = await keyrail.client("SET", "kx", "y"), await keyrail.client()
        for number in range(3):
            await client.ask("SET", "k", number)
            before = await keyrail.cached(reader, "GET", "k")
            assert before == b"$1\r\n%d\r\n" % number
            if at_once:
                told = (await client.pipe(*write, ("GET", "k")))[-1]
            else:
                for command in write:
                    assert not (await client.ask(*command)).startswith(b"-")
                told = await client.ask("GET", "k")
            assert told != before
            assert await reader.ask("GET", "k") == told
            await client.ask("SET", "kx", "y")

    run(engine, play)


def test_both_protocols_and_a_missing_key(engine: Engine) -> None:
    async def play(keyrail: Keyrail) -> None:
        old, new = await keyrail.client(), await keyrail.client("HELLO", "3")
        await old.ask("HSET", "h", "a", "1")
        assert await keyrail.cached(old, "HGET", "h", "b") == b"$-1\r\n"
        assert await keyrail.cached(new, "HGET", "h", "b") == b"_\r\n"
        assert await keyrail.cached(new, "GET", "k-missing") == b"_\r\n"
        assert await keyrail.cached(old, "GET", "k-missing") == b"$-1\r\n"

    run(engine, play)


def test_databases_do_not_meet(engine: Engine) -> None:
    async def play(keyrail: Keyrail) -> None:
        first, second = await keyrail.client("SET", "k", "0"), await keyrail.client("SELECT", "1")
        await second.ask("SET", "k", "1")
        assert await keyrail.cached(first, "GET", "k") == b"$1\r\n0\r\n"
        assert await keyrail.cached(second, "GET", "k") == b"$1\r\n1\r\n"
        await second.ask("SELECT", "0")
        assert await keyrail.asked(second, "GET", "k") == (b"$1\r\n0\r\n", False)

    run(engine, play)


def test_nothing_is_answered_from_memory_where_a_connection_has_state(engine: Engine) -> None:
    engine.do("ACL", "SETUSER", "own", "on", ">secret", "~*", "+@all")

    async def play(keyrail: Keyrail) -> None:
        reader, client = await keyrail.client("SET", "k", "v"), await keyrail.client()
        await keyrail.cached(reader, "GET", "k")
        await client.ask("WATCH", "k")
        assert (await keyrail.asked(client, "GET", "k"))[1]
        await client.ask("MULTI")
        assert await client.ask("GET", "k") == b"+QUEUED\r\n"
        assert await client.ask("EXEC") == b"*1\r\n$1\r\nv\r\n"
        await keyrail.cached(reader, "GET", "k")
        own = await keyrail.client("AUTH", "own", "secret")
        assert (await keyrail.asked(own, "GET", "k"))[1]
        tracking = await keyrail.client("HELLO", "3")
        await tracking.ask("CLIENT", "TRACKING", "ON")
        assert (await keyrail.asked(tracking, "GET", "k"))[1]

    try:
        run(engine, play)
    finally:
        engine.do("ACL", "DELUSER", "own")


def test_an_audited_rule_counts_and_answers_nothing(engine: Engine) -> None:
    async def play(keyrail: Keyrail) -> None:
        client = await keyrail.client("SET", "k", "v")
        async with asyncio.timeout(PATIENCE):
            while keyrail.figures()["audited_hits"] < 10:
                assert await client.ask("GET", "k") == b"$1\r\nv\r\n"
                await asyncio.sleep(0.005)

    snapshot = run(engine, play, AUDITED)
    assert snapshot["local_cache"]["hits"] == 0
    assert snapshot["commands"]["local"] == 0
    assert snapshot["verdicts"]["cached"]["unknown"]["audit answered"] >= 10


def test_the_kill_switch_and_another_policy_end_it_at_once(engine: Engine) -> None:
    async def play(keyrail: Keyrail) -> None:
        client = await keyrail.client("SET", "k", "v")
        await keyrail.cached(client, "GET", "k")
        await keyrail.route.pause(True)
        assert (await keyrail.asked(client, "GET", "k"))[1]
        await keyrail.route.pause(False)
        await keyrail.cached(client, "GET", "k")
        without = replace(ALWAYS, rules=())
        await keyrail.route.prepare(without, 2, PlanCompiler(without).find)
        await keyrail.route.commit()
        assert (await keyrail.asked(client, "GET", "k"))[1]
        await keyrail.route.prepare(ALWAYS, 3, PlanCompiler(ALWAYS).find)
        await keyrail.route.commit()
        await keyrail.cached(client, "GET", "k")

    run(engine, play)


def test_only_hot_keys_are_cached(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_caches, "HOT", 20)

    async def play(keyrail: Keyrail) -> None:
        client, other = await keyrail.client("SET", "k", "v"), await keyrail.client("SET", "k2", "v")
        async with asyncio.timeout(PATIENCE):
            while not keyrail.figures()["hits"]:
                await client.pipe(*[("GET", "k")] * 20)
        for _ in range(3):
            assert (await keyrail.asked(other, "GET", "k2"))[1]
        await other.ask("SET", "k", "w")
        assert await client.ask("GET", "k") == b"$1\r\nw\r\n"

    run(engine, play, HOT)


def test_many_misses_share_one_fill(engine: Engine) -> None:
    async def play(keyrail: Keyrail) -> None:
        clients = [await keyrail.client() for _ in range(20)]
        await clients[0].ask("SET", "k", "v")
        await keyrail.cached(clients[0], "GET", "k")
        for _ in range(5):
            await clients[0].ask("SET", "k", "w")
            before = keyrail.figures()["fills"]
            assert set(await asyncio.gather(*(client.ask("GET", "k") for client in clients))) == {b"$1\r\nw\r\n"}
            assert keyrail.figures()["fills"] <= before + 2

    run(engine, play)


def test_a_lost_tracking_connection_ends_it_until_another_one_is_there(engine: Engine) -> None:
    async def play(keyrail: Keyrail) -> None:
        client = await keyrail.client("SET", "k", "v")
        await keyrail.cached(client, "GET", "k")
        lines = str(engine.do("CLIENT", "LIST")).replace("\\n", "\n").splitlines()
        (tracking,) = [
            dict(word.split("=", 1) for word in line.split() if "=" in word) for line in lines if _tracks(line)
        ]
        engine.do("CLIENT", "KILL", "ID", tracking["id"])
        async with asyncio.timeout(PATIENCE):
            while keyrail.route.snapshot()["local_cache_now"]["connections"]:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.005)
        assert keyrail.route.snapshot()["local_cache_now"]["entries"] == 0
        assert (await keyrail.asked(client, "GET", "k"))[1]
        await keyrail.cached(client, "GET", "k")

    run(engine, play)


def _tracks(line: str) -> bool:
    return any("t" in word[6:] for word in line.split() if word.startswith("flags="))


def test_redis_learns_that_keys_are_used(engine: Engine) -> None:
    async def play(keyrail: Keyrail) -> None:
        client = await keyrail.client("SET", "k", "v")
        await keyrail.cached(client, "GET", "k")
        async with asyncio.timeout(PATIENCE):
            while not keyrail.figures()["touched"]:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
        assert await keyrail.asked(client, "GET", "k") == (b"$1\r\nv\r\n", False)

    run(engine, play)


def test_a_key_that_is_held_for_long_is_read_from_redis(engine: Engine) -> None:
    async def play(keyrail: Keyrail) -> None:
        writer, reader, blocked = await keyrail.client(), await keyrail.client(), await keyrail.client()
        assert await keyrail.cached(reader, "LLEN", "k") == b":0\r\n"
        popping = asyncio.ensure_future(blocked.ask("BLPOP", "k", "0"))
        async with asyncio.timeout(PATIENCE):
            while b"blocked_clients:1" not in await writer.ask("INFO", "clients"):
                pass
        for _ in range(3):
            assert await keyrail.asked(reader, "LLEN", "k") == (b":0\r\n", True)
        await writer.ask("LPUSH", "k", "1")
        assert (await popping).startswith(b"*2")
        await keyrail.cached(reader, "LLEN", "k")

    run(engine, play)
