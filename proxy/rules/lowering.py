"""One command's plan operations, gathered from the rules that touch it.

A plan may be stricter than the rules, never laxer: commands that it does not pass or edit go to ``judge``. So two
naming rules become one check that is as strict as both, the edits of several rules compose, and combinations that a
plan cannot express are judged. Only an enforced rule adds an operation that changes or refuses the command; in any
other mode the command is judged, to be counted.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from proxy.commands.table import Spec
from proxy.hotpath.plan.key_checks import KeyProgram
from proxy.hotpath.plan.name_checks import NameProgram
from proxy.hotpath.plan.plan import Plan
from proxy.hotpath.plan.replica_reads import ReplicaTerms
from proxy.hotpath.plan.reply_edits import ReplyProgram
from proxy.rules.key_globs import LONGEST, KeyGlob, none_fits
from proxy.rules.plan_checks import (
    ANY_BYTES,
    UNLIMITED,
    EntryCheck,
    NameCheck,
    Programs,
    ValueCheck,
    number_of,
)
from proxy.rules.replica_keys import ReplicaRule, add_rules, fit_plan
from proxy.rules.request_edits import Append, EditChains, RequestEdits, Swap

_MOST_TOKEN_SETS = 256
"""A plan has a byte for the number of a token set; the limits beyond judge."""
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
        "_judged_some",
        "_names",
        "_one_slot",
        "_refused_by",
        "_replica_rules",
        "_reply_edits",
        "_size",
        "_token_sets",
        "_values",
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
        self._one_slot = False
        self._judged_keys: list[KeyGlob] = []
        self._judged_some: list[tuple[frozenset[KeyGlob], int, tuple[ValueCheck, ...]]] = []
        self._entries: EntryCheck | None = None
        self._values: ValueCheck | None = None
        self._edits = RequestEdits()
        self._refused_by = 0
        self._size = UNLIMITED
        self._arguments = UNLIMITED
        self._token_sets: list[int] = []
        self._replica_rules: list[ReplicaRule] = []
        self._reply_edits: list[tuple[frozenset[KeyGlob], int]] = []

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

    def check_slots(self) -> None:
        """Judge the command if its keys may have several hash slots."""
        if self._edits.change:
            self._judged = True  # as above
        else:
            self._one_slot = True

    def judge_keys(self, keys: KeyGlob) -> None:
        """Judge the command if one of its keys matches this pattern."""
        if self._edits.swap or keys.size > LONGEST:
            self._judged = True  # as above; arguments that an earlier rule appends are no keys
        else:
            self._judged_keys.append(keys)

    def judge_some(self, keys: Sequence[KeyGlob], values: Sequence[ValueCheck], size: int = UNLIMITED) -> None:
        """Judge the command if one of its keys matches one of these patterns, and it has more than `size` bytes, or one
        of its arguments does not pass these checks of `values`."""
        if self._edits.swap or any(glob.size > LONGEST for glob in keys):
            self._judged = True  # as above
        else:
            self._judged_some.append((frozenset(keys), size, tuple(values)))

    def edit_replies(self, keys: Sequence[KeyGlob]) -> None:
        """If one of its keys matches one of these patterns, the reply to the command gets the edit that the rule says
        (``Rule.edit_of_replies``), whatever its other arguments are."""
        if not (self.enforced or self.audited):
            for glob in keys:
                self.judge_keys(glob)
        elif self._edits.swap or any(glob.size > LONGEST for glob in keys):
            self._judged = True  # as above
        else:
            self._reply_edits.append((frozenset(keys), self.place))

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

    def check_values(self, check: ValueCheck) -> None:
        """Judge the command if one of its values may begin as the check says."""
        if self._edits.change:
            self._judged = True  # as above
        else:
            self._values = check if self._values is None else self._values.combined(check)

    def append_by_entry(self, check: EntryCheck, appends: Sequence[Append | None]) -> None:
        """Add arguments at its end by the entry that owns its only key, in the places of `check`, which is added, too.

        None adds nothing. If a rule is not enforced, a command without them is judged.
        """
        if not self.enforced:
            appends = [append and append.unchanging for append in appends]
        if self._edits.change and not self._edits.swap and not check.bounds_bytes:
            # Arguments that an earlier rule has appended are no keys, so the owner stays the same.
            self._entries = check if self._entries is None else self._entries.combined(check)
        else:
            self.check_entries(check)
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
        """Add arguments at its end. If the rule is not enforced, a command without them is judged."""
        self._edit(append.unchanging if append.stated and not self.enforced else append)

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
        checked = any(check is not None for check in (self._names, self._entries, self._values))
        of_keys = self._one_slot or self._judged_keys or self._judged_some or self._reply_edits or self._token_sets
        return limited or checked or bool(of_keys)

    def apply(self, command_id: int, plan: Plan, programs: Programs, chains: EditChains) -> dict[int, CountedFor]:
        """Write the operations into the plan. `programs` has the checks that are already in it, and `chains` the edits
        of other plans.

        Returns what each counter of the plan counts that was not counted before.
        """
        if self._judged_keys and not self._judged:
            self._leave_out(frozenset(self._judged_keys))
        outside = [_outside(globs) for globs, *_ in self._judged_some]
        unedited = [_outside(globs) for globs, _ in self._reply_edits]
        self._judged |= not fit_plan(self._replica_rules) or None in outside or None in unedited
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
            plan.check_names(command_id, number_of(names, plan, programs))
        if self._one_slot:
            plan.check_slots(command_id)
        if self._size < UNLIMITED or self._arguments < UNLIMITED:
            plan.limit(command_id, self._size, self._arguments)
        if self._values is not None:
            plan.check_values(command_id, number_of(self._values, plan, programs))
        if entries is not None:
            plan.check_entries(command_id, number_of(entries, plan, programs))
        self._write_keys(command_id, plan, programs, outside, unedited)
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

    def _write_keys(
        self,
        command_id: int,
        plan: Plan,
        programs: Programs,
        outside: Sequence[NameCheck | None],
        unedited: Sequence[NameCheck | None],
    ) -> None:
        # What depends on whether a key matches a rule's patterns.
        def program_of(names: NameCheck | None) -> NameProgram:
            assert names is not None, "else the command is judged"
            return plan.programs[number_of(names, plan, programs)]

        if outside:
            checks = [
                KeyProgram(
                    program_of(names), size, [plan.value_programs[number_of(each, plan, programs)] for each in values]
                )
                for names, (_, size, values) in zip(outside, self._judged_some, strict=True)
            ]
            plan.check_some_keys(command_id, checks)
        if unedited:
            places = [place for _, place in self._reply_edits]
            edits = [ReplyProgram(program_of(each), place) for each, place in zip(unedited, places, strict=True)]
            plan.edit_replies(command_id, edits)

    def _leave_out(self, judged: frozenset[KeyGlob]) -> None:
        # Once for all rules: adding patterns one by one would build as many automata, each larger than the last.
        check = _outside(judged)
        names = check if self._names is None or check is None else self._names.combined(check)
        self._names, self._judged = names, names is None


def _outside(globs: frozenset[KeyGlob]) -> NameCheck | None:
    # Passes the keys that match none of these; None if it would be too large.
    language = none_fits(globs)
    if language is None:
        return None
    return NameCheck(ANY_BYTES, 0, UNLIMITED, None, 1, UNLIMITED, True, True, True, language)
