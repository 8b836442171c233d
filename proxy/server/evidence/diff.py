"""What another policy would change for the commands that were recorded.

Each rule of NEW is compared with the rule of OLD that has its name, or its settings: what it does with each form of
commands, as if it were enforced. A rule that only one of them has, or that is off, does nothing in the other. What both
policies do alike is not judged.

A *change* is counted in commands, at least and at most. Both are equal where the recorded form tells the verdict on
all of its commands (``JudgedBy.FORM``). Else each exemplar is one command whose verdict is known: a change is counted
for as many as show it, and may be true of all commands that no exemplar stands for.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import zip_longest

from proxy.commands.table import STANDARD
from proxy.policy.model import Policy
from proxy.rules.judged_by import JudgedBy
from proxy.server.evidence.judging import PolicyForApps, RuleForApp, Said, told_by
from proxy.server.evidence.model import Evidence
from proxy.traffic.command_form import CUT
from proxy.traffic.evidence_rows import Exemplar, FormKey, FormRow, Identity
from proxy.traffic.exemplars import Remade, remade

MOST_EXEMPLARS = 3

REASONS = {
    JudgedBy.NUMBERS: "the commands are longer than their exemplars",
    JudgedBy.NAMES: "traffic.redact hides their keys, or the commands are longer than their exemplars",
    JudgedBy.DATA: "it depends on bytes that evidence does not keep",
    JudgedBy.STATE: "it depends on earlier commands, on other clients or on what Redis has stored",
}
"""Why a rule cannot be judged, by what decides about its verdict."""


@dataclass(slots=True)
class Span:
    """A number of commands that is known within bounds."""

    least: int = 0
    most: int = 0

    def add(self, least: int, most: int) -> None:
        """Count more."""
        self.least += least
        self.most += most

    def __str__(self) -> str:
        return f"{self.least:,}" if self.least == self.most else f"at least {self.least:,}, at most {self.most:,}"


@dataclass(slots=True)
class Change:
    """What a rule does otherwise for one app.

    `kind` is such as ``newly refused``; `before` is what the rule of OLD did (``passed``, ``refused, only counted``).
    `mode` is the rule's mode in NEW, in OLD if NEW does not have it. `enforced`: NEW enforces it. `says` is the error
    that an exemplar gets. `commands` is the sum; of its most, `elsewhere` are in forms of which no exemplar shows the
    change. `counted` and `seen` are the commands of the other forms, and how many of these were looked at.
    """

    app: str
    kind: str
    rule: str
    mode: str
    enforced: bool
    before: str
    contact: str
    says: str = ""
    commands: Span = field(default_factory=Span)
    elsewhere: int = 0
    counted: int = 0
    seen: int = 0
    forms: dict[tuple[str, str], Span] = field(default_factory=dict)
    """By command and shape of the key."""
    clients: dict[Identity, Span] = field(default_factory=dict)
    exemplars: list[tuple[str, ...]] = field(default_factory=list)

    @property
    def exact(self) -> bool:
        """Whether the number of commands is known."""
        return self.commands.least == self.commands.most


@dataclass(slots=True)
class Coverage:
    """How much of an app's commands was judged. `folded`: their forms were not told apart; `unreadable`: no exemplar of
    their form is there, or it was recorded by a Keyrail that has other forms."""

    team: str = ""
    contact: str = ""
    known: bool = True
    """Whether NEW has the app. Else its clients are judged as those of no app."""
    commands: int = 0
    judged: int = 0
    folded: int = 0
    unreadable: int = 0

    @property
    def unrecorded(self) -> int:
        """Commands of which nothing but their number is known."""
        return max(self.commands - self.judged - self.unreadable, self.folded)


@dataclass(slots=True)
class PolicyDiff:
    """All changes, the worst first; what could not be told, by app, rule and reason; and how much was judged."""

    changes: list[Change] = field(default_factory=list)
    untold: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    unseen: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By app and rule: commands that no exemplar stands for, and which the rule may judge in another way."""
    coverage: dict[str, Coverage] = field(default_factory=dict)

    def hits(self, kinds: Iterable[str]) -> list[Change]:
        """The changes of these kinds by rules that NEW enforces."""
        wanted = set(kinds)
        return [change for change in self.changes if change.enforced and change.kind in wanted]


_KINDS = ("newly refused", "no longer refused", "newly rewritten")


def diff(evidence: Evidence, old: Policy, new: Policy, now: float, app: str = "") -> PolicyDiff:
    """The changes from `old` to `new`; `now` (seconds since the epoch) tells which exceptions are over. With `app`, of
    this app only."""
    judge = _Judge(PolicyForApps(old, now), PolicyForApps(new, now))
    forms: dict[FormKey, FormRow] = {}
    for rows in evidence.hours.values():
        for command, count in rows.commands.items():
            if app in {"", command.who.app}:
                judge.coverage(command.who.app).commands += count
        for key, row in rows.forms.items():
            if app in {"", key.who.app}:
                forms.setdefault(key, FormRow()).add(row)
    for key, row in forms.items():
        judge.judge(key, row)
    return judge.found()


@dataclass(frozen=True, slots=True)
class _Pair:
    old: RuleForApp | None
    new: RuleForApp | None

    @property
    def either(self) -> RuleForApp:
        rule = self.new or self.old
        assert rule is not None
        return rule


