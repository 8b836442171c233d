"""Samples, INFO keysizes and scans that go on, on real engines: cursors and tables are theirs, and no test's."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proxy.net.config.address import parse_upstream
from proxy.rules.stored import StoredKey
from proxy.server.stored.model import Scan
from proxy.server.stored.sample import LEAST_STEPS, STEP
from proxy.server.stored.scanner import Options, Scanner, WallClock
from proxy.server.stored.unfinished import Unfinished
from tests.cluster.nodes import RealCluster
from tests.conftest import kind_named
from tests.engines import EXPECTED, Engine
from tests.resp import pack
from tests.server.stored.fake_servers import FakeJudge, FakeJudged, slot_of

NewEngine = Callable[..., Engine]


def scanner(url: str, judge: FakeJudge, **options: Any) -> Scanner:
    return Scanner(parse_upstream(url), None, judge, str, Options(**{"share": 1.0, **options}), WallClock())


def fill(engine: Engine, keys: dict[bytes, int | None]) -> None:
    """Keys with their seconds to live."""
    with engine.wire() as wire:
        commands = (("SET", key, "x" * 20, *(() if ttl is None else ("EX", ttl))) for key, ttl in keys.items())
        wire.send(b"".join(pack(*command) for command in commands))
        assert set(wire.frames(len(keys))) == {b"+OK\r\n"}


def check(found: Scan, true: Counter[str], drawn: int) -> None:
    assert found.sample is not None
    assert found.sample.drawn == drawn
    assert found.keys == pytest.approx(true["all"], rel=0.01)
    its = found.bounds("fault", "no-ttl", "sure")
    assert its is not None
    # Of all runs of this test, one in many may be outside of 95 % bounds: half as wide again is enough.
    half = (its.high - its.low) / 2
    assert its.low - half <= true["without"] <= its.high + half
    assert half < 0.25 * true["all"]


@pytest.mark.parametrize("engine_name", EXPECTED)
def test_a_sample_of_one_redis(new_engine: NewEngine, engine_name: str) -> None:
    engine = new_engine(engine_name)
    keys = {b"%c:%d" % (b"abc"[each % 3], each): None if each % 3 else 9_000 for each in range(20_000)}
    fill(engine, keys)
    judge = FakeJudge()
    scanning = scanner(engine.url, judge, sample=0.05)
    asyncio.run(scanning.run())
    check(scanning.result(""), Counter({"all": 20_000, "without": 13_333}), LEAST_STEPS * STEP)
    places = Counter(int(key.name[2:]) * 4 // 20_000 for key in judge.judged)
    assert all(abs(places[quarter] - LEAST_STEPS * STEP / 4) < 200 for quarter in range(4))


@pytest.mark.parametrize("engine_name", ["redis-7.0", "valkey-9.1"])
def test_a_sample_of_a_cluster_whose_slots_are_unequal(engine_name: str) -> None:
    """A third of all keys has one hash tag, and no TTL. Redis 7.0 has one table for all slots of a node."""
    keys: dict[bytes, int | None] = {b"a%d{big}" % each: None for each in range(15_000)}
    keys |= {b"b%d" % each: 9_000 for each in range(30_000)}
    cluster = RealCluster(kind_named(engine_name))
    try:
        for node in cluster.primaries():
            slots = {*cluster.slots_of(node)}
            fill(node, {key: ttl for key, ttl in keys.items() if slot_of(key) in slots})
        scanning = scanner(f"redis+cluster://127.0.0.1:{cluster.primaries()[0].port}", FakeJudge(), sample=0.1)
        asyncio.run(scanning.run())
    finally:
        cluster.close()
    found = scanning.result("")
    assert found.sample is not None
    check(found, Counter({"all": 45_000, "without": 15_000}), found.sample.drawn)
    assert 3 * LEAST_STEPS * STEP <= found.sample.drawn < 20_000


def test_keysizes_are_those_of_the_server(new_engine: NewEngine) -> None:
    engine = new_engine("redis-8.2")
    fill(engine, {b"s%d" % each: None for each in range(5_000)})
    for number in range(50):
        engine.do("RPUSH", f"l{number}", *range(number + 1))
    engine.do("HSET", "h", "a", 1)
    scanning = scanner(engine.url, FakeJudge())
    asyncio.run(scanning.run())
    assert scanning.result("").nodes[0].keysizes == {"string": 5_000, "list": 50, "hash": 1}


def test_a_scan_that_was_stopped_goes_on_at_its_cursor(new_engine: NewEngine, tmp_path: Path) -> None:
    engine = new_engine()
    fill(engine, {b"k%d" % each: None for each in range(5_000)})
    (tmp_path / "policy").write_text("keyrail: 1")
    unfinished = Unfinished(tmp_path, engine.url, [tmp_path / "policy"], [])

    class Stopped(FakeJudge):
        def judge(self, key: StoredKey) -> FakeJudged:
            if len(self.judged) == 3_000 and (task := asyncio.current_task()):
                task.cancel()
            return super().judge(key)

    first, then = Stopped(), FakeJudge()
    scanning = scanner(engine.url, first)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(scanning.run())
    scanning.keep(unfinished, "")
    going_on = scanner(engine.url, then)
    going_on.resume(unfinished)
    pages = engine.calls("scan")
    asyncio.run(going_on.run())
    found = going_on.result("")
    times = Counter(key.name for judge in (first, then) for key in judge.judged)
    assert times.keys() == {b"k%d" % each for each in range(5_000)}
    assert found.keys == 5_000 == found.nodes[0].counted
    assert found.nodes[0].restarts == 0
    assert engine.calls("scan") - pages < 30, "it did not begin anew"
