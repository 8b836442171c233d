"""SCAN over several nodes shows each key that stays, whatever happens to the cluster meanwhile, and ends."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import cache
from random import Random
from typing import cast
from zlib import crc32

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.cluster.own_slots import KnownMarks
from proxy.cluster.scan_cursor import MOST_OWN, MOST_RESTARTS, ScanCursor, read_cursor
from proxy.cluster.scan_walk import scan
from proxy.commands import slots
from proxy.commands.slots import SLOTS
from proxy.wire.encode import encode_array, encode_bulk
from tests.cluster.nodes import RealCluster
from tests.conftest import seeds
from tests.engines import Engine
from tests.resp import decode

slot_of = cache(slots.slot_of)
IDS = ["b" * 40, "a" * 40, "c" * 40]


KEYS = [b"%b%d" % (prefix, number) for number in range(20) for prefix in (b"h", b"s")]
BY_SLOT: dict[int, list[bytes]] = {}
for each_key in KEYS:
    BY_SLOT.setdefault(slot_of(each_key), []).append(each_key)
DIVIDED = [slot * len(IDS) // SLOTS for slot in range(SLOTS)]


class Model:
    """Nodes that own slots and hold keys. A node's cursor is the place of a key in an order of its own."""

    names: Sequence[str] = IDS

    def __init__(self, keys: Iterable[bytes]) -> None:
        self.known = KnownMarks()
        self.owner = list(DIVIDED)
        self.epochs = [1, 2, 3]
        self.opened: dict[int, int] = {}
        self.held: list[set[bytes]] = [set() for _ in IDS]
        for key in keys:
            self.held[self.owner[slot_of(key)]].add(key)
        self.keys_of: dict[int, list[bytes]] = {}
        for key in {*keys}:
            self.keys_of.setdefault(slot_of(key), []).append(key)
        self.told = sorted({*BY_SLOT, *self.keys_of})
        self.calls: list[tuple[int, bytes]] = []

    # What operators do

    def open_slot(self, slot: int, target: int) -> None:
        if target != self.owner[slot] and slot not in self.opened:
            self.opened[slot] = target

    def move_key(self, key: bytes) -> None:
        slot = slot_of(key)
        if slot in self.opened and key in self.held[self.owner[slot]]:
            self.held[self.owner[slot]].remove(key)
            self.held[self.opened[slot]].add(key)

    def close_slot(self, slot: int) -> None:
        target = self.opened.pop(slot, None)
        if target is None:
            return
        source = self.owner[slot]
        moved = {key for key in self.held[source] if slot_of(key) == slot}
        self.held[source] -= moved
        self.held[target] |= moved
        self.owner[slot] = target
        self.epochs[target] = max(self.epochs) + (self.epochs[target] < max(self.epochs))

    # What nodes answer

    def answer(self, node: int, argv: Sequence[bytes]) -> bytes:
        self.calls.append((node, argv[0]))
        argv = tuple(argv)
        if argv[:2] == (b"CLUSTER", b"NODES"):
            return encode_bulk(self._nodes(node).encode())
        if argv[:2] == (b"CLUSTER", b"COUNTKEYSINSLOT"):
            return b":%d\r\n" % len(self.in_slot(node, int(argv[2])))
        if argv[:2] == (b"CLUSTER", b"GETKEYSINSLOT"):
            return encode_array(self.in_slot(node, int(argv[2]))[: int(argv[3])])
        if argv[0] == b"TYPE":
            if self.owner[slot_of(argv[1])] != node:
                return b"-MOVED 1 127.0.0.1:7000\r\n"
            return b"+hash\r\n" if argv[1].startswith(b"h") else b"+string\r\n"
        if argv[0] == b"INFO":
            return encode_bulk(self.info(node))
        cursor, keys = self.scanned(node, int(argv[1]))
        return b"*2\r\n" + encode_bulk(b"%d" % cursor) + encode_array(keys)

    def info(self, node: int) -> bytes:
        return b"# Server\r\nredis_version:8.2.1\r\n"

    def scanned(self, node: int, cursor: int) -> tuple[int, list[bytes]]:
        places = sorted((self.place(node, key), key) for key in self.held[node])
        page = [(place, key) for place, key in places if place > cursor][:3]
        more = page and page[-1] != places[-1]
        return page[-1][0] % (MOST_OWN + 1) if more else 0, [key for _, key in page]

    def place(self, node: int, key: bytes) -> int:
        return crc32(key, node) + 1

    def in_slot(self, node: int, slot: int) -> list[bytes]:
        return [key for key in self.keys_of.get(slot, ()) if key in self.held[node]]

    def _nodes(self, asked: int) -> str:
        lines = []
        for number, name in enumerate(IDS):
            owned = [f"{slot}" for slot in self.told if self.owner[slot] == number]
            if number == asked:
                owned += [f"[{slot}->-{IDS[to]}]" for slot, to in self.opened.items() if self.owner[slot] == number]
                owned += [f"[{slot}-<-{IDS[self.owner[slot]]}]" for slot, to in self.opened.items() if to == number]
            flags = "myself,master" if number == asked else "master"
            lines.append(f"{name} 127.0.0.1:1@2 {flags} - 0 0 {self.epochs[number]} connected {' '.join(owned)}")
        return "\n".join(lines) + "\n"


