"""Evidence in which all that a client chooses (its names, keys and commands) is made up by a test, and its report."""

from __future__ import annotations

from functools import cache
from typing import Any

from proxy.server.evidence.model import HOUR, Batch, Evidence
from proxy.server.evidence.policy_facts import Facts, facts_of
from proxy.server.evidence.report import report
from proxy.traffic.evidence_rows import CommandKey, EvidenceRows, Exemplar, Identity, VerdictKey, VerdictRow
from tests.policy.given import policy

POLICY = """
defaults: {mode: audit}
apps:
  basket: {team: checkout, contact: "#checkout", match: {user: basket}}
  payments: {team: checkout, contact: "#checkout", match: {user: payments}}
  reports: {team: data, match: {user: reports}}
rules:
  key-names: {names: {separator: ":", segments: 2..4}, because: keys have an owner, instead: "name it team:entity:id"}
  lifetimes: {lifetime: {default: 5m}}
  walks: {refuse: [KEYS], mode: enforce}
  scripts: {refuse: [EVAL]}
exceptions:
  - {rule: key-names, app: basket, keys: "old-*", because: OPS-1, until: 2027-01-15, then: warn}
  - {rule: scripts, app: reports, because: OPS-2, until: 2026-12-05}
"""
PLACES = (("basket", "key-names", "refused"), ("basket", "lifetimes", "rewritten"), ("reports", "walks", "refused"))
NOW = 1_796_000_000.0
"""2026-11-30."""


def made_batch(*names: str, now: float = NOW) -> Batch:
    """Three hours of evidence; the names stand in turn wherever a client chooses the text."""
    turn = 0

    def name() -> str:
        nonlocal turn
        turn += 1
        return names[turn % len(names)]

    now = now // HOUR * HOUR + 1000
    hours = []
    for number, at in enumerate((now - 2 * HOUR, now - HOUR, now)):
        rows = EvidenceRows()
        places = (
            ("basket", "key-names", "refused"),
            ("basket", "lifetimes", "rewritten"),
            ("reports", "walks", "refused"),
        )
        for app, rule, outcome in places:
            who = Identity(app, app, name(), name(), name())
            command = "KEYS" if rule == "walks" else "SET"
            key = VerdictKey(rule, "audit", outcome, who, name(), name())
            exemplar = Exemplar((command, name(), "<59 bytes>"), at, name())
            rows.verdicts[key] = VerdictRow(3 + number, at, at, [exemplar])
            rows.verdicts[key.others] = VerdictRow(1, at, at, [])
            rows.commands[CommandKey(who, command)] = 1000
        rows.commands[CommandKey(Identity("payments", "payments"), "GET")] = 1000
        hours.append((int(at // HOUR) * HOUR, "default", rows))
    return Batch(now - 2 * HOUR, now, hours, [], {"rows that found no room": 7})


def made_report(*names: str) -> dict[str, Any]:
    """The report of it."""
    batch = made_batch(*names)
    hours = {(hour, route): rows for hour, route, rows in batch.rows}
    spans = [(batch.began, batch.began + HOUR), (batch.now - HOUR / 2, batch.now)]
    evidence = Evidence(spans, hours, [], batch.lost)
    owner = {"keys": 9, "bytes": 90, "gone_at_most": 1, "over": True}
    quota = {"route": "default", "rule": "storage", "keys": 8, "bytes": None, "keyrail": "http://a", "missing": ""}
    quota |= {"scan": "2026-11-29T03:00:00Z", "judges": True, "owners": {names[0]: owner}}
    return report(evidence, {"default": made_facts()}, NOW) | {"quotas": [quota]}


@cache
def made_facts() -> Facts:
    """What the report has to know of the policy."""
    return facts_of(policy(POLICY))
