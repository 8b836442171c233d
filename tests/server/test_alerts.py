"""Alert rules see the first event: each series that they look at with increase() or rate() is exported as 0 before it.

Prometheus computes no increase for a series that begins with 5. Exempt are quantiles of histograms, which need several
minutes of commands anyway. What a series may be called is taken from its source: every error of accept(), every word of
an error, every rule.
"""

from __future__ import annotations

import errno
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from prometheus_client.core import Metric

import proxy
from proxy.hotpath.counting.error_counts import ErrorCounts
from proxy.net.connection.failures import Failures
from proxy.net.downstream.acceptor import Acceptor
from proxy.policy.load import load_policy
from proxy.policy_yaml.shipped import packaged
from proxy.server.evidence.keeper import EvidenceKeeper
from proxy.server.evidence.memory_store import MemoryStore
from proxy.server.figures import RouteFigures
from proxy.server.incidents import Incidents
from proxy.server.kill_switch import KillSwitch
from proxy.server.metrics import GroupCollector
from proxy.server.process_figures import ProcessFigures
from proxy.server.reload import Reloader
from proxy.server.workers import Workers
from tests.server.test_metrics import OneRoute

REPOSITORY = Path(__file__).parents[2]
FILES = [
    Path(proxy.__file__).parent / "server/admin/alerts.yaml",
    *(REPOSITORY / "deploy").rglob("*alert*.yaml"),
    *(REPOSITORY / "deploy").rglob("*rules*.yaml"),
]
LOADED = load_policy(packaged("strict"))
RULES = [rule.name for rule in LOADED.rules]
COUNTED = r"\b(?:increase|rate)\((keyrail_\w+)(?:\{([^}]*)\})?\["
MATCHER = r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"'


@dataclass(frozen=True)
class Counted:
    """What one alert counts: a metric, and the values of labels that it asks for."""

    alert: str
    metric: str
    matchers: tuple[tuple[str, str, str], ...]

    def matches(self, labels: dict[str, str]) -> bool:
        return all(self._holds(labels.get(label, ""), how, text) for label, how, text in self.matchers)

    def _holds(self, value: str, how: str, text: str) -> bool:
        same = bool(re.fullmatch(text, value)) if "~" in how else value == text
        return same is not how.startswith("!")

    def named(self) -> Iterator[tuple[str, str]]:
        """The values that it names: each of them has to have a series."""
        for label, how, text in self.matchers:
            if not how.startswith("!"):
                yield from ((label, value) for value in (text.split("|") if "~" in how else [text]))


def alerts() -> list[dict[str, Any]]:
    found = [yaml.safe_load(file.read_text("utf-8")) for file in {each.resolve() for each in FILES} if file.exists()]
    return [rule for content in found for group in content.get("groups", ()) for rule in group["rules"]]


def counted(rule: dict[str, Any]) -> Iterator[Counted]:
    for metric, matchers in re.findall(COUNTED, rule["expr"]):
        if not metric.endswith("_bucket"):
            yield Counted(rule["alert"], metric, tuple(re.findall(MATCHER, matchers)))


LOOKS = [each for rule in alerts() for each in counted(rule)]


class Quiet(OneRoute):
    """Workers to which nothing has happened yet."""

    policies = (LOADED,)

    def processes(self) -> dict[int, ProcessFigures]:
        return {0: ProcessFigures(1.5, 1 << 20, 30, 0.01, {"stderr": 0})}

    def figures(self) -> list[RouteFigures]:
        (its,) = super().figures()
        nodes = [{**node, "reads": 0, "reads_resent": 0, "read_errors": 0} for node in its.nodes]
        return [replace(its, counters=self.counters(), nodes=nodes)]

    def counters(self) -> dict[str, Any]:
        return {}


class Loud(Quiet):
    """Workers to which everything has happened."""

    def counters(self) -> dict[str, Any]:
        (its,) = OneRoute.figures(self)
        errors = ErrorCounts()
        for rule in alerts():
            for word in re.findall(r"[A-Z]{2,}", rule["expr"]):
                errors.add(b"-%s x" % word.encode(), 0, len(word) + 3)
        return its.counters | {
            "failures": failures_of_accept(),
            "errors": {"redis": errors.figures(), "keyrail": {"DENIED": 1}},
            "closed": dict.fromkeys(["client", "max_clients", "upstream_refused"], 1),
            "verdicts": {rule: {"shop": {"enforce error": 2, "audit error": 1, "audit refused": 1}} for rule in RULES},
        }


def failures_of_accept() -> dict[str, dict[str, int]]:
    """What is counted of every error that accept() can end with."""
    failures = Failures(lambda: 0.0)
    acceptor = Acceptor.__new__(Acceptor)
    acceptor._failures, acceptor._name = failures, "redis://here"
    for number in errno.errorcode:
        acceptor._fail(OSError(number, os.strerror(number)))
    return failures.figures()


@pytest.fixture(autouse=True)
def no_lines_dropped_by_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.server.metrics.dropped_lines", Counter({"stderr": 0}))


def in_memory() -> MemoryStore:
    return MemoryStore(1 << 20, 1)


def exported(group: Any) -> list[Metric]:
    workers, reloader, switch = cast("Workers", group), cast("Reloader", group), cast("KillSwitch", group)
    incidents, keeper = Incidents(workers, ["default"], None), EvidenceKeeper(group, ["default"], in_memory)
    return list(GroupCollector(workers, reloader, switch, incidents, keeper).collect())


def series(group: Any, metric: str) -> dict[tuple[tuple[str, str], ...], float]:
    return {
        tuple(sorted(sample.labels.items())): sample.value
        for family in exported(group)
        for sample in family.samples
        if sample.name == metric
    }


def test_the_alerts_are_read() -> None:
    assert len(LOOKS) >= 9
    assert {each.alert for each in LOOKS} >= {"KeyrailRefusesClients", "KeyrailCannotAccept", "KeyrailRuleErrors"}


@pytest.mark.parametrize("look", LOOKS, ids=lambda each: f"{each.alert}-{each.metric}")
def test_what_an_alert_counts_begins_with_zero(look: Counted) -> None:
    quiet = series(Quiet(), look.metric)
    missing = {each for each in series(Loud(), look.metric) if look.matches(dict(each))} - quiet.keys()
    assert not missing, "they begin with their first event"
    for label, value in look.named():
        assert any((label, value) in each for each in quiet), f"no series with {label}={value}"
    for each, number in quiet.items():
        if "cpu_seconds" not in look.metric and each and look.matches(dict(each)):
            assert number == 0


def test_errors_of_a_rule_are_those_of_all_apps_and_modes() -> None:
    assert set(series(Loud(), "keyrail_rule_errors_total").values()) == {3.0}
    assert Counter(dict(each)["rule"] for each in series(Quiet(), "keyrail_rule_errors_total")) == Counter(RULES)


@pytest.mark.parametrize("rule", alerts(), ids=lambda each: each["alert"])
def test_an_alert_says_of_which_keyrail_it_is(rule: dict[str, Any]) -> None:
    for labels in re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", rule["expr"]):
        assert "instance" in {each.strip() for each in labels.split(",")}
