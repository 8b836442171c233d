"""Edits of a request that a plan makes for rules: a closed set, which compose.

``RequestEdits`` gathers the edits of all rules for one command, in the order of the rules, and writes them into the
plan as chains (``proxy.hotpath.request_edit``). Requests that a chain cannot decide are judged.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from proxy.commands.table import Spec
from proxy.hotpath.appending import Appending, StatedNumber
from proxy.hotpath.plan import Plan
from proxy.hotpath.request_edit import RequestEdit


@dataclass(frozen=True, slots=True)
class StatedArgument:
    """A request of `argc` arguments that states a number from `least` to `most` in argument `number_at`.

    `word` must stand before it, in argument `word_at` and in any letter case; with `word_at` 0 none has to.
    """

    argc: int
    number_at: int
    least: int
    most: int
    word: bytes = b""
    word_at: int = 0


@dataclass(frozen=True)
class Append:
    """Arguments added to a command of exactly `argc` arguments; `suffixes` are encoded, and taken in turn.

    A longer command passes unchanged if its argument `argc` is one of `satisfied_by`, in any letter case. So does a
    command that states a number as one of `stated` has it. Without `suffixes` nothing is added, and what states no
    such number is judged. With a `target` the longer command is that one.
    """

    argc: int = 0
    added: int = 0
    suffixes: Sequence[bytes] = ()
    satisfied_by: Sequence[bytes] = ()
    stated: Sequence[StatedArgument] = ()
    target: Spec | None = None

    @property
    def changes(self) -> bool:
        """Whether there is anything to add."""
        return bool(self.suffixes)

    @cached_property
    def planned(self) -> Appending:
        """The same as plans have it: one for the plans of all apps."""
        stated = [
            StatedNumber(each.argc, each.word, each.word_at, each.number_at, each.least, each.most)
            for each in self.stated
        ]
        return Appending(self.argc, self.added, self.suffixes, self.satisfied_by, stated)


@dataclass(frozen=True, slots=True)
class Swap:
    """The same arguments under the name of another command."""

    target: Spec

    @property
    def changes(self) -> bool:
        """Always, if there are arguments."""
        return True


Edit: TypeAlias = Append | Swap


class RequestEdits:
    """The edits of one command. Each rule adds its own once, by the schema entry that owns the key: place 0 is for keys
    that no entry owns, place n + 1 for entry n; one place alone is for all keys."""

    __slots__ = ("_of_rules",)

    def __init__(self) -> None:
        self._of_rules: list[tuple[int, tuple[Edit | None, ...]]] = []

    def __bool__(self) -> bool:
        return bool(self._of_rules)

    @property
    def change(self) -> bool:
        """Whether some request changes; an edit can also be there for what it does not let pass."""
        return any(edit is not None and edit.changes for _, edits in self._of_rules for edit in edits)

    @property
    def swap(self) -> bool:
        """Whether all its requests become another command."""
        return any(isinstance(edit, Swap) for _, edits in self._of_rules for edit in edits)

    @property
    def targets(self) -> frozenset[Spec]:
        """The other commands that some of the longer requests are."""
        appends = (edit for _, edits in self._of_rules for edit in edits if isinstance(edit, Append))
        return frozenset(append.target for append in appends if append.target is not None)

    def add(self, rule: int, edits: Sequence[Edit | None]) -> None:
        """Add the edits of the rule at this place among all rules."""
        if any(edits):
            self._of_rules.append((rule, tuple(edits)))

    def write(self, command_id: int, plan: Plan) -> dict[int, int]:
        """Write them into the plan: which rule each counter of the plan is for."""
        counters: dict[int, int] = {}
        for rule, edits in self._of_rules:
            if any(edit is not None and edit.changes for edit in edits):
                counters[rule] = plan.add_counter() if counters else command_id
        size = max((len(edits) for _, edits in self._of_rules), default=0)
        # Entries with the same edits share a chain: a schema may have hundreds of entries.
        chains: dict[tuple[int, ...], RequestEdit | None] = {}
        by_place: list[RequestEdit | None] = []
        for place in range(size):
            found = [(rule, edits[place if len(edits) > 1 else 0]) for rule, edits in self._of_rules]
            key = tuple(id(edit) for _, edit in found)
            if key not in chains:
                chain = None
                for rule, edit in reversed(found):
                    if edit is not None:
                        chain = _request_edit(edit, counters.get(rule, command_id), chain)
                chains[key] = chain
            by_place.append(chains[key])
        if size > 1:
            plan.edit_by_entry(command_id, by_place)
        elif by_place and by_place[0] is not None:
            plan.edit(command_id, by_place[0])
        return {counter: rule for rule, counter in counters.items()}


def _request_edit(edit: Edit, counter: int, then: RequestEdit | None) -> RequestEdit:
    name = b"" if edit.target is None else edit.target.name.encode()
    return RequestEdit(counter, name, edit.planned if isinstance(edit, Append) else None, then)
