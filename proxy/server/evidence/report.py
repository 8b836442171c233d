"""What enforced policies would break, for whom, and whom to ask: one page for each team.

    {"since": "2026-11-22T…", "until": …, "watched_seconds": 604800.0, "gaps": [[from, to], …], "lost": {reason: count},
     "commands": 90210,
     "teams": [{"team": "checkout", "contact": "#checkout", "refused": 12, "apps": [
       {"app": "checkout", "commands": 1203,
        "findings": [{"route", "rule", "where", "mode", "outcome": "refused", "harmless": false, "because", "instead",
                      "contact", "count": 12, "out_of": 1203, "share": 0.01, "hits": {"audit refused": 12},
                      "first_seen", "last_seen", "hours": [[1764230400, 3], …], "not_told_apart": 0,
                      "clients": [{"user", "client_name", "library", "address", "count"}],
                      "commands": [{"command", "count"}], "shapes": [{"shape", "count"}],
                      "exemplars": [{"words", "at", "why", "prefix"}], "exceptions": [EXCEPTION]}]}]}],
     "silent": [{"route", "rule", "where", "out_of": 1203, "of_no_entry": 0.83, "proof": "0 of 1,203; …"}],
     "unused_exceptions": [EXCEPTION], "ending_exceptions": [EXCEPTION]}

``out_of`` are the app's commands that the rule is about, since the rule judges as it does now. A finding is `harmless`
if commands are only rewritten, answered or followed by others: clients notice nothing. ``silent`` are rules without any
finding; ``of_no_entry`` is the share of the recorded commands whose keys no entry of the schema owns, for a rule about
the schema. An EXCEPTION is as in ``policy_facts``; ending ones end within 14 days.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any

from proxy.policy.apps import UNKNOWN
from proxy.policy_yaml.misspelt import did_you_mean
from proxy.server.evidence.model import HOUR, Evidence
from proxy.server.evidence.policy_facts import OFF, Facts, judges_by
from proxy.server.evidence.schema_share import share_of_no_entry
from proxy.traffic.evidence_rows import VerdictKey, VerdictRow, newest
from proxy.traffic.labels import LABEL_FIELDS, moment

BREAKING = frozenset({"refused", "error"})
"""Outcomes that clients notice."""
_MOST_NAMED = 20
_ENDING_DAYS = 14


@dataclass(frozen=True, slots=True)
class Wanted:
    """Whose part of a report is wanted; empty for all."""

    app: str = ""
    team: str = ""
    rule: str = ""


@dataclass(slots=True)
class Finding:
    """The verdicts of one rule with one outcome on the commands of one app, over the hours."""

    rows: dict[VerdictKey, VerdictRow] = field(default_factory=dict)
    hours: Counter[int] = field(default_factory=Counter)

    @property
    def count(self) -> int:
        """All verdicts."""
        return sum(row.count for row in self.rows.values())


Place = tuple[str, str, str, str]
"""A route, an app, a rule and an outcome."""


class Findings:
    """The verdicts and commands of evidence at a time, for the rules as they are in these facts (by route).

    A change of a rule that lies in the future was told by a clock that was ahead. It hides nothing that was found.
    """

    def __init__(self, evidence: Evidence, facts: Mapping[str, Facts], now: float) -> None:
        self.evidence = evidence
        self.facts = facts
        self.by_place: dict[Place, Finding] = {}
        self._commands: dict[tuple[str, str], Counter[tuple[int, str]]] = {}
        self._since: dict[tuple[str, str], float] = {}
        judged_by: dict[tuple[str, str], str] = {}
        for each in evidence.rules:
            at, digest = (each.route, each.rule), judges_by(each.digest)
            if judged_by.get(at) != digest and each.since <= now:
                judged_by[at], self._since[at] = digest, each.since
        known = {(route, rule["rule"]) for route, its in facts.items() for rule in its["rules"]}
        for (hour, route), rows in evidence.hours.items():
            for command, count in rows.commands.items():
                self._commands.setdefault((route, command.who.app), Counter())[hour, command.command] += count
            for key, row in rows.verdicts.items():
                # What a rule found before it was changed says nothing of the rule in force.
                if (route, key.rule) in known and row.last >= self.since(route, key.rule):
                    found = self.by_place.setdefault((route, key.who.app, key.rule, key.outcome), Finding())
                    found.rows.setdefault(key, VerdictRow()).add(row)
                    found.hours[hour] += row.count

    def since(self, route: str, rule: str) -> float:
        """Since when the rule judges as it does (seconds since the epoch); 0 if it always did."""
        return self._since.get((route, rule), 0.0)

    def commands(self, route: str, app: str) -> int:
        """All commands of an app."""
        return self._commands.get((route, app), Counter()).total()

    def out_of(self, route: str, app: str, rule: Mapping[str, Any]) -> int:
        """The commands of an app that the rule is about, since it judges as it does."""
        about, since = set(rule["about"]), self.since(route, rule["rule"])
        return sum(
            count
            for (hour, command), count in self._commands.get((route, app), Counter()).items()
            if (not about or command in about) and hour + HOUR > since
        )

    def apps(self, route: str) -> list[str]:
        """The apps of a route that were seen, or that the policy names."""
        seen = {app for its, app in self._commands if its == route} | {place[1] for place in self.by_place}
        return sorted({UNKNOWN, *self.facts[route]["apps"]} | seen)

    def judged(self, route: str, rule: Mapping[str, Any]) -> list[str]:
        """The apps for which a rule is there, and not off."""
        apps = rule["apps"] or ([rule["app"]] if rule["app"] else self.apps(route))
        return [app for app in apps if rule["modes"].get(app) != OFF]


def unknown_name(evidence: Evidence, facts: Mapping[str, Facts], wanted: Wanted) -> str:
    """What is wrong with a name that no policy has, and no client; empty if all are known."""
    policies = list(facts.values())
    known = {
        "app": {UNKNOWN} | {app for its in policies for app in its["apps"]},
        "team": {app["team"] for its in policies for app in its["apps"].values()},
        "rule": {rule["rule"] for its in policies for rule in its["rules"]},
    }
    known["app"] |= {command.who.app for rows in evidence.hours.values() for command in rows.commands}
    for kind, names in known.items():
        name = getattr(wanted, kind)
        if name and name not in names:
            return f"no policy has {'an' if kind == 'app' else 'a'} {kind} {name}{did_you_mean(name, names)}"
    return ""


def report(evidence: Evidence, facts: Mapping[str, Facts], now: float, wanted: Wanted = Wanted()) -> dict[str, Any]:
    """The report about what was recorded, at a time (seconds since the epoch)."""
    findings = Findings(evidence, facts, now)
    teams: dict[str, dict[str, Any]] = {}
    for route, its in facts.items():
        for app in findings.apps(route):
            named = its["apps"].get(app, {"team": "", "contact": ""})
            if wanted.app not in ("", app) or wanted.team not in ("", named["team"]):
                continue
            made = list(_findings(findings, route, app, wanted.rule))
            commands = findings.commands(route, app)
            if commands or made:
                team = teams.setdefault(named["team"], {"contact": named["contact"], "apps": {}})
                page = team["apps"].setdefault(app, {"commands": 0, "findings": []})
                page["commands"] += commands
                page["findings"] += made
    spans = evidence.spans
    return {
        "since": moment(spans[0][0]) if spans else None,
        "until": moment(spans[-1][1]) if spans else None,
        "watched_seconds": round(sum(ended - began for began, ended in spans), 3),
        "gaps": [[moment(one[1]), moment(other[0])] for one, other in pairwise(spans)],
        "lost": evidence.lost,
        "commands": sum(findings.commands(route, app) for route in facts for app in findings.apps(route)),
        "teams": sorted((_team(name, its) for name, its in teams.items()), key=lambda team: -team["refused"]),
        "silent": list(_silent(findings, wanted)),
        "unused_exceptions": [each for each in _exceptions(facts) if not _is_used(findings, each)],
        "ending_exceptions": [each for each in _exceptions(facts) if _ends_soon(each, now)],
    }


def _team(name: str, its: dict[str, Any]) -> dict[str, Any]:
    for page in its["apps"].values():
        page["findings"].sort(key=_worst_first)
    apps = [{"app": app, **page} for app, page in its["apps"].items()]
    refused = sum(each["count"] for app in apps for each in app["findings"] if not each["harmless"])
    return {"team": name, "contact": its["contact"], "refused": refused, "apps": apps}


def _worst_first(finding: Mapping[str, Any]) -> tuple[bool, int]:
    return finding["harmless"], -finding["count"]


def _findings(findings: Findings, route: str, app: str, rule: str) -> Iterable[dict[str, Any]]:
    its = findings.facts[route]
    for facts in its["rules"]:
        if rule not in ("", facts["rule"]):
            continue
        out_of = findings.out_of(route, app, facts)
        for (where, who, name, outcome), found in findings.by_place.items():
            if (where, who, name) == (route, app, facts["rule"]):
                exceptions = [each for each in its["exceptions"] if _covers(each, name, app)]
                yield _finding(facts, route, app, outcome, found, max(out_of, found.count), exceptions)


def _finding(
    facts: Mapping[str, Any],
    route: str,
    app: str,
    outcome: str,
    found: Finding,
    out_of: int,
    exceptions: list[dict[str, Any]],
) -> dict[str, Any]:
    clients, commands, shapes = Counter[tuple[str, ...]](), Counter[str](), Counter[str]()
    hits = Counter[str]()
    for key, row in found.rows.items():
        hits[f"{key.mode} {outcome}"] += row.count
        if key.command:
            clients[key.who[1:]] += row.count
            commands[key.command] += row.count
        if key.shape:
            shapes[key.shape] += row.count
    exemplars = newest((), (each for row in found.rows.values() for each in row.exemplars))
    return {
        **{name: facts[name] for name in ("rule", "where", "because", "instead", "contact")},
        "route": route,
        "mode": facts["modes"].get(app, ""),
        "outcome": outcome,
        "harmless": outcome not in BREAKING,
        "count": found.count,
        "out_of": out_of,
        "share": found.count / out_of,
        "hits": dict(hits),
        "first_seen": moment(min(row.first for row in found.rows.values())),
        "last_seen": moment(max(row.last for row in found.rows.values())),
        "hours": sorted(found.hours.items()),
        "not_told_apart": found.count - clients.total(),
        "clients": [
            {**dict(zip(LABEL_FIELDS, who, strict=True)), "count": count}
            for who, count in clients.most_common(_MOST_NAMED)
        ],
        "commands": [{"command": name, "count": count} for name, count in commands.most_common(_MOST_NAMED)],
        "shapes": [{"shape": name, "count": count} for name, count in shapes.most_common(_MOST_NAMED)],
        "exemplars": [
            {"words": each.words, "at": moment(each.at), "why": each.why, "prefix": each.prefix} for each in exemplars
        ],
        "exceptions": exceptions,
    }


def _silent(findings: Findings, wanted: Wanted) -> Iterable[dict[str, Any]]:
    for route, its in findings.facts.items():
        places = findings.by_place
        with_findings = {rule for where, app, rule, _ in places if where == route and wanted.app in ("", app)}
        for rule in its["rules"]:
            if rule["rule"] in with_findings or wanted.rule not in ("", rule["rule"]):
                continue
            apps = [app for app in findings.judged(route, rule) if wanted.app in ("", app)]
            out_of = sum(findings.out_of(route, app, rule) for app in apps)
            share = None
            if rule.get("about_schema"):  # facts of an older Keyrail do not say it
                since = findings.since(route, rule["rule"])
                share = share_of_no_entry(findings.evidence, route, apps, rule["about"], since, its["schema"])
            yield {
                **{name: rule[name] for name in ("rule", "where")},
                "route": route,
                "out_of": out_of,
                "of_no_entry": share,
                "proof": _proof(out_of, share),
            }


def _proof(out_of: int, of_no_entry: float | None) -> str:
    if not out_of:
        return "no command that it is about was seen, so this proves nothing"
    if of_no_entry == 1:
        return f"0 of {out_of:,}, but no recorded key is of an entry of the schema, so this proves nothing"
    percent = int(100 * (of_no_entry or 0.0))
    return f"0 of {out_of:,}" + (f"; at least {percent} % are on keys of no entry of the schema" if percent else "")


# Exceptions


def _exceptions(facts: Mapping[str, Facts]) -> list[dict[str, Any]]:
    return [{"route": route, **each} for route, its in facts.items() for each in its["exceptions"]]


def _covers(exception: Mapping[str, Any], rule: str, app: str) -> bool:
    return exception["rule"] == rule and exception["app"] in ("", app)


def _is_used(findings: Findings, exception: Mapping[str, Any]) -> bool:
    # Whether commands were seen that it may have exempted: what it exempts is not judged.
    route = exception["route"]
    rules = [rule for rule in findings.facts[route]["rules"] if rule["rule"] == exception["rule"]]
    return any(
        findings.out_of(route, app, rule)
        for rule in rules
        for app in findings.judged(route, rule)
        if exception["app"] in ("", app)
    )


def _ends_soon(exception: Mapping[str, Any], now: float) -> bool:
    if exception["until"] is None:
        return False
    today = datetime.fromtimestamp(now, UTC).date()
    return today <= date.fromisoformat(exception["until"]) <= today + timedelta(days=_ENDING_DAYS)