class Slotted(Model):
    """Nodes of Valkey, whose cursors lead through one slot after the other."""

    def info(self, node: int) -> bytes:
        return b"# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.0\r\n"

    def scanned(self, node: int, cursor: int) -> tuple[int, list[bytes]]:
        places = sorted((slot_of(key), self.place(node, key) % 2**20 + 1, key) for key in self.held[node])
        left = [each for each in places if each[:2] > (cursor % SLOTS, cursor // SLOTS)]
        if len(left) <= 3:
            return 0, [key for *_, key in left]
        (slot, place, _), (following, *_) = left[2], left[3]
        return place * SLOTS + slot if following == slot else following, [key for *_, key in left[:3]]


class Replicated(Model):
    """Each node has a replica with the same keys, in an order of its own, that may take its place."""

    names = (*IDS, "e" * 40, "0" * 40, "f" * 40)

    def __init__(self, keys: Iterable[bytes]) -> None:
        super().__init__(keys)
        self.serving = [0, 1, 2]
        self._asked = 0

    def fail_over(self, shard: int) -> None:
        self.serving[shard] = (self.serving[shard] + len(IDS)) % len(self.names)
        self.epochs[shard] = max(self.epochs) + 1

    def primaries(self) -> list[str]:
        return [self.names[engine] for engine in self.serving]

    def answer(self, node: int, argv: Sequence[bytes]) -> bytes:
        self._asked = node
        return super().answer(node % len(IDS), argv)

    def place(self, node: int, key: bytes) -> int:
        return super().place(self._asked, key)

    def _nodes(self, asked: int) -> str:
        lines = []
        for engine, name in enumerate(self.names):
            shard, serves = engine % len(IDS), engine in self.serving
            flags = "myself," * (engine == self._asked) + ("master" if serves else "slave")
            of = "-" if serves else self.names[self.serving[shard]]
            owned = [f"{slot}" for slot in self.told if serves and self.owner[slot] == shard]
            lines.append(" ".join([name, "127.0.0.1:1@2", flags, of, "0 0", f"{self.epochs[shard]} connected", *owned]))
        return "\n".join(lines) + "\n"


def step(
    model: Model,
    argv: list[bytes],
    database: int = 0,
    ids: Sequence[str] = IDS,
    between: object = None,
    known: KnownMarks | None = None,
    most: int | None = None,
) -> bytes:
    """One SCAN of a client; `between` happens between two rounds. ``known`` is of another Keyrail than usual."""
    walk = scan(argv, ids, database, known=known or model.known, most=most)
    frames: list[bytes] | None = None
    try:
        asked = next(walk)
        while True:
            assert asked, "each round asks something"
            frames = [model.answer(model.names.index(ids[each.node]), each.argv) for each in asked]
            if callable(between):
                between()
            asked = walk.send(frames)
    except StopIteration as end:
        return bytes(end.value)


def page(reply: bytes) -> tuple[bytes, list[bytes]]:
    cursor, keys = cast("tuple[bytes, list[bytes]]", decode(reply))
    return cursor, keys


def test_a_walk_over_quiet_nodes_shows_each_key_once() -> None:
    model = Model(KEYS)
    cursor, seen = b"0", []
    while True:
        cursor, keys = page(step(model, [b"SCAN", cursor, b"COUNT", b"3"]))
        seen += keys
        if cursor == b"0":
            break
        assert int(cursor) < 2**64
    assert sorted(seen) == sorted(KEYS)


def test_any_keyrail_can_go_on() -> None:
    """Another one knows the same nodes in another order."""
    model = Model(KEYS)
    cursor, seen, orders = b"0", [], [IDS, IDS[::-1], [IDS[1], IDS[2], IDS[0]]]
    for turn in range(1000):
        cursor, keys = page(step(model, [b"SCAN", cursor], ids=orders[turn % 3]))
        seen += keys
        if cursor == b"0":
            break
    assert sorted(seen) == sorted(KEYS)


MANY = [b"%b{t}%d" % (prefix, number) for number in range(30) for prefix in (b"h", b"s")]
"""Of one slot: more than a page has."""


@pytest.mark.parametrize("kind", [Model, Slotted])
@pytest.mark.parametrize("seed", seeds(8, 60))
def test_no_key_that_stays_is_missed(seed: int, kind: type[Model]) -> None:
    random = Random(seed)
    database, disturbances = seed % 3 // 2, random.randint(0, 100)
    keys = KEYS + MANY * (seed % 2)
    model = kind(keys)
    left = disturbances

    def disturb() -> None:
        nonlocal left
        key = random.choice(keys)
        if left > 0 and random.random() < 0.5:
            left -= 1
            match random.randrange(3):
                case 0:
                    model.open_slot(slot_of(key), random.randrange(3))
                case 1:
                    model.move_key(key)
                case _:
                    model.close_slot(slot_of(key))
        elif left == 0:
            for slot in list(model.opened):
                model.close_slot(slot)

    cursor, seen = b"0", set()
    for _ in range(5000):
        cursor, found = page(step(model, [b"SCAN", cursor], database, between=disturb))
        seen.update(found)
        disturb()
        if cursor == b"0":
            break
    assert cursor == b"0", "it ends"
    assert seen == set(keys)


@pytest.mark.parametrize("seed", seeds(8, 100))
def test_keyrails_that_know_other_primaries_than_each_other_miss_no_key(seed: int) -> None:
    """Each hears of a failover when it does."""
    random = Random(seed)
    database, failovers = seed % 3 // 2, random.randint(1, 6)
    model = Replicated(KEYS)
    keyrails = [(KnownMarks(), model.primaries()) for _ in range(3)]
    cursor, seen = b"0", set()
    for _ in range(5000):
        known, view = random.choice(keyrails)
        reply = step(model, [b"SCAN", cursor], database, view, known=known)
        if not reply.startswith(b"-CLUSTERDOWN"):
            cursor, keys = page(reply)
            seen.update(keys)
            if cursor == b"0":
                break
        if failovers and random.random() < 0.2:
            model.fail_over(random.randrange(3))
            failovers -= 1
        for _, view in keyrails:
            if random.random() < 0.05:
                view[:] = model.primaries()
    assert cursor == b"0", "it ends"
    assert seen == set(KEYS)


def test_a_keyrail_asks_once_whether_it_knows_the_primaries_of_a_walk() -> None:
    model = Model(KEYS)
    cursor, _ = page(step(model, [b"SCAN", b"0"]))
    other = KnownMarks()
    for asked in (3, 0):
        model.calls.clear()
        cursor, _ = page(step(model, [b"SCAN", cursor], known=other))
        assert len([call for call in model.calls if call[1] == b"CLUSTER"]) == asked


def test_by_slots_a_primary_that_cannot_be_asked_is_an_error() -> None:
    begin = ScanCursor(MOST_RESTARTS).encoded()
    for missing in range(3):
        ids = [*IDS[:missing], *IDS[missing + 1 :]]
        assert step(Model(KEYS), [b"SCAN", begin], ids=ids).startswith(b"-CLUSTERDOWN keyrail: ")


def test_no_walk_ends_while_a_failed_primary_has_no_successor() -> None:
    """Its replica may have been promoted, and the others have not heard of it yet."""

    class Failed(Model):
        def _nodes(self, asked: int) -> str:
            return re.sub(f"({IDS[2]} .*) master ", r"\1 master,fail ", super()._nodes(asked))

    model, cursor, steps = Failed(KEYS), b"0", 0
    while not (reply := step(model, [b"SCAN", cursor], ids=IDS[:2])).startswith(b"-"):
        cursor, _ = page(reply)
        assert cursor != b"0"
        steps += 1
        assert steps < 100
    assert reply == b"-CLUSTERDOWN keyrail: a primary with slots cannot be asked now: try again\r\n"


def test_by_slots_a_node_that_gets_its_first_slot_is_missed_by_nobody_who_cannot_ask_it() -> None:
    """Its keys are there before it says that it has the slot."""
    model = Model([KEYS[0]])
    slot = slot_of(KEYS[0])
    source, target = model.owner[slot], (model.owner[slot] + 1) % 3
    model.owner = [source] * SLOTS
    model.open_slot(slot, target)
    model.move_key(KEYS[0])
    ids = [name for number, name in enumerate(IDS) if number != target]
    begin = ScanCursor(MOST_RESTARTS, own=slot).encoded()
    assert step(model, [b"SCAN", begin], ids=ids).startswith(b"-CLUSTERDOWN keyrail: ")
    assert page(step(model, [b"SCAN", begin]))[1] == [KEYS[0]]


def test_a_walk_ends_while_the_cluster_never_rests() -> None:
    """A slot that stays open: three times anew, then by slots."""
    model = Model(KEYS)
    model.open_slot(slot_of(KEYS[0]), 1 - model.owner[slot_of(KEYS[0])])
    cursor, restarts, steps, seen = b"0", set(), 0, set()
    while steps == 0 or cursor != b"0":
        cursor, keys = page(step(model, [b"SCAN", cursor]))
        found = read_cursor(cursor)
        assert found is not None
        restarts.add(found.restarts)
        seen.update(keys)
        steps += 1
    assert restarts == set(range(MOST_RESTARTS + 1))
    assert seen == set(KEYS)
    assert steps < 3 * 30 + SLOTS // 64 + 1


def test_by_slots_a_key_that_moves_to_a_node_that_has_been_asked_is_seen() -> None:
    key = KEYS[0]
    source = DIVIDED[slot_of(key)]
    target = (source + 1) % len(IDS)
    order = [target, source, 3 - source - target]

    class Moving(Model):
        def answer(self, node: int, argv: Sequence[bytes]) -> bytes:
            frame = super().answer(node, argv)
            if node == target and argv[1] == b"GETKEYSINSLOT" and int(argv[2]) == slot_of(key):
                self.open_slot(slot_of(key), target)
                self.move_key(key)
            return frame

    begin = ScanCursor(MOST_RESTARTS, own=slot_of(key)).encoded()
    _, keys = page(step(Moving(KEYS), [b"SCAN", begin], ids=[IDS[number] for number in order]))
    assert key in keys


def test_by_slots_match_and_type_are_applied_here() -> None:
    model = Model(KEYS)
    cursor, seen = ScanCursor(restarts=MOST_RESTARTS).encoded(), []
    while cursor != b"0":
        cursor, keys = page(step(model, [b"SCAN", cursor, b"match", b"[gh]*1?", b"COUNT", b"1", b"TYPE", b"HASH"]))
        seen += keys
    assert sorted(seen) == sorted(key for key in KEYS if key.startswith(b"h1") and len(key) == 3)


def test_by_slots_a_page_has_as_many_slots_as_the_client_asks_for_keys() -> None:
    model = Model(KEYS)
    cursor, pages = ScanCursor(MOST_RESTARTS).encoded(), []
    while cursor != b"0":
        cursor, keys = page(step(model, [b"SCAN", cursor, b"COUNT", b"2"]))
        pages.append(len(keys))
    assert sum(pages) == len(KEYS)
    assert max(pages) <= 1 + max(map(len, BY_SLOT.values()))


def test_by_slots_a_slot_with_too_many_keys_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.cluster.scan_by_slots.MOST_KEYS", 3)
    slot = slot_of(b"{t}")
    few, many = [b"{t}%d" % number for number in range(3)], [b"{t}%d" % number for number in range(5)]
    begin = [b"SCAN", ScanCursor(MOST_RESTARTS, own=slot).encoded(), b"COUNT", b"2"]
    assert sorted(page(step(Model(few), begin))[1]) == few
    error = b"-ERR keyrail: slot %d has 5 keys, more than the 3 that one page of SCAN may have: " % slot
    model = Model(many)
    assert step(model, begin).startswith(error)
    before = [b"SCAN", ScanCursor(MOST_RESTARTS, own=slot - 5).encoded(), b"COUNT", b"2"]
    assert page(step(model, before)) == (ScanCursor(MOST_RESTARTS, own=slot).encoded(), []), "a page of its own"


def test_by_slots_wrong_options_are_for_the_engine_to_complain_of() -> None:
    model = Model(KEYS)
    asked = next(scan([b"SCAN", ScanCursor(MOST_RESTARTS).encoded(), b"COUNT", b"x"], IDS, 0, known=model.known))
    assert [each.argv for each in asked] == [(b"SCAN", b"0", b"COUNT", b"x", b"COUNT", b"1")]
    assert not asked[0].by_keyrail
    assert model.calls == []


def test_many_keys_are_asked_for_their_type_in_several_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.cluster.scan_by_slots._TYPES_AT_ONCE", 2)
    keys = [b"h{t}%d" % number for number in range(5)] + [b"s{t}%d" % number for number in range(3)]
    begin = [b"SCAN", ScanCursor(MOST_RESTARTS, own=slot_of(b"{t}")).encoded(), b"COUNT", b"100", b"TYPE", b"hash"]
    assert sorted(page(step(Model(keys), begin))[1]) == keys[:5]


@pytest.mark.parametrize("text", [b"x", b"", b"-1", b"1.0", b"18446744073709551616", b" 1"])
def test_what_is_no_cursor_is_an_error(text: bytes) -> None:
    assert step(Model(KEYS), [b"SCAN", text]) == b"-ERR invalid cursor\r\n"


def test_errors_of_nodes_are_passed_on() -> None:
    class Broken(Model):
        def __init__(self, keys: Iterable[bytes], broken: bytes) -> None:
            super().__init__(keys)
            self.broken = broken

        def answer(self, node: int, argv: Sequence[bytes]) -> bytes:
            return b"-NOPERM no\r\n" if argv[0] == self.broken else super().answer(node, argv)

    by_slots = ScanCursor(MOST_RESTARTS).encoded()
    for broken, cursor in ((b"CLUSTER", b"0"), (b"SCAN", b"0"), (b"CLUSTER", by_slots)):
        assert step(Broken(KEYS, broken), [b"SCAN", cursor]) == b"-NOPERM no\r\n"


@given(st.integers(0, 3), st.integers(0, 1023), st.integers(0, 65535), st.integers(0, MOST_OWN))
def test_a_cursor_says_all(restarts: int, node: int, mark: int, own: int) -> None:
    cursor = ScanCursor(restarts, node, mark, own)
    assert read_cursor(cursor.encoded()) == cursor
    assert int(cursor.encoded()) < (2**53 if own < 2**25 else 2**64)


ANY_CURSOR = st.integers(0, 2**64 - 1) | st.builds(
    lambda high, low: high << 12 | low, st.integers(0, 2**52 - 1), st.integers(0, 2**12 - 1)
)


@given(ANY_CURSOR, st.sampled_from([0, 1]), st.booleans())
@example(2**64 - 1, 0, False)
@example(2**63 - 1, 0, False)
@example(4398046511107, 0, True)
def test_any_cursor_is_answered(cursor: int, database: int, typed: bool) -> None:
    argv = [b"SCAN", b"%d" % cursor, *([b"TYPE", b"hash"] if typed else [])]
    after, _ = page(step(Model(KEYS), argv, database))
    assert read_cursor(after) is not None


# On real nodes


def on_nodes(nodes: Sequence[Engine], ids: Sequence[str], argv: list[bytes], most: int | None = None) -> bytes:
    walk = scan(argv, ids, 0, known=KnownMarks(), most=most)
    with ExitStack() as stack:
        wires = [stack.enter_context(node.wire()) for node in nodes]
        try:
            asked = next(walk)
            while True:
                asked = walk.send([wires[each.node].ask(*each.argv) for each in asked])
        except StopIteration as end:
            return bytes(end.value)


@pytest.mark.long
def test_on_real_nodes_while_slots_move(cluster: RealCluster) -> None:
    nodes = cluster.primaries()
    ids = [cluster.id(node) for node in nodes]
    keys = [b"key:%d" % number for number in range(600)]
    with_slots = sorted({slot_of(key) for key in keys})[:6]
    _fill(cluster, keys)
    back: list[tuple[int, Engine, Engine]] = []
    cursor, seen, steps = b"0", set(), 0
    while steps == 0 or cursor != b"0":
        cursor, found = page(on_nodes(nodes, ids, [b"SCAN", cursor, b"COUNT", b"40"]))
        seen.update(found)
        steps += 1
        if steps % 4 == 0 and len(back) < len(with_slots):
            slot = with_slots[len(back)]
            source = cluster.owner(slot)
            target = next(node for node in nodes if node is not source)
            cluster.move_slots([slot], source, target)
            back.append((slot, target, source))
    assert seen >= set(keys)
    assert len(back) > 1
    for slot, source, target in back:
        cluster.move_slots([slot], source, target)


def _fill(cluster: RealCluster, keys: list[bytes]) -> None:
    primaries = cluster.primaries()
    owners = {node: next(words for words in cluster.table(node) if "myself" in words[2])[8:] for node in primaries}
    for node, ranges in owners.items():
        bounds = [tuple(map(int, (text.split("-") * 2)[:2])) for text in ranges if "[" not in text]
        with node.wire() as wire:
            for key in keys:
                if any(first <= slot_of(key) <= last for first, last in bounds):
                    assert wire.ask("SET", key, "x") == b"+OK\r\n"


@pytest.mark.parametrize("how", ["quiet", "by slots"])
def test_a_quiet_walk_over_real_nodes(cluster: RealCluster, how: str) -> None:
    nodes = cluster.primaries()
    ids = [cluster.id(node) for node in nodes]
    keys = [b"other:%d" % number for number in range(300)]
    _fill(cluster, keys)
    cursor = b"0" if how == "quiet" else ScanCursor(MOST_RESTARTS, own=SLOTS - 640).encoded()
    wanted = [key for key in keys if how == "quiet" or slot_of(key) >= SLOTS - 640]
    seen: list[bytes] = []
    for _ in range(100):
        cursor, found = page(on_nodes(nodes, ids, [b"SCAN", cursor, b"MATCH", b"other:*", b"TYPE", b"string"]))
        seen += found
        if cursor == b"0":
            break
    assert sorted(set(seen)) == sorted(wanted)


def test_a_slot_with_more_keys_than_count_on_real_nodes(cluster: RealCluster) -> None:
    """Inside it, Valkey's cursors lead on, and do MATCH and TYPE; Redis has none, so it is one page."""
    nodes = cluster.primaries()
    ids = [cluster.id(node) for node in nodes]
    keys = [b"{walked}:%d" % number for number in range(500)]
    _fill(cluster, keys)
    slot = slot_of(b"{walked}")
    begin = ScanCursor(MOST_RESTARTS, own=slot)
    cursor, pages = begin.encoded(), list[list[bytes]]()
    while read_cursor(cursor) != begin._replace(own=slot + 1):
        reply = on_nodes(nodes, ids, [b"SCAN", cursor, b"COUNT", b"20", b"MATCH", b"{walk*1*", b"TYPE", b"string"])
        cursor, found = page(reply)
        pages.append(found)
    assert sorted({key for found in pages for key in found}) == sorted(key for key in keys if b"1" in key)
    if nodes[0].kind.is_valkey:
        assert len(pages) >= 500 / 20 / 2
        assert max(map(len, pages)) < 100
    else:
        assert len(pages) == 1
        refused = on_nodes(nodes, ids, [b"SCAN", begin.encoded(), b"COUNT", b"20"], most=499)
        assert refused.startswith(b"-ERR keyrail: slot %d has 500 keys, more than the 499 " % slot)