class _Judge:
    def __init__(self, old: PolicyForApps, new: PolicyForApps) -> None:
        self._old, self._new = old, new
        self._diff = PolicyDiff()
        self._pairs: dict[str, list[_Pair]] = {}
        self._changes: dict[tuple[str, str, str, str], Change] = {}
        self._unseen_of: Counter[tuple[str, str, str, str]] = (
            Counter()
        )  # of forms of which an exemplar shows the change

    def coverage(self, app: str) -> Coverage:
        if app not in self._diff.coverage:
            its = self._new.apps.get(app) or self._old.apps.get(app)
            self._diff.coverage[app] = Coverage(known=app in self._new.apps)
            if its is not None:
                self._diff.coverage[app].team, self._diff.coverage[app].contact = its.team, its.contact
        return self._diff.coverage[app]

    def found(self) -> PolicyDiff:
        for key, change in self._changes.items():
            change.elsewhere = self._diff.unseen[change.app, change.rule] - self._unseen_of[key]
            change.commands.most += change.elsewhere
        order = {kind: place for place, kind in enumerate(_KINDS)}
        self._diff.changes = sorted(
            self._changes.values(),
            key=lambda each: (order.get(each.kind, len(order)), not each.enforced, -each.commands.least, each.app),
        )
        return self._diff

    def judge(self, key: FormKey, row: FormRow) -> None:
        coverage = self.coverage(key.who.app)
        if not key.command or (key.who.folded and not key.form):
            coverage.folded += row.count
            return
        made = [
            (each, found)
            for each in row.exemplars
            if (found := remade(each.words, key.command, key.shape, key.form, STANDARD)) is not None
        ]
        if not made:
            coverage.unreadable += row.count
            return
        coverage.judged += row.count
        for pair in self._pairs_of(key.who.app):
            self._judge_pair(pair, key, row, made)

    def _pairs_of(self, app: str) -> list[_Pair]:
        if app not in self._pairs:
            old, new = self._old.rules_for(app), self._new.rules_for(app)
            pairs = [_Pair(old[name], new[name]) for name in old.keys() & new.keys()]
            left = [rule for name, rule in old.items() if name not in new]
            for name, rule in new.items():
                if name not in old:
                    same = next((each for each in left if each.does[:3] == rule.does[:3]), None)
                    left = [each for each in left if each is not same]
                    pairs.append(_Pair(same, rule))
            pairs += [_Pair(rule, None) for rule in left]
            alike = self._old.surroundings == self._new.surroundings
            changed = [pair for pair in pairs if not (alike and _do_the_same(pair))]
            following = [pair for pair in pairs if pair.either.follows_others and pair not in changed]
            self._pairs[app] = [*changed, *following] if changed else []
        return self._pairs[app]

    def _judge_pair(self, pair: _Pair, key: FormKey, row: FormRow, made: list[tuple[Exemplar, Remade]]) -> None:
        spec = made[0][1].command.spec
        levels = [level for rule in (pair.old, pair.new) if rule and (level := rule.judged_by(spec)) is not None]
        if not levels:
            return
        level = max(levels)
        able = [(exemplar, each) for exemplar, each in made if level <= told_by(each)]
        if not able:
            self._diff.untold[key.who.app, pair.either.name, REASONS[level]] += row.count
            return
        showing: dict[tuple[str, str, str, str], list[tuple[Exemplar, Said]]] = {}
        for exemplar, each in able:
            old, new = (
                Said() if rule is None else rule.says(each.command, key.who.user, key.who.name, exemplar.at)
                for rule in (pair.old, pair.new)
            )
            kind, before = _change(old, new)
            if kind:
                change = key.who.app, kind, pair.either.name, before
                showing.setdefault(change, []).append((exemplar, new if new.outcome else old))
        exact = level is JudgedBy.FORM and not key.form.endswith(CUT)
        exact = exact and (not showing or [*map(len, showing.values())] == [len(able)])
        unseen = 0 if exact else max(0, row.count - len(able))
        self._diff.unseen[key.who.app, pair.either.name] += unseen
        for change, shown in showing.items():
            self._unseen_of[change] += unseen
            least = row.count if exact else min(len(shown), row.count)
            self._count(change, pair, key, row, Span(least, least + unseen), shown)

    def _count(
        self,
        change: tuple[str, str, str, str],
        pair: _Pair,
        key: FormKey,
        row: FormRow,
        span: Span,
        shown: list[tuple[Exemplar, Said]],
    ) -> None:
        app, kind, rule, before = change
        if change not in self._changes:
            enforced = pair.new is not None and pair.new.enforces
            contact = self.coverage(app).contact or pair.either.contact
            self._changes[change] = Change(app, kind, rule, pair.either.mode, enforced, before, contact)
        its = self._changes[change]
        its.commands.add(span.least, span.most)
        its.forms.setdefault((key.command, key.shape), Span()).add(span.least, span.most)
        its.clients.setdefault(key.who, Span()).add(span.least, span.most)
        its.counted += row.count
        its.seen += row.seen
        for exemplar, said in shown:
            its.says = its.says or said.text
            if len(its.exemplars) < MOST_EXEMPLARS and exemplar.words not in its.exemplars:
                its.exemplars.append(exemplar.words)


def _do_the_same(pair: _Pair) -> bool:
    return pair.old is not None and pair.new is not None and pair.old.does == pair.new.does


def _change(old: Said, new: Said) -> tuple[str, str]:
    """The kind of a change, and what the old rule did; two empty texts if nothing changes."""
    before = old.outcome if old.applied else f"{old.outcome}, only counted"
    before = before if old.outcome else "passed"
    if new.outcome and (new.outcome != old.outcome or (new.applied and not old.applied)):
        return f"newly {new.outcome}", before
    if old.outcome and (new.outcome != old.outcome or (old.applied and not new.applied)):
        return f"no longer {old.outcome}", before
    if any(a != b for a, b in zip_longest(old.argv, new.argv)):
        return "rewritten otherwise", before
    return "", ""
