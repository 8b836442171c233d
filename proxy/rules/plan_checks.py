"""What a plan checks of a request beyond its size: the names of its keys, the schema entries that own them,
and how its values begin.

Each check is a value, so that equal checks of several commands share one program of the plan.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TypeAlias, TypeVar

from proxy.hotpath.plan.automaton import Automaton
from proxy.hotpath.plan.name_checks import NameProgram
from proxy.hotpath.plan.plan import Plan
from proxy.hotpath.plan.schema_checks import EntryProgram
from proxy.hotpath.plan.value_checks import ValueProgram
from proxy.rules.name_language import Counted, Machine, Walked, automaton_of, joined
from proxy.schema.entries import Owner, Schema

UNLIMITED = 2**31 - 1
"""No limit: more than any length or number (Redis takes at most 512 MB in an argument, and arguments of 1 GB)."""
ANY_BYTES = bytes([1]) * 256
_MOST_JOINED = 16
"""The most languages of different rules that are joined to one. Each may take as long as all before it, so with more of
them, the rules judge."""


Program = TypeVar("Program")


def _add(programs: list[Program], program: Program) -> int:
    programs.append(program)
    return len(programs) - 1


@dataclass(frozen=True, slots=True)
class NameCheck:
    """A check of the bytes of a key; a value, so that equal checks share one program of the plan.

    `allowed` has a 0 or 1 for each of the 256 bytes. Lengths are in bytes. Without a `separator` (None) segments are
    not counted. A `language` owns all names that pass, and may own more. `reads` and `writes` say which keys of a
    command it checks.
    """

    allowed: bytes
    min_length: int
    max_length: int
    separator: int | None
    min_segments: int
    max_segments: int
    empty_segments: bool
    reads: bool
    writes: bool
    language: Automaton | None = None
    joined: int = 1
    """The number of languages that were joined to its language."""

    @property
    def machines(self) -> tuple[Machine, ...]:
        """All parts but the lengths, as machines."""
        most = None if self.max_segments == UNLIMITED else self.max_segments
        counted = Counted(self.allowed, self.separator, self.min_segments, most, self.empty_segments)
        machines: tuple[Machine, ...] = (counted,) if self.separator is not None or 0 in self.allowed else ()
        return machines if self.language is None else (*machines, Walked(self.language))

    def combined(self, other: "NameCheck") -> "NameCheck | None":
        """A check that passes only names that both pass; None if no single pass over a key can decide it."""
        if None not in (self.separator, other.separator) and self.separator != other.separator:
            return None
        language, number = self.language or other.language, max(self.joined, other.joined)
        if self.language is not None and other.language is not None and self.language is not other.language:
            number = self.joined + other.joined
            language = joined(self.language, other.language) if number <= _MOST_JOINED else None
            if language is None:
                return None
        return NameCheck(
            allowed=(int.from_bytes(self.allowed) & int.from_bytes(other.allowed)).to_bytes(256),
            min_length=max(self.min_length, other.min_length),
            max_length=min(self.max_length, other.max_length),
            separator=other.separator if self.separator is None else self.separator,
            min_segments=max(self.min_segments, other.min_segments),
            max_segments=min(self.max_segments, other.max_segments),
            empty_segments=self.empty_segments and other.empty_segments,
            reads=self.reads or other.reads,
            writes=self.writes or other.writes,
            language=language,
            joined=number,
        )

    def add_to(self, plan: Plan) -> int:
        """Add it to the plan, and return its number there."""
        whole = None if self.language is None else _language_of(self)
        access = int(self.reads) | int(self.writes) << 1
        if whole is not None:  # then only the length is left to check
            parts = ANY_BYTES, self.min_length, self.max_length, -1, 1, UNLIMITED, access, True
            return _add(plan.programs, NameProgram(*parts, whole))
        program = NameProgram(
            self.allowed,
            self.min_length,
            self.max_length,
            -1 if self.separator is None else self.separator,
            self.min_segments,
            self.max_segments,
            access,
            self.empty_segments,
            self.language,
        )
        return _add(plan.programs, program)


@lru_cache(maxsize=256)  # each application and user has a plan, and most plans have the same checks
def _language_of(check: NameCheck) -> Automaton | None:
    """The automaton of a check, without the lengths; None if it would be too large."""
    return automaton_of(check.machines)


@dataclass(frozen=True, slots=True)
class EntryCheck:
    """The most bytes of a request that passes without judging, by the schema entry that owns a key.

    0 passes no request, UNLIMITED all of them. Place 0 is for keys that no entry owns, place n + 1 for entry n. A
    request that may write the key is also judged if it has more `arguments`, its name included.

    With `names`, which only `named` sets, a key that they do not own, or that is too short or too long, is judged, too.
    """

    automaton: Automaton
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    arguments: tuple[int, ...]
    names: Automaton | None = None
    min_length: int = 0
    max_length: int = 0
    _combinations: dict["EntryCheck", "EntryCheck"] = field(default_factory=dict, init=False, repr=False, compare=False)
    _named: dict[NameCheck, "EntryCheck | None"] = field(default_factory=dict, init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Computed once: a schema may have hundreds of entries, and every command uses its checks.
        object.__setattr__(self, "_hash", hash((self.automaton, self.reads, self.writes, self.arguments, self.names)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def bounds_bytes(self) -> bool:
        """Whether it limits bytes, and not only owners."""
        return any(0 < most < UNLIMITED for most in (*self.reads, *self.writes, *self.arguments))

    @classmethod
    def judging(cls, schema: Schema, read: Callable[[Owner], bool], written: Callable[[Owner], bool]) -> "EntryCheck":
        """A check that has reads or writes judged if the functions say so for the key's owner; all others pass."""
        owners: tuple[Owner, ...] = (None, *schema.entries)
        return cls(
            schema.automaton,
            tuple(0 if read(owner) else UNLIMITED for owner in owners),
            tuple(0 if written(owner) else UNLIMITED for owner in owners),
            (UNLIMITED,) * len(owners),
        )

    def combined(self, other: "EntryCheck") -> "EntryCheck":
        """A check that passes only requests that both pass. Many commands combine the same two, so it is cached."""
        made = self._combinations.get(other)
        if made is None:
            made = self._combinations[other] = EntryCheck(
                self.automaton,
                tuple(map(min, self.reads, other.reads)),
                tuple(map(min, self.writes, other.writes)),
                tuple(map(min, self.arguments, other.arguments)),
            )
        return made

    def named(self, names: NameCheck) -> "EntryCheck | None":
        """A check that passes requests that both pass, in one pass over a key; None if one pass cannot decide it."""
        if names not in self._named:
            right = _language_of(names) if names.reads and names.writes else None
            self._named[names] = (
                None
                if right is None
                else replace(self, names=right, min_length=names.min_length, max_length=names.max_length)
            )
        return self._named[names]

    def add_to(self, plan: Plan) -> int:
        """Add it to the plan, and return its number there."""
        program = EntryProgram(
            self.automaton, self.reads, self.writes, self.arguments, self.names, self.min_length, self.max_length
        )
        return _add(plan.entry_programs, program)


