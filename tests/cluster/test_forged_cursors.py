"""Whatever number a client sends as a cursor, a page costs and returns no more than COUNT and the policy allow."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import example, given
from hypothesis import strategies as st

from proxy.cluster.own_slots import slot_standing
from proxy.cluster.scan_by_slots import MOST_KEYS
from proxy.cluster.scan_cursor import MOST_OWN, MOST_RESTARTS, ScanCursor, read_cursor
from proxy.cluster.scan_walk import scan
from proxy.commands.slots import SLOTS, slot_of
from tests.cluster.test_scan_walk import IDS, Model, Slotted, page

FULL = slot_of(b"{t}")
FEW = [b"%d" % number for number in range(40)]
IN_ONE_SLOT = [b"{t}%d" % number for number in range(300)]


class Counting:
    """What a page asks of the nodes: how many commands, and how many keys of each, at most."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.commands = 0
        self.counts: list[int] = []
        self.limits: list[int] = []

    def answer(self, node: int, argv: Sequence[bytes]) -> bytes:
        self.commands += 1
        if argv[0] == b"SCAN":
            self.counts.append(next((int(argv[i + 1]) for i in range(2, len(argv), 2) if argv[i] == b"COUNT"), 10))
        if argv[1] == b"GETKEYSINSLOT":
            self.limits.append(int(argv[3]))
        return self.model.answer(node, argv)

    def page(self, argv: list[bytes], most: int | None) -> bytes:
        walk = scan(argv, IDS, 0, known=self.model.known, most=most)
        frames: list[bytes] | None = None
        try:
            asked = next(walk)
            while True:
                frames = [self.answer(each.node, each.argv) for each in asked]
                asked = walk.send(frames)
        except StopIteration as end:
            return bytes(end.value)


class Mixed(Slotted):
    """An upgrade under way: one node is Valkey's, the others are not."""

    def info(self, node: int) -> bytes:
        return super().info(node) if node == 0 else Model.info(self, node)


class Refusing(Slotted):
    """Keyrail's own user may not use INFO."""

    def answer(self, node: int, argv: Sequence[bytes]) -> bytes:
        return b"-NOPERM no\r\n" if argv[0] == b"INFO" else super().answer(node, argv)


ENGINES = [Model, Slotted, Mixed, Refusing]
_MODEL = Model(FEW + IN_ONE_SLOT)
MARK = slot_standing({name: _MODEL.answer(IDS.index(name), (b"CLUSTER", b"NODES")) for name in IDS}, (), FULL).mark
PARTS = st.builds(
    lambda restarts, node, mark, own: int(ScanCursor(restarts, node, mark, own).encoded()),
    st.integers(0, MOST_RESTARTS),
    st.integers(0, 4) | st.integers(0, 1023),
    st.sampled_from([0, MARK]) | st.integers(0, 65535),
    st.sampled_from([FULL, FULL - 1, FULL - 63]) | st.integers(0, SLOTS) | st.integers(0, MOST_OWN),
)
INSIDE = st.builds(
    lambda node, place: int(ScanCursor(MOST_RESTARTS, node, MARK, place * SLOTS + FULL).encoded()),
    st.integers(0, 3),
    st.integers(0, MOST_OWN >> 14),
)
CURSORS = (
    st.integers(0, 2**64 - 1)
    | PARTS
    | INSIDE
    | st.builds(lambda bit, number: number ^ (1 << bit), st.integers(0, 63), PARTS)
)


@given(CURSORS, st.sampled_from(ENGINES), st.sampled_from([None, 1, 2, 10, 1000]), st.sampled_from([None, 20, 1000]))
@example((FULL << 28) | 3, Model, 10, 20)
@example((FULL << 28) | 3, Slotted, 10, 20)
@example(((FULL - 10) << 28) | 3, Model, 10, 20)
def test_a_page_costs_and_returns_what_count_and_policy_allow(
    cursor: int, engine: type[Model], count: int | None, most: int | None
) -> None:
    if most is not None and count is not None:
        count = min(count, most)  # else the policy has refused it
    nodes = Counting(engine(FEW + IN_ONE_SLOT))
    options = [] if count is None else [b"COUNT", b"%d" % count]
    reply = nodes.page([b"SCAN", b"%d" % cursor, *options], most)
    allowed = max(count or 10, MOST_KEYS if most is None else most) if engine is not Slotted else max(3, count or 10)
    if not reply.startswith(b"-ERR keyrail: "):
        after, keys = page(reply)
        assert read_cursor(after) is not None
        assert len(keys) <= allowed
    assert max(nodes.counts, default=0) <= (count or 10)
    assert max(nodes.limits, default=0) <= max(count or 10, MOST_KEYS if most is None else most) + 1
    slots = min(64, 10 * (count or 10))
    assert nodes.commands <= 2 + 3 * (3 * slots + 3)


