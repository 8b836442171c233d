"""One command's plan operations, gathered from the rules that touch it.

A plan may be stricter than the rules, never laxer: commands that it does not pass or edit go to ``judge``. So two
naming rules become one check that is as strict as both, the edits of several rules compose, and combinations that a
plan cannot express are judged. Only an enforced rule adds an operation that changes or refuses the command; in any
other mode the command is judged, to be counted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal, TypeAlias

from proxy.commands.table import Spec
from proxy.hotpath.plan.automaton import Automaton
from proxy.hotpath.plan.plan import Plan
from proxy.hotpath.plan.replica_reads import ReplicaTerms
from proxy.hotpath.plan.schema_checks import EntryProgram
from proxy.rules.key_globs import LONGEST, KeyGlob, none_fits
from proxy.rules.name_language import Counted, Machine, Walked, automaton_of, joined
from proxy.rules.replica_keys import ReplicaRule, add_rules, fit_plan
from proxy.rules.request_edits import Append, EditChains, RequestEdits, Swap
from proxy.schema.entries import Owner, Schema

UNLIMITED = 2**31 - 1
"""No limit: more than any length or number (Redis takes at most 512 MB in an argument, and arguments of 1 GB)."""
_ANY_BYTES = bytes([1]) * 256
_MOST_TOKEN_SETS = 256
"""A plan has a byte for the number of a token set; the limits beyond judge."""
_MOST_JOINED = 16
"""The most languages of different rules that are joined to one. Each may take as long as all before it, so with more of
them, the rules judge."""


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
            return plan.add_names(_ANY_BYTES, self.min_length, self.max_length, -1, 1, UNLIMITED, access, True, whole)
        return plan.add_names(
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
        return plan.add_entries(program)


Programs: TypeAlias = dict[NameCheck | EntryCheck, int]
"""The checks of a plan, and their numbers there."""
CountedFor: TypeAlias = tuple[tuple[int, ...], Literal["refused", "rewritten", "moved"]]
"""The places of the rules that a counter of a plan counts for, and what they have done, in the words of a hit."""


class Lowering:
    """The operations for one command. Before a rule adds its own, four attributes are set for it: whether it is
    `enforced` or only `audited`, whatever the command (in all other modes it is neither), its `place` among all rules,
    and its `token_set`."""

    __slots__ = (
        "_arguments",
        "_edits",
        "_entries",
        "_error",
        "_judged",
        "_judged_keys",
        "_names",
        "_refused_by",
        "_replica_rules",
        "_size",
        "_token_sets",
        "audited",
        "enforced",
        "place",
        "spec",
        "token_set",
    )

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        """The command that the next rule sees: another one after a swap."""
        self.audited = False
        self.enforced = False
        self.place = 0
        self.token_set = 0
        self._judged = False
        self._error = b""
        self._names: NameCheck | None = None
        self._judged_keys: list[KeyGlob] = []
        self._entries: EntryCheck | None = None
        self._edits = RequestEdits()
        self._refused_by = 0
        self._size = UNLIMITED
        self._arguments = UNLIMITED
        self._token_sets: list[int] = []
        self._replica_rules: list[ReplicaRule] = []

    @property
    def settled(self) -> bool:
        """Whether later rules have no effect: the command is always refused, or always judged."""
        return self._judged or bool(self._error)

    @property
    def does(self) -> Literal["refused", "rewritten"] | None:
        """The plan's own effect on the command, in the words of a hit; None if it has none."""
        if self._judged:
            return None
        return "refused" if self._error else "rewritten" if self._edits.change else None

    @property
    def targets(self) -> frozenset[Spec]:
        """The other commands that some of its requests become."""
        return self._edits.targets

    def judge(self) -> None:
        self._judged = True

    def refuse(self, error: bytes) -> None:
        """Answer every such command with this error, which depends on nothing but the command's name."""
        if not self.enforced or self._checked() or self._edits:
            self._judged = True
        else:
            self._error = error
            self._refused_by = self.place

    def check_names(self, check: NameCheck) -> None:
        """Judge the command if one of its keys fails the check."""
        if self._edits.change:
            self._judged = True  # the check would read the keys of the command before the edits
            return
        combined = check if self._names is None else self._names.combined(check)
        if combined is None:
            self._judged = True
        else:
            self._names = combined

    def judge_keys(self, keys: KeyGlob) -> None:
        """Judge the command if one of its keys matches this pattern."""
        if self._edits.change or keys.size > LONGEST:
            self._judged = True  # as above
        else:
            self._judged_keys.append(keys)

    def limit(self, *, size: int = UNLIMITED, arguments: int = UNLIMITED) -> None:
        """Judge the command if it has more bytes or more arguments, its name included, than this."""
        if self._edits.change:
            self._judged = True  # the plan would measure the command before the edits
            return
        self._size = min(self._size, size)
        self._arguments = min(self._arguments, arguments)

    def check_entries(self, check: EntryCheck) -> None:
        """Judge the command if the entry of one of its keys does not let it pass."""
        if self._edits.change:
            self._judged = True  # as above
        else:
            self._entries = check if self._entries is None else self._entries.combined(check)

    def append_by_entry(self, check: EntryCheck, appends: Sequence[Append | None]) -> None:
        """Add arguments at its end by the entry that owns its only key, in the places of `check`, which is added, too.

        None adds nothing. If a rule is not enforced, the command is judged if there are arguments to add.
        """
        if self._edits.change and not self._edits.swap and not check.bounds_bytes:
            # Arguments that an earlier rule has appended are no keys, so the owner stays the same.
            self._entries = check if self._entries is None else self._entries.combined(check)
        else:
            self.check_entries(check)
        adding = [append is not None and append.changes for append in appends]
        if not self.enforced and any(adding):
            bytes_passing = tuple(0 if adds else UNLIMITED for adds in adding)
            self.check_entries(EntryCheck(check.automaton, check.reads, bytes_passing, check.arguments))
            appends = [None if adds else each for adds, each in zip(adding, appends, strict=True)]
        self._edits.add(self.place, appends)

    def spend(self) -> None:
        """Judge the command if the client's token set for this rule cannot pay for it, else pay."""
        if self.token_set < _MOST_TOKEN_SETS:
            self._token_sets.append(self.token_set)
        else:
            self._judged = True

    def read_from_replicas(self, terms: ReplicaTerms, keys: Sequence[KeyGlob]) -> None:
        """Count the command if all of its keys match these patterns; if the rule is enforced, replicas may answer."""
        if not (self.enforced or self.audited):
            for glob in keys:
                self.judge_keys(glob)
        elif not self._edits.swap:  # what a rule changes goes to the primary
            rule = ReplicaRule(self.place, terms._replace(enforced=self.enforced), tuple(keys))
            self._replica_rules.append(rule)

    def append(self, append: Append) -> None:
        """Add arguments at its end."""
        self._edit(append)

    def swap(self, target: Spec) -> None:
        """Run it under another command's name."""
        self._edit(Swap(target))
        self.spec = self.spec if self._judged else target

    def _edit(self, edit: Append | Swap) -> None:
        if edit.changes and not self.enforced:
            self._judged = True
        else:
            self._edits.add(self.place, [edit])

    def _checked(self) -> bool:
        limited = self._size < UNLIMITED or self._arguments < UNLIMITED
        checked = self._names is not None or bool(self._judged_keys) or self._entries is not None
        return limited or checked or bool(self._token_sets)

    def apply(self, command_id: int, plan: Plan, programs: Programs, chains: EditChains) -> dict[int, CountedFor]:
        """Write the operations into the plan. `programs` has the checks that are already in it, and `chains` the edits
        of other plans.

        Returns what each counter of the plan counts that was not counted before.
        """
        if self._judged_keys and not self._judged:
            self._leave_out(frozenset(self._judged_keys))
        self._judged |= not fit_plan(self._replica_rules)
        if self._judged:
            plan.judge_always(command_id)
            return {}
        if self._error:
            plan.refuse(command_id, self._error)
            return {command_id: ((self._refused_by,), "refused")}
        names, entries = self._names, self._entries
        together = None if names is None or entries is None else entries.named(names)
        if together is not None:
            names, entries = None, together
        if names is not None:
            plan.check_names(command_id, _number_of(names, plan, programs))
        if self._size < UNLIMITED or self._arguments < UNLIMITED:
            plan.limit(command_id, self._size, self._arguments)
        if entries is not None:
            plan.check_entries(command_id, _number_of(entries, plan, programs))
        if self._token_sets:
            plan.spend(command_id, bytes(self._token_sets))
        counted: dict[int, CountedFor] = {}
        if self._replica_rules:
            if plan.replica_reads is None:  # the same rules for each command
                added = add_rules(self._replica_rules, plan)
                counted |= {counter: (places, "moved") for counter, places in added.items()}
            plan.read_from_replicas(command_id)
        edited = self._edits.write(command_id, plan, chains)
        return counted | {counter: ((place,), "rewritten") for counter, place in edited.items()}

    def _leave_out(self, judged: frozenset[KeyGlob]) -> None:
        # Once for all rules: adding patterns one by one would build as many automata, each larger than the last.
        language = none_fits(judged)
        check = NameCheck(_ANY_BYTES, 0, UNLIMITED, None, 1, UNLIMITED, True, True, True, language)
        self._names = check if self._names is None else self._names.combined(check)
        self._judged = language is None or self._names is None


def _number_of(check: NameCheck | EntryCheck, plan: Plan, programs: Programs) -> int:
    number = programs.get(check)
    if number is None:
        number = programs[check] = check.add_to(plan)
    return number
