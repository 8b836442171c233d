"""What the plan does by the schema's entry that owns a key: it judges, passes, bounds or appends."""

from collections.abc import Callable

import pytest

from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from proxy.hotpath.counters import Counters
from proxy.hotpath.entries import EntryProgram
from proxy.hotpath.plan import APPEND, JUDGE, PASS, SWAP, Plan
from proxy.rules.lowering import UNLIMITED, Append, EntryCheck, Lowering
from proxy.schema.entries import KeyEntry, Schema
from proxy.schema.patterns import parse_pattern
from proxy.wire.request import Request
from tests.rules.given import spec

SCHEMA = Schema(tuple(KeyEntry(key, parse_pattern(key)) for key in ("a:{x}", "b:{x}")))
ALL = (UNLIMITED,) * 3
CHECK = EntryCheck(SCHEMA.automaton, ALL, ALL, ALL)


def append(text: bytes) -> Append:
    return Append(3, 2, [text], (b"EX", b"PX"))


class Lowered:
    """A plan of one command."""

    def __init__(self, name: str, lower: Callable[[Lowering], None], *, enforced: bool = True) -> None:
        self.lowering = Lowering(spec(name))
        self.lowering.enforced = enforced
        lower(self.lowering)
        self.plan = Plan(len(STANDARD.specs))
        self.lowering.apply(spec(name).id, self.plan, {})

    def decide(self, text: str) -> int:
        argv = text.encode().split()
        request = Request.from_argv(argv)
        command_id = Command(STANDARD, argv).spec.id
        return self.plan.decide(command_id, request, bytes(request.data), STANDARD.keys, Counters(1))


def test_reads_and_writes_are_bounded_apart_and_by_owner() -> None:
    check = EntryCheck(SCHEMA.automaton, (UNLIMITED, 0, UNLIMITED), (0, UNLIMITED, 8), (9, 9, 9))
    get = Lowered("GET", lambda lowering: lowering.check_entries(check))
    assert [get.decide(f"GET {key}") for key in ("a:1", "b:1", "c:1")] == [JUDGE, PASS, PASS]
    write = Lowered("SET", lambda lowering: lowering.check_entries(check))
    assert [write.decide(f"SET {key} v") for key in ("a:1", "b:1", "c:1")] == [PASS, PASS, JUDGE]
    assert write.decide("SET b:1 vv") == PASS
    assert write.decide("SET b:1 vvv") == JUDGE
    many = Lowered("MSET", lambda lowering: lowering.check_entries(check))
    assert many.decide("MSET a:1 v a:2 v") == PASS
    assert many.decide("MSET a:1 v c:2 v") == JUDGE
    assert many.decide("MSET a:1 v a:2 v a:3 v a:4 v a:5 v") == JUDGE


def test_two_checks_pass_what_both_pass() -> None:
    def lower(lowering: Lowering) -> None:
        lowering.check_entries(EntryCheck.judging(SCHEMA, lambda owner: owner is None, lambda owner: False))
        lowering.check_entries(EntryCheck.judging(SCHEMA, lambda owner: owner is SCHEMA.entries[0], lambda owner: True))

    get = Lowered("GET", lower)
    assert [get.decide(f"GET {key}") for key in ("a:1", "b:1", "c:1")] == [JUDGE, PASS, JUDGE]
    assert Lowered("SET", lower).decide("SET b:1 v") == JUDGE


def test_what_is_appended_depends_on_the_owner() -> None:
    appends = (append(b"other"), append(b"first"), None)
    bare = Lowered("SET", lambda lowering: lowering.append_by_entry(CHECK, appends))
    assert bare.lowering.does == "rewritten"
    for text, outcome, suffix in (
        ("SET a:1 v", APPEND, b"first"),
        ("SET c:1 v", APPEND, b"other"),
        ("SET b:1 v", PASS, b""),
        ("SET a:1 v ex 5", PASS, b""),
        ("SET a:1 v NX", JUDGE, b""),
        ("SET b:1 v NX", PASS, b""),
        ("SET", JUDGE, b""),
    ):
        bare.plan.suffix = b""
        assert (bare.decide(text), bare.plan.suffix) == (outcome, suffix), text
    assert bare.plan.header == b"*5\r\n"
    assert bare.plan.changed[spec("SET").id] == 2
    two = Lowered("MSET", lambda lowering: lowering.append_by_entry(CHECK, appends))
    assert two.decide("MSET a:1 v b:1 v") == JUDGE


def test_what_is_only_counted_is_judged_where_there_is_something_to_append() -> None:
    audited = Lowered("SET", lambda each: each.append_by_entry(CHECK, (None, append(b"x"), None)), enforced=False)
    assert audited.lowering.does is None
    assert [audited.decide(f"SET {key} v") for key in ("a:1", "b:1", "c:1")] == [JUDGE, PASS, PASS]


def test_nothing_to_append_changes_nothing() -> None:
    nothing = Lowered("SET", lambda lowering: lowering.append_by_entry(CHECK, (None, None, None)))
    assert nothing.lowering.does is None
    assert nothing.decide("SET a:1 v") == PASS


def test_a_command_is_changed_once_and_checked_before() -> None:
    def append_twice(lowering: Lowering) -> None:
        lowering.append_by_entry(CHECK, (append(b"x"),) * 3)
        lowering.append(append(b"y"))

    def check_behind(lowering: Lowering) -> None:
        lowering.swap(spec("UNLINK"))
        lowering.check_entries(CHECK)

    assert Lowered("SET", append_twice).decide("SET a:1 v") == JUDGE
    assert Lowered("DEL", check_behind).decide("DEL a:1") == JUDGE
    assert Lowered("DEL", lambda lowering: lowering.swap(spec("UNLINK"))).decide("DEL a:1") == SWAP


def test_every_entry_has_its_place() -> None:
    with pytest.raises(ValueError, match="its place"):
        EntryProgram(SCHEMA.automaton, [0], [0], [0, 0])
