"""Clients of a route with a local cache, in front of a real engine: who is answered from memory, and who is not."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from proxy.hotpath.upstream.in_flight import ReplySink
from proxy.net.cache import missing_replies, often_read
from proxy.net.policy.plan_compiler import PlanCompiler
from proxy.policy.precedence import in_share
from proxy.traffic.interval_stats import IntervalStats
from proxy.traffic.merge import combined
from proxy.wire.encode import encode_command
from tests.conftest import Fleet, seeds
from tests.engines import Engine
from tests.net.cached_route import ALWAYS, AUDITED, HOT, PATIENCE, Keyrail, run
from tests.policy.given import policy
from tests.resp import until


@pytest.fixture
def engine(fleet: Fleet, engine_name: str) -> Engine:
    engine = fleet.engine(engine_name)
    engine.do("FLUSHALL")
    return engine


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


class Drains:
    """A connection on which a command is pending."""

    closed = False

    def when_drained(self, act: Callable[[], None]) -> None:
        self.drained = act


def test_a_swap_of_a_client_that_has_left_holds_back_a_database_that_is_read_first_meanwhile(engine: Engine) -> None:
    async def play(keyrail: Keyrail) -> None:
        reader, other = await keyrail.client("SET", "k", "v"), await keyrail.client()
        await keyrail.cached(reader, "GET", "k")
        caches: Any = keyrail.route._caches
        session = next(iter(caches._clients))
        pipeline: Any = Drains()
        caches.hold_back_untold(session.intake.cached_reads, session.sender, pipeline, relayed=False)
        await other.ask("SELECT", "1")
        first, cache = caches._caches
        assert first.held_back
        assert cache.held_back
        assert cache.waits_for_writers()
        pipeline.drained()
        assert not cache.waits_for_writers()

    run(engine, play)


def test_a_script_that_proves_its_keys_holds_no_others(engine: Engine) -> None:
    proves, hides = "return redis.call('set', KEYS[1], 'w')", "return redis.call('set', KEYS[1] .. '', 'w')"

    async def play(keyrail: Keyrail) -> None:
        client = await keyrail.client("SET", "k", "v")
        await client.ask("EVAL", proves, 1, "k2")
        for text, key, answered in ((proves, "k2", 1), (proves, "k", 0), (hides, "k2", 0)):
            assert await keyrail.cached(client, "GET", "k")
            before = keyrail.figures()["hits"]
            ran, told = await client.pipe(("EVAL", text, 1, key), ("GET", "k"))
            assert (ran, told) == (b"+OK\r\n", b"$1\r\nv\r\n" if key == "k2" else b"$1\r\nw\r\n")
            assert keyrail.figures()["hits"] == before + answered
            await client.ask("SET", "k", "v")

    run(engine, play)


def test_a_read_of_several_keys_is_answered_from_its_parts(engine: Engine) -> None:
    async def play(keyrail: Keyrail) -> None:
        client, other = await keyrail.client(), await keyrail.client()
        await client.pipe(("SET", "k1", "a"), ("RPUSH", "k2", "b"), ("SET", "x", "c"))
        assert await keyrail.cached(client, "MGET", "k1", "k2", "k3") == b"*3\r\n$1\r\na\r\n$-1\r\n$-1\r\n"
        fills = keyrail.figures()["fills"]
        assert fills == 3
        assert await keyrail.asked(client, "MGET", "k3", "k1") == (b"*2\r\n$-1\r\n$1\r\na\r\n", False)
        value = b""
        for number in range(20):
            value = b"$%d\r\n%d\r\n" % (len(str(number)), number)
            assert await client.ask("MSET", "k1", number, "k2", number) == b"+OK\r\n"
            assert await client.ask("MGET", "k1", "k2") == b"*2\r\n" + 2 * value
            assert await other.ask("MGET", "k2", "k1") == b"*2\r\n" + 2 * value
        assert await keyrail.cached(client, "MGET", "k1", "k2") == b"*2\r\n" + 2 * value
        before, told = keyrail.figures()["fills"], keyrail.figures()["invalidations"]
        keyrail.engine.do("SET", "k2", "new")
        await until(lambda: keyrail.figures()["invalidations"] > told)
        assert (await keyrail.cached(client, "MGET", "k1", "k2")).endswith(b"$3\r\nnew\r\n")
        assert keyrail.figures()["fills"] == before + 1, "only what is absent is fetched"
        assert await keyrail.asked(client, "MGET", "k1", "x") == (b"*2\r\n" + value + b"$1\r\nc\r\n", True)

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
    rule = snapshot["local_cache_rules"]["cached"]
    assert (rule["hits"], rule["audited_hits"]) == (0, snapshot["local_cache"]["audited_hits"])
    assert rule["audited_bytes"] == 7 * rule["audited_hits"]
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


def _asks_again(engine: Engine, pings: int) -> bool:
    return engine.calls("ping") > pings


def test_a_swap_from_before_the_policy_holds_back_what_is_read_while_it_waits(engine: Engine) -> None:
    """Its client has left. While writes are paused, it waits, and everything else goes on."""

    async def play(keyrail: Keyrail) -> None:
        reader, swapper = await keyrail.client("SET", "k", "old"), await keyrail.client("PING")
        readers = [await keyrail.client() for _ in range(8)]
        engine.do("CLIENT", "PAUSE", 60_000, "WRITE")
        try:
            swapper.send(("SWAPDB", 0, 1))
            await until(lambda: " flags=b" in str(engine.do("CLIENT", "LIST")))
            swapper.reset()
            await until(lambda: keyrail.route.snapshot()["clients"] == 9)
            await keyrail.route.prepare(ALWAYS, 2, PlanCompiler(ALWAYS).find)
            await keyrail.route.commit()
            for each in readers:  # while their reads wait for Redis, these hold the key
                each.send(("GET", "k"))
                pings = engine.calls("ping")
                await until(partial(_asks_again, engine, pings))
                each.reset()
            assert keyrail.figures()["hits"] == 0
        finally:
            engine.do("CLIENT", "UNPAUSE")
        await until(lambda: engine.do("GET", "k") is None)
        assert await keyrail.cached(reader, "GET", "k") == b"$-1\r\n"

    engine.do("FLUSHALL")
    run(engine, play, replace(ALWAYS, rules=()))
    engine.do("FLUSHALL")


def test_only_hot_keys_are_cached(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(often_read, "HOT", 20)

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


def test_rights_that_are_taken_away_through_keyrail_reach_memory(engine: Engine) -> None:
    async def play(keyrail: Keyrail) -> None:
        client, other = await keyrail.client("SET", "k", "v"), await keyrail.client()
        await keyrail.cached(client, "GET", "k")
        try:
            assert await other.ask("ACL", "SETUSER", "default", "-get") == b"+OK\r\n"
            assert (await client.ask("GET", "k")).startswith(b"-NOPERM")
        finally:
            engine.do("ACL", "SETUSER", "default", "+get")

    run(engine, play)


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
        await until(lambda: not keyrail.route.snapshot()["local_cache_now"]["connections"])
        assert keyrail.route.snapshot()["local_cache_now"]["off"] == 1
        assert keyrail.route.snapshot()["local_cache_now"]["entries"] == 0
        assert (await keyrail.asked(client, "GET", "k"))[1]
        await keyrail.cached(client, "GET", "k")
        assert keyrail.route.snapshot()["local_cache_now"]["off"] == 0

    run(engine, play)


def _tracks(line: str) -> bool:
    return any("t" in word[6:] for word in line.split() if word.startswith("flags="))


def test_redis_learns_that_keys_are_used(engine: Engine) -> None:
    """Its LRU clock counts seconds; its LFU counter counts uses, without a logarithm and with no decay."""

    async def play(keyrail: Keyrail) -> None:
        client = await keyrail.client("SET", "k", "v")
        await keyrail.cached(client, "GET", "k")
        fills = keyrail.figures()["fills"]
        await until(lambda: engine.do("OBJECT", "IDLETIME", "k") != 0)
        async with asyncio.timeout(PATIENCE):  # Redis's clock may go on right behind a TOUCH
            while engine.do("OBJECT", "IDLETIME", "k") != 0:
                assert await keyrail.asked(client, "GET", "k") == (b"$1\r\nv\r\n", False)
        assert keyrail.figures()["fills"] == fills
        engine.do("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu")
        engine.do("CONFIG", "SET", "lfu-log-factor", 0)
        engine.do("CONFIG", "SET", "lfu-decay-time", 0)
        await client.ask("SET", "k", "v")
        await keyrail.cached(client, "GET", "k")
        used = frequency()
        assert await keyrail.asked(client, "GET", "k") == (b"$1\r\nv\r\n", False)
        await until(lambda: frequency() > used)
        assert keyrail.figures()["fills"] == fills + 1

    def frequency() -> int:
        uses = engine.do("OBJECT", "FREQ", "k")
        assert isinstance(uses, int)
        return uses

    try:
        run(engine, play)
    finally:
        engine.do("CONFIG", "SET", "maxmemory-policy", "noeviction")
        engine.do("CONFIG", "SET", "lfu-log-factor", 10)
        engine.do("CONFIG", "SET", "lfu-decay-time", 1)


def test_seconds_tell_which_keys_were_answered_from_memory(engine: Engine) -> None:
    async def play(keyrail: Keyrail) -> None:
        client = await keyrail.client("SET", "k", "v")
        await client.ask("SET", "other", "v")
        await keyrail.cached(client, "GET", "k")
        assert keyrail.route.snapshot()["local_cache_now"]["memory_limit_bytes"] == 64 << 20
        seconds: list[IntervalStats] = []
        async with asyncio.timeout(PATIENCE):
            while not any(each.cached.hits for each in seconds if each.cached):
                await client.pipe(("GET", "k"), ("GET", "k"), ("GET", "other"))
                await asyncio.sleep(0.01)
                seconds += keyrail.route.intervals()
        counts = {each.key: each for each in combined(each.counts() for each in seconds).key_counts}
        hits = sum(each.cached.hits for each in seconds if each.cached)
        assert counts[b"k"].cached == min(hits, counts[b"k"].reads) > 0
        assert counts[b"other"].cached == 0
        figures = keyrail.figures()
        assert figures["hits"] >= hits
        assert 0.0 < figures["ages"] < figures["hits"] * PATIENCE

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
        assert not keyrail.route.snapshot()["events"].get("cache_waits_over"), "they do not even wait"
        await writer.ask("LPUSH", "k", "1")
        assert (await popping).startswith(b"*2")
        await keyrail.cached(reader, "LLEN", "k")

    run(engine, play)


def test_a_client_that_is_blocked_when_the_policy_comes_does_not_keep_the_cache_off(engine: Engine) -> None:
    async def play(keyrail: Keyrail) -> None:
        blocked, reader = await keyrail.client(), await keyrail.client("SET", "k", "v")
        popping = asyncio.ensure_future(blocked.ask("BLPOP", "queue", "0"))
        async with asyncio.timeout(PATIENCE):
            while b"blocked_clients:1" not in await reader.ask("INFO", "clients"):
                pass
        await keyrail.route.prepare(ALWAYS, 2, PlanCompiler(ALWAYS).find)
        await keyrail.route.commit()
        await keyrail.cached(reader, "GET", "k")
        await reader.ask("RPUSH", "queue", "1")
        assert (await popping).startswith(b"*2")
        await keyrail.cached(reader, "GET", "k")

    run(engine, play, replace(ALWAYS, rules=()))


def test_a_read_that_was_only_audited_is_pending_when_the_client_is_answered_from_memory(engine: Engine) -> None:
    rules = policy("""
        apps: {shop: {match: {client_name: "shop*"}}}
        rules:
          cached: {local_cache: {keys: ["k*"], when: always}}
        rollout: {cached: {default: audit, shop: enforce}}
    """)

    async def play(keyrail: Keyrail) -> None:
        shop, client = await keyrail.client("CLIENT", "SETNAME", "shop1"), await keyrail.client("SET", "k", "v")
        await keyrail.cached(shop, "GET", "k")
        before = keyrail.figures()["hits"]
        replies = await client.pipe(("GET", "k"), ("CLIENT", "SETNAME", "shop2"), ("GET", "k"))
        assert replies == [b"$1\r\nv\r\n", b"+OK\r\n", b"$1\r\nv\r\n"]
        assert keyrail.figures()["hits"] == before, "its first read may have been told a newer value"
        await keyrail.cached(client, "GET", "k")

    run(engine, play, rules)


def test_what_is_held_for_long_makes_reads_wait_ever_more_seldom(engine: Engine) -> None:
    """A command that Redis takes long for holds the key."""

    async def play(keyrail: Keyrail) -> None:
        caches: Any = keyrail.route._caches
        reader = await keyrail.client("SET", "k", "v")
        await keyrail.cached(reader, "GET", "k")
        slow = ReplySink()
        slow.requested = slow.pending_replies = 1
        for seconds in (1.0, 2.0, 4.0):
            caches._caches[0].hold(b"k", slow, 1)
            over = keyrail.route.snapshot()["events"].get("cache_waits_over", 0)
            assert await keyrail.asked(reader, "GET", "k") == (b"$1\r\nv\r\n", True)
            assert keyrail.route.snapshot()["events"]["cache_waits_over"] == over + 1
            _, so_long = caches._missing._contended[b"k"]
            assert so_long == seconds
            assert await keyrail.asked(reader, "GET", "k") == (b"$1\r\nv\r\n", True)
            assert keyrail.route.snapshot()["events"]["cache_waits_over"] == over + 1, "it waits no more"
            caches._missing._contended[b"k"] = caches._missing._contended[b"k"]._replace(until=0.0)
        slow.pending_replies = 0
        await keyrail.cached(reader, "GET", "k")
        assert b"k" not in caches._missing._contended

    run(engine, play)


@pytest.mark.parametrize("mode", ["SKIP", "OFF"])
def test_keys_of_silenced_commands_are_not_remembered(engine: Engine, mode: str) -> None:
    async def play(keyrail: Keyrail) -> None:
        caches: Any = keyrail.route._caches
        await keyrail.cached(await keyrail.client(), "GET", "k")
        loader = await keyrail.client()
        writer = loader._writer
        for number in range(3000):
            if mode == "SKIP" or number == 0:
                writer.write(encode_command([b"CLIENT", b"REPLY", mode.encode()]))
            writer.write(encode_command([b"SET", b"k%d" % number, b"v"]))
        await until(lambda: engine.do("EXISTS", "k2999") == 1)
        assert caches._caches[0].remembered() < 10

    run(engine, play)


def test_keys_that_keyrail_has_looked_up_are_never_read_as_they_were_before(engine: Engine) -> None:
    """KEYS by SCAN tells of a key before Redis's invalidation has been read."""
    rules = policy("""
        rules:
          scans: {keys_by_scan: {}, mode: enforce}
          cached: {local_cache: {keys: ["k*"], when: always, max_age: 30s}, mode: enforce}
    """)

    async def play(keyrail: Keyrail) -> None:
        caches: Any = keyrail.route._caches
        for pattern in ("k", "k*"):
            client = await keyrail.client("DEL", "k")
            assert await keyrail.cached(client, "EXISTS", "k") == b":0\r\n"
            read_later(keyrail)
            engine.do("SET", "k", "v")
            assert await client.ask("KEYS", pattern) == b"*1\r\n$1\r\nk\r\n"
            assert await client.ask("EXISTS", "k") == b":1\r\n"
            (server,) = caches._databases[0]._servers.values()
            server._upstream.transport.resume_reading()

    run(engine, play, rules)


