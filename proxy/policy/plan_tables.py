"""Plans as flat tables: one process makes them, others use them.

The plans of one policy share most of their contents: the automata of names, the TTLs to append, the operations of each
command. So all plans of a policy consist of *parts*. A part is bytes, or a few numbers and bytes that refer to other
parts by number. Equal parts are one part. A plan is a part, too, and refers only to parts before it.

``PlanTables`` grows with each plan that is added. ``PlanReader`` makes plans from the parts. Each part is sent to a
process once, and becomes one object there, however many plans use it.

Part 0 is the automaton of the policy's schema. It is not sent, since the receiver has the policy.
"""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from proxy.hotpath.plan.appending import Appending, StatedNumber
from proxy.hotpath.plan.automaton import Automaton
from proxy.hotpath.plan.key_checks import KeyProgram
from proxy.hotpath.plan.name_checks import NameProgram
from proxy.hotpath.plan.plan import Plan
from proxy.hotpath.plan.replica_reads import ReplicaReads, ReplicaTerms
from proxy.hotpath.plan.reply_edits import ReplyProgram
from proxy.hotpath.plan.request_edit import RequestEdit
from proxy.hotpath.plan.schema_checks import EntryProgram
from proxy.hotpath.plan.value_checks import ValueProgram
from proxy.policy.decision import Hit
from proxy.policy.lower_policy import LoweredPolicy

_NONE = -1
_OWNERS = 0
_COLUMNS = {
    "operations": "H",
    "program_of": "H",
    "edit_of": "H",
    "error_of": "H",
    "entry_program_of": "H",
    "value_program_of": "H",
    "key_programs_of": "H",
    "reply_programs_of": "H",
    "edits_by_entry_of": "H",
    "token_sets_of": "H",
    "most_bytes": "q",
    "most_arguments": "q",
}
"""The columns of a plan that have a number for each command, and the type code of their ``array``."""


@dataclass(frozen=True, slots=True)
class _Automaton:
    classes: bytes
    rows: int
    start: int


@dataclass(frozen=True, slots=True)
class _Names:
    allowed: bytes
    min_length: int
    max_length: int
    separator: int
    min_segments: int
    max_segments: int
    access: int
    empty_segments: bool
    language: int


@dataclass(frozen=True, slots=True)
class _Entries:
    automaton: int
    reads: int
    writes: int
    arguments: int
    names: int
    min_length: int
    max_length: int


@dataclass(frozen=True, slots=True)
class _Values:
    first: int
    step: int
    firsts: bytes
    seconds: bytes


@dataclass(frozen=True, slots=True)
class _Keys:
    names: int
    size: int
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Appending:
    argc: int
    added: int
    suffixes: tuple[bytes, ...]
    satisfied_by: tuple[bytes, ...]
    stated: tuple[tuple[int, bytes, int, int, int, int, int], ...]


@dataclass(frozen=True, slots=True)
class _Edit:
    counter: int
    name: bytes
    appending: int
    then: int


@dataclass(frozen=True, slots=True)
class _Edits:
    by_entry: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _ReplicaReads:
    keys: int
    terms: tuple[ReplicaTerms, ...]
    counters: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Plan:
    columns: tuple[int, ...]
    programs: tuple[int, ...]
    edits: tuple[int, ...]
    errors: tuple[bytes, ...]
    entry_programs: tuple[int, ...]
    value_programs: tuple[int, ...]
    key_programs: tuple[tuple[int, ...], ...]
    reply_programs: tuple[tuple[tuple[int, int], ...], ...]
    edits_by_entry: tuple[int, ...]
    token_sets: tuple[bytes, ...]
    spends: bool
    replica_reads: int
    counters: int
    hits: tuple[tuple[int, tuple[Hit, ...]], ...]


Part: TypeAlias = (
    bytes | _Automaton | _Names | _Entries | _Values | _Keys | _Appending | _Edit | _Edits | _ReplicaReads | _Plan
)


@dataclass(frozen=True, slots=True)
class NewParts:
    """Plans, by the numbers of their parts, and the parts from number `first` on, up to those of the plans at least."""

    plans: tuple[int, ...]
    first: int
    parts: tuple[Part, ...]


