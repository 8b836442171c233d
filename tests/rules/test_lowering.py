"""The schema entry that owns a key decides whether the plan judges, passes, bounds or appends."""

from collections.abc import Callable

import pytest

from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from proxy.hotpath.counting.counters import Counters
from proxy.hotpath.plan.appending import StatedNumber
from proxy.hotpath.plan.automaton import Automaton
from proxy.hotpath.plan.plan import EDIT, JUDGE, PASS, Plan
from proxy.hotpath.plan.schema_checks import EntryProgram
from proxy.rules.key_globs import KeyGlob
from proxy.rules.lowering import Lowering
from proxy.rules.name_language import automaton_of
from proxy.rules.names.faults import Banned
from proxy.rules.plan_checks import UNLIMITED, EntryCheck, NameCheck
from proxy.rules.request_edits import Append, StatedArgument
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
        self.counters = self.lowering.apply(spec(name).id, self.plan, {}, {})

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


def names(*, reads: bool, language: Automaton | None) -> NameCheck:
    allowed = bytes(byte in b"abcxyz:0123456789" for byte in range(256))
    return NameCheck(allowed, 3, 6, ord(":"), 2, 2, empty_segments=False, reads=reads, writes=True, language=language)


def program_of(name: str, check: NameCheck) -> Lowered:
    def lower(lowering: Lowering) -> None:
        lowering.check_names(check)
        lowering.append_by_entry(CHECK, (append(b"other"), append(b"first"), None))

    return Lowered(name, lower)


@pytest.mark.parametrize("language", [None, automaton_of([Banned(("xyz",), ":")])])
def test_names_and_owners_are_found_in_one_pass_over_a_key(language: Automaton | None) -> None:
    bare = program_of("SET", names(reads=True, language=language))
    assert bare.plan.programs == []  # the schema's takes them along
    for key, outcome, suffix in (
        ("a:1", EDIT, b"first"),
        ("b:1234", PASS, b""),
        ("c:1", EDIT, b"other"),
        ("b:12345", JUDGE, b""),  # too long
        ("b:", JUDGE, b""),
        ("a:1:2", JUDGE, b""),
        ("b1234", JUDGE, b""),
        ("b:d", JUDGE, b""),
        ("a:xyz", EDIT if language is None else JUDGE, b"first" if language is None else b""),
    ):
        assert bare.decide(f"SET {key} v") == outcome, key
        assert outcome != EDIT or bare.plan.editor.suffix == suffix


def test_a_key_that_may_be_read_under_any_name_is_walked_twice_where_it_is_written() -> None:
    apart = program_of("SET", names(reads=False, language=None))
    assert len(apart.plan.programs) == 1
    assert [apart.decide(f"SET {key} v") for key in ("a:1", "b:d")] == [EDIT, JUDGE]

    def lower(lowering: Lowering) -> None:
        lowering.check_names(names(reads=False, language=None))
        lowering.check_entries(CHECK)

    assert Lowered("GET", lower).decide("GET b:d") == PASS
    assert Lowered("COPY", lower).decide("COPY b:d a:1") == PASS
    assert Lowered("COPY", lower).decide("COPY a:1 b:d") == JUDGE


def test_what_is_appended_depends_on_the_owner() -> None:
    appends = (append(b"other"), append(b"first"), None)
    bare = Lowered("SET", lambda lowering: lowering.append_by_entry(CHECK, appends))
    assert bare.lowering.does == "rewritten"
    for text, outcome, suffix in (
        ("SET a:1 v", EDIT, b"first"),
        ("SET c:1 v", EDIT, b"other"),
        ("SET b:1 v", PASS, b""),
        ("SET a:1 v ex 5", PASS, b""),
        ("SET a:1 v NX", JUDGE, b""),
        ("SET b:1 v NX", PASS, b""),
        ("SET", JUDGE, b""),
    ):
        assert bare.decide(text) == outcome, text
        assert outcome != EDIT or (bare.plan.editor.header, bare.plan.editor.suffix) == (b"*5\r\n", suffix)
    assert bare.plan.changed[spec("SET").id] == 2
    two = Lowered("MSET", lambda lowering: lowering.append_by_entry(CHECK, appends))
    assert two.decide("MSET a:1 v b:1 v") == JUDGE