LOOKS = (
    ("KEYS", "*"),
    ("DBSIZE",),
    ("RANDOMKEY",),
    ("SORT_RO", "l", "BY", "nosort", "GET", "k*"),
    ("EVAL_RO", "return redis.call('get', ARGV[1])", 0, "k"),
    ("SCAN", 0),
)
"""Commands that only read, and whose replies may depend on any key."""


@pytest.mark.parametrize("looks", LOOKS, ids=lambda looks: looks[0])
def test_a_client_that_looks_at_all_keys_empties_memory_for_nobody(
    engine: Engine, looks: tuple[str | int, ...]
) -> None:
    async def play(keyrail: Keyrail) -> None:
        if engine.do("COMMAND", "INFO", looks[0]) == [None]:
            return
        engine.do("SET", "k", "v")
        engine.do("RPUSH", "l", "1")
        readers = [await keyrail.client() for _ in range(3)]
        for reader in readers:
            assert await keyrail.cached(reader, "GET", "k") == b"$1\r\nv\r\n"
        looker, over = await keyrail.client(), asyncio.Event()

        async def look() -> int:
            times = 0
            while not over.is_set():
                assert not (await looker.ask(*looks)).startswith(b"-")
                times += 1
            return times

        looking = asyncio.ensure_future(look())
        before = keyrail.figures()["hits"]
        for _ in range(200):
            for reader in readers:
                assert await reader.ask("GET", "k") == b"$1\r\nv\r\n"
        over.set()
        assert await looking > 3
        assert keyrail.figures()["hits"] - before >= 600 - 5
        assert keyrail.route.snapshot()["local_cache_now"]["entries"] == 1
        assert await keyrail.cached(looker, "GET", "k") == b"$1\r\nv\r\n", "its own reads come from memory again"

    run(engine, play)


