"""What rules know of stored keys: the last scan of their upstream, and what clients of all workers wrote since. In a
world in which keys come, go and expire while scans walk, an owner that is said to be over has too many keys."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from proxy.hotpath.plan.leased_tokens import TokenSet
from proxy.net.config.address import parse_upstream
from proxy.rules.quota.holdings import Holdings, Most
from proxy.rules.shared_state import OwnedKeys, Stored, Written
from proxy.server import stored_keys
from proxy.server.stored.kept import KeptScans
from proxy.server.stored.model import TTL_BOUNDS, PatternRow, Place, Sample, Scan
from proxy.server.stored_keys import StoredKeys, WrittenSince
from tests.cli.made_scan import NOW, made_scan
from tests.conftest import seeds
from tests.rules.given import spend

UPSTREAM = parse_upstream("redis://127.0.0.1:7001")
APPS = ("", "shop", "web")


def scan_of(upstream: str, started: float, apps: Mapping[str, PatternRow]) -> Scan:
    patterns = {Place("any", app): row for app, row in apps.items()}
    return replace(made_scan("a"), upstream=upstream, started=started, finished=True, patterns=patterns)


class Asked:
    """What a worker with one rule gets to know."""

    def __init__(self, state_dir: Path | None) -> None:
        self.now = NOW
        self.keys = StoredKeys([UPSTREAM], state_dir, lambda: self.now)

    def __call__(self, **written: Written) -> Stored:
        self.now += 1.0
        ((stored,),) = ([*route.values()] for route in asyncio.run(self.keys.exchange([{"full": written}])))
        return stored


def test_the_newest_scan_of_the_upstream_counts(tmp_path: Path) -> None:
    kept, asked = KeptScans(tmp_path), Asked(tmp_path)
    assert asked().scanned is None
    assert asked().missing == "the state folder has no scan of redis://127.0.0.1:7001"
    kept.write(scan_of("redis://127.0.0.1:7002", NOW, {"shop": PatternRow(keys=9)}))
    assert asked().scanned is None
    ttls = [1, 0, 0, 2, 0, 3]
    kept.write(scan_of(str(UPSTREAM), NOW - 60, {"shop": PatternRow(keys=7, bytes=70, ttls=ttls)}))
    stored = asked(shop=Written(1, 30, 2))
    assert (stored.scanned, stored.counted_from) == (NOW - 60, NOW + 1)
    assert stored.owners == {"shop": OwnedKeys(7, 70, ((0.0, 1), (86_400.0, 2), (30 * 86_400.0, 3)))}
    assert asked(shop=Written(1, 30, 2)).since == {"shop": Written(2, 60, 4)}
    kept.write(scan_of(str(UPSTREAM.as_seed()), NOW + 600, {"web": PatternRow(keys=1)}))
    asked.now = NOW + 700
    stored = asked(web=Written(1, 1, 1))
    assert (stored.scanned, stored.owners, stored.since) == (
        NOW + 600,
        {"web": OwnedKeys(1)},
        {"web": Written(1, 1, 1)},
    )


def test_a_sample_and_a_scan_of_another_version_leave_the_whole_one_before_in_use(tmp_path: Path) -> None:
    kept, asked = KeptScans(tmp_path), Asked(tmp_path)
    kept.write(scan_of(str(UPSTREAM), NOW, {"shop": PatternRow(keys=7)}))
    assert asked().scanned == NOW
    kept.write(replace(scan_of(str(UPSTREAM), NOW + 5, {"shop": PatternRow(keys=1)}), sample=Sample(0.01, 1, 100)))
    kept.file_of(scan_of(str(UPSTREAM), NOW + 6, {})).write_text('{"version": 99}')
    for asks in (asked, Asked(tmp_path)):
        assert (asks().scanned, asks().owners) == (NOW, {"shop": OwnedKeys(7)})


def test_without_a_folder_or_with_a_file_that_is_none_nothing_is_known(tmp_path: Path) -> None:
    assert Asked(None)().missing == "there is no state folder: serve with --state-dir"
    kept, asked = KeptScans(tmp_path), Asked(tmp_path)
    kept.write(scan_of(str(UPSTREAM), NOW, {"shop": PatternRow(keys=7)}))
    assert asked().scanned == NOW
    kept.file_of(scan_of(str(UPSTREAM), NOW + 5, {})).write_text('{"version": 99}')
    assert asked().scanned == NOW, "the one before it gets older"


def test_a_scan_gets_what_was_written_since_it_began() -> None:
    written = WrittenSince(0.0)
    for now in (30.0, 61.0, 119.0, 180.0):
        written.add({"shop": Written(deleted=1)}, now)
    assert written.since == {"shop": Written(deleted=4)}
    written.begin(61.5)
    assert written.since == {"shop": Written(deleted=2)}
    written.begin(180.0)
    written.add({"shop": Written(creating=2)}, 181.0)
    assert written.since == {"shop": Written(2, 0, 1)}


def test_a_scan_gets_what_was_written_also_if_the_clock_went_back() -> None:
    written = WrittenSince(0.0)
    for now in (5000.0, 1400.0, 1401.0):
        written.add({"shop": Written(deleted=1)}, now)
    written.begin(4000.0)
    assert written.since == {"shop": Written(deleted=3)}, "it began before the clock went back"
    written.begin(1400.5)
    assert written.since == {"shop": Written(deleted=3)}, "nobody can tell"


def test_long_ago_the_minute_that_a_scan_began_in_counts_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_keys, "_MOST_RECENT", 1)
    written = WrittenSince(0.0)
    for now in (30.0, 61.0, 119.0, 180.0):
        written.add({"shop": Written(deleted=1)}, now)
    for moment, deleted in ((0.0, 4), (59.0, 4), (60.0, 3), (119.5, 3), (120.0, 1), (180.5, 0)):
        written.begin(moment)
        assert written.since.get("shop", Written()).deleted == deleted


class World:
    """Keys with an owner and the moment at which they expire, a scan that walks them, and two workers."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.now = NOW
        self.keys: dict[str, tuple[str, float | None]] = {}
        self.most = Most(keys=random.randint(5, 25))
        self.by_owner = random.random() < 0.5
        self.max_age = random.choice([300.0, 5000.0])
        self.workers = [Holdings(self.most, self.max_age, by_owner=self.by_owner) for _ in range(2)]
        self.written = WrittenSince(self.now)
        self.scanned: float | None = None
        self.owners: dict[str, OwnedKeys] = {}
        self.walk: list[str] | None = None
        self.began = 0.0
        self.found: dict[str, PatternRow] = {}
        self.sent = {app: Written() for app in APPS}
        self.told = {app: Written() for app in APPS}
        self.refused = 0

    def living(self, owner: str) -> int:
        return sum(owner == its and self.left(key) != 0 for key, (its, _) in self.keys.items())

    def left(self, key: str) -> float | None:
        """Seconds; None without an end, 0 if it is gone."""
        if key not in self.keys:
            return 0
        end = self.keys[key][1]
        return None if end is None else max(0.0, end - self.now)

    def write(self) -> None:
        """A client creates a key, or writes one again as it was: a TTL that gets shorter is told by nobody."""
        app, worker = self.random.choice(APPS), self.random.choice(self.workers)
        key = f"{app}:{self.random.randint(1, 60)}"
        if self.left(key) == 0:
            ttl = self.random.choice([None, None, 30.0, 900.0, 90_000.0])
            self.keys[key] = app, None if ttl is None else self.now + ttl
        self.count(app, worker, Written(creating=1, bytes=30))

    def delete(self) -> None:
        app, worker = self.random.choice(APPS), self.random.choice(self.workers)
        mine = [key for key, (owner, _) in self.keys.items() if app in ("", owner)]
        gone = self.random.sample(mine, min(len(mine), self.random.choice([1, 1, 1, 5])))
        for key in gone:
            del self.keys[key]
        if len(gone) == 1:
            self.count(app, worker, Written(deleted=1))
        elif gone:
            worker.note(app, Written(deleted=len(gone)))
            self.sent[app] += Written(deleted=len(gone))

    def count(self, app: str, worker: Holdings, written: Written) -> None:
        presence = worker.creating(app) if written.creating else worker.deleting(app)
        if not self.pays(presence.token_set):
            worker.note(app, written)
        self.sent[app] += written

    def pays(self, token_set: TokenSet) -> bool:
        return spend(token_set, 30)

    def step_of_scan(self) -> None:
        if self.walk is None:
            self.walk, self.began, self.found = sorted(self.keys, key=lambda _: self.random.random()), self.now, {}
        for _ in range(min(20, len(self.walk))):
            key = self.walk.pop()
            left = self.left(key)
            if left == 0:
                continue
            row = self.found.setdefault(self.keys[key][0], PatternRow())
            row.keys += 1
            row.bytes += 100
            if left is None:
                row.without_ttl += 1
            else:
                row.ttls[next(i for i, most in enumerate((*TTL_BOUNDS, 1e12)) if left <= most)] += 1
        if not self.walk:
            self.walk, self.scanned = None, self.began
            self.owners = {
                app: OwnedKeys(
                    row.keys,
                    row.bytes,
                    tuple((float(least), keys) for least, keys in zip((0, *TTL_BOUNDS), row.ttls, strict=True)),
                )
                for app, row in self.found.items()
            }
            self.written.begin(self.began)

    def exchange(self) -> None:
        for worker in self.workers:
            news = worker.written()
            for app, written in news.items():
                self.told[app] += written
            self.written.add(news, self.now)
        for worker in self.workers:
            worker.learn(Stored(self.scanned, "", self.owners, dict(self.written.since)), self.now)

    def check(self) -> None:
        """Right after an exchange."""
        assert self.told == self.sent
        fresh = self.scanned is not None and self.now - self.scanned <= self.max_age
        for worker in self.workers:
            over = {app for app in APPS if worker.over(app, self.now) is not None}
            assert fresh or not over
            for app in over:
                assert self.living(app) > (self.most.keys or 0), "nobody is refused who has no more than allowed"
            for app in APPS:
                open_to_all = self.pays(worker.creating(app).token_set)
                self.sent[app] += Written(creating=1, bytes=30) if open_to_all else Written()
                assert open_to_all is not (bool(over) if self.by_owner else app in over)
            self.refused += bool(over)


@pytest.mark.parametrize("seed", seeds(20, 300))
def test_whoever_is_said_to_be_over_is_over(seed: int) -> None:
    world = World(Random(seed))
    for _ in range(400):
        kind = world.random.random()
        if kind < 0.45:
            world.write()
        elif kind < 0.6:
            world.delete()
        elif kind < 0.75:
            world.step_of_scan()
        else:
            world.now += world.random.choice([0.0, 1.0, 20.0, 200.0, 2000.0])
        if world.random.random() < 0.3:
            world.exchange()
            world.check()


def test_the_world_has_owners_who_are_over() -> None:
    worlds = [World(Random(seed)) for seed in range(20)]
    for world in worlds:
        for _ in range(150):
            world.write()
        for _ in range(20):
            world.step_of_scan()
        world.exchange()
        world.check()
    assert sum(bool(world.refused) for world in worlds) > 10
