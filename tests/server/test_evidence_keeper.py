"""The keeper loses no row that it could keep, keeps none twice, and says when it cannot."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from proxy.policy.model import TRANSPARENT, Policy
from proxy.server.evidence.bounds import FOLDED_FOR_ROOM, NOT_KEPT, size_of
from proxy.server.evidence.group_evidence import MOST_BYTES, GroupEvidence
from proxy.server.evidence.keeper import EvidenceKeeper
from proxy.server.evidence.memory_store import MemoryStore
from proxy.server.evidence.model import REMOVED, Batch, Evidence, EvidenceError, EvidenceStore, RuleVersion
from proxy.server.evidence.store import SqliteStore, read_store
from proxy.traffic.evidence_rows import CommandKey, EvidenceRows, Exemplar, FormRow, Identity, VerdictKey, VerdictRow
from tests.conftest import seeds
from tests.policy.given import policy
from tests.resp import PATIENCE_SECONDS
from tests.server.made_evidence import NOON, rows, sums

WHO = Identity("shop", "u")
GET = CommandKey(WHO, "GET")


def got(count: int) -> EvidenceRows:
    return EvidenceRows(commands={GET: count})


class Clock:
    """A wall clock that can jump, and one that cannot."""

    def __init__(self) -> None:
        self.wall, self.steady = 1_795_000_000.0, 50.0

    def passes(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


class FailingStore(MemoryStore):
    """A store that fails when it is told to, before it adds anything."""

    def __init__(self) -> None:
        super().__init__(1 << 20, 30)
        self.fails = False
        self.batches: list[Batch] = []
        self.closed = 0

    def add(self, batch: Batch) -> None:
        if self.fails:
            raise EvidenceError("state/evidence.sqlite: no space left on device")
        self.batches.append(batch)
        super().add(batch)

    def close(self) -> None:
        self.closed += 1


class World:
    """A keeper of one route, with its clock and its store."""

    def __init__(self, its: Policy = TRANSPARENT) -> None:
        self.clock, self.store = Clock(), FailingStore()
        self.fails_to_open = False
        self.workers: Any = SimpleNamespace(
            evidence=GroupEvidence(["default"]), policies=(its,), policies_since=self.clock.wall
        )
        self.begin()

    def begin(self, open_store: Callable[[], EvidenceStore] | None = None) -> None:
        """Keep evidence as a new process does."""
        self.keeper = EvidenceKeeper(
            *(self.workers, ["default"], open_store or self.open),
            clock=lambda: self.clock.wall,
            steady=lambda: self.clock.steady,
        )
        self.keeper.begin()

    def open(self) -> EvidenceStore:
        if self.fails_to_open:
            raise EvidenceError("state/evidence.sqlite: database is locked")
        return self.store

    def puts(self, its: Policy) -> None:
        """Put a policy in force."""
        self.workers.policies, self.workers.policies_since = (its,), self.clock.wall

    def sees(self, count: int) -> None:
        self.workers.evidence.add(0, got(count), self.clock.wall)


def gets(evidence: Evidence) -> int:
    return sum(rows.commands.get(GET, 0) for rows in evidence.hours.values())


@pytest.mark.parametrize("seed", seeds(20, 500))
def test_what_is_seen_is_kept_once_however_the_store_fails(seed: int) -> None:
    chance = random.Random(seed)
    world, seen = World(), 0
    world.fails_to_open = chance.choice((True, False))

    async def run() -> Evidence:
        nonlocal seen
        for _ in range(40):
            match chance.choice(("see", "see", "keep", "fail", "hour", "open", "read")):
                case "see":
                    count = chance.randint(1, 9)
                    seen += count
                    world.sees(count)
                case "keep":
                    await world.keeper.keep()
                case "fail":
                    world.store.fails = not world.store.fails
                case "open":
                    world.fails_to_open = False
                case "hour":
                    world.clock.passes(3600.0)
                case "read" if not world.store.fails:
                    assert gets(await world.keeper.read(0.0)) == seen
                case _:
                    pass
        world.store.fails = world.fails_to_open = False
        return await world.keeper.read(0.0)

    assert gets(asyncio.run(run())) == seen
    assert world.keeper.kept


def test_trouble_is_told_once_and_its_end_too(capsys: pytest.CaptureFixture[str]) -> None:
    world = World()

    async def run() -> None:
        for fails in (False, True, True, True, False, False):
            world.store.fails = fails
            world.sees(1)
            await world.keeper.keep()
            assert world.keeper.kept is not fails

    asyncio.run(run())
    told = capsys.readouterr().err
    assert told.count("no space left on device") == 1
    assert told.count("evidence is kept again") == 1


def test_a_file_that_cannot_be_opened_at_first_gets_all_that_was_counted_meanwhile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = "defaults: {mode: audit}\nrules:\n  flush: {refuse: [FLUSHALL]}\n"
    world, file = World(policy(rules + "  keys: {refuse: [KEYS]}\n")), tmp_path / "evidence.sqlite"
    before = SqliteStore(file, 1 << 20, 30)
    before.add(Batch(1.0, 2.0, [], [RuleVersion("default", "old", "a", 1.0)], {}))
    before.close()
    file.rename(tmp_path / "there")
    file.mkdir()
    began = world.clock.wall
    world.begin(lambda: SqliteStore(file, 1 << 20, 30))

    async def run() -> Evidence:
        for number in range(3):
            world.sees(3)
            world.clock.passes(1800.0)
            assert gets(await world.keeper.read(0.0)) == 3 * (number + 1), "in memory"
            assert not world.keeper.kept
            if number == 1:
                world.clock.wall += 86_400.0
                world.puts(policy(rules))
        file.rmdir()
        (tmp_path / "there").rename(file)
        world.sees(4)
        world.clock.passes(600.0)
        found = await world.keeper.read(0.0)
        assert world.keeper.kept
        await world.keeper.release()
        return found

    found = asyncio.run(run())
    assert gets(found) == 13
    assert read_store(file, 0.0) == found
    assert found.spans == [(1.0, 2.0), (began, began + 3600.0), (began + 91_800.0, began + 92_400.0)]
    versions = {rule: [each for each in found.rules if each.rule == rule] for rule in ("old", "flush", "keys")}
    assert [[each.since - began for each in its[-2:]] for its in versions.values()] == [
        [1.0 - began, 0.0],
        [0.0],
        [0.0, 90_000.0],
    ]
    assert [its[-1].digest == REMOVED for its in versions.values()] == [True, False, True]
    told = capsys.readouterr().err
    assert told.count("evidence is kept in memory until its file can be used: cannot keep evidence") == 1
    assert told.count("evidence is kept in its file again, with what was counted in memory") == 1


def test_what_could_not_be_moved_into_a_file_is_moved_later_and_once() -> None:
    world = World()
    world.fails_to_open = True

    async def run() -> Evidence:
        world.sees(3)
        await world.keeper.keep()
        world.fails_to_open, world.store.fails = False, True
        world.sees(1)
        assert gets(await world.keeper.read(0.0)) == 4, "in memory"
        assert not world.keeper.kept
        world.store.fails = False
        return await world.keeper.read(0.0)

    assert gets(asyncio.run(run())) == 4
    assert (world.store.closed, world.keeper.kept) == (1, True)


@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0, -6.0])
def test_a_clock_that_jumps_begins_a_new_stretch(jump: float) -> None:
    world = World()

    async def run() -> None:
        for _ in range(3):
            world.clock.passes(10.0)
            await world.keeper.keep()
        world.clock.wall += jump
        for _ in range(2):
            world.clock.passes(10.0)
            await world.keeper.keep()

    asyncio.run(run())
    before, after = world.store.batches[:3], world.store.batches[3:]
    assert [len({batch.began for batch in part}) for part in (before, after)] == [1, 1]
    assert world.store.batches[2].began != world.store.batches[3].began
    assert all(batch.began <= batch.now for batch in world.store.batches)


def test_a_rule_has_a_version_since_it_judges_as_it_does() -> None:
    text = "defaults: {{mode: audit}}\nrules:\n  small: {{sizes: {{value: {}}}}}\n  flush: {{refuse: [FLUSHALL]}}\n"
    strict, lax = (policy(text.format(most)) for most in ("10KB", "20KB"))
    world = World(strict)

    async def run() -> Evidence:
        await world.keeper.keep()
        world.clock.passes(10.0)
        world.puts(lax)
        return await world.keeper.read(0.0)

    versions = asyncio.run(run()).rules
    assert [each.rule for each in versions].count("small") == 2
    assert [each.rule for each in versions].count("flush") == 1, "it judges as before"
    assert {each["rule"] for each in world.keeper.facts["default"]["rules"]} == {"small", "flush"}


@pytest.mark.parametrize("restarts", [False, True])
def test_a_rule_that_was_removed_and_comes_back_has_not_judged_meanwhile(restarts: bool) -> None:
    text = "rules:\n  flush: {refuse: [FLUSHALL]}\n"
    with_it, without = policy(text + "  keys: {refuse: [KEYS]}\n"), policy(text)
    world = World(with_it)

    async def run() -> Evidence:
        for its in (with_it, without, without, with_it):
            world.puts(its)
            if restarts:
                world.begin()
            await world.keeper.keep()
            world.clock.passes(10.0)
        return await world.keeper.read(0.0)

    began = world.clock.wall
    versions = asyncio.run(run()).rules
    digest = next(each.digest for each in versions if each.rule == "keys")
    assert [(each.digest, each.since - began) for each in versions if each.rule == "keys"] == [
        (digest, 0.0),
        (REMOVED, 10.0),
        (digest, 30.0),
    ]
    assert [each.since - began for each in versions if each.rule == "flush"] == [0.0]


def test_nothing_is_written_after_a_successor_keeps_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.server.evidence.keeper._ENDING_SECONDS", PATIENCE_SECONDS)
    world = World()

    async def run() -> None:
        world.sees(1)
        await world.keeper.release()
        world.sees(1)
        await world.keeper.keep()
        await world.keeper.release()

    asyncio.run(run())
    assert (gets(world.store.read(0.0)), world.store.closed) == (1, 1)


def test_what_waits_is_bounded_and_its_loss_is_counted() -> None:
    group, key = GroupEvidence(["default"]), VerdictKey("r", "audit", "refused", WHO, "GET", "a")
    for hour in range(60):
        group.add(0, EvidenceRows({key: VerdictRow(1, 1.0, 1.0)}, {GET: 1}), hour * 3600.0)
    pending = group.take()
    assert (len(pending), group.lost) == (48, {NOT_KEPT: 24})
    group.give_back(pending)
    assert group.take() == pending
    assert group.verdicts(0)[key].count == 60, "since it came into force"
    group.keep(0, ["another"])
    assert group.verdicts(0) == {}


@pytest.mark.parametrize("hours", [1, 3])
@pytest.mark.parametrize("seed", seeds(2, 10))
def test_what_waits_takes_so_many_bytes_and_its_sums_stay_exact(hours: int, seed: int) -> None:
    chance, group, given = random.Random(seed), GroupEvidence(["default"]), list[EvidenceRows]()
    for number in range(24):
        its = rows(chance, shapes=100_000, count=100)
        told: list[VerdictRow | FormRow] = [*its.verdicts.values(), *its.forms.values()]
        for row in told:
            row.exemplars = [Exemplar(("SET", "x" * 10_000), each.at) for each in row.exemplars]
        given.append(its)
        group.add(0, its, NOON + number % hours * 3600.0)
        if number % 8 == 7:
            group.give_back(group.take())
    pending = group.take()
    assert sum(map(size_of, pending.values())) <= MOST_BYTES
    assert len({hour for hour, _ in pending}) == hours
    assert sums(pending.values()) == sums(given)
    assert set(group.lost) == {FOLDED_FOR_ROOM}


def test_of_what_is_folded_already_the_oldest_hours_go() -> None:
    group = GroupEvidence(["default"])
    for hour in range(4):
        apps = {CommandKey(Identity(f"app {number}"), ""): 1 for number in range(4_500)}
        group.add(0, EvidenceRows(commands=apps), hour * 3600.0)
    pending = group.take()
    assert (min(pending)[0], group.lost[NOT_KEPT]) == (3 * 3600, 3 * 4_500)


def test_a_successor_leaves_the_store_to_its_predecessor_at_first() -> None:
    world = World()
    keeper = EvidenceKeeper(world.workers, ["default"], lambda: world.store, True, steady=lambda: world.clock.steady)
    keeper.begin()
    world.sees(2)

    async def run() -> Evidence:
        with pytest.raises(EvidenceError, match="ask again in a few seconds"):
            await keeper.read(0.0)
        world.clock.passes(10.0)
        return await keeper.read(0.0)

    assert gets(asyncio.run(run())) == 2


def test_a_reader_that_gives_up_leaves_the_write_alone() -> None:
    world = World()
    begun, go = threading.Event(), threading.Event()
    add = world.store.add

    def slow(batch: Batch) -> None:
        begun.set()
        go.wait()
        add(batch)

    world.store.add = slow  # type: ignore[method-assign]  # a disk that takes its time
    world.sees(3)

    async def run() -> Evidence:
        reading = asyncio.ensure_future(world.keeper.keep())
        await asyncio.to_thread(begun.wait)
        reading.cancel()
        go.set()
        return await world.keeper.read(0.0)

    assert gets(asyncio.run(run())) == 3
    assert sum(rows.commands.get(GET, 0) for batch in world.store.batches for _, _, rows in batch.rows) == 3


def test_a_process_that_never_served_writes_nothing() -> None:
    world = World()
    keeper = EvidenceKeeper(world.workers, ["default"], lambda: world.store)
    world.sees(1)
    asyncio.run(keeper.release())
    assert (world.store.batches, world.store.closed) == ([], 0)


def test_a_new_file_is_told_the_rules_in_force_and_a_fault_of_any_kind_keeps_the_rows() -> None:
    world = World(policy("defaults: {mode: audit}\nrules:\n  flush: {refuse: [FLUSHALL]}\n"))

    async def run() -> Evidence:
        await world.keeper.keep()
        world.store = FailingStore()  # the file was damaged, and set aside
        world.keeper._store = world.store
        world.sees(2)
        world.store.add = None  # type: ignore[method-assign, assignment]  # calling it raises TypeError
        await world.keeper.keep()
        assert not world.keeper.kept
        del world.store.add
        return await world.keeper.read(0.0)

    found = asyncio.run(run())
    assert ([each.rule for each in found.rules], gets(found)) == (["flush"], 2)