class PlanTables:
    """The plans of one policy, whose schema has the automaton `owners`, as parts."""

    def __init__(self, owners: Automaton) -> None:
        self._parts: list[Part] = [b""]
        self._numbers: dict[Part, int] = {}
        # By identity, as plans share automata and edits. The object is kept, so that no other gets its identity.
        self._known: dict[int, tuple[object, int]] = {id(owners): (owners, _OWNERS)}

    def add(self, lowered: LoweredPolicy) -> int:
        """Add a plan; return the number of its part."""
        plan = lowered.plan
        return self._number(
            _Plan(
                tuple(self._bytes(getattr(plan, column)) for column in _COLUMNS),
                tuple(map(self._names, plan.programs)),
                tuple(map(self._edit, plan.edits)),
                tuple(plan.errors),
                tuple(map(self._entries, plan.entry_programs)),
                tuple(map(self._values, plan.value_programs)),
                tuple(tuple(map(self._keys, programs)) for programs in plan.key_programs),
                tuple(tuple((self._names(each.names), each.place) for each in its) for its in plan.reply_programs),
                tuple(map(self._edits, plan.edits_by_entry)),
                tuple(plan.token_sets),
                plan.spends,
                self._replica_reads(plan.replica_reads),
                len(plan.changed),
                tuple(lowered.hits.items()),
            )
        )

    def since(self, first: int, plans: Iterable[int]) -> NewParts:
        """Plans that have been added, for a reader that has the parts before `first`."""
        return NewParts(tuple(plans), first, tuple(self._parts[first:]))

    def _number(self, part: Part) -> int:
        number = self._numbers.setdefault(part, len(self._parts))
        if number == len(self._parts):
            self._parts.append(part)
        return number

    def _bytes(self, numbers: Any) -> int:
        return self._number(memoryview(numbers).tobytes())

    def _automaton(self, automaton: Automaton | None) -> int:
        if automaton is None:
            return _NONE
        if id(automaton) not in self._known:
            part = _Automaton(automaton.classes, self._bytes(automaton.rows), automaton.start)
            self._known[id(automaton)] = automaton, self._number(part)
        return self._known[id(automaton)][1]

    def _names(self, program: NameProgram) -> int:
        return self._number(
            _Names(
                program.allowed,
                program.min_length,
                program.max_length,
                program.separator,
                program.min_segments,
                program.max_segments,
                program.access,
                program.empty_segments,
                self._automaton(program.language),
            )
        )

    def _entries(self, program: EntryProgram) -> int:
        return self._number(
            _Entries(
                self._automaton(program.automaton),
                self._bytes(program.reads),
                self._bytes(program.writes),
                self._bytes(program.arguments),
                self._automaton(program.names),
                program.min_length,
                program.max_length,
            )
        )

    def _values(self, program: ValueProgram) -> int:
        return self._number(_Values(program.first, program.step, program.firsts, program.seconds))

    def _keys(self, program: KeyProgram) -> int:
        values = tuple(map(self._values, program.values))
        return self._number(_Keys(self._names(program.names), program.size, values))

    def _replica_reads(self, reads: ReplicaReads | None) -> int:
        if reads is None:
            return _NONE
        return self._number(_ReplicaReads(self._automaton(reads.keys), reads.terms, tuple(reads.counters)))

    def _edits(self, by_entry: Sequence[RequestEdit | None]) -> int:
        if id(by_entry) not in self._known:
            part = _Edits(tuple(map(self._edit, by_entry)))
            self._known[id(by_entry)] = by_entry, self._number(part)
        return self._known[id(by_entry)][1]

    def _edit(self, edit: RequestEdit | None) -> int:
        if edit is None:
            return _NONE
        if id(edit) not in self._known:
            part = _Edit(edit.counter, edit.new_name, self._appending(edit.appending), self._edit(edit.then))
            self._known[id(edit)] = edit, self._number(part)
        return self._known[id(edit)][1]

    def _appending(self, appending: Appending | None) -> int:
        if appending is None:
            return _NONE
        if id(appending) not in self._known:
            stated = tuple(
                (
                    *(each.argc, each.word.text, each.word_at, each.number_at, each.least, each.most),
                    self._bytes(each.factors),
                )
                for each in appending.stated
            )
            words = tuple(word.text for word in appending.satisfied_by)
            part = _Appending(appending.argc, appending.added, tuple(appending.suffixes), words, stated)
            self._known[id(appending)] = appending, self._number(part)
        return self._known[id(appending)][1]


