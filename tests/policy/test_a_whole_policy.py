"""A policy of a platform team and one of its application teams: both files load, the team's tests pass, and each part
has its effect."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from proxy.commands.table import STANDARD
from proxy.policy.expectations import run_tests
from proxy.policy.model import Policy
from tests.policy.given import compile_policy, policy_files
from tests.rules.given import command, context

PLATFORM = """
# platform/redis.yaml
keyrail: 1
include: [apps/*.yaml]            # a team's file adds keys and may tighten, never loosen
defaults: {mode: audit, on_rule_error: pass}
apps:                             # who calls; anyone else is "unknown" and counted as that
  checkout: {team: checkout, contact: "#checkout", match: {user: checkout}}     # proven: user, listener, certificate
  reports:  {team: data, match: {client_name: "spark-*"}}                       # claimed: may be counted, never exempts
rules:
  no-flush:
    refuse: [FLUSHALL, FLUSHDB, SWAPDB, "CONFIG SET", DEBUG]
    because: they wipe or stop the instance for every team on it
    instead: SCAN and UNLINK your own keys
    locked: true                  # holds whatever the rollout or kill switch says
  no-keyspace-walks: {refuse: [KEYS], because: one KEYS stops every client, instead: SCAN with MATCH and COUNT}
  lazy-delete:       {replace: {DEL: UNLINK}}
  printable-names:   {names: {characters: printable-ascii, max_length: 128, segments: 2..6}}
  known-keys:        {names: {in_schema: true}, applies_to: writes}
  key-types:         {schema: type}
  lifetimes:         {schema: ttl, existing_keys: leave}
  value-sizes:       {schema: size}
rollout:                          # the only place with modes: one decision, one line, one reviewer
  no-flush:          enforce
  no-keyspace-walks: {default: warn, checkout: enforce}
  lifetimes:         {default: audit, checkout: enforce 10%}     # of keys, by hash
exceptions:
  - {rule: no-keyspace-walks, app: reports, keys: "lock:*", because: DATA-412, until: 2027-01-15, then: warn}
"""
CHECKOUT = """
# apps/checkout.yaml
app: checkout
schema:                           # the most specific pattern wins, order never matters, a tie is an error
  cart: {key: "cart:{user:int}", type: hash, ttl: {default: 2h, max: 7d, sliding: true}, about: open basket}
  page: {key: "cache:checkout:{path...}", type: string, ttl: {default: 5m, min: 10s, max: 1d, jitter: 10%}, size: {max: 10KB}, about: rendered fragments}
  jobs: {key: "queue:checkout:{name}", type: list, ttl: none, about: permanent on purpose}
tests:
  - {send: "KEYS *", refused_by: no-keyspace-walks}
  - {send: "SET cache:checkout:home x", becomes: "SET cache:checkout:home x EX 300", jitter: 0}
  - {send: "RPUSH queue:checkout:mail x", unchanged: true}
"""  # noqa: E501 - as people write it
NOW = datetime(2026, 11, 21, tzinfo=UTC).timestamp()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    return policy_files(tmp_path_factory.mktemp("whole"), {"redis.yaml": PLATFORM, "apps/checkout.yaml": CHECKOUT})


def test_its_own_tests_pass(whole: Policy) -> None:
    report = run_tests(whole, NOW)
    assert [str(each) for each in report.outcomes if not each.passed] == []
    assert len(report.outcomes) == 3


@pytest.mark.parametrize(
    ("app", "send", "said"),
    [
        ("checkout", "FLUSHALL", {"no-flush": "enforce"}),
        ("checkout", "KEYS *", {"no-keyspace-walks": "enforce"}),
        ("", "KEYS *", {"no-keyspace-walks": "warn"}),
        ("reports", "KEYS lock:*", {"no-keyspace-walks": "warn"}),
        ("checkout", "SET flat x", {"printable-names": "audit", "known-keys": "audit"}),
        ("checkout", "GET other:1", {}),
        ("checkout", "LPUSH cart:1 x", {"key-types": "audit", "lifetimes": "audit"}),
        ("", "SET cache:checkout:1 x", {"lifetimes": "audit"}),
        ("checkout", "SET cache:checkout:2 x", {"lifetimes": "enforce"}),
        ("checkout", "DEL cart:1", {"lazy-delete": "audit"}),
    ],
)
def test_each_part_holds(whole: Policy, app: str, send: str, said: dict[str, str]) -> None:
    bound = compile_policy(whole, STANDARD, app=next((each for each in whole.apps if each.name == app), None))
    moment = context()
    moment.now = NOW
    assert {hit.rule: hit.mode.value for hit in bound.judge(command(send), moment).hits} == said
