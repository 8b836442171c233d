"""Whether a rule can be enforced, as far as evidence tells: nothing that clients send would be refused.

Evidence counts since the rule was last changed, since it was last off for other apps or had other exceptions, and since
its last exception ended: what came before was not judged as it is now. Apps that an exception leaves out as a whole are
not counted.

"0 of n commands" proves no more than a bound: if commands were independent, the share of those that would be refused is
below -ln(0.05) / n with a confidence of 95 % (the rule of three). What is not known (commands in the gaps between the
stretches of watching, dropped hours, clients that are not told apart) is added to that share, as if all of it would be
refused; so it must be below the bound for the number of commands that is demanded.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from itertools import pairwise
from typing import Any

from proxy.policy_yaml.misspelt import did_you_mean
from proxy.server.evidence.bounds import DROPPED_FOR_ROOM, FOLDED, FOLDED_FOR_ROOM, LONG_EXEMPLARS
from proxy.server.evidence.model import HOUR, Evidence, Spans, hour_of
from proxy.server.evidence.policy_facts import DIFFER, OFF, Facts
from proxy.server.evidence.report import BREAKING, Findings
from proxy.traffic.evidence_rows import EvidenceRows, Identity
from proxy.traffic.labels import LABEL_FIELDS, moment

USUALLY = 100_000
"""So many commands are demanded, if nothing else is said."""
SELDOM = 100
"""Clients with fewer commands are named: their evidence is thin."""
_RULE_OF_THREE = -math.log(0.05)
DAY = 24 * HOUR
LONG_ENOUGH = 12 * HOUR
"""A weekday is watched if it was for so long, in all weeks together."""
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_FIRST_WEEKDAY = 3
"""The epoch began on a Thursday."""
_EXACT = frozenset({FOLDED, FOLDED_FOR_ROOM, LONG_EXEMPLARS})
"""Losses that leave all sums as they are."""
_MOST_NAMED = 5
_FIELDS = ("app", *LABEL_FIELDS)


class UnknownNameError(Exception):
    """No policy has this rule, or the rule is about no such app."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What evidence must show: for one app or (empty) for all, so many commands, so many days or (0) each weekday."""

    app: str = ""
    at_least: int = USUALLY
    days: int = 0


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition, whether it is met, and the figure."""

    name: str
    ok: bool
    text: str


@dataclass(frozen=True, slots=True)
class Readiness:
    """What evidence says of one rule of one route.

    ``below_one_in`` is the bound: fewer than one of so many commands would be refused (0: nothing can be said). Of
    ``seldom`` clients each has fewer than 100 of the commands that the rule is about; as many as ``without`` have none.
    ``harmless`` are the outcomes that no client notices. ``exceptions`` are in force: what they cover is not judged.
    If the rule has ``keys``, it does not judge commands on others, which are counted all the same.
    """

    route: str
    rule: str
    where: str
    keys: list[str]
    ready: bool
    since: str | None
    until: str | None
    refused: int
    out_of: int
    below_one_in: int
    conditions: list[Condition]
    harmless: dict[str, int]
    exceptions: list[dict[str, Any]]
    seldom: list[dict[str, Any]]
    without: int


def readiness(
    evidence: Evidence, facts: Mapping[str, Facts], now: float, name: str, demand: Demand = Demand()
) -> list[Readiness]:
    """What evidence says of a rule, for each route that has it, at a time (seconds since the epoch).

    Raises UnknownNameError.
    """
    rules = {route: rule for route, its in facts.items() for rule in its["rules"] if rule["rule"] == name}
    if not rules:
        known = {rule["rule"] for its in facts.values() for rule in its["rules"]}
        raise UnknownNameError(f"no policy has a rule {name}{did_you_mean(name, known)}")
    # A policy that is given for all routes has rules that some of them do not have.
    judging = {each.route for each in evidence.rules if each.rule == name}
    findings = Findings(evidence, facts, now)
    apps = {
        route: rule["apps"] or findings.apps(route) for route, rule in rules.items() if not judging or route in judging
    }
    if demand.app:
        known = {app for its in apps.values() for app in its}
        if demand.app not in known:
            raise UnknownNameError(f"{name} is about no app {demand.app}{did_you_mean(demand.app, known)}")
        apps = {route: [demand.app] for route, its in apps.items() if demand.app in its}
    return [_Case(evidence, facts[route], route, name, its, now).readiness(demand) for route, its in apps.items()]


class _Counted:
    """The commands of some hours and apps, of which `about` are those that a rule is about (empty: all)."""

    def __init__(self, hours: Mapping[int, EvidenceRows], apps: Collection[str], about: Collection[str]) -> None:
        self.by_client = Counter[Identity]()
        """The commands that the rule is about; 0 for clients that have sent others only."""
        self.by_hour = Counter[int]()
        """The same, with those of unknown names."""
        self.unnamed = self.untold = 0
        """Commands of unknown names, and commands of clients that are not told apart."""
        for hour, rows in hours.items():
            for (who, command), count in rows.commands.items():
                if who.app not in apps:
                    continue
                unnamed = bool(about) and not command
                counts = count if unnamed or not about or command in about else 0
                self.by_hour[hour] += counts
                self.unnamed += count if unnamed else 0
                if who.folded:
                    self.untold += counts
                else:
                    self.by_client[who] += counts

    @property
    def out_of(self) -> int:
        """All commands that the rule is known to be about."""
        return self.by_hour.total() - self.unnamed

    def busiest(self, watched: float) -> float:
        """Commands per second in the busiest hour, or in the time that was `watched`, whichever is more."""
        return max(max(self.by_hour.values(), default=0) / HOUR, self.by_hour.total() / watched if watched else 0.0)


class _Case:
    """One rule of one route, for some apps: the evidence that counts, and what it says."""

    def __init__(self, evidence: Evidence, facts: Facts, route: str, name: str, apps: list[str], now: float) -> None:
        self.route, self.apps, self.lost = route, apps, evidence.lost
        self.rule: Mapping[str, Any] = next(rule for rule in facts["rules"] if rule["rule"] == name)
        exceptions = [each for each in facts["exceptions"] if each["rule"] == name and each["app"] in ("", *apps)]
        self.exceptions = [each for each in exceptions if _end_of(each) > now]
        left_out = {each["app"] for each in self.exceptions if not each["keys"]}
        self.off = [app for app in apps if self.rule["modes"].get(app) == OFF]
        self.judged = {app for app in apps if app not in self.off and not left_out & {"", app}}
        versions = [each for each in evidence.rules if (each.route, each.rule) == (route, name)]
        self.same = bool(versions) and versions[-1].digest == self.rule["digest"]
        ends = (end for end in map(_end_of, exceptions) if end <= now)
        # A clock that was ahead may have told a change in the future.
        self.since = max((*(min(each.since, now) for each in versions[-1:]), *ends), default=0.0)
        # Of an hour that was watched before, nobody knows how many commands came afterwards.
        first = hour_of(self.since)
        before = any(max(began, first) < min(ended, self.since) for began, ended in evidence.spans)
        begin = first + HOUR if before else self.since
        self.spans: Spans = [(max(began, begin), ended) for began, ended in evidence.spans if ended > begin]
        self.watched = sum(ended - began for began, ended in self.spans)
        self.hours = {hour: rows for (hour, where), rows in evidence.hours.items() if where == route}
        counted = {hour: rows for hour, rows in self.hours.items() if hour >= hour_of(begin)}
        self.commands = _Counted(counted, self.judged, self.rule["about"])
        self.outcomes = self._outcomes()

    def _outcomes(self) -> dict[str, Counter[str]]:
        """Verdicts by outcome and app, also those of the hour in which the rule was changed."""
        found: dict[str, Counter[str]] = defaultdict(Counter)
        for hour, rows in self.hours.items():
            for key, row in rows.verdicts.items() if hour + HOUR > self.since else ():
                if key.rule == self.rule["rule"] and key.who.app in self.apps and row.last >= self.since:
                    found[key.outcome][key.who.app] += row.count
        return found

    def readiness(self, demand: Demand) -> Readiness:
        """What the evidence says."""
        refused = sum((its for outcome, its in self.outcomes.items() if outcome in BREAKING), Counter[str]())
        out_of = self.commands.out_of
        below = 0 if refused else int(out_of / _RULE_OF_THREE)
        conditions = [
            self._unchanged(),
            self._judged(),
            _refused(refused),
            self._enough(refused.total(), below, demand.at_least),
            self._days(demand.days) if demand.days else self._weekdays(),
            self._returned(),
            self._recorded(demand.at_least),
        ]
        clients = self.commands.by_client
        seldom = sorted((each for each in clients.items() if 0 < each[1] < SELDOM), key=lambda each: each[1])
        return Readiness(
            route=self.route,
            rule=self.rule["rule"],
            where=self.rule["where"],
            keys=self.rule["keys"],
            ready=all(each.ok for each in conditions),
            since=moment(self.spans[0][0]) if self.spans else None,
            until=moment(self.spans[-1][1]) if self.spans else None,
            refused=refused.total(),
            out_of=out_of,
            below_one_in=below,
            conditions=conditions,
            harmless={each: its.total() for each, its in self.outcomes.items() if each not in BREAKING},
            exceptions=self.exceptions,
            seldom=[{**dict(zip(_FIELDS, who, strict=True)), "count": count} for who, count in seldom],
            without=sum(not count for count in clients.values()),
        )

    def _unchanged(self) -> Condition:
        if self.same:
            return Condition("unchanged", True, f"since {moment(self.since)}; evidence before that does not count")
        if self.rule["digest"] == DIFFER:
            return Condition("unchanged", False, "the rule is not the same in all Keyrails")
        return Condition("unchanged", False, "the rule of the policy is not the one that was judged last")

    def _judged(self) -> Condition:
        if self.off:
            return Condition("judged", False, f"it is off for {_some(self.off)}: nothing was judged there")
        return Condition("judged", bool(self.judged), f"for {_number(len(self.judged), 'app')}")

    def _enough(self, refused: int, below: int, at_least: int) -> Condition:
        out_of = self.commands.out_of
        text = f"{refused:,} of {out_of:,} in {_length(self.watched)}"
        if below > 1:
            text += f": below 1 in {_rounded_down(below):,} (95 %, if commands were independent)"
        if out_of < at_least:
            text += f"; {at_least:,} are demanded" if out_of else "; no traffic is never safe"
        return Condition("commands", out_of >= at_least, text)

    def _by_day(self) -> dict[int, float]:
        """The seconds that were watched, by day (UTC)."""
        found: dict[int, float] = defaultdict(float)
        for began, ended in self.spans:
            for day in range(int(began // DAY), math.ceil(ended / DAY)):
                found[day] += min(ended, (day + 1) * DAY) - max(began, day * DAY)
        return found

    def _days(self, demanded: int) -> Condition:
        days = len(self._by_day())
        return Condition("days", days >= demanded, f"{_number(days, 'day')} watched, {demanded} demanded")

    def _weekdays(self) -> Condition:
        by_weekday = [0.0] * 7
        for day, seconds in self._by_day().items():
            by_weekday[(day + _FIRST_WEEKDAY) % 7] += seconds
        short = [f"{_WEEKDAYS[day]} {_length(its)}" for day, its in enumerate(by_weekday) if its < LONG_ENOUGH]
        text = f"each must be watched for {_length(LONG_ENOUGH)}"
        return Condition("weekdays", not short, f"{text}: {', '.join(short)}" if short else text)

    def _returned(self) -> Condition:
        days: dict[Identity, set[int]] = defaultdict(set)
        for hour, rows in self.hours.items():
            for who, _ in rows.commands:
                if who.app in self.judged and not who.folded:
                    days[who].add(hour // DAY)
        last_day = max(self._by_day(), default=0)
        several, missing = 0, []
        for who, seen in sorted(days.items()):
            if len(seen) > 1:
                several += 1
                longest = max(later - day for day, later in pairwise(sorted(seen)))
                if last_day - max(seen) > 2 * longest or who not in self.commands.by_client:
                    last = datetime.fromtimestamp(max(seen) * DAY, UTC).date()
                    name = client_text(dict(zip(_FIELDS, who, strict=True)))
                    missing.append(f"{name} (last {last}, longest gap {_number(longest, 'day')})")
        if missing:
            return Condition("returned", False, f"not seen again: {_some(missing)}")
        seen_again = (
            f"{_number(several, 'client')} of several days, seen again" if several else "none of several days yet"
        )
        return Condition("returned", True, seen_again)

    def _recorded(self, at_least: int) -> Condition:
        lost = {reason: count for reason, count in self.lost.items() if count and reason not in _EXACT}
        dropped = lost.pop(DROPPED_FOR_ROOM, 0)
        if lost:
            said = ", ".join(f"{count:,} {reason}" for reason, count in lost.items())
            return Condition("recorded", False, f"{said}: what they would show is not known; try a shorter --since")
        gaps = [later[0] - one[1] for one, later in pairwise(self.spans)]
        missed = dropped + math.ceil(sum(gaps) * self.commands.busiest(self.watched))
        unknown = missed + self.commands.untold
        share = unknown / (self.commands.by_hour.total() + missed) if unknown else 0.0
        room = _bound(at_least) - _bound(max(at_least, self.commands.out_of))
        parts = f"{_number(len(gaps), 'gap')}, {_length(sum(gaps))}; {missed:,} commands missed"
        text = f"{_percent(share)} is not known ({parts}, {self.commands.untold:,} not told apart)"
        return Condition("recorded", share <= room, f"{text}; at most {_percent(room)} may be")


def _refused(by_app: Counter[str]) -> Condition:
    if by_app:
        said = _some([f"{app} {count:,}" for app, count in by_app.most_common()])
        return Condition("refusals", False, f"{by_app.total():,} would be refused: {said}")
    return Condition("refusals", True, "nothing would be refused")


def _end_of(exception: Mapping[str, Any]) -> float:
    """When an exception ends (seconds since the epoch): the rule then judges what it covered."""
    if exception["until"] is None or exception["then"] == OFF:
        return math.inf
    return datetime.combine(date.fromisoformat(exception["until"]), time(), UTC).timestamp()


def client_text(client: Mapping[str, Any]) -> str:
    """A client in a few words."""
    parts = client["app"], f"user {client['user']}", client["client_name"], client["library"], client["address"]
    return " ".join(filter(None, parts))


def _bound(commands: int) -> float:
    return min(1.0, _RULE_OF_THREE / commands) if commands else 1.0


def _rounded_down(number: int) -> int:
    scale: int = 10 ** max(0, len(str(number)) - 3)
    return number // scale * scale


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _number(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def _length(seconds: float) -> str:
    for name, unit in (("days", DAY), ("h", HOUR), ("min", 60)):
        if seconds >= 2 * unit:
            return f"{int(seconds // unit):,} {name}"
    return f"{int(seconds)} s"


def _some(names: Sequence[str]) -> str:
    more = f", and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
