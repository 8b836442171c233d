"""The decisions of rules on one route: counters, evidence, and a line for each violation if the operator wants that.

    count      by rule, mode and outcome: keyrail_verdicts_total
    rows       by rule, client, command and shape, with exemplars: /rules, KEYRAIL RULES, and what is kept as evidence
    lines      one for each violation, a few for each rule and second: the newest ones, and the log of --violations; a
               tenant's key has its name in Redis, and the tenant's own beside it
    warnings   one for each `warn`, a few a second, on standard error, unless the lines go there

An enforced rewrite, or hidden commands, have corrected the command: that is counted, but it is no violation. Nor is a
read that replicas may answer. Every hit is counted. Keys and clients are inspected a limited number of times a second,
also for commands that a plan refuses, and those of what is rare always; the other hits are counted in the row of those
that are not told apart.
"""

import logging
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proxy.commands.command import Command
from proxy.net.downstream.client_label import client_label
from proxy.net.policy.evidence_recorder import EvidenceRecorder, folded_key
from proxy.policy.decision import Hit
from proxy.policy.model import Mode
from proxy.policy.wording import shown_by
from proxy.rules.refusals import quoted
from proxy.session.ports.client import ServedClient
from proxy.session.ports.ports import ReportPort
from proxy.traffic.evidence_rows import CommandKey, EvidenceRows, VerdictKey
from proxy.traffic.labels import ClientLabel
from proxy.traffic.redaction import Redact, Redaction
from proxy.traffic.shapes import shape
from proxy.traffic.violations import LineBudget, violation_line

_LINES_PER_SECOND, _LINES_AT_ONCE = 10, 50
_WARNINGS_PER_SECOND = 10
_INSPECTIONS_PER_SECOND = 500
_RARE = 20
"""Hits of one rule and app in a second that are inspected however many others there are."""
_MOST_SHOWN = 24
"""Arguments that an error may show, beside the keys."""
_MENDED = frozenset({"rewritten", "answered", "accompanied", "followed"})

_SHOWN_IN_ERRORS = tuple(map(shown_by, (Redact.NONE, Redact.SHAPE)))
"""How policies show keys in errors; a transaction has the policy that it began with."""

_log = logging.getLogger("keyrail.route")


@dataclass(slots=True)
class VerdictUpdate:
    """The news since the last call: lines for violations, and what is to be kept as evidence."""

    lines: list[bytes]
    rows: EvidenceRows


