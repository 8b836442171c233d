"""A scan that was interrupted goes on in another process: no key that stays is missing, and none counts twice."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from proxy.server.stored.model import NodeFigures, Scan
from proxy.server.stored.node_walk import NodeWalk, OtherProcessError, Place, Tally
from proxy.server.stored.seen import SeenKeys
from proxy.server.stored.totals import Totals
from proxy.server.stored.unfinished import Unfinished, UnfinishedError
from tests.conftest import seeds
from tests.server.stored.fake_servers import FakeJudge, FakeServer, Value, slot_of


class Process:
    """One of the processes that scan a server; its walk is one step behind what it asks."""

    def __init__(self, folder: Path, exact: int) -> None:
        self.file = folder / "policy.yaml"
        self.file.write_text("keyrail: 1")
        self.unfinished = Unfinished(folder, "redis://h", [self.file], [False])
        self.judge, self.seen = FakeJudge(), SeenKeys(lambda: 100, exact)
        self.totals = Totals(lambda key: key.decode(), by_slot=True)
        self.figures = NodeFigures("one")
        self.walk = NodeWalk(Tally(self.judge, self.totals, self.seen), self.figures)

    def resume(self, *, same: bool) -> None:
        found = self.unfinished.read(self.seen)
        self.totals.resume(found.scan, found.slots)
        (figures,) = found.scan.nodes
        figures.walks -= 1
        self.figures = figures
        self.walk = NodeWalk(Tally(self.judge, self.totals, self.seen), figures)
        self.walk.place = found.place
        if not same:
            self.walk.start_over()

    def keep(self) -> None:
        its = self.totals.patterns, self.totals.findings, self.totals.largest(), [self.figures]
        scan = Scan("u", "p", 0.0, 1.0, False, 0.05, *its, faults=self.totals.faults)
        self.unfinished.write(scan, ["one"], replace(self.walk.place, run_id="a"), self.seen, self.totals)


@pytest.mark.parametrize("seed", seeds(60, 2000))
def test_a_scan_goes_on(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    server, exact = FakeServer(random), random.choice([20, 1000])
    server.bits = random.randint(2, 8)
    server.held = {
        number: {b"k%d" % each: Value() for each in range(random.randint(0, 80))}
        for number in random.sample(range(4), random.randint(1, 3))
    }
    staying = {(number, key) for number, keys in server.held.items() for key in keys if random.random() < 0.9}
    counted: Counter[bytes] = Counter()
    for number in range(random.randint(1, 4) + 1):
        process = Process(tmp_path, exact)
        if number:
            same = random.random() < 0.7
            server.salt = server.salt if same else random.randrange(1 << 32)
            process.resume(same=same)
        walking = process.walk.walk()
        request, left = next(walking), random.randrange(30)
        with suppress(StopIteration):
            while left:
                left -= 1
                server.bits = random.randint(2, 8) if random.random() < 0.1 else server.bits
                if random.random() < 0.1:
                    server.salt = random.randrange(1 << 32)
                    request = walking.throw(OtherProcessError())
                else:
                    request = walking.send(server.answer(request))
        process.keep()
        for held, keys in server.held.items():
            for key in [key for key in keys if (held, key) not in staying and random.random() < 0.2]:
                del keys[key]
            keys[b"new%d" % number] = Value()
        counted += Counter(key.name for key in process.judge.judged)
    last = Process(tmp_path, exact)
    last.resume(same=True)
    walking = last.walk.walk()
    request, other = next(walking), random.random() < 0.3
    with suppress(StopIteration):
        if other:  # between the connection and the first reply
            server.salt = random.randrange(1 << 32)
            request = walking.throw(OtherProcessError())
        while True:
            request = walking.send(server.answer(request))
    counted += Counter(key.name for key in last.judge.judged)
    expected = Counter(key for _, key in staying)
    assert all(counted[key] >= times for key, times in expected.items()), "a key is missing"
    assert all(counted[key] <= len(server.held) for key in counted), "a key has counted twice"
    total = sum(counted.values())
    assert total == sum(row.keys for row in last.totals.patterns.values()) == last.figures.counted
    assert total == sum(row.enforced for row in last.totals.faults.values())
    assert sum(each.keys for each in last.totals.heaviest_slots()) <= total
    assert last.totals.used_slots() == len({slot_of(key) for key in counted})


@pytest.mark.parametrize("exact", [10, 1000])
def test_marks_are_the_same_afterwards(exact: int) -> None:
    first = SeenKeys(lambda: 100, exact)
    assert all(first.add(mark * 2**40 + 7) for mark in range(1, 60))
    again = SeenKeys(lambda: 100, exact)
    again.take(first.pieces(), first.expected_missed)
    assert again.expected_missed == first.expected_missed
    assert again.is_exact == first.is_exact == (exact == 1000)
    assert not any(again.add(mark * 2**40 + 7) for mark in range(1, 60))
    assert again.add(5)


def test_what_does_not_fit_is_not_gone_on_with(tmp_path: Path) -> None:
    process = Process(tmp_path, 1000)
    with pytest.raises(UnfinishedError, match="there is no unfinished scan of it"):
        process.unfinished.read(SeenKeys(int))
    process.keep()
    process.file.write_text("keyrail: 1\nrules: {}")
    with pytest.raises(UnfinishedError, match="another policy, or other options"):
        Unfinished(tmp_path, "redis://h", [process.file], [False]).read(SeenKeys(int))
    process.seen.add(7)
    process.keep()
    whole = process.unfinished.file.read_bytes()
    damaged = [whole[: whole.index(b"\n") + 1], whole[:-8], whole + bytes(8), whole.replace(b'"one"]', b"]")]
    for content in (b"", b"{}\n", *damaged, whole.replace(b'"pieces": [8]', b'"pieces": [1]')):
        process.unfinished.file.write_bytes(content)
        seen = SeenKeys(int)
        with pytest.raises(UnfinishedError, match="is no unfinished scan of this version"):
            process.unfinished.read(seen)
        assert seen.add(1)


def test_another_process_of_the_server_is_walked_from_the_beginning() -> None:
    walk = NodeWalk(Tally(FakeJudge(), Totals(str), SeenKeys(int)), NodeFigures("one", before=9, after=4))
    walk.place = Place([0], 3, "17", "a")
    walk.start_over()
    assert walk.place == Place()
    assert (walk.figures.restarts, walk.figures.before, walk.figures.after) == (1, 0, 0)
