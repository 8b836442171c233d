"""A rule is called ready if, and only if, what was seen allows it."""

from __future__ import annotations

from random import Random

import pytest

from proxy.server.evidence.bounds import DROPPED_FOR_ROOM
from proxy.server.evidence.model import Evidence, RuleVersion
from proxy.server.evidence.ready import Demand, Readiness, UnknownNameError, readiness
from proxy.server.evidence.report import Findings
from proxy.traffic.evidence_rows import CommandKey, Identity, VerdictKey
from proxy.traffic.labels import moment
from tests.conftest import seeds
from tests.server.weeks_of_traffic import DAY, MINUTE, ROUTE, RULE, START, Weeks, expected, weeks

SHOP = Identity("checkout", "shop", "web:{n}", "redis-py")


def said(its: Weeks) -> Readiness:
    (found,) = readiness(its.evidence, its.facts, its.now * MINUTE, RULE, its.demand)
    return found


@pytest.mark.parametrize("seed", seeds(60, 500))
def test_what_is_said_is_what_each_minute_says(seed: int) -> None:
    its = weeks(Random(seed))
    number, failing = expected(its)
    found = said(its)
    assert (found.out_of, {each.name for each in found.conditions if not each.ok}) == (number, failing), found
    assert found.ready == (not failing)


def test_each_condition_alone_decides_somewhere() -> None:
    missing = {"", "unchanged", "judged", "refusals", "commands", "weekdays", "days", "returned", "recorded"}
    seed = 0
    while missing and seed < 1000:
        _, failing = expected(weeks(Random(seed)))
        seed += 1
        if len(failing) < 2:
            missing -= {"".join(failing)}
    assert not missing