@pytest.mark.parametrize("looks", LOOKS[:5], ids=lambda looks: looks[0])
def test_who_has_looked_at_all_keys_reads_nothing_older(engine: Engine, looks: tuple[str | int, ...]) -> None:
    """The invalidation is under way while Redis shows the new value; in a transaction, too."""

    async def play(keyrail: Keyrail) -> None:
        caches: Any = keyrail.route._caches
        if engine.do("COMMAND", "INFO", looks[0]) == [None]:
            return
        engine.do("RPUSH", "l", "1")
        for commands in ([looks], [("MULTI",), looks, ("EXEC",)]):
            engine.do("SET", "k", "old")
            client = await keyrail.client()
            assert await keyrail.cached(client, "GET", "k") == b"$3\r\nold\r\n"
            read_later(keyrail)
            engine.do("SET", "k", "new")
            for reply in await client.pipe(*commands):
                assert not reply.startswith(b"-")
            assert await client.ask("GET", "k") == b"$3\r\nnew\r\n"
            (server,) = caches._databases[0]._servers.values()
            server._upstream.transport.resume_reading()

    run(engine, play)


def read_later(keyrail: Keyrail) -> None:
    """From now on nobody reads what Redis sends on the tracking connection, as if it were on its way."""
    caches: Any = keyrail.route._caches
    (server,) = caches._databases[0]._servers.values()
    server._upstream.transport.pause_reading()
    caches._databases[0]._readable.modify(server._descriptor, 0)


