"""Weeks of traffic made up by a seed, minute by minute, and what must be said of a rule after them: decided by looking
at each minute, without any of the program's arithmetic."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from fractions import Fraction
from random import Random
from typing import Any

from proxy.server.evidence.bounds import DROPPED_FOR_ROOM, FOLDED
from proxy.server.evidence.model import Evidence, RuleVersion
from proxy.server.evidence.ready import Demand
from proxy.traffic.evidence_rows import CommandKey, EvidenceRows, Identity, VerdictKey, VerdictRow

MINUTE, HOUR, DAY = 60, 60, 24 * 60
"""A minute in seconds, and the others in minutes."""
START = 20_000 * DAY
RULE, ROUTE = "names", "default"
ABOUT = frozenset({"SET", "DEL"})
APPS = ("checkout", "reports", "unknown")
NOW_IN_FORCE = "b-2"


@dataclass
class Weeks:
    """What happened. Times are in minutes since the epoch."""

    watched: set[int]
    now: int
    commands: list[tuple[int, CommandKey, int]] = field(default_factory=list)
    hits: list[tuple[int, VerdictKey]] = field(default_factory=list)
    versions: list[tuple[int, str]] = field(default_factory=lambda: [(START - DAY, NOW_IN_FORCE)])
    digest: str = NOW_IN_FORCE
    modes: dict[str, str] = field(default_factory=lambda: dict.fromkeys(APPS, "audit"))
    exceptions: list[dict[str, Any]] = field(default_factory=list)
    lost: dict[str, int] = field(default_factory=dict)
    demand: Demand = field(default_factory=Demand)

    @property
    def facts(self) -> dict[str, Any]:
        """The facts of the policy in force."""
        about = {"about": sorted(ABOUT), "modes": self.modes, "digest": self.digest}
        rule = {"rule": RULE, "where": "p.yaml:3", "apps": [], "keys": [], **about}
        apps = {app: {"team": "", "contact": ""} for app in APPS[:2]}
        return {ROUTE: {"policy": "p.yaml", "apps": apps, "rules": [rule], "exceptions": self.exceptions}}

    @property
    def evidence(self) -> Evidence:
        """What Keyrail has kept of it, with another route where the same rule would refuse."""
        found = Evidence(lost=dict(self.lost))
        for minute in sorted(self.watched):
            began, ended = float(minute * MINUTE), float((minute + 1) * MINUTE)
            if found.spans and found.spans[-1][1] == began:
                began = found.spans.pop()[0]
            found.spans.append((began, ended))
        for minute, command, count in self.commands:
            rows = found.hours.setdefault((minute // HOUR * HOUR * MINUTE, ROUTE), EvidenceRows())
            rows.commands[command] = rows.commands.get(command, 0) + count
        for minute, verdict in self.hits:
            rows = found.hours.setdefault((minute // HOUR * HOUR * MINUTE, ROUTE), EvidenceRows())
            rows.verdicts.setdefault(verdict, VerdictRow()).add(VerdictRow(1, minute * MINUTE, minute * MINUTE))
        who = Identity("checkout", "elsewhere", "", "jedis")
        others = EvidenceRows({VerdictKey(RULE, "audit", "refused", who, "SET", "x"): VerdictRow(1, 1, 1e12)})
        others.commands[CommandKey(who, "SET")] = 10**9
        found.hours[START * MINUTE, "other"] = found.hours[(START + DAY) * MINUTE, "other"] = others
        found.rules = [RuleVersion(ROUTE, RULE, digest, since * MINUTE) for since, digest in self.versions]
        return found


def weeks(random: Random) -> Weeks:
    """Traffic without any trouble, or with some."""
    begin = START + random.randrange(DAY)
    end = begin + random.choice([random.randrange(5), random.randrange(8, 15), 12, 13]) * DAY + random.randrange(1, DAY)
    found = Weeks(set(range(begin, end)), end)
    daily = [Identity(random.choice(APPS), "default", "", "lib", f"10.0.0.{host}") for host in range(3)]
    for who in daily:
        for minute in range(begin + random.randrange(HOUR), end, random.choice([HOUR, 5 * HOUR, DAY])):
            _send(found, minute, CommandKey(who, random.choice(["SET", "SET", "DEL", "GET"])), random.randrange(1, 99))
    seen = sum(count for *_, count in found.commands)
    for trouble in (_job, _gaps, _changes, _off, _excepted, _verdicts, _folded, _loss):
        if random.random() < 0.25:
            trouble(found, random)
    app, days = random.choice(["", "", "", *APPS[:2]]), random.choice([0, 0, 0, 2, 9])
    found.demand = Demand(app, max(1, seen // random.choice([200, 200, 50, 20, 2, 1])), days)
    found.now += random.choice([0, 0, 0, 3 * DAY])
    return found


def _send(its: Weeks, minute: int, command: CommandKey, count: int) -> None:
    if minute in its.watched:
        its.commands.append((minute, command, count))


def _job(its: Weeks, random: Random) -> None:
    """A client that comes on some days only."""
    who = Identity(random.choice(APPS), "jobs", "nightly:{n}", "lib")
    period, runs = random.choice([1, 2, 4, 7]), random.randrange(1, 4)
    first = min(its.watched) + random.randrange(3 * DAY)
    for run in range(runs):
        _send(its, first + run * period * DAY, CommandKey(who, random.choice(["SET", "GET"])), 1)


def _gaps(its: Weeks, random: Random) -> None:
    for _ in range(random.randrange(1, 3)):
        first = random.choice(sorted(its.watched))
        its.watched -= set(range(first, first + random.choice([1, 5, 300, 3 * DAY])))
    its.watched |= {its.now - 1}
    its.commands = [each for each in its.commands if each[0] in its.watched]


def _changes(its: Weeks, random: Random) -> None:
    """The rule was changed meanwhile, or what it does not judge; or the policy has yet another one."""
    before = random.choice(["a-2", "b-1"])
    at = random.choice([random.randrange(START, its.now), random.randrange(START, its.now) // HOUR * HOUR])
    its.versions = [(START - DAY, before), (at, NOW_IN_FORCE)]
    if random.random() < 0.2:
        its.digest = random.choice(["c-2", ""])
    if random.random() < 0.1:
        its.versions = []


def _off(its: Weeks, random: Random) -> None:
    its.modes[random.choice(APPS)] = "off"


def _excepted(its: Weeks, random: Random) -> None:
    until = date.fromordinal(date(1970, 1, 1).toordinal() + START // DAY + random.randrange(20))
    one = {
        "rule": random.choice([RULE, RULE, "another"]),
        "app": random.choice(["", *APPS[:2]]),
        "keys": random.choice(["", "old:*"]),
        "until": random.choice([None, until.isoformat(), until.isoformat()]),
        "then": random.choice([None, "audit", "off"]),
    }
    if not one["app"]:
        one["keys"] = "old:*"
    its.exceptions.append({**one, "because": "INC-7", "where": "p.yaml:9"})


def _verdicts(its: Weeks, random: Random) -> None:
    for _ in range(random.randrange(1, 3)):
        outcome = random.choice(["refused", "error", "rewritten", "rewritten", "followed"])
        mode = random.choice(["audit", "warn", "enforce"])
        who = random.choice([Identity(random.choice(APPS), "shop", "", "lib"), Identity(random.choice(APPS))])
        rule = random.choice([RULE, RULE, RULE, "another"])
        verdict = VerdictKey(rule, mode, outcome, who, "" if who.folded else "SET", "")
        its.hits.append((random.choice(sorted(its.watched)), verdict))


def _folded(its: Weeks, random: Random) -> None:
    """Some clients are not told apart, nor are some commands."""
    who = Identity(random.choice(APPS))
    for _ in range(random.randrange(1, 4)):
        minute = random.choice(sorted(its.watched))
        _send(its, minute, CommandKey(who, random.choice(["", "SET", "GET"])), random.choice([1, 100]))


def _loss(its: Weeks, random: Random) -> None:
    its.lost[random.choice([FOLDED, DROPPED_FOR_ROOM, "rows that could not be kept"])] = random.choice([0, 1, 1000])


def expected(its: Weeks) -> tuple[int, set[str]]:
    """How many commands count, and the names of the conditions that are not met."""
    apps = {its.demand.app} if its.demand.app else {*APPS}
    exceptions = [each for each in its.exceptions if each["rule"] == RULE and each["app"] in {"", *apps}]
    today = _day(its.now)
    judged = {app for app in apps if its.modes[app] != "off"}
    for each in exceptions:
        if _covers(each, today) and not each["keys"]:
            judged -= {each["app"]}
    since = _judged_as_now_since(its, exceptions)

    def counts(hour: int) -> bool:
        return (hour + 1) * HOUR > since and not any(minute in its.watched for minute in range(hour * HOUR, since))

    hours = {minute // HOUR for minute in its.watched}
    counting = {hour for hour in hours if counts(hour)}
    watched = {minute for minute in its.watched if minute >= since and minute // HOUR in counting}
    sent = [
        (minute, key, count)
        for minute, key, count in its.commands
        if minute // HOUR in counting and key.who.app in judged
    ]
    number = sum(count for _, key, count in sent if key.command in ABOUT)
    days = {minute // DAY for minute in watched}
    last_day = max(days, default=0)
    weekdays = Counter[int]()
    for day, minutes in Counter(minute // DAY for minute in watched).items():
        weekdays[_day(day * DAY).weekday()] += minutes
    breaking = [
        minute
        for minute, key in its.hits
        if key.rule == RULE and key.who.app in apps and key.outcome in {"refused", "error"} and minute >= since
    ]
    met = {
        "unchanged": bool(its.versions) and its.versions[-1][1] == its.digest,
        "judged": bool(judged) and "off" not in {its.modes[app] for app in apps},
        "refusals": not breaking,
        "commands": number >= its.demand.at_least,
        "returned": all(
            any(key.who == who for _, key, _ in sent) and _came_back(seen, last_day)
            for who, seen in _days_of_clients(its, judged).items()
        ),
        "recorded": _recorded(its, watched, sent, number),
    }
    if its.demand.days:
        met["days"] = len(days) >= its.demand.days
    else:
        met["weekdays"] = all(weekdays[day] >= 12 * HOUR for day in range(7))
    return number, {name for name, ok in met.items() if not ok}


def _day(minute: int) -> date:
    return datetime.fromtimestamp(minute * MINUTE, UTC).date()


def _covers(exception: dict[str, Any], day: date) -> bool:
    return exception["until"] is None or exception["then"] == "off" or day < date.fromisoformat(exception["until"])


def _judged_as_now_since(its: Weeks, exceptions: list[dict[str, Any]]) -> int:
    """The first minute of those up to now in which everything was judged as it is now; 0 if no end is seen."""

    def judged(minute: int) -> tuple[str, list[bool]]:
        digest = [digest for since, digest in its.versions if since <= minute] or [""]
        return digest[-1], [_covers(each, _day(minute)) for each in exceptions]

    changes = {since for since, _ in its.versions} | {day * DAY for day in range(START // DAY - 3, its.now // DAY + 1)}
    since = 0
    for minute in sorted(changes):
        if minute <= its.now and judged(minute - 1) != judged(minute):
            since = minute
    return since


def _days_of_clients(its: Weeks, apps: set[str]) -> dict[Identity, set[int]]:
    found: dict[Identity, set[int]] = {}
    for minute, key, _ in its.commands:
        if key.who.app in apps and key.who.user:
            found.setdefault(key.who, set()).add(minute // DAY)
    return {who: days for who, days in found.items() if len(days) > 1}


def _came_back(seen: set[int], last_day: int) -> bool:
    gap = longest = 0
    for day in range(min(seen), max(seen) + 1):
        gap += 1
        if day in seen:
            longest, gap = max(longest, gap), 0
    return any(last_day - back in seen for back in range(2 * longest + 1)) or max(seen) > last_day


def _recorded(its: Weeks, watched: set[int], sent: list[tuple[int, CommandKey, int]], number: int) -> bool:
    if its.lost.get("rows that could not be kept"):
        return False
    by_hour = Counter[int]()
    untold = 0
    for minute, key, count in sent:
        if key.command in {"", *ABOUT}:
            by_hour[minute // HOUR] += count
            untold += 0 if key.who.user else count
    missed = its.lost.get(DROPPED_FOR_ROOM, 0)
    if watched:
        gap = max(watched) + 1 - min(watched) - len(watched)
        busiest = max(Fraction(max(by_hour.values(), default=0), HOUR), Fraction(by_hour.total(), len(watched)))
        missed += math.ceil(gap * busiest)
    if not missed + untold:
        return True
    share = (missed + untold) / (by_hour.total() + missed)
    return number >= its.demand.at_least and share + _bound(number) <= _bound(its.demand.at_least)


def _bound(number: int) -> float:
    return min(1.0, -math.log(0.05) / number)