def sent(count: int, days: int = 9, who: Identity = SHOP) -> Weeks:
    """So many commands, spread evenly over the hours of whole days."""
    its = Weeks(set(range(START, START + days * DAY)), START + days * DAY)
    hours = range(START, its.now, 60)
    for place, minute in enumerate(hours):
        its.commands.append((minute, CommandKey(who, "SET"), (count + place) // len(hours)))
    return its


def text_of(found: Readiness, name: str) -> str:
    return next(each.text for each in found.conditions if each.name == name)


def test_the_bound_is_stated() -> None:
    found = said(sent(1_203_411))
    assert found.ready
    assert found.below_one_in == 401_708
    assert text_of(found, "commands") == (
        "0 of 1,203,411 in 9 days: below 1 in 401,000 (95 %, if commands were independent)"
    )


def test_no_traffic_is_never_safe() -> None:
    its = sent(0)
    its.demand = Demand(at_least=1)
    found = said(its)
    assert [each.name for each in found.conditions if not each.ok] == ["commands"]
    assert text_of(found, "commands") == "0 of 0 in 9 days; no traffic is never safe"
    assert not readiness(Evidence(), its.facts, its.now * MINUTE, RULE)[0].ready


def test_rewrites_do_no_harm_and_are_said() -> None:
    its = sent(200_000)
    its.hits = [(START + 5, VerdictKey(RULE, "audit", "rewritten", SHOP, "SET", "x"))]
    found = said(its)
    assert found.ready
    assert found.harmless == {"rewritten": 1}


def test_clients_that_were_hardly_seen_are_named() -> None:
    its = sent(200_000)
    for count, command in ((7, "SET"), (0, "GET")):
        its.commands.append((START, CommandKey(Identity("reports", f"bi{count}", "", "jedis"), command), count or 500))
    found = said(its)
    assert found.ready
    assert found.seldom == [
        {"app": "reports", "user": "bi7", "client_name": "", "library": "jedis", "address": "", "count": 7}
    ]
    assert found.without == 1


def test_an_hour_in_which_the_rule_was_changed_counts_for_hits_only() -> None:
    its = sent(200_000)
    changed = START + DAY + 30
    its.versions = [(START - DAY, "a-2"), (changed, its.digest)]
    its.hits = [(changed - 1, VerdictKey(RULE, "audit", "refused", SHOP, "SET", "old"))]
    counted = sum(count for minute, _, count in its.commands if minute > changed)
    assert (said(its).refused, said(its).out_of) == (0, counted)
    its.hits.append((changed + 1, VerdictKey(RULE, "audit", "refused", SHOP, "SET", "new")))
    assert (said(its).refused, said(its).out_of) == (1, counted)


def test_a_change_in_the_future_counts_as_now_and_hides_no_finding() -> None:
    its = sent(200_000)
    its.versions = [(START - DAY, "a-2"), (its.now + 400 * DAY, its.digest)]
    its.hits = [(its.now - 1, VerdictKey(RULE, "audit", "refused", SHOP, "SET", "old"))]
    found = said(its)
    assert (found.ready, found.out_of) == (False, 0)
    assert str(moment(its.now * MINUTE)) in text_of(found, "unchanged")
    (finding,) = Findings(its.evidence, its.facts, its.now * MINUTE).by_place.values()
    assert finding.count == 1


def test_a_monthly_job_that_has_not_come_back_is_no_proof() -> None:
    its = sent(2_000_000, days=100)
    for day in (1, 31):
        its.commands.append((START + day * DAY, CommandKey(Identity("reports", "bi", "monthly:{n}"), "SET"), 1))
    assert "reports user bi monthly:{n} (last 2024-11-04, longest gap 30 days)" in text_of(said(its), "returned")
    its.commands.append((START + 61 * DAY, CommandKey(Identity("reports", "bi", "monthly:{n}"), "SET"), 1))
    assert said(its).ready


def test_what_was_missed_counts_as_refused() -> None:
    its = sent(1_000_000)
    its.watched -= {START + 700}
    its.demand = Demand(at_least=10_000)
    assert said(its).ready
    its.demand = Demand()
    assert [each.name for each in said(its).conditions if not each.ok] == ["recorded"]
    assert text_of(said(its), "recorded") == (
        "0.0078 % is not known (1 gap, 60 s; 78 commands missed, 0 not told apart); at most 0.0027 % may be"
    )
    its.watched |= {START + 700}
    assert said(its).ready
    its.lost = {DROPPED_FOR_ROOM: 1000}
    assert [each.name for each in said(its).conditions if not each.ok] == ["recorded"]


def test_what_an_exception_covers_is_said() -> None:
    its = sent(200_000)
    exception = {"rule": RULE, "app": "checkout", "keys": "old:*", "until": None, "then": None}
    its.exceptions = [exception]
    assert said(its).ready
    assert said(its).exceptions == [exception]
    exception["keys"] = ""
    assert said(its).out_of == 0


def test_an_unknown_name_is_an_error() -> None:
    its = sent(10)
    with pytest.raises(UnknownNameError, match="no policy has a rule nams; did you mean names"):
        readiness(its.evidence, its.facts, 0.0, "nams")
    with pytest.raises(UnknownNameError, match="names is about no app check-out; did you mean checkout"):
        readiness(its.evidence, its.facts, 0.0, RULE, Demand("check-out"))


def test_a_rule_for_some_apps_is_not_off_for_the_others() -> None:
    its = sent(200_000)
    facts = its.facts
    facts[ROUTE]["rules"][0]["apps"] = ["checkout"]
    its.modes["reports"] = "off"
    (found,) = readiness(its.evidence, facts, its.now * MINUTE, RULE)
    assert (found.ready, text_of(found, "judged")) == (True, "for 1 app")
    with pytest.raises(UnknownNameError, match="names is about no app reports"):
        readiness(its.evidence, facts, its.now * MINUTE, RULE, Demand("reports"))


def test_a_rule_is_judged_for_each_route_that_has_it() -> None:
    its = sent(200_000)
    facts = {**its.facts, "other": its.facts[ROUTE]}
    evidence = its.evidence
    assert [each.route for each in readiness(evidence, facts, its.now * MINUTE, RULE)] == [ROUTE]
    evidence.rules.append(RuleVersion("other", RULE, its.digest, 0.0))
    found = readiness(evidence, facts, its.now * MINUTE, RULE)
    assert {each.route: each.ready for each in found} == {ROUTE: True, "other": False}


def test_so_many_commands_as_are_demanded_are_enough() -> None:
    assert said(sent(100_000)).ready
    assert not said(sent(99_999)).ready


def test_the_weekday_that_is_missing_is_named() -> None:
    found = said(sent(200_000, days=6))
    assert not found.ready
    assert text_of(found, "weekdays") == "each must be watched for 12 h: Thu 0 s"


def test_a_gap_may_have_been_the_busiest_time() -> None:
    its = sent(90_000)
    its.commands.append((START, CommandKey(SHOP, "SET"), 60_000))
    its.watched -= {START + 700}
    assert "; 1,007 commands missed" in text_of(said(its), "recorded")


def test_an_exception_ends_with_the_day_before() -> None:
    its = sent(400_000, days=12)
    exception = {"rule": RULE, "app": "checkout", "keys": "", "until": "2024-10-06", "then": None}
    its.exceptions = [exception]
    since = START + 2 * DAY
    assert said(its).out_of == sum(count for minute, _, count in its.commands if minute >= since)
    its.now = since - 1
    assert said(its).exceptions == [exception]
    its.now = since
    assert said(its).exceptions == []


def test_a_report_counts_since_the_rule_judges_as_it_does() -> None:
    its = sent(10)
    its.versions = [(START, "a-1"), (START + 60, "b-1"), (START + 120, "b-2")]
    assert Findings(its.evidence, its.facts, its.now * MINUTE).since(ROUTE, RULE) == (START + 60) * MINUTE
