"""The edits of a request that a plan makes for rules: a closed set of edits that compose.

``RequestEdits`` gathers the edits of all rules for one command, in the order of the rules, and writes them into the
plan as chains (``proxy.hotpath.plan.request_edit``). Requests that a chain cannot decide are judged.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from proxy.commands.table import Spec
from proxy.hotpath.plan.appending import Appending, StatedNumber
from proxy.hotpath.plan.plan import Plan
from proxy.hotpath.plan.request_edit import RequestEdit


@dataclass(frozen=True, slots=True)
class StatedArgument:
    """A request of `argc` arguments that states a number from `least` to `most` in argument `number_at`.

    `word` must be in argument `word_at`, in any letter case; with `word_at` 0 no word is needed.
    """

    argc: int
    number_at: int
    least: int
    most: int
    word: bytes = b""
    word_at: int = 0
    factors: "array[float] | None" = None
    """They vary the number, in turn and within the bounds; none leave it as it is. Many arguments may share them."""


@dataclass(frozen=True)
class Append:
    """Arguments added to a command of exactly `argc` arguments; `suffixes` are encoded, and taken in turn.

    A longer command passes unchanged if its argument `argc` is one of `satisfied_by`, in any letter case. If it states
    a number as one of `stated`, at most that varies. Without `suffixes` nothing is added, and all other commands are
    judged. With a `target` the longer command is that one.
    """

    argc: int = 0
    added: int = 0
    suffixes: Sequence[bytes] = ()
    satisfied_by: Sequence[bytes] = ()
    stated: Sequence[StatedArgument] = ()
    target: Spec | None = None

    @property
    def changes(self) -> bool:
        """Whether there is anything to add or to vary."""
        return bool(self.suffixes) or any(each.factors for each in self.stated)

    @cached_property
    def unchanging(self) -> "Append":
        """The same, but commands that it would change are judged."""
        return Append(stated=[each for each in self.stated if not each.factors]) if self.changes else self

    @cached_property
    def planned(self) -> Appending:
        """The edit in the form of plans; the plans of all apps share it."""
        stated = [
            StatedNumber(each.argc, each.word, each.word_at, each.number_at, each.least, each.most, each.factors)
            for each in self.stated
        ]
        return Appending(self.argc, self.added, self.suffixes, self.satisfied_by, stated)


@dataclass(frozen=True, slots=True)
class Swap:
    """The same arguments under the name of another command."""

    target: Spec

    @property
    def changes(self) -> bool:
        """True: a swap changes every request."""
        return True


Edit: TypeAlias = Append | Swap
EditsByEntry: TypeAlias = tuple[Edit | None, ...]

EditChains: TypeAlias = dict[
    tuple[tuple[int, tuple[int | Swap, ...]], ...], tuple[list[RequestEdit | None], list[EditsByEntry]]
]
"""The chains that ``RequestEdits`` has written so far, by the place of the schema entry. The key has the counter and
the edits of each rule, and the identities of appends; the appends are kept beside the chains, so that identities stay
unique."""


class RequestEdits:
    """The edits of one command. Each rule adds its own once, by the schema entry that owns the key: place 0 is for keys
    that no entry owns, place n + 1 for entry n; one place alone is for all keys."""

    __slots__ = ("_of_rules",)

    def __init__(self) -> None:
        self._of_rules: list[tuple[int, EditsByEntry]] = []

    def __bool__(self) -> bool:
        return bool(self._of_rules)

    @property
    def change(self) -> bool:
        """Whether some request changes; an edit may also only have some requests judged."""
        return any(edit is not None and edit.changes for _, edits in self._of_rules for edit in edits)

    @property
    def swap(self) -> bool:
        """Whether all its requests become another command."""
        return any(isinstance(edit, Swap) for _, edits in self._of_rules for edit in edits)

    @property
    def targets(self) -> frozenset[Spec]:
        """The other commands that some longer requests become."""
        appends = (edit for _, edits in self._of_rules for edit in edits if isinstance(edit, Append))
        return frozenset(append.target for append in appends if append.target is not None)

    def add(self, rule: int, edits: Sequence[Edit | None]) -> None:
        """Add the edits of the rule at this place among all rules."""
        if any(edits):
            self._of_rules.append((rule, tuple(edits)))

    def write(self, command_id: int, plan: Plan, chains: EditChains) -> dict[int, int]:
        """Write them into the plan; return the rule that each counter of the plan is for.

        Plans share equal chains: a schema may have hundreds of entries, and each app has a plan.
        """
        counters: dict[int, int] = {}
        for rule, edits in self._of_rules:
            if any(edit is not None and edit.changes for edit in edits):
                counters[rule] = plan.add_counter() if counters else command_id
        numbers = [counters.get(rule, command_id) for rule, _ in self._of_rules]
        all_edits = [edits for _, edits in self._of_rules]
        key = tuple((number, tuple(map(_identity, edits))) for number, edits in zip(numbers, all_edits, strict=True))
        if key not in chains:
            chains[key] = _by_place(numbers, all_edits), all_edits
        by_place = chains[key][0]
        if len(by_place) > 1:
            plan.edit_by_entry(command_id, by_place)
        elif by_place and by_place[0] is not None:
            plan.edit(command_id, by_place[0])
        return {counter: rule for rule, counter in counters.items()}


def _identity(edit: Edit | None) -> int | Swap:
    return edit if isinstance(edit, Swap) else id(edit)


def _by_place(counters: Sequence[int], all_edits: Sequence[EditsByEntry]) -> list[RequestEdit | None]:
    # Entries with the same edits share a chain.
    chains: dict[tuple[int, ...], RequestEdit | None] = {}
    by_place: list[RequestEdit | None] = []
    for place in range(max(map(len, all_edits), default=0)):
        found = [edits[place if len(edits) > 1 else 0] for edits in all_edits]
        key = tuple(map(id, found))
        if key not in chains:
            chain = None
            for counter, edit in zip(reversed(counters), reversed(found), strict=True):
                if edit is not None:
                    chain = _request_edit(edit, counter, chain)
            chains[key] = chain
        by_place.append(chains[key])
    return by_place


def _request_edit(edit: Edit, counter: int, then: RequestEdit | None) -> RequestEdit:
    name = b"" if edit.target is None else edit.target.name.encode()
    return RequestEdit(counter, name, edit.planned if isinstance(edit, Append) else None, then)
