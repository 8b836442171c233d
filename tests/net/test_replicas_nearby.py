"""Clients read from replicas of Keyrail's own zone by rules that prefer these, and by no other rules."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from tests.net.replica_stage import VALUE, Stage
from tests.policy.given import policy
from tests.session.given import Client, Upstream, call

RULES = """
zones: {here: [10.0.1.0/24], there: [10.0.2.0/24]}
rules:
  shared: {replica_reads: {keys: ["a:*"], max_lag: 1s}, mode: enforce}
  nearby: {replica_reads: {keys: ["n:*"], max_lag: 1s, prefer: [same-zone]}, mode: enforce}
"""
AUDITED = RULES.replace("prefer: [same-zone]}, mode: enforce", "prefer: [same-zone]}, mode: audit")


def staged(rules: str = RULES, zone: str | None = "here") -> Stage:
    """The first replica is here, the second one there."""
    stage = Stage(rules=rules)
    readers: Any = stage.readers
    readers._policies.zones = policy(rules).zones
    readers._connections.settings.zone = zone
    connections: list[Any] = list(stage.members.values())
    for number, connection in enumerate(connections, 1):
        connection.transport = SimpleNamespace(get_extra_info=lambda _, host=f"10.0.{number}.7": (host, 6379))
    return stage


def server(stage: Stage, client: Client, key: str) -> Upstream:
    """Who gets the client's read of this key, and answers."""
    client.say("GET", key)
    (found,) = [each for each in (*stage.members, stage.route.upstream()) if each.taken()]
    assert isinstance(found, Upstream)
    found.answer(VALUE)
    assert client.heard() == VALUE
    return found


def spread(stage: Stage, key: str) -> list[int]:
    """How many of forty clients read this key here, and there."""
    counts = Counter(server(stage, Client(stage.route), key) for _ in range(40))
    return [counts[each] for each in stage.members]


def reading_there(stage: Stage) -> Client:
    """A client that has chosen the replica that is not nearby."""
    clients = [Client(stage.route) for _ in range(40)]
    return next(each for each in clients if server(stage, each, "a:1") is list(stage.members)[1])


def test_all_clients_read_nearby_by_a_rule_that_prefers_it() -> None:
    assert spread(staged(), "n:1") == [40, 0]


@pytest.mark.parametrize("rules", [RULES, AUDITED], ids=["enforced", "audited"])
def test_other_rules_spread_clients_evenly(rules: str) -> None:
    assert min(spread(staged(rules), "a:1")) >= 5


def test_without_a_zone_of_its_own_none_is_nearby() -> None:
    assert min(spread(staged(zone=None), "n:1")) >= 5


def test_none_is_preferred_that_lags() -> None:
    stage = staged()
    stage.now += 0.5
    stage.look(200)
    stage.now += 1.5
    stage.look(300, lags={stage.replicas[0]: 100})
    assert spread(stage, "n:1") == [0, 40]


def test_a_client_changes_its_replica_when_it_reads_by_such_a_rule() -> None:
    stage = staged()
    here, _ = stage.members
    client = reading_there(stage)
    assert server(stage, client, "n:1") is stage.route.upstream(), "the one nearby may be older"
    stage.look(200)
    assert server(stage, client, "n:1") is here
    assert server(stage, client, "a:1") is here, "a client keeps to one replica"


def test_in_one_pipeline_reads_of_both_rules_stay_in_order() -> None:
    stage = staged()
    here, there = stage.members
    client = reading_there(stage)
    client.send(call("GET", "a:1") + call("GET", "n:1"))
    assert there.taken() == call("GET", "a:1")
    assert (here.taken(), stage.route.upstream().taken()) == (b"", b"")
    there.answer(VALUE)
    assert stage.route.upstream().taken() == call("GET", "n:1")
    stage.route.upstream().answer(VALUE)
    assert client.heard() == 2 * VALUE


def test_a_policy_with_other_zones_counts_at_once() -> None:
    stage = staged()
    here, there = stage.members
    client = Client(stage.route)
    assert server(stage, client, "n:1") is here
    readers: Any = stage.readers
    readers._policies.zones = policy(RULES.replace("here: ", "gone: ").replace("tgone: ", "here: ")).zones
    client.adopt()
    assert server(stage, client, "n:1") is stage.route.upstream(), "the one nearby may be older"
    stage.look(200)
    assert server(stage, client, "n:1") is there