class PlanReader:
    """Makes the plans of one policy, whose schema has the automaton `owners`, from parts of another process.

    Plans share the objects of equal parts, but for edits of replies, which are of one command. What changes there is
    used for one request (the owner of its key), or may be anybody's (the turn of a TTL). The counters of a plan are its
    own.
    """

    def __init__(self, owners: Automaton) -> None:
        self._parts: list[Part | None] = []  # None: it has become an object
        self._made: dict[tuple[int, str], Any] = {(_OWNERS, ""): owners}

    @property
    def length(self) -> int:
        """How many parts it has."""
        return len(self._parts)

    def take(self, new: NewParts) -> None:
        """Add parts. A part that has arrived already is ignored."""
        if new.first > len(self._parts):
            raise ValueError(f"parts from {new.first} on leave a gap behind {len(self._parts)}")
        self._parts.extend(new.parts[len(self._parts) - new.first :])

    def plan(self, number: int) -> LoweredPolicy:
        """The plan of this part, with counters of its own."""
        part = self._parts[number]
        assert isinstance(part, _Plan)
        plan = Plan(0)
        for (column, kind), at in zip(_COLUMNS.items(), part.columns, strict=True):
            setattr(plan, column, self._make(at, kind))
        plan.programs = [self._make(each) for each in part.programs]
        plan.edits = [self._make(each) for each in part.edits]
        plan.errors = list(part.errors)
        plan.entry_programs = [self._make(each) for each in part.entry_programs]
        plan.value_programs = [self._make(each) for each in part.value_programs]
        plan.key_programs = [[self._make(each) for each in programs] for programs in part.key_programs]
        plan.reply_programs = [
            [ReplyProgram(self._make(names), place) for names, place in programs] for programs in part.reply_programs
        ]
        plan.edits_by_entry = [self._make(each) for each in part.edits_by_entry]
        plan.token_sets = list(part.token_sets)
        plan.spends = part.spends
        plan.replica_reads = self._make(part.replica_reads)
        plan.changed = array("q", bytes(8 * part.counters))
        return LoweredPolicy(plan, dict(part.hits))

    def _make(self, number: int, kind: str = "") -> Any:
        # The object of a part; that of bytes depends on the type of the numbers in them.
        if number == _NONE:
            return None
        key = number, kind
        if key not in self._made:
            part = self._parts[number]
            assert part is not None
            self._made[key] = self._object_of(part, kind)
            if not isinstance(part, bytes):  # which can be numbers of several types
                self._parts[number] = None
        return self._made[key]

    def _object_of(self, part: Part, kind: str) -> object:
        match part:
            case bytes():
                return array(kind, part)
            case _Automaton(classes, rows, start):
                return Automaton(classes, cast("Sequence[int]", self._make(rows, "i")), start, checked=True)
            case _Names():
                return self._names(part)
            case _Entries(automaton, reads, writes, arguments, names, min_length, max_length):
                return EntryProgram(
                    self._make(automaton),
                    self._make(reads, "q"),
                    self._make(writes, "q"),
                    self._make(arguments, "q"),
                    self._make(names),
                    min_length,
                    max_length,
                )
            case _Values(first, step, firsts, seconds):
                return ValueProgram(first, step, firsts, seconds)
            case _Keys(names, size, values):
                return KeyProgram(self._make(names), size, [self._make(each) for each in values])
            case _Appending(argc, added, suffixes, satisfied_by, stated):
                numbers = [StatedNumber(*each[:-1], self._make(each[-1], "d")) for each in stated]
                return Appending(argc, added, suffixes, satisfied_by, numbers)
            case _Edit(counter, name, appending, then):
                return RequestEdit(counter, name, self._make(appending), self._make(then))
            case _Edits(by_entry):
                return [self._make(each) for each in by_entry]
            case _ReplicaReads(keys, terms, counters):
                return ReplicaReads(self._make(keys), terms, counters)
            case _Plan():
                raise TypeError("a plan has counters of its own, so it is not shared")

    def _names(self, part: _Names) -> NameProgram:
        return NameProgram(
            part.allowed,
            part.min_length,
            part.max_length,
            part.separator,
            part.min_segments,
            part.max_segments,
            part.access,
            part.empty_segments,
            self._make(part.language),
        )