def test_a_slot_with_more_keys_than_a_page_goes_on_by_the_cursors_of_valkey() -> None:
    nodes = Counting(Slotted(FEW + IN_ONE_SLOT))
    cursor, seen = ScanCursor(MOST_RESTARTS, own=FULL - 5).encoded(), list[bytes]()
    while (found := read_cursor(cursor)) is not None and found.own & (SLOTS - 1) <= FULL and cursor != b"0":
        cursor, keys = page(nodes.page([b"SCAN", cursor], 20))
        assert len(keys) <= 10
        seen += keys
    assert sorted(key for key in seen if slot_of(key) == FULL) == sorted(IN_ONE_SLOT)


def test_on_redis_it_is_an_error_that_says_so() -> None:
    nodes = Counting(Model(IN_ONE_SLOT))
    begin = [b"SCAN", ScanCursor(MOST_RESTARTS, own=FULL).encoded()]
    error = b"-ERR keyrail: slot %d has 300 keys, more than the 20 that one page of SCAN may have: " % FULL
    assert nodes.page(begin, 20).startswith(error)
    assert sorted(page(nodes.page(begin, 300))[1]) == sorted(IN_ONE_SLOT)
    assert sorted(page(nodes.page(begin, None))[1]) == sorted(IN_ONE_SLOT)


def test_keys_that_come_while_a_page_is_made_wait_for_the_next_one() -> None:
    class Growing(Model):
        def answer(self, node: int, argv: Sequence[bytes]) -> bytes:
            if argv[1] == b"COUNTKEYSINSLOT":
                return b":0\r\n"
            return super().answer(node, argv)

    nodes = Counting(Growing(FEW + IN_ONE_SLOT))
    cursor, keys = page(nodes.page([b"SCAN", ScanCursor(MOST_RESTARTS, own=FULL - 3).encoded()], 20))
    found = read_cursor(cursor)
    assert found is not None
    assert found.own == FULL
    assert not any(slot_of(key) == FULL for key in keys)


def test_a_long_pattern_and_a_costly_one_are_errors() -> None:
    nodes = Counting(Model([b"a" * 60_000]))
    begin = [b"SCAN", ScanCursor(MOST_RESTARTS, own=slot_of(b"a" * 60_000)).encoded(), b"MATCH"]
    assert nodes.page([*begin, b"*" + b"?" * 30_000 + b"b*"], None).startswith(
        b"-ERR keyrail: a pattern of 30003 bytes"
    )
    assert nodes.page([*begin, b"*" + b"?" * 4000 + b"b*"], None).startswith(b"-ERR keyrail: matching this pattern")
    assert page(nodes.page([*begin, b"*a*aa*"], None))[1] == [b"a" * 60_000]


def test_other_slots_keys_are_left_out_inside_a_slot() -> None:
    """A node goes on with its next slot where one has ended."""

    class Other(Slotted):
        def scanned(self, node: int, cursor: int) -> tuple[int, list[bytes]]:
            return 0, [b"elsewhere", *super().scanned(node, cursor)[1]]

    nodes = Counting(Other(IN_ONE_SLOT))
    _, keys = page(nodes.page([b"SCAN", ScanCursor(MOST_RESTARTS, own=FULL).encoded()], None))
    assert b"elsewhere" not in keys


def test_what_nodes_say_of_one_slot() -> None:
    model = Model(FEW)
    slot = slot_of(FEW[0])

    def now(model: Model) -> tuple[int, tuple[str, ...]]:
        said = slot_standing({IDS[node]: model.answer(node, (b"CLUSTER", b"NODES")) for node in range(3)}, (), slot)
        return said.mark, said.order

    source = model.owner[slot]
    target = (source + 1) % 3
    marks = [now(model)]
    assert marks[0][1][-1] == IDS[source]
    model.open_slot(slot, target)
    marks.append(now(model))
    assert marks[1][1][1:] == (IDS[source], IDS[target])
    model.close_slot(slot)
    marks.append(now(model))
    model.open_slot(slot, source)
    model.close_slot(slot)
    marks.append(now(model))
    assert len({mark for mark, _ in marks}) == 4, "also when it has come back, as epochs rise"
