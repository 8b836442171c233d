"""The plan tells by which terms a replica may answer a request: those that all of its keys have."""

from __future__ import annotations

import pytest

from proxy.commands.replica_reads import served_by_replicas
from proxy.commands.table import STANDARD
from proxy.hotpath.counting.counters import Counters
from proxy.hotpath.plan.plan import JUDGE, PASS, Plan
from proxy.hotpath.plan.replica_reads import AT_PRIMARY, OUTSIDE, UNTOLD, ReplicaReads, ReplicaTerms
from proxy.policy.lower_policy import LoweredPolicy
from proxy.policy.plan_tables import PlanReader, PlanTables
from proxy.schema.automaton import compile_patterns
from proxy.schema.patterns import parse_pattern
from proxy.wire.request import Request, RequestLimits
from tests.hotpath.gathering import command_id, pack

KEYS = compile_patterns([parse_pattern(each) for each in ("catalog:{id}", "price:{id}", "counted:{id}")])
TERMS = (ReplicaTerms(1.0), ReplicaTerms(0.2, same_zone=True), ReplicaTerms(1.0, enforced=False))
FIRST = len(STANDARD.specs)


def plan_for(*commands: str) -> Plan:
    plan = Plan(len(STANDARD.specs))
    plan.replica_reads = ReplicaReads(KEYS, TERMS, [plan.add_counter() for _ in TERMS])
    for command in commands:
        plan.read_from_replicas(command_id(command))
    return plan


def decided(plan: Plan, *words: str) -> tuple[int, int]:
    data, request = pack(*words), Request()
    request.scan(data, 0, RequestLimits(1 << 20, 1 << 29, 1 << 20))
    outcome = plan.decide(command_id(words[0]), request, data, STANDARD.keys, Counters(sets=16))
    plan.count_terms()
    return outcome, plan.terms


@pytest.mark.parametrize(
    ("words", "terms"),
    [
        (("GET", "catalog:1"), 0),
        (("GET", "price:1"), 1),
        (("MGET", "price:1", "price:2"), 1),
        (("GET", "counted:1"), AT_PRIMARY),
        (("GET", "user:1"), OUTSIDE),
        (("MGET", "user:1", "user:2"), OUTSIDE),
        (("MGET", "catalog:1", "user:2"), AT_PRIMARY),
        (("MGET", "user:2", "catalog:1"), AT_PRIMARY),
        (("SET", "catalog:1", "x"), UNTOLD),
    ],
)
def test_a_request_goes_by_the_terms_of_all_its_keys(words: tuple[str, ...], terms: int) -> None:
    assert decided(plan_for("GET", "MGET"), *words) == (PASS, terms)


def test_keys_of_different_terms_are_judged() -> None:
    plan = plan_for("MGET")
    assert decided(plan, "MGET", "catalog:1", "price:2")[0] == JUDGE
    data, request = pack("MGET", "catalog:1", "price:2"), Request()
    request.scan(data, 0, RequestLimits(1 << 20, 1 << 29, 1 << 20))
    assert not plan.passes(command_id("MGET"), request, data, STANDARD.keys)


def test_requests_are_counted_by_their_terms_also_where_those_are_not_enforced() -> None:
    plan = plan_for("GET")
    for words in (("GET", "catalog:1"), ("GET", "counted:1"), ("GET", "counted:2"), ("GET", "user:1")):
        decided(plan, *words)
    assert list(plan.changed[FIRST:]) == [1, 0, 2]


def test_the_terms_of_a_request_are_not_those_of_the_one_before() -> None:
    plan = plan_for("GET")
    decided(plan, "GET", "catalog:1")
    assert decided(plan, "PING") == (PASS, UNTOLD)


def test_workers_get_the_terms() -> None:
    plan = plan_for("GET")
    tables, reader = PlanTables(KEYS), PlanReader(KEYS)
    number = tables.add(LoweredPolicy(plan, {}))
    reader.take(tables.since(0, [number]))
    got = reader.plan(number).plan
    assert decided(got, "GET", "price:1") == (PASS, 1)
    assert got.replica_reads is not None
    assert got.replica_reads.terms == TERMS
    assert list(got.changed[FIRST:]) == [0, 1, 0]


def test_replicas_answer_what_only_reads_data() -> None:
    served = {spec.name for spec in STANDARD.specs if served_by_replicas(spec)}
    assert served >= {"GET", "MGET", "HGETALL", "ZRANGE", "EXISTS", "TTL", "SINTER", "XRANGE"}
    assert served >= {"EVAL_RO", "EVALSHA_RO", "FCALL_RO"}
    others = {"SET", "GETEX", "GETDEL", "HSCAN", "SCAN", "OBJECT|ENCODING", "TOUCH", "XREAD", "XREADGROUP"}
    assert served.isdisjoint(others | {"PING", "KEYS", "RANDOMKEY", "WATCH", "SORT", "BLPOP", "SPOP", "DBSIZE"})
    assert served.isdisjoint({"EVAL", "EVALSHA", "FCALL", "SCRIPT|LOAD", "FUNCTION|LIST"})