def test_what_is_only_counted_is_judged_where_there_is_something_to_append() -> None:
    audited = Lowered("SET", lambda each: each.append_by_entry(CHECK, (None, append(b"x"), None)), enforced=False)
    assert audited.lowering.does is None
    assert [audited.decide(f"SET {key} v") for key in ("a:1", "b:1", "c:1")] == [JUDGE, PASS, PASS]


@pytest.mark.parametrize("by_entry", [False, True])
def test_what_states_itself_what_is_only_counted_takes_no_judging(by_entry: bool) -> None:
    each = Append(3, 2, [b"x"], (b"KEEPTTL",), (StatedArgument(5, 4, 10, 99, b"EX", 3),))

    def lower(lowering: Lowering) -> None:
        if by_entry:
            lowering.append_by_entry(CHECK, (each, None, each))
        else:
            lowering.append(each)

    audited = Lowered("SET", lower, enforced=False)
    assert audited.lowering.does is None
    for text, outcome in (
        ("SET k v", JUDGE),
        ("SET k v EX 10", PASS),
        ("SET k v EX 9", JUDGE),
        ("SET k v KEEPTTL", JUDGE),
        ("SET a:1 v", PASS if by_entry else JUDGE),
    ):
        assert audited.decide(text) == outcome, text
    assert not any(audited.plan.changed)


def test_nothing_to_append_changes_nothing() -> None:
    nothing = Lowered("SET", lambda lowering: lowering.append_by_entry(CHECK, (None, None, None)))
    assert nothing.lowering.does is None
    assert nothing.decide("SET a:1 v") == PASS


def test_a_command_is_checked_before_it_is_changed() -> None:
    def check_behind(lowering: Lowering) -> None:
        lowering.swap(spec("UNLINK"))
        lowering.check_entries(CHECK)

    assert Lowered("DEL", check_behind).decide("DEL a:1") == JUDGE
    assert Lowered("DEL", lambda lowering: lowering.swap(spec("UNLINK"))).decide("DEL a:1") == EDIT


def test_keys_to_judge_are_told_behind_appended_arguments_and_not_behind_a_new_name() -> None:
    def judge_behind(change: Callable[[Lowering], None]) -> Callable[[Lowering], None]:
        def lower(lowering: Lowering) -> None:
            change(lowering)
            lowering.judge_keys(KeyGlob.of("a:*"))

        return lower

    appended = Lowered("SET", judge_behind(lambda lowering: lowering.append(append(b"x"))))
    assert [appended.decide(f"SET {key} v") for key in ("a:1", "b:1")] == [JUDGE, EDIT]
    swapped = Lowered("DEL", judge_behind(lambda lowering: lowering.swap(spec("UNLINK"))))
    assert [swapped.decide(f"DEL {key}") for key in ("a:1", "b:1")] == [JUDGE, JUDGE]


def test_every_entry_has_its_place() -> None:
    with pytest.raises(ValueError, match="its place"):
        EntryProgram(SCHEMA.automaton, [0], [0], [0, 0])


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("SET k v", EDIT),
        ("SET k v EX 10", PASS),
        ("SET k v ex 99", PASS),
        ("SET k v PX 10000", PASS),
        ("SET k v KEEPTTL", PASS),
        ("SET k v EX 9", JUDGE),
        ("SET k v EX 100", JUDGE),
        ("SET k v PX 99", JUDGE),
        ("SET k v EX 010", JUDGE),
        ("SET k v EX +10", JUDGE),
        ("SET k v EX 1x", JUDGE),
        ("SET k v EX 1000000000000000", JUDGE),
        ("SET k v EX 18446744073709551626", JUDGE),
        ("SET k v EX 10 NX", JUDGE),
        ("SET k v NX EX 10", JUDGE),
        ("SET k v EX", JUDGE),
    ],
)
def test_a_number_within_bounds_spares_the_addition(text: str, outcome: int) -> None:
    stated = (StatedArgument(5, 4, 10, 99, b"EX", 3), StatedArgument(5, 4, 10_000, 99_000, b"px", 3))
    each = Append(3, 2, [b"x"], (b"KEEPTTL",), stated)
    for lowered in (
        Lowered("SET", lambda lowering: lowering.append(each)),
        Lowered("SET", lambda lowering: lowering.append_by_entry(CHECK, (each, None, None))),
    ):
        assert lowered.decide(text) == outcome


