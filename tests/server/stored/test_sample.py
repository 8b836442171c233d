"""A sample says what is stored, within its bounds, and prefers no key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random
from statistics import fmean, stdev
from typing import Any

import pytest

from proxy.commands.slots import SLOTS
from proxy.rules.stored import Fault
from proxy.server.stored.json_form import as_json, from_json
from proxy.server.stored.model import NodeFigures, Scan
from proxy.server.stored.node_walk import NodeWalk, Tally
from proxy.server.stored.sample import (
    LEAST_STEPS,
    SLOT_BITS,
    STEP,
    Estimate,
    Sampling,
    cursor_at,
    estimate,
    figures,
    has_table_of_each_slot,
    in_keys,
)
from proxy.server.stored.seen import SeenKeys
from proxy.server.stored.totals import Totals
from tests.conftest import seeds
from tests.server.stored.fake_servers import FakeJudge, FakeServer, Value, error
from tests.server.stored.test_walks import drive

CLUSTER = b"# Server\r\nredis_version:8.2.0\r\nredis_mode:cluster\r\n"


class TableServer(FakeServer):
    """Its tables are walked as Redis walks them: from the highest bit of a bucket's number."""

    def __init__(self, random: Random, tables: dict[int, Iterable[bytes]], bits: int, info: bytes = b"") -> None:
        super().__init__(random)
        self.info = info
        self.tables: dict[int, list[list[bytes]]] = {}
        self.sizes = {slot: len([*keys]) for slot, keys in tables.items()}
        for slot, keys in tables.items():
            buckets: list[list[bytes]] = [[] for _ in range(1 << bits)]
            for key in keys:
                buckets[random.randrange(1 << bits)].append(key)
            self.tables[slot] = buckets
        self.bits = bits
        self.order = sorted(self.tables)

    def _one(self, database: int | None, command: tuple[bytes, ...], asking: bool) -> Any:
        if command == (b"INFO", b"server"):
            return self.info
        if command[0] == b"CLUSTER":
            if b"CLUSTER" in self.refuses:
                return error("NOPERM this user has no permissions to run the 'cluster|countkeysinslot' command")
            return self.sizes.get(int(command[2]), 0)
        return super()._one(database, command, asking)

    def _scan(self, held: Iterable[bytes], cursor: int, count: int) -> list[Any]:
        slot_bits = SLOT_BITS if self.info else 0
        slot, at = cursor & ((1 << slot_bits) - 1), cursor >> slot_bits
        found: list[bytes] = []
        if slot not in self.tables:
            slot, at = self._next(slot), 0
        while slot >= 0 and len(found) < count:
            found += self.tables[slot][at & ((1 << self.bits) - 1)]
            at = self._after(at)
            if not at:
                slot = self._next(slot)
        return [b"%d" % (0 if slot < 0 else at << slot_bits | slot), found]

    def _after(self, at: int) -> int:
        place = int(f"{at & ((1 << self.bits) - 1):0{self.bits}b}"[::-1], 2) + 1
        return int(f"{place:0{self.bits + 1}b}"[::-1], 2) >> 1 if place < 1 << self.bits else 0

    def _next(self, slot: int) -> int:
        return next((each for each in self.order if each > slot), -1)


def sampled(server: FakeServer, share: float, random: Random) -> tuple[Estimate, NodeFigures, FakeJudge]:
    judge, figures = FakeJudge(), NodeFigures("one")
    tally = Tally(judge, Totals(str), SeenKeys(int))
    tally.sampling = Sampling(share, lambda: Totals(str), random.random)
    drive(NodeWalk(tally, figures, 0).walk(), server.answer)
    return estimate(tally.totals, tally.sampling), figures, judge


def plain(random: Random, number: int = 12_000) -> TableServer:
    """Of three apps, one of which is rare; some keys have no TTL."""
    keys = {}
    for each in range(number):
        app = random.choices("abc", (70, 29, 1))[0]
        ttl = -1 if random.random() < (0.02 if app == "a" else 0.5) else 900
        keys[b"%s:%d" % (app.encode(), each)] = Value(ttl=ttl, memory=random.randint(50, 900))
    server = TableServer(random, {0: keys}, bits=13)
    server.held = {0: keys}
    return server


def by_slots(random: Random) -> TableServer:
    """A node whose slots are very unequal, and whose keys of a slot are alike."""
    tables: dict[int, Iterable[bytes]] = {}
    held: dict[bytes, Value] = {}
    for number in range(60):
        size, ttl, app = random.choice([3, 30, 300, 900]), random.choice([-1, 900]), random.choice("ab")
        keys = [b"%s%d:%d" % (app.encode(), number, each) for each in range(size)]
        tables[random.randrange(SLOTS)] = keys
        held |= {key: Value(ttl=ttl) for key in keys}
    server = TableServer(random, tables, bits=8, info=CLUSTER)
    server.held = {0: {key: held[key] for keys in tables.values() for key in keys}}
    return server