@pytest.mark.parametrize("seed", seeds(3))
def test_each_key_of_a_read_is_judged_alone(engine: Engine, seed: int) -> None:
    """An exception and a share of keys hold for it, whatever reads have fetched its value before."""
    rules = policy("""
        rules:
          cached: {local_cache: {keys: ["k*"], when: always, max_age: 30s}, mode: enforce 50%}
        exceptions:
          - {rule: cached, keys: "k:legal:*", because: of the law}
    """)
    names = [f"k:{kind}:{number}" for kind in ("legal", "other") for number in range(6)]
    cached = {name for name in names[6:] if in_share(Command(STANDARD, [b"GET", name.encode()]), 0.5)}
    assert 0 < len(cached) < 6

    async def play(keyrail: Keyrail) -> None:
        rng = random.Random(seed)
        client = await keyrail.client("MSET", *(word for name in names for word in (name, "v")))
        for step in range(300):
            read = rng.sample(names, rng.choice((1, 2, 3)))
            verb = "GET" if len(read) == 1 and rng.random() < 0.5 else "MGET"
            _, redis_answered = await keyrail.asked(client, verb, *read)
            assert redis_answered or cached.issuperset(read), f"{verb} {read}"
            if step % 100 == 99:
                await keyrail.cached(client, "MGET", *cached)
                keyrail.engine.do("MSET", *(word for name in names for word in (name, step)))

    run(engine, play, rules)