def test_where_nothing_is_added_a_number_can_still_be_held_to_bounds() -> None:
    bounds = Append(stated=(StatedArgument(4, 2, 10, 99),))
    for enforced in (True, False):
        plain = Lowered("SETEX", lambda lowering: lowering.append(bounds), enforced=enforced)
        assert plain.lowering.does is None
        assert [plain.decide(f"SETEX k {seconds} v") for seconds in (9, 10, 99, 100)] == [JUDGE, PASS, PASS, JUDGE]
        assert plain.decide("SETEX k 10") == JUDGE
        owned = Lowered("SETEX", lambda each: each.append_by_entry(CHECK, (None, bounds, None)), enforced=enforced)
        assert [owned.decide(f"SETEX {key} 9 v") for key in ("a:1", "b:1", "c:1")] == [JUDGE, PASS, PASS]
        assert owned.decide("SETEX a:1 10 v") == PASS


def test_an_empty_number_is_none() -> None:
    lowered = Lowered("SETEX", lambda lowering: lowering.append(Append(stated=(StatedArgument(4, 2, 0, 99),))))
    request = Request.from_argv([b"SETEX", b"k", b"", b"v"])
    decided = lowered.plan.decide(spec("SETEX").id, request, bytes(request.data), STANDARD.keys, Counters(1))
    assert decided == JUDGE


def test_a_command_that_a_rule_has_weighed_is_not_refused_by_its_name_alone() -> None:
    def refuse_behind(lowering: Lowering) -> None:
        lowering.append(Append(stated=(StatedArgument(2, 1, 1, 9),)))
        lowering.refuse(b"-NO\r\n")

    assert Lowered("DEL", refuse_behind).decide("DEL 5") == JUDGE


def test_edits_of_several_rules_compose_and_are_counted_apart() -> None:
    def swap_and_append(lowering: Lowering) -> None:
        lowering.place = 3
        lowering.swap(spec("UNLINK"))
        lowering.place = 5
        lowering.append(Append(3, 1, (b"$1\r\nx\r\n",), (b"KEEP",)))

    both = Lowered("DEL", swap_and_append)
    editor, changed = both.plan.editor, both.plan.changed
    (first, second) = both.counters
    assert both.counters == {first: ((3,), "rewritten"), second: ((5,), "rewritten")}
    for text, outcome, header, counts in (
        ("DEL a b", EDIT, b"*4\r\n", (1, 1)),
        ("DEL a b KEEP", EDIT, b"", (1, 0)),
        ("DEL a", JUDGE, b"", (0, 0)),
        ("DEL", JUDGE, b"", (0, 0)),
    ):
        before = changed[first], changed[second]
        assert both.decide(text) == outcome, text
        assert (changed[first] - before[0], changed[second] - before[1]) == counts, text
        assert outcome == JUDGE or (editor.name, editor.header) == (b"$6\r\nUNLINK\r\n", header)


def test_what_an_edit_appends_is_weighed_by_no_later_one() -> None:
    def twice(lowering: Lowering) -> None:
        lowering.append_by_entry(CHECK, (append(b"x"), append(b"y"), None))
        lowering.append_by_entry(CHECK, (append(b"z"), None, append(b"w")))

    appended = Lowered("SET", twice)
    assert [appended.decide(f"SET {key} v") for key in ("c:1", "a:1", "b:1")] == [JUDGE, EDIT, EDIT]
    assert appended.decide("SET c:1 v EX 5") == PASS  # each takes it for stated


def test_a_lifetime_for_the_keys_that_the_schema_leaves_takes_no_judging_either() -> None:
    def owners_and_others(lowering: Lowering) -> None:
        lowering.place = 1
        lowering.append_by_entry(CHECK, (None, append(b"owned"), None))
        lowering.place = 2
        lowering.append_by_entry(CHECK, (append(b"other"), None, None))

    bare = Lowered("SET", owners_and_others)
    (first, second) = bare.counters
    assert bare.counters == {first: ((1,), "rewritten"), second: ((2,), "rewritten")}
    for key, outcome, suffix in (("a:1", EDIT, b"owned"), ("c:1", EDIT, b"other"), ("b:1", PASS, b"")):
        assert (bare.decide(f"SET {key} v"), bare.plan.editor.suffix) == (outcome, suffix)
    assert (bare.plan.changed[first], bare.plan.changed[second]) == (1, 1)


def test_a_number_stands_in_the_request() -> None:
    for word_at, number_at in ((0, 0), (0, 3), (3, 1)):
        with pytest.raises(ValueError, match="asked of it"):
            StatedNumber(3, b"", word_at, number_at, 1, 2)
