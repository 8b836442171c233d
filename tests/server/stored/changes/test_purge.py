"""A purge deletes what it was asked to delete, and no key that is another one by then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from proxy.server.stored.changes.model import Outcome
from proxy.server.stored.changes.purge import Purge, Wanted
from proxy.server.stored.node_run import NodeLostError
from proxy.server.stored.node_walk import ScanRefusedError
from proxy.server.stored.slot_moves import SlotMoves
from tests.server.stored.changes.given import Run, random_trouble
from tests.server.stored.fake_servers import FakeCluster, FakeServer, Value, error

DAY = 86_400
PHASES = [Phase.explicit, Phase.reuse, Phase.generate]
"""Histories by ``random`` are slow to shrink, and hardly get shorter."""
LETTERS = b"ab:*?[]^-\\"
names = st.lists(st.sampled_from([b"%c" % each for each in LETTERS]), min_size=1, max_size=6).map(b"".join)
patterns = names | st.just(b"*") | names.map(lambda name: name[:1] + b"*") | names.map(lambda name: b"*" + name[:1])
types = st.sampled_from(["", "string", "list"])


def matches(pattern: bytes, name: bytes) -> bool:
    """As ``stringmatchlen`` in util.c of Redis reads it, step by step."""
    if not pattern:
        return not name
    head, rest = pattern[:1], pattern[1:]
    if head == b"*":
        return any(matches(rest, name[at:]) for at in range(len(name) + 1))
    if not name:
        return False
    if head == b"?":
        return matches(rest, name[1:])
    if head == b"[":
        negated, rest = rest[:1] == b"^", rest[rest[:1] == b"^" :]
        found = False
        while rest and rest[:1] != b"]":
            if rest[:1] == b"\\" and len(rest) > 1:
                found, rest = found or rest[1] == name[0], rest[2:]
            elif len(rest) > 2 and rest[1:2] == b"-":
                low, high = sorted((rest[0], rest[2]))
                found, rest = found or low <= name[0] <= high, rest[3:]
            else:
                found, rest = found or rest[0] == name[0], rest[1:]
        return found != negated and matches(rest[1:], name[1:])
    if head == b"\\" and rest:
        head, rest = rest[:1], rest[1:]
    return head == name[:1] and matches(rest, name[1:])


def purge(wanted: Wanted, protected: Callable[[bytes], bool] = lambda _: False) -> Purge:
    return Purge(wanted, lambda _, command: "keep" if protected(command[1]) else "", Random(1).random)


def fits(wanted: Wanted, value: Value) -> bool:
    """Whether a key with this value is to be purged, but for its name."""
    if wanted.type not in ("", value.type.decode()) or (wanted.without_ttl and value.ttl != -1):
        return False
    if wanted.expire is not None and -1 < value.ttl <= 1100 * wanted.expire:
        return False
    return wanted.idle is None or value.idle >= wanted.idle


def random_value(random: Random) -> Value:
    return Value(
        random.choice([b"string", b"string", b"list"]),
        random.choice([-1, -1, 5_000, 90_000_000]),
        idle=random.choice([0, DAY, 40 * DAY]),
    )


class Clients:
    """They write and read, and keep what they have not touched since the beginning."""

    def __init__(self, server: FakeServer, random: Random) -> None:
        self.server = server
        self.random = random
        self.touched: set[bytes] = set()

    def act(self) -> None:
        held = self.server.held[0]
        if not held or self.random.random() < 0.5:
            return
        self.server.bits = self.random.choice([self.server.bits, self.random.randint(0, 6)])
        key = self.random.choice([*held])
        self.touched.add(key)
        match self.random.randrange(5):
            case 0:
                held[key] = random_value(self.random)
            case 1:
                del held[key]
            case 2:
                held[key] = replace(held[key], ttl=self.random.choice([-1, 100, 80_000_000, 95_000_000]))
            case 3:
                held[key].idle = 0  # a read
            case 4:
                held[key] = Value(held[key].type, held[key].ttl)


@pytest.mark.parametrize("scripts", [True, False])
@settings(max_examples=300, deadline=None, phases=PHASES)
@given(
    st.dictionaries(names, st.none(), max_size=30),
    patterns,
    types,
    st.booleans(),
    st.sampled_from([None, 30 * DAY]),
    st.sampled_from([None, 7 * DAY]),
    st.sampled_from([None, 3]),
    st.randoms(use_true_random=False),
)
def test_only_what_is_wanted_goes(
    scripts: bool,
    keys: dict[bytes, None],
    pattern: bytes,
    kind: str,
    without_ttl: bool,
    idle: int | None,
    expire: int | None,
    limit: int | None,
    random: Random,
) -> None:
    if not scripts:
        idle = expire = None
    wanted = Wanted(pattern, kind, "", without_ttl, idle, expire)
    server = FakeServer(random)
    server.refuses = set() if scripts else {b"EVAL"}
    server.held[0] = {key: random_value(random) for key in keys}
    server.held[1] = {key: random_value(random) for key in keys}
    before, others = {key: replace(value) for key, value in server.held[0].items()}, dict(server.held[1])
    run, clients = Run(purge(wanted, lambda key: b":" in key), limit=limit), Clients(server, random)
    is_calm = random.random() < 0.3
    losses = 0

    def trouble() -> Exception | None:
        nonlocal losses
        found = None if is_calm else random_trouble(random, 0.1)
        losses += found is not None
        return found if losses < 10 else None

    run.before, run.trouble, run.runs = clients.act, trouble, lambda: random.random() < 0.5
    check = server.changing

    def change(database: int, command: tuple[bytes, ...]) -> int:
        key, value = command[1], server.held[database].get(command[1])
        if value is not None:
            assert matches(pattern, key), "not of the pattern"
            assert b":" not in key, "protected"
            assert fits(wanted, value), "it is another one by now"
            shown_type, shown_ttl = server.shown[key]
            assert (value.type, value.ttl == -1) == (shown_type, shown_ttl == -1)
            assert value.ttl <= shown_ttl, "its TTL was renewed"
            assert any(key in batch for batch in run.notes.batches), "not in the journal"
        return check(database, command)

    server.changing = change
    run.go(server)
    assert server.held[1] == others
    done = [command[1] for _, command, _ in server.changed]
    unknown = run.notes.ended(Outcome.UNKNOWN)
    assert run.notes.ended(Outcome.DONE) <= {*done}
    assert {*done} <= run.notes.ended(Outcome.DONE) | unknown, "the journal lacks a key"
    assert run.changes.found.unknown == len(unknown)
    assert len(done) == len({*done}), "a key was changed twice"
    assert limit is None or len(done) <= limit
    assert run.tally.totals.patterns == {} or sum(row.keys for row in run.tally.totals.patterns.values()) == len(
        run.notes.ended(Outcome.DONE)
    )
    if limit is None:
        for key, value in before.items():
            if (
                key not in clients.touched | unknown
                and matches(pattern, key)
                and b":" not in key
                and fits(wanted, value)
            ):
                assert key in done, "it was left"


def test_a_dry_run_counts_what_would_go_and_asks_nothing_that_writes() -> None:
    server = FakeServer(Random(1))
    server.held[0] = {b"a:%d" % each: Value(idle=each * DAY) for each in range(60)} | {b"b:1": Value(idle=99 * DAY)}
    run = Run(purge(Wanted(b"a:*", idle=30 * DAY)), dry=True)
    run.go(server)
    assert run.outcomes == {Outcome.DONE: 30}
    assert run.changes.found.unknown == 0
    assert sum(row.bytes for row in run.tally.totals.patterns.values()) == 30 * 64
    assert len(server.held[0]) == 61
    asked = {command[0] for command in server.asked}
    assert asked == {b"DBSIZE", b"SCAN", b"TYPE", b"PTTL", b"MEMORY", b"OBJECT"}
    assert not any(b"b:1" in command for command in server.asked), "what does not match is not looked at"


def test_a_limit_is_used_up_also_where_keys_were_left_alone() -> None:
    server = FakeServer(Random(1))
    server.held[0] = {b"a%02d" % each: Value() for each in range(60)}
    run = Run(purge(Wanted(b"*")), limit=40)
    plain = server.evaluating

    def changes_meanwhile(database: int, value: Value | None, arguments: Any) -> Any:
        return b"changed" if arguments[-1].endswith(b"7") else plain(database, value, arguments)

    server.evaluating = changes_meanwhile
    run.go(server)
    assert run.outcomes[Outcome.DONE] == 40
    assert run.changes.found.reached_limit
    assert run.figures.finished


@pytest.mark.parametrize("text", ["BUSY Redis is busy running a script", "CLUSTERDOWN The cluster is down"])
def test_what_is_refused_for_a_moment_is_sent_again(text: str) -> None:
    server, left = FakeServer(Random(1)), [3]
    server.held[0] = {b"a": Value(), b"b": Value()}
    plain = server.evaluating

    def busy(database: int, value: Value | None, arguments: Any) -> Any:
        left[0] -= 1
        return error(text) if left[0] >= 0 else plain(database, value, arguments)

    server.evaluating = busy
    run = Run(purge(Wanted(b"*")))
    run.go(server)
    assert run.outcomes == {Outcome.DONE: 2}
    assert run.changes.found.unknown == 0
    left[0] = 99
    server.held[0] = {b"c": Value()}
    run = Run(purge(Wanted(b"*")))
    run.go(server)
    assert run.outcomes == {Outcome.BUSY: 1}
    assert run.changes.found.unknown == 0


def test_a_ttl_that_comes_too_late_is_drawn_again() -> None:
    server = FakeServer(Random(1))
    server.held[0] = {b"a": Value(), b"soon": Value(ttl=1000)}
    run = Run(purge(Wanted(b"*", expire=60)))
    plain = server.evaluating

    def stall(database: int, value: Value | None, arguments: Any) -> Any:
        server.seconds += 400 if not run.notes.outcomes else 0
        return plain(database, value, arguments)

    server.evaluating = stall
    run.go(server)
    assert run.notes.outcomes == {b"a": [Outcome.LATE, Outcome.DONE]}
    assert 60_000 <= server.held[0][b"a"].ttl <= 66_000
    assert run.changes.found.left == {"expire sooner": 1}


def test_without_scripts_idle_keys_and_ttls_are_left_alone() -> None:
    for wanted in (Wanted(b"*", idle=DAY), Wanted(b"*", expire=DAY)):
        server = FakeServer(Random(1))
        server.refuses = {b"EVAL"}
        server.held[0] = {b"a": Value(idle=2 * DAY)}
        run = Run(purge(wanted))
        run.go(server)
        assert run.outcomes == {Outcome.REFUSED: 1}
        assert "EVAL" in next(iter(run.changes.found.refusals))
        assert b"a" in server.held[0]


@pytest.mark.parametrize("refused", [b"MULTI", b"EXEC", b"WATCH", b"UNLINK"])
def test_without_a_transaction_nothing_is_deleted(refused: bytes) -> None:
    server = FakeServer(Random(1))
    server.refuses = {b"EVAL", refused}
    server.held[0] = {b"a": Value(), b"b": Value()}
    run = Run(purge(Wanted(b"*")))
    run.go(server)
    assert server.held[0].keys() == {b"a", b"b"}
    assert run.outcomes == {Outcome.REFUSED: 2}
    assert server.queued is None, "no transaction stays open"
    assert server.watched == [], "no key stays watched"


def test_a_key_of_which_nothing_is_deleted_is_not_watched_any_more() -> None:
    server = FakeServer(Random(1))
    server.refuses = {b"EVAL", b"MULTI"}
    server.held[0] = {b"%d" % each: Value() for each in range(9)}
    run = Run(purge(Wanted(b"*")))

    def allow_after_the_first() -> None:
        if run.outcomes[Outcome.REFUSED] == 1 and b"MULTI" in server.refuses:
            server.refuses = {b"EVAL"}
            (refused,) = run.notes.ended(Outcome.REFUSED)
            server.held[0][refused] = Value()  # somebody writes it again

    run.before = allow_after_the_first
    run.go(server)
    assert run.outcomes == {Outcome.REFUSED: 1, Outcome.DONE: 8}


@pytest.mark.parametrize("refused", [{b"EXEC"}, set[bytes]()])
def test_who_may_not_end_a_transaction_gets_no_further(refused: set[bytes]) -> None:
    server = FakeServer(Random(1))
    server.refuses = {b"EVAL", b"DISCARD"} | refused
    server.held[0] = {b"a": Value(), b"b": Value()}
    run = Run(purge(Wanted(b"*")))

    def gone() -> None:
        if run.notes.batches and not refused:
            server.held[0].pop(run.notes.batches[-1][0], None)

    run.before = gone
    with pytest.raises(ScanRefusedError, match="DISCARD: NOPERM"):
        run.go(server)
    assert len(run.notes.batches) <= 2
    assert not server.changed


def test_idle_under_lfu_is_an_error() -> None:
    server = FakeServer(Random(1))
    server.held[0] = {b"a": Value()}
    text = "ERR An LFU maxmemory policy is selected, idle time not tracked."
    server.objects = error(text)
    with pytest.raises(ScanRefusedError, match="LFU"):
        Run(purge(Wanted(b"*", idle=DAY))).go(server)


def test_a_server_that_has_become_a_replica_is_left() -> None:
    server = FakeServer(Random(1))
    server.held[0] = {b"a": Value()}
    server.evaluating = lambda *_: error(
        "ERR Error running script: -READONLY You can't write against a read only replica."
    )
    run = Run(purge(Wanted(b"*")))
    with pytest.raises(NodeLostError, match="replica"):
        run.go(server)
    assert run.changes.found.unknown == 0


@pytest.mark.parametrize("scripts", [True, False])
@settings(max_examples=100, deadline=None, phases=PHASES)
@given(st.randoms(use_true_random=False))
def test_slots_move_meanwhile(scripts: bool, random: Random) -> None:
    tags = [b"{%d}" % number for number in range(6)]
    keys = [b"%c%d%b" % (random.choice(b"kx"), number, random.choice(tags)) for number in range(random.randint(1, 40))]
    cluster, run = FakeCluster(random, keys), Run(purge(Wanted(b"k*", without_ttl=True)))
    for node in cluster.nodes:
        node.refuses = set() if scripts else {b"EVAL"}
    events = [cluster.open_slot, cluster.move_keys, cluster.move_keys, cluster.close_slot, cluster.move_at_once]
    moves, steps = SlotMoves(), 0
    while due := moves.due(cluster.seen()):
        moves.begin(due)
        walks = {each.id: run.walk(next(n for n in cluster.nodes if n.name == each.id), moves.moved) for each in due}
        while walks:
            steps += 1
            if steps < 60 and random.random() < 0.6:
                random.choice(events)()
                moves.look(cluster.seen())
            if steps == 60:
                for _ in range(20):
                    cluster.close_slot()
            name = random.choice([*walks])
            try:
                next(walks[name])
            except StopIteration:
                moves.end(name)
                del walks[name]
    gone = [command[1] for node in cluster.nodes for _, command, _ in node.changed]
    assert len(gone) == len({*gone})
    assert all(key.startswith(b"k") for key in gone)
    refused = run.notes.ended(Outcome.REFUSED)
    assert not (scripts and refused)
    assert {*gone} | refused == {key for key in keys if key.startswith(b"k")}


def test_this_test_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that checks nothing is found."""

    def unchecked(server: FakeServer, database: int, value: Value | None, arguments: Any) -> Any:
        return b"done" if value is not None and server.changing(database, tuple(arguments[6:])) else b"gone"

    monkeypatch.setattr(FakeServer, "_eval", unchecked)
    with pytest.raises((AssertionError, ExceptionGroup)):
        test_only_what_is_wanted_goes(scripts=True)