def test_a_client_that_begins_anew_holds_everything_back(engine: Engine) -> None:
    """Redis's invalidation of what it has written in silence may be on its way."""

    async def play(keyrail: Keyrail) -> None:
        client, silent = await keyrail.client("SET", "k", "old"), await keyrail.client()
        await keyrail.cached(client, "GET", "k")
        read_later(keyrail)
        silent._writer.write(b"".join(map(encode_command, ([b"CLIENT", b"REPLY", b"OFF"], [b"SET", b"k", b"new"]))))
        assert await silent.ask("RESET") == b"+RESET\r\n"
        assert await silent.ask("GET", "k") == b"$3\r\nnew\r\n"

    run(engine, play)


def test_what_cannot_be_kept_is_not_fetched_again_and_again(engine: Engine) -> None:
    async def play(keyrail: Keyrail) -> None:
        client = await keyrail.client("RPUSH", "k", "v")
        await keyrail.cached(client, "LLEN", "k")
        for read in (("GET", "k"), ("HGET", "k", "f")):
            before = keyrail.figures()["fills"]
            for _ in range(20):
                assert (await client.ask(*read)).startswith(b"-WRONGTYPE")
            assert keyrail.figures()["fills"] <= before + 2
        await client.ask("DEL", "k")
        await client.ask("SET", "k", "v")
        await keyrail.cached(client, "GET", "k")

    run(engine, play)


