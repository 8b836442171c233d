"""A scan counts each key that stays exactly once, whatever happens to servers and slots meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from proxy.net.topology.slot_map import ClusterNode
from proxy.rules.stored import Fault
from proxy.server.stored.model import NodeFigures
from proxy.server.stored.node_walk import NodeWalk, OtherProcessError, Request, ScanRefusedError, Tally, Walking
from proxy.server.stored.seen import SeenKeys
from proxy.server.stored.slot_moves import MOST_FOR_OPEN, SlotMoves
from proxy.server.stored.totals import Totals
from tests.conftest import seeds
from tests.server.stored.fake_servers import FakeCluster, FakeJudge, FakeServer, Value, slot_of


def tally() -> Tally:
    return Tally(FakeJudge(), Totals(lambda key: key.decode()), SeenKeys(int))


def judged(of: Tally) -> Counter[bytes]:
    judge = of.judge
    assert isinstance(judge, FakeJudge)
    return Counter(key.name for key in judge.judged)


def drive(walking: Walking, answer: Callable[[Request], Any], between: Callable[[], bool] = lambda: False) -> None:
    """To the end; where ``between`` says so, another process answers from then on."""
    request = next(walking)
    try:
        while True:
            request = walking.throw(OtherProcessError()) if between() else walking.send(answer(request))
    except StopIteration:
        return


@pytest.mark.parametrize("seed", seeds(60, 2000))
def test_one_server(seed: int) -> None:
    random = Random(seed)
    server, found = FakeServer(random), tally()
    server.bits = random.randint(0, 8)
    server.held = {
        number: {b"k%d" % each: Value(ttl=random.choice([-1, 500])) for each in range(random.randint(0, 60))}
        for number in random.sample(range(16), random.randint(1, 3))
    }
    staying = {(number, key) for number, keys in server.held.items() for key in keys if random.random() < 0.8}
    deaths = 0

    def happens() -> bool:
        nonlocal deaths
        number = random.choice([*server.held])
        match random.randrange(6):
            case 0:
                server.bits = random.randint(0, 8)  # the table grows or shrinks
            case 1:
                server.held[number][b"new%d" % random.randrange(20)] = Value()
            case 2:
                gone = [key for key in server.held[number] if (number, key) not in staying]
                server.held[number].pop(random.choice(gone), None) if gone else None
            case 3 if random.random() < 0.1:
                server.salt = random.randrange(1 << 32)
                deaths += 1
                return True
        return False

    figures = NodeFigures("one")
    drive(NodeWalk(found, figures).walk(), server.answer, happens)
    times = judged(found)
    expected = Counter(key for _, key in staying)
    assert all(times[key] >= number for key, number in expected.items()), "a key is missing"
    assert all(times[key] <= len(server.held) for key in times)
    assert sum(times.values()) == figures.counted == sum(figures.databases.values())
    assert figures.restarts <= deaths
    assert figures.finished


def test_a_shrinking_table_shows_keys_again_and_they_count_once() -> None:
    random = Random(1)
    server, found, figures = FakeServer(random), tally(), NodeFigures("one")
    server.bits = 8
    server.held[0] = {b"k%d" % each: Value() for each in range(200)}

    def shrink() -> bool:
        server.bits = max(server.bits - 1, 0)
        return False

    drive(NodeWalk(found, figures).walk(), server.answer, shrink)
    assert figures.repeated > 0
    assert judged(found) == Counter(dict.fromkeys(server.held[0], 1))


def test_a_key_that_has_gone_does_not_count() -> None:
    server, found, figures = FakeServer(Random(1)), tally(), NodeFigures("one")
    server.held[0] = {b"k%d" % each: Value() for each in range(50)}
    walking, steps = NodeWalk(found, figures).walk(), 0

    def go() -> bool:
        nonlocal steps
        steps += 1
        if steps == 4:
            server.held[0].clear()  # FLUSHALL
        return False

    drive(walking, server.answer, go)
    assert figures.gone > 0
    assert figures.gone + figures.counted == figures.shown < 50
    assert (figures.before, figures.after) == (50, 0)


def test_members_are_counted_only_where_they_are_wanted_and_harm_nothing() -> None:
    server = FakeServer(Random(1))
    server.held[0] = {b"long": Value(b"list", 5, members=11), b"short": Value(b"list", 5), b"text": Value(ttl=5)}
    for harmless, unsure in ((False, 2), (True, 0)):
        server.asked.clear()
        found = tally()
        walk = NodeWalk(found, NodeFigures("one"))
        walk.counts_members = harmless
        drive(walk.walk(), server.answer)
        asked = {each for each in server.asked if each[0].endswith(b"LEN")}
        assert asked == ({(b"LLEN", b"long"), (b"LLEN", b"short")} if harmless else set())
        rows = [row for of, row in found.totals.faults.items() if of.fault is Fault.TOO_LARGE]
        assert sum(row.sure for row in rows) == (1 if harmless else 0)
        assert sum(row.unsure for row in rows) == unsure
        assert bool(found.notes) != harmless


def test_no_commands_but_those_that_leave_access_times_alone() -> None:
    server, found = FakeServer(Random(1)), tally()
    server.held[0] = {b"k%d" % each: Value() for each in range(50)}
    drive(NodeWalk(found, NodeFigures("one")).walk(), server.answer)
    assert {each[0] for each in server.asked} == {b"INFO", b"DBSIZE", b"SCAN", b"TYPE", b"PTTL", b"MEMORY"}
    assert all(each[1] == b"USAGE" and len(each) == 3 for each in server.asked if each[0] == b"MEMORY")


def test_without_memory_usage_bytes_are_unknown_and_that_is_said() -> None:
    server, found, figures = FakeServer(Random(1)), tally(), NodeFigures("one")
    server.refuses = {b"MEMORY"}
    server.held[0] = {b"k%d" % each: Value() for each in range(50)}
    drive(NodeWalk(found, figures).walk(), server.answer)
    assert figures.counted == figures.unmeasured == 50
    assert sum(each[0] == b"MEMORY" for each in server.asked) < 50, "it is not asked again and again"
    assert [*found.notes] == [
        "bytes are not known: one answers MEMORY USAGE: NOPERM this user has no permissions to run the 'memory' command"
    ]


def test_a_user_who_may_not_walk_is_told_so() -> None:
    server, found, figures = FakeServer(Random(1)), tally(), NodeFigures("one")
    server.held[0] = {b"k": Value()}
    for command in ("SCAN", "TYPE", "PTTL"):
        server.refuses = {command.encode()}
        with pytest.raises(ScanRefusedError, match=rf"^{command}: NOPERM"):
            drive(NodeWalk(found, figures).walk(), server.answer)
    assert (figures.unreadable, figures.counted) == (0, 0)
    server.refuses = {b"INFO"}
    drive(NodeWalk(found, figures).walk(), server.answer)
    assert (figures.counted, len(found.notes)) == (1, 1)


# Clusters


class Scanning:
    """A scan of a cluster, step by step, in which things happen."""

    def __init__(self, cluster: FakeCluster, random: Random) -> None:
        self.cluster = cluster
        self.random = random
        self.found = tally()
        self.moves = SlotMoves()
        self.phases = 0

    def run(self, happens: Callable[[], None]) -> None:
        while due := self.moves.due(self.cluster.seen()):
            self.phases += 1
            assert self.phases < 50, "it does not end"
            self.moves.begin(due)
            walks = {each.id: self._walk(each.id) for each in due}
            while walks:
                happens()
                name = self.random.choice([*walks])
                if next(walks[name], None) is None:
                    del walks[name]

    def _walk(self, name: str) -> Iterator[bool]:
        node = next((each for each in self.cluster.nodes if each.name == name), None)
        if node is None:
            return  # it was lost before its walk began
        walk = NodeWalk(self.found, NodeFigures(name), moved=self.moves.moved)
        walk.counts_members = True
        walking = walk.walk()
        request = next(walking)
        while True:
            yield True
            if node not in self.cluster.nodes:
                return  # it is lost: its walk does not come to an end
            try:
                request = walking.send(node.answer(request))
            except StopIteration:
                self.moves.end(name)
                return


CALM = 120
"""Steps after which nothing happens any more: a scan of slots that always move need not end."""


@pytest.mark.parametrize("seed", seeds(150, 5000))
def test_slots_move_and_primaries_die(seed: int) -> None:
    random = Random(seed)
    tags = [b"{%d}" % number for number in range(8)]
    keys = [b"k%d%b" % (number, random.choice(tags)) for number in range(random.randint(1, 60))]
    cluster = FakeCluster(random, keys)
    for node in cluster.nodes:
        node.held[0] = {key: Value(random.choice([b"string", b"list"])) for key in node.held[0]}
    staying, steps = {key for key in keys if random.random() < 0.8}, 0
    events = [cluster.open_slot, cluster.move_keys, cluster.move_keys, cluster.close_slot, cluster.move_at_once]
    events += [cluster.give_back] * random.randrange(2) + [cluster.promote] * random.randrange(2)
    scanning = Scanning(cluster, random)

    def happens() -> None:
        nonlocal steps
        steps += 1
        if steps < CALM and random.random() < 0.6:
            random.choice(events)()
            scanning.moves.look(cluster.seen())
        for node in cluster.nodes:
            node.bits = random.randint(2, 6) if random.random() < 0.05 else node.bits
            gone = [key for key in node.held[0] if key not in staying]
            if gone and random.random() < 0.05:
                del node.held[0][random.choice(gone)]

    scanning.run(happens)
    times = judged(scanning.found)
    assert staying <= times.keys(), f"missing: {staying - times.keys()}"
    assert set(times.values()) <= {1}, "a key has counted twice"
    judge = scanning.found.judge
    assert isinstance(judge, FakeJudge)
    assert all((key.members is not None) == (key.type == "list") for key in judge.judged), "wherever it was then"


def test_a_slot_that_stays_open_costs_one_more_walk_of_its_target() -> None:
    keys = [b"k%d{tag}" % number for number in range(30)]
    cluster = FakeCluster(Random(3), keys)
    source = cluster.owner[slot_of(keys[0])]
    target = next(node for node in cluster.nodes if node is not source)
    cluster.slots += [0, 8000, 16_000]
    cluster.opened[slot_of(keys[0])] = target
    cluster.move_keys()
    scanning = Scanning(cluster, Random(4))
    scanning.run(lambda: None)
    assert judged(scanning.found) == Counter(dict.fromkeys(keys, 1)), "keys of both parts of the slot"
    assert scanning.phases == 2
    assert not scanning.moves.unsettled


def test_a_new_node_has_keys_before_it_has_a_slot() -> None:
    keys = [b"k%d{tag}" % number for number in range(30)]
    cluster = FakeCluster(Random(3), keys)
    source = cluster.owner[slot_of(keys[0])]
    cluster.opened[slot_of(keys[0])] = next(node for node in cluster.nodes if node is not source)
    cluster.move_keys()
    assert len(source.held[0]) < len(keys)
    scanning = Scanning(cluster, Random(4))
    scanning.run(lambda: None)
    assert judged(scanning.found) == Counter(dict.fromkeys(keys, 1))


def test_slots_that_stay_open_both_ways_do_not_keep_a_scan_for_ever() -> None:
    cluster = FakeCluster(Random(3), [b"a", b"b"])
    cluster.slots = [0, 8000, 16_000]
    one, other = cluster.nodes[:2]
    cluster.opened = {0: other, 8000: one}
    scanning = Scanning(cluster, Random(4))
    scanning.run(lambda: None)
    assert scanning.phases <= 2 + MOST_FOR_OPEN
    assert scanning.moves.unsettled


def test_keys_on_a_node_that_does_not_own_them_are_no_keys_of_the_cluster() -> None:
    cluster = FakeCluster(Random(3), [b"a", b"b", b"c"])
    stray = next(node for node in cluster.nodes if b"a" not in node.held[0])
    stray.held[0][b"a"] = Value()
    scanning = Scanning(cluster, Random(4))
    scanning.run(lambda: None)
    assert judged(scanning.found) == {b"a": 1, b"b": 1, b"c": 1}


def test_this_test_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a second walk of the nodes that get slots, keys are missing."""

    def first_only(self: SlotMoves, node: ClusterNode, open_now: object) -> bool:
        walked = self._walked.get(node.id)
        return walked is None or not walked.ended

    def hunt() -> None:
        for seed in range(100):
            test_slots_move_and_primaries_die(seed)

    monkeypatch.setattr(SlotMoves, "_must_walk", first_only)
    with pytest.raises(AssertionError, match="missing"):
        hunt()
