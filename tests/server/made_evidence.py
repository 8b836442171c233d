"""Evidence made up by a seed, and what must be true of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random

from proxy.server.evidence.store import Batch, Evidence
from proxy.traffic.evidence_rows import (
    CommandKey,
    EvidenceRows,
    Exemplar,
    FormKey,
    FormRow,
    Identity,
    VerdictKey,
    VerdictRow,
)

HOUR, DAY = 3600, 24 * 3600
NOON = 20_000 * DAY + 12 * HOUR

APPS = [
    Identity("checkout", "shop", "worker:{n}", "redis-py"),
    Identity("checkout", "default", "", "jedis", "10.0.0.1"),
    Identity("checkout"),
    Identity("reports", "bi\udcff", "na\0me", "ioredis"),
    Identity(""),
]


def rows(random: Random, hour: int = NOON, shapes: int = 30, count: int = 10) -> EvidenceRows:
    """Rows of one route and hour. No two exemplars are of the same second."""
    found = EvidenceRows()
    for _ in range(count):
        who, command, shape = random.choice(APPS), random.choice(["GET", "SET"]), f"user:{random.randrange(shapes)}"
        at = hour + random.random() * HOUR
        exemplar = Exemplar((command, shape, f"<{random.randrange(100)} bytes>"), at, "it has no TTL")
        verdict = VerdictKey(random.choice(["lifetimes", "names"]), "audit", "refused", who, command, shape)
        hits = random.randrange(1, 5)
        found.verdicts.setdefault(verdict, VerdictRow()).add(VerdictRow(hits, at, at + 1, [exemplar]))
        form = FormKey(who, command, shape, random.choice(["EX", "NX"]))
        found.forms.setdefault(form, FormRow()).add(FormRow(hits + 1, hits, [exemplar]))
        seen = CommandKey(who, command)
        found.commands[seen] = found.commands.get(seen, 0) + hits + 2
    return found


def batch(*its: EvidenceRows, at: int = NOON, began: float | None = None, route: str = "default") -> Batch:
    """A batch with rows of the hour `at`."""
    return Batch(began if began is not None else at, at + HOUR - 1, [(at, route, each) for each in its], [], {})


def flood(number: int, count: int, at: int = NOON) -> EvidenceRows:
    """Rows of as many shapes, each of them seen nowhere else."""
    found = EvidenceRows()
    who = APPS[0]
    for shape in (f"flood:{number}:{each}" for each in range(count // 2)):
        exemplar = Exemplar(("SET", shape, "<59 bytes>"), at + number, "")
        found.verdicts[VerdictKey("names", "audit", "refused", who, "SET", shape)] = VerdictRow(
            1, at + number, at + number, [exemplar]
        )
        found.forms[FormKey(who, "SET", shape, "EX")] = FormRow(1, 1, [exemplar])
    found.commands[CommandKey(who, "SET")] = count // 2
    return found


def joined(evidence: Evidence) -> EvidenceRows:
    """All hours and routes as one."""
    found = EvidenceRows()
    for its in evidence.hours.values():
        found.add(its)
    return found


def sums(many: Iterable[EvidenceRows]) -> Counter[tuple[str, ...]]:
    """What stays exact, whatever is folded: how often for each rule and app, how many commands of each app."""
    found = Counter[tuple[str, ...]]()
    for its in many:
        for verdict, row in its.verdicts.items():
            found["verdict", verdict.rule, verdict.mode, verdict.outcome, verdict.who.app] += row.count
        for command, count in its.commands.items():
            found["command", command.who.app] += count
        for form, seen in its.forms.items():
            found["form", form.who.app] += seen.count
            found["seen", form.who.app] += seen.seen
    return found


def own_rows(its: EvidenceRows) -> Counter[str]:
    """The rows that stand for nothing else: of each rule, of commands and of forms."""
    found = Counter(f"rule {key.rule}" for key in its.verdicts if key != key.others)
    found["commands"] = sum(key != key.others for key in its.commands)
    found["forms"] = sum(key != key.others for key in its.forms)
    return found
