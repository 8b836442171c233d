"""Clients of a route with a local cache, in front of a real engine: who is answered from memory, and who is not."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from proxy.net import often_read
from proxy.net.plan_compiler import PlanCompiler
from proxy.traffic.interval_stats import IntervalStats
from proxy.traffic.merge import combined
from tests.conftest import Fleet
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
        before = keyrail.figures()["fills"]
        keyrail.engine.do("SET", "k2", "new")
        await until(lambda: keyrail.figures()["invalidations"] > 0)
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
    """Its LRU clock counts seconds; without a logarithm, its LFU counter counts uses."""

    async def play(keyrail: Keyrail) -> None:
        client = await keyrail.client("SET", "k", "v")
        await keyrail.cached(client, "GET", "k")
        fills = keyrail.figures()["fills"]
        await until(lambda: engine.do("OBJECT", "IDLETIME", "k") != 0)
        assert await keyrail.asked(client, "GET", "k") == (b"$1\r\nv\r\n", False)
        await until(lambda: engine.do("OBJECT", "IDLETIME", "k") == 0)
        assert keyrail.figures()["fills"] == fills
        engine.do("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu")
        engine.do("CONFIG", "SET", "lfu-log-factor", 0)
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