class Verdicts(ReportPort):
    """The decisions on one route since the start.

    ``tells``: somebody reads the lines. ``logs``: all lines are written. ``warns``: the mode `warn` is logged.
    """

    def __init__(self, route: str, redaction: Redaction, *, tells: bool, logs: bool, warns: bool) -> None:
        self.evidence = EvidenceRecorder(redaction)
        self._route = route
        self._least_redaction = redaction
        self._tells = tells
        self._logs = logs
        self._warns = warns
        self._counts: Counter[tuple[str, str, str, str]] = Counter()
        self._lines: list[bytes] = []
        self._line_budgets: dict[str, LineBudget] = {}
        self._dropped: Counter[str] = Counter()
        self._inspected: Counter[VerdictKey] = Counter()
        self._inspections_left = _INSPECTIONS_PER_SECOND
        self._seen: Counter[VerdictKey] = Counter()
        self._warnings_left = _WARNINGS_PER_SECOND

    def another_second(self) -> None:
        """Allow more lines, and report how many were dropped in the last second. Called each second."""
        self._warnings_left = _WARNINGS_PER_SECOND
        self._inspections_left = _INSPECTIONS_PER_SECOND
        self._seen.clear()
        for rule, line_budget in self._line_budgets.items():
            dropped = line_budget.another_second()
            if dropped:
                self._dropped[rule] += dropped if self._logs else 0
                self._lines.append(
                    violation_line(time.time(), {"route": self._route, "rule": rule, "dropped": dropped})
                )

    def show_keys(self, redact: Redact) -> None:
        """Keys are shown as `redact` says, or less of them."""
        self.evidence.redaction = self._least_redaction.at_least(redact)

    def keep(self, rules: Iterable[str], redact: Redact, *, exact: bool = False) -> None:
        """Set the rules in force; with `exact` evidence each hit is told apart."""
        self.evidence.exact = exact
        self.show_keys(redact)
        kept = set(rules)
        self._line_budgets = {rule: found for rule, found in self._line_budgets.items() if rule in kept}

    def add(self, hit: Hit, count: int, app: str) -> None:
        """Count a decision that a plan has made ``count`` times."""
        key = folded_key(hit, app)
        inspected = min(count, self._inspected[key])  # these have their rows
        self._inspected[key] -= inspected
        self._counts[hit.rule, app, hit.mode.value, hit.what] += inspected
        self.count(hit, count - inspected, app)
        if self._is_told(hit):
            self._line_budget(hit.rule).dropped += count - inspected

    def count(self, hit: Hit, count: int, app: str) -> None:
        """Count decisions that nobody needs to be told of."""
        if count:
            self._counts[hit.rule, app, hit.mode.value, hit.what] += count
            self.evidence.count(hit, count, app, time.time())

    def report(self, hits: Sequence[Hit], command: Command, client: ServedClient) -> None:
        """Record the decisions of rules about one command."""
        app = client.effective_policy.compiled.app
        now = time.time()
        for hit in hits:
            mode = hit.mode.value
            self._counts[hit.rule, app, mode, hit.what] += 1
        if self.may_inspect(hits, app):
            self._inspect(hits, command, client, now)
        else:
            for hit in hits:
                self.evidence.count(hit, 1, app, now)
                if self._is_told(hit):
                    self._line_budget(hit.rule).dropped += 1

    def may_inspect(self, hits: Sequence[Hit], app: str) -> bool:
        """Whether a command with these hits may be inspected in this second: what is rare always may."""
        self._inspections_left -= 1
        rare = False
        for hit in hits:
            key = folded_key(hit, app)
            self._seen[key] += 1
            rare |= self._seen[key] <= _RARE
        return rare or self._inspections_left >= 0 or self.evidence.exact

    def inspect(self, hits: Sequence[Hit], command: Command, client: ServedClient) -> None:
        """Inspect a command that a plan has refused and counted."""
        for hit in hits:
            self._inspected[folded_key(hit, client.effective_policy.compiled.app)] += 1
        self._inspect(hits, command, client, time.time())

    def _inspect(self, hits: Sequence[Hit], command: Command, client: ServedClient, now: float) -> None:
        who = client_label(client)
        for hit in hits:
            self.evidence.see(hit, command, client, self._why(hit, command), now)
            if self._is_told(hit):
                self._tell(hit, command, client, who, now)
            if self._warns:
                self._warn(hit, command, client, who)

    def _is_told(self, hit: Hit) -> bool:
        if hit.what == "moved":
            return self._tells and hit.mode is Mode.WARN
        return self._tells and not (hit.what in _MENDED and hit.mode is Mode.ENFORCE)

    def _line_budget(self, rule: str) -> LineBudget:
        found = self._line_budgets.get(rule)
        if found is None:
            found = self._line_budgets[rule] = LineBudget(_LINES_PER_SECOND, _LINES_AT_ONCE)
        return found

    def _tell(self, hit: Hit, command: Command, client: ServedClient, who: ClientLabel, now: float) -> None:
        if self._line_budget(hit.rule).take():
            fields = {"route": self._route, "rule": hit.rule, **self._fields(hit, command, client, who)}
            self._lines.append(violation_line(now, fields))

    def _fields(self, hit: Hit, command: Command, client: ServedClient, who: ClientLabel) -> dict[str, Any]:
        app, prefix = client.effective_policy.compiled.app, client.intake.prefix
        fields: dict[str, Any] = {"app": app, "mode": hit.mode.value, "what": hit.what, "command": command.name}
        why = self._why(hit, command)
        if why:
            fields["why"] = why
        keys = command.known_keys
        if keys:
            fields["shape"] = shape(keys[0].name)
            fields["key"] = self.evidence.redaction.of(prefix + keys[0].name)
            if prefix:
                fields["tenant"] = {"app": app, "key": self.evidence.redaction.of(keys[0].name)}
        if len(keys) > 1:
            fields["keys"] = len(keys)
        fields |= zip(("user", "client_name", "library", "address"), who, strict=True)
        return fields

    def _why(self, hit: Hit, command: Command) -> str:
        # Why the rule refuses, and what to do instead: its error without its head, with keys as they may be shown here.
        if hit.detail or not hit.error:
            return hit.detail
        why = hit.error.decode("utf-8", "replace").strip().partition(": ")[2]
        if self.evidence.redaction.kind is Redact.NONE or "'" not in why:
            return why
        for argument in {*(key.name for key in (*command.known_keys, *command.named)), *command.argv[1:_MOST_SHOWN]}:
            for in_error in {quoted(show(argument)) for show in _SHOWN_IN_ERRORS}:
                if in_error in why:
                    why = why.replace(in_error, quoted(self.evidence.redaction.of(argument)))
        return why

    def _warn(self, hit: Hit, command: Command, client: ServedClient, who: ClientLabel) -> None:
        if hit.mode is not Mode.WARN or self._warnings_left <= 0:
            return
        self._warnings_left -= 1
        user, name, _, address = who
        keys = command.known_keys
        _log.warning(
            "rule %s would have %s %s%s from app %s at %s (user %s, name %r)%s",
            *(hit.rule, hit.what, command.name, f" of {shape(keys[0].name)}" if keys else ""),
            *(client.effective_policy.compiled.app, address, user, name),
            f": {self._why(hit, command)}" if hit.error else "",
        )

    # Results

    def verdict_update(self, commands: Mapping[CommandKey, int]) -> VerdictUpdate:
        """The news since the last call, with the `commands` since then."""
        lines, self._lines = self._lines, []
        return VerdictUpdate(lines, self.evidence.take(commands))

    def figures(self) -> dict[str, dict[str, dict[str, int]]]:
        """By rule and app, then by mode and outcome: ``{"names": {"unknown": {"audit refused": 3}}}``."""
        figures: dict[str, dict[str, dict[str, int]]] = {}
        for (rule, app, mode, what), count in self._counts.items():
            figures.setdefault(rule, {}).setdefault(app, {})[f"{mode} {what}"] = count
        return figures

    def dropped(self) -> dict[str, int]:
        """Violations without a line in the log, by rule."""
        return dict(+self._dropped)