def truth(server: FakeServer) -> dict[tuple[str, ...], int]:
    found: Counter[tuple[str, ...]] = Counter()
    for key, value in server.held[0].items():
        app = key[:1].decode()
        found["app", app, "keys"] += 1
        found["app", app, "bytes"] += value.memory
        found["app", app, "without_ttl"] += value.ttl < 0
        found["fault", Fault.NO_TTL, "sure"] += value.ttl < 0
    return found


@pytest.mark.parametrize("made", [plain, by_slots])
@pytest.mark.parametrize("seed", seeds(2, 40))
def test_the_bounds_hold_and_nothing_is_preferred(made: Any, seed: int) -> None:
    random, rounds = Random(seed), 40
    server = made(random)
    true = truth(server)
    inside = 0
    drawn: dict[tuple[str, ...], list[int]] = {name: [] for name in true}
    for _ in range(rounds):
        found, node, _ = sampled(server, 0.01, random)
        assert node.counted == LEAST_STEPS * STEP == node.planned < len(server.held[0]) / 2
        estimated = figures(found.patterns, found.findings, found.faults)
        for name, value in true.items():
            its = found.sample.bounds.get(name, found.sample.none)
            inside += its.low <= value <= its.high
            drawn[name].append(estimated.get(name, 0))
    assert inside / (rounds * len(true)) > 0.9
    for name, values in drawn.items():
        error = stdev(values) / rounds**0.5
        assert abs(fmean(values) - true[name]) < 5 * error + 0.01 * true[name] + 2, name


def test_it_costs_what_it_says_and_is_wider_for_less() -> None:
    random = Random(1)
    server = plain(random, 40_000)
    widths = []
    for share in (0.2, 0.4):
        found, node, _ = sampled(server, share, random)
        assert node.counted == pytest.approx(share * 40_000, rel=0.1)
        assert sum(row.keys for row in found.patterns.values()) == pytest.approx(40_000, abs=5)
        its = found.sample.bounds["app", "a", "keys"]
        widths.append(its.high - its.low)
    assert widths[1] < widths[0] < 3_000


def test_what_was_not_met_may_be_there() -> None:
    random = Random(1)
    server = plain(random)
    server.held[0] = {key: Value(ttl=5) for key in server.held[0]}
    found, *_ = sampled(server, 0.01, random)
    assert ("fault", "no-ttl", "sure") not in found.sample.bounds
    assert found.sample.none.low == 0
    assert 3 * len(server.held[0]) / 4_000 < found.sample.none.high < 60


def test_a_small_database_is_walked_as_a_whole_and_is_exact() -> None:
    server = FakeServer(Random(1))
    server.bits = 6
    server.held[0] = {b"a%d" % number: Value() for number in range(300)}
    found, node, judge = sampled(server, 0.01, Random(1))
    assert len(judge.judged) == node.counted == node.planned == 300
    assert {(its.low, its.high) for name, its in found.sample.bounds.items() if name[-1] == "keys"} == {(300, 300)}
    assert found.sample.none == (0, 0)
    assert in_keys(node).databases == {0: 300}
    assert in_keys(node).bytes == 300 * 64


def test_it_stays_a_sample_in_json() -> None:
    random = Random(1)
    found, node, _ = sampled(plain(random), 0.01, random)
    its = found.patterns, found.findings
    scan = Scan("u", "p", 0.0, 1.0, True, 0.05, *its, [], [in_keys(node)], faults=found.faults, sample=found.sample)
    again = from_json(as_json(scan))
    assert again.sample == found.sample
    assert again.bounds("app", "a", "keys") == found.sample.bounds["app", "a", "keys"]


def test_places_of_a_table_come_in_the_order_of_its_walk() -> None:
    server = TableServer(Random(1), {0: [b"k"]}, bits=6)
    cursor, order = 0, []
    while True:
        order.append(cursor)
        cursor = server._after(cursor)
        if not cursor:
            break
    assert order == [int(cursor_at(place / 64)) & 63 for place in range(64)]
    assert int(cursor_at(0.5, 7)) == 1 << SLOT_BITS | 7


@pytest.mark.parametrize(
    ("info", "has"),
    [
        ({"redis_version": "7.2.4", "redis_mode": "cluster"}, False),
        ({"redis_version": "7.4.1", "redis_mode": "cluster"}, True),
        ({"redis_version": "8.2.1", "redis_mode": "standalone"}, False),
        ({"redis_version": "7.2.4", "server_mode": "cluster", "valkey_version": "9.1.0"}, True),
        ({"redis_version": "7.2.4", "server_mode": "cluster", "valkey_version": "7.2.9"}, False),
        ({}, False),
    ],
)
def test_which_servers_have_a_table_of_each_slot(info: dict[str, str], has: bool) -> None:
    assert has_table_of_each_slot(info) == has