@dataclass(frozen=True, slots=True)
class ValueCheck:
    """How the values of a command may not begin to pass: with a byte of the first and then one of the second set of one
    of the `openings`, at most eight. The values are the argument `first` and every `step`-th behind it, or only that
    one if `step` is 0."""

    first: int
    step: int
    openings: frozenset[tuple[bytes, bytes]]

    def combined(self, other: "ValueCheck") -> "ValueCheck":
        """A check of the same values that passes only requests that both pass."""
        return replace(self, openings=self.openings | other.openings)

    def add_to(self, plan: Plan) -> int:
        """Add it to the plan, and return its number there."""
        firsts, seconds = map(_bits, zip(*sorted(self.openings), strict=True))
        return _add(plan.value_programs, ValueProgram(self.first, self.step, firsts, seconds))


def _bits(sets: Sequence[bytes]) -> bytes:
    """For each byte the bits of the sets that have it."""
    return bytes(sum((byte in each) << bit for bit, each in enumerate(sets)) for byte in range(256))


Programs: TypeAlias = dict[NameCheck | EntryCheck | ValueCheck, int]
"""The checks of a plan, and their numbers there."""


def number_of(check: NameCheck | EntryCheck | ValueCheck, plan: Plan, programs: Programs) -> int:
    """The number of a check in the plan, to which it is added if it is not there."""
    number = programs.get(check)
    if number is None:
        number = programs[check] = check.add_to(plan)
    return number
