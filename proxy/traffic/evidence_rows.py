"""Evidence that is kept: verdicts of rules and commands of clients, crossed with who sent them, hour by hour.

    verdicts   (rule, mode, outcome, who, command, shape of the key): how often, when first and last, exemplars
    commands   (who, command): how many, whether or not a rule says anything: the denominator
    forms      (who, command, shape of the key, form): what rules judge by; of commands that rules had to look at, all,
               of the others those that were traced, each of which stands for several

Everything is bounded. What has no row of its own is counted in the row of `OTHERS` of the same rule, mode and outcome,
or of the same application: so sums are exact, whatever was folded.

An *exemplar* is a real command whose values are replaced by their lengths, as ``<59 bytes>``. `keyrail explain` reads
that. Its keys are shown as the policy's ``traffic.redact`` allows.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

MOST_VERDICTS, MOST_COMMANDS, MOST_FORMS = 5_000, 10_000, 5_000
"""The most rows of each kind that one route has before they are handed on, or kept for one hour."""
MOST_EXEMPLARS = 3
"""The most exemplars of one row."""

Row = TypeVar("Row")
Counted = TypeVar("Counted")


class Identity(NamedTuple):
    """Who has sent a command, as far as evidence tells clients apart.

    `name` is the client's name with its ids folded; `address` is the host of a client that neither a user of its own
    nor a name tells from others. Everything but the app is empty for those that are not told apart.
    """

    app: str
    user: str = ""
    name: str = ""
    library: str = ""
    address: str = ""

    @property
    def folded(self) -> bool:
        """Whether this stands for several clients of the app that are not told apart."""
        return not self.user


class Exemplar(NamedTuple):
    """One command: its words, when it came (seconds since the epoch), and what the rule has found, if one has. A
    tenant's has the names that its client knows: in Redis they are behind the `prefix`."""

    words: tuple[str, ...]
    at: float
    why: str = ""
    prefix: str = ""

    @property
    def kept(self) -> tuple[Any, ...]:
        """What is kept of it: without an empty prefix, as before there were tenants."""
        return tuple(self) if self.prefix else self[:3]


class VerdictKey(NamedTuple):
    """What one row of verdicts is about. Without a `command` it is the row of those that are not told apart."""

    rule: str
    mode: str
    outcome: str
    who: Identity
    command: str = ""
    shape: str = ""

    @property
    def others(self) -> "VerdictKey":
        """The row that this one is folded into."""
        return VerdictKey(self.rule, self.mode, self.outcome, Identity(self.who.app))


class CommandKey(NamedTuple):
    """What one count of commands is about."""

    who: Identity
    command: str

    @property
    def others(self) -> "CommandKey":
        """The count that this one is folded into."""
        return CommandKey(Identity(self.who.app), "" if self.who.folded else self.command)


class FormKey(NamedTuple):
    """What one row of forms is about."""

    who: Identity
    command: str
    shape: str = ""
    form: str = ""

    @property
    def others(self) -> "FormKey":
        """The row that this one is folded into."""
        return FormKey(Identity(self.who.app), "" if self.who.folded else self.command)


@dataclass(slots=True)
class VerdictRow:
    """How often, when first and last (seconds since the epoch), and the latest exemplars."""

    count: int = 0
    first: float = 0.0
    last: float = 0.0
    exemplars: list[Exemplar] = field(default_factory=list)

    def add(self, more: "VerdictRow") -> None:
        """Add another's counts."""
        self.count += more.count
        self.first = min(self.first, more.first) if self.first and more.first else self.first or more.first
        self.last = max(self.last, more.last)
        self.exemplars = newest(self.exemplars, more.exemplars)


@dataclass(slots=True)
class FormRow:
    """The commands that the row stands for, how many of them were `seen`, and the latest exemplars."""

    count: int = 0
    seen: int = 0
    exemplars: list[Exemplar] = field(default_factory=list)

    def add(self, more: "FormRow") -> None:
        """Add another's counts."""
        self.count += more.count
        self.seen += more.seen
        self.exemplars = newest(self.exemplars, more.exemplars)


@dataclass(slots=True)
class EvidenceRows:
    """The evidence of one route in a stretch of time."""

    verdicts: dict[VerdictKey, VerdictRow] = field(default_factory=dict)
    commands: dict[CommandKey, int] = field(default_factory=dict)
    forms: dict[FormKey, FormRow] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.verdicts) + len(self.commands) + len(self.forms)

    def add(self, more: "EvidenceRows") -> None:
        """Add the evidence of another worker, hour or process group."""
        for verdict, its in more.verdicts.items():
            self.verdicts.setdefault(verdict, VerdictRow()).add(its)
        for command, count in more.commands.items():
            self.commands[command] = self.commands.get(command, 0) + count
        for form, found in more.forms.items():
            self.forms.setdefault(form, FormRow()).add(found)

    def fold(self) -> None:
        """Fold the lightest rows, if there are too many, into those of what is not told apart."""
        fold_verdicts(self.verdicts, MOST_VERDICTS)
        if len(self.commands) > MOST_COMMANDS:
            for command in _lightest(self.commands, MOST_COMMANDS, lambda count: count):
                count = self.commands.pop(command)
                self.commands[command.others] = self.commands.get(command.others, 0) + count
        if len(self.forms) > MOST_FORMS:
            for form in _lightest(self.forms, MOST_FORMS, lambda row: row.count):
                row = self.forms.pop(form)
                self.forms.setdefault(form.others, FormRow()).add(FormRow(row.count, row.seen))


def fold_verdicts(verdicts: dict[VerdictKey, VerdictRow], most: int) -> None:
    """Of rules with more rows than `most`, fold the lightest half into the rows of what is not told apart."""
    if len(verdicts) <= most:
        return
    by_rule: dict[str, dict[VerdictKey, VerdictRow]] = {}
    for key, row in verdicts.items():
        if key.command:
            by_rule.setdefault(key.rule, {})[key] = row
    for rows in by_rule.values():
        if len(rows) > most:
            for key in _lightest(rows, most, lambda row: row.count):
                row = verdicts.pop(key)
                row.exemplars = []
                verdicts.setdefault(key.others, VerdictRow()).add(row)


def _lightest(rows: Mapping[Row, Counted], most: int, weight: Callable[[Counted], int]) -> list[Row]:
    # All but the heaviest half, so that the next row does not fold again.
    return sorted(rows, key=lambda row: weight(rows[row]))[: max(0, len(rows) - most // 2)]


def newest(known: Iterable[Exemplar], more: Iterable[Exemplar]) -> list[Exemplar]:
    """The newest exemplars, the newest first; of equal words one."""
    by_words: dict[tuple[str, ...], Exemplar] = {}
    for each in sorted((*known, *more), key=lambda each: -each.at):
        by_words.setdefault(each.words, each)
    return list(by_words.values())[:MOST_EXEMPLARS]