def _user(engine: Engine, *rules: str) -> str:
    """The URL of a user of the engine's with these rights."""
    engine.do("ACL", "SETUSER", "limited", "reset", "on", ">secret", "~*", "&*", "+@all", *rules)
    return engine.url.replace("redis://", "redis://limited:secret@")


@pytest.mark.parametrize("at_first", [True, False])
def test_where_redis_tells_no_ttls_there_is_no_cache_and_keyrail_says_so(engine: Engine, at_first: bool) -> None:
    async def play(keyrail: Keyrail) -> None:
        client = await keyrail.client("SET", "k", "v")
        if not at_first:
            await keyrail.cached(client, "GET", "k")
            _user(engine, "-pttl")
            await client.ask("SET", "k", "w")
        async with asyncio.timeout(PATIENCE):
            while not any("PTTL" in told for told in keyrail.route.snapshot()["features_off"]):
                await client.ask("GET", "k")
        before = keyrail.figures()["fills"]
        for _ in range(20):
            assert (await keyrail.asked(client, "GET", "k"))[1]
        assert keyrail.figures()["fills"] == before
        _user(engine)
        await keyrail.cached(client, "GET", "k")
        assert keyrail.route.snapshot()["features_off"] == []

    run(engine, play, url=_user(engine, *(["-pttl"] if at_first else [])))


def test_what_the_cache_lacks_is_told(engine: Engine) -> None:
    fields_expire = engine.kind.name == "valkey" and engine.kind.version >= (9,)

    async def play(keyrail: Keyrail) -> None:
        client = await keyrail.client("SET", "k", "v")
        await client.ask("HSET", "h", "f", "v")
        await keyrail.cached(client, "GET", "k")
        told = "\n".join(keyrail.route.snapshot()["features_off"])
        assert ("TOUCH" in told, "HPTTL" in told) == (True, fields_expire)
        if not fields_expire:
            await keyrail.cached(client, "HGET", "h", "f")

    run(engine, play, url=_user(engine, "-touch", *(["-hpttl"] if fields_expire else [])))


def test_a_user_who_may_access_some_keys_has_a_cache_for_these(engine: Engine) -> None:
    async def play(keyrail: Keyrail) -> None:
        client = await keyrail.client("SET", "k", "v")
        await client.ask("HSET", "h", "f", "v")
        await keyrail.cached(client, "GET", "k")
        await keyrail.cached(client, "HGET", "h", "f")
        assert keyrail.route.snapshot()["features_off"] == []
        before = keyrail.figures()["fills"]
        for _ in range(20):
            assert (await client.ask("GET", "kx")).startswith(b"-NOPERM")
        assert keyrail.figures()["fills"] <= before + 2

    run(engine, play, url=_user(engine, "resetkeys", "~k", "~h"))


RULES = {
    "rewrites it": ("replace: {SUBSTR: GETRANGE}", ("SUBSTR", "k", 0, -1)),
    "follows it up": ('lifetime: {default: 1h, sliding: true, keys: ["k*"]}', ("GET", "k")),
    "asks Redis about it": ("whole_collections: {max: 100}", ("SMEMBERS", "kset")),
    "refuses it": ("refuse: [STRLEN]", ("STRLEN", "k")),
    "limits it": ('limits: {rate: 1000/s, keys: "k*"}', ("GETRANGE", "k", 0, -1)),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("mode", ["enforce", "audit"])
def test_a_read_that_another_rule_handles_is_not_answered_from_memory(engine: Engine, rule: str, mode: str) -> None:
    """Also if memory has its reply, as a client of another app has read it. A rule that only audits changes nothing."""
    text, read = RULES[rule]
    rules = policy(f"""
        apps: {{ruled: {{match: {{client_name: ruled}}}}}}
        rules:
          cached: {{local_cache: {{keys: ["k*"], when: always, max_age: 30s}}}}
          other: {{{text}}}
        rollout: {{cached: enforce, other: {{default: off, ruled: {mode}}}}}
    """)

    async def play(keyrail: Keyrail) -> None:
        free, client = await keyrail.client(), await keyrail.client("CLIENT", "SETNAME", "ruled")
        engine.do("SET", "k", "v", "EX", 3000)
        engine.do("SADD", "kset", "v")
        reply = await keyrail.cached(free, *read)
        if mode == "audit" or rule == "limits it":
            assert await keyrail.cached(client, *read) == reply
            return
        before = keyrail.figures()["hits"]
        for _ in range(1 if "asks" in rule else 10):
            told = await client.ask(*read)
            assert told == reply or rule == "refuses it"
        assert keyrail.figures()["hits"] == before
        if "asks" in rule:
            await keyrail.cached(client, *read)  # the rule knows the size now
        await keyrail.cached(free, *read)

    run(engine, play, rules)


OTHERS = policy("""
    rules:
      cached: {local_cache: {keys: ["h*"], when: always, max_age: 30s}, mode: enforce}
""")


def test_what_a_read_waits_for_is_not_kept_by_the_rules_of_a_former_policy(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next policy comes into force while the read waits, and its client has not been told yet."""
    monkeypatch.setattr(missing_replies, "MOST_WAIT", PATIENCE)

    async def play(keyrail: Keyrail) -> None:
        caches: Any = keyrail.route._caches
        policies: Any = keyrail.route._policies
        client = await keyrail.client("SET", "k", "v")
        await keyrail.cached(client, "GET", "k")
        slow = ReplySink()
        slow.requested = slow.pending_replies = 1
        caches._caches[0].hold(b"k", slow, 1)
        client.send(("GET", "k"))
        await until(lambda: caches._missing._missing)
        told = asyncio.Event()
        adopt = policies._adopt

        async def later() -> None:
            await told.wait()
            await adopt()

        monkeypatch.setattr(policies, "_adopt", later)
        await keyrail.route.prepare(OTHERS, 2, PlanCompiler(OTHERS).find)
        committing = asyncio.create_task(keyrail.route.commit())
        await until(lambda: not caches._caches[0].concerns(b"k", 0, 1))
        slow.pending_replies = 0
        assert await client._frame() == b"$1\r\nv\r\n"
        replies = await client.pipe(("SET", "k", "w"), ("GET", "k"))
        assert replies == [b"+OK\r\n", b"$1\r\nw\r\n"]
        told.set()
        await committing

    run(engine, play)


@pytest.mark.parametrize("client_name", ["shop-1", "other"])
def test_a_client_follows_the_commands_that_another_engine_has(engine: Engine, client_name: str) -> None:
    """Also one that no rule about the cache is for."""
    rules = policy("""
        apps: {shop: {match: {client_name: "shop*"}}}
        rules:
          cached: {local_cache: {keys: ["k*"], when: always}}
        rollout: {cached: {default: off, shop: enforce}}
    """)

    async def play(keyrail: Keyrail) -> None:
        client = await keyrail.client("CLIENT", "SETNAME", client_name)
        assert await client.ask("ACME.LAST", "k") == await client.ask("ACME.LAST", "k")
        policies: Any = keyrail.route._policies
        capabilities: Any = keyrail.route._capabilities
        described = [[b"acme.last", -2, [b"write"], 1, 1, 1, [], [], [], []]]
        capabilities.engine = replace(capabilities.engine, table=capabilities.engine.table.completed_by(described))
        await policies._follow_engine()
        assert (await client.ask("ACME.LAST", "k")).startswith(b"-ERR unknown command")
        assert await client.ask("PING") == b"+PONG\r\n"

    run(engine, play, rules)
