"""Which reads replicas may answer, by the rules alone: keys, modes, several rules, and what stays with the primary."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from proxy.hotpath.plan.plan import JUDGE, PASS
from proxy.hotpath.plan.replica_reads import AT_PRIMARY, OUTSIDE, UNTOLD, ReplicaTerms
from proxy.policy.compile import CompiledPolicy
from proxy.policy.decision import Decision
from proxy.policy.expectations import run_tests
from proxy.policy.explain import explain
from proxy.rules.verdict import Pass, Refuse
from tests.policy.given import compile_policy, compiled, policy, problems
from tests.policy.test_plan_agrees import planned
from tests.rules.given import command, context

ENFORCED = """
    defaults: {mode: enforce}
    rules: {catalog: {replica_reads: {keys: ["catalog:*", "price:*:eur"], max_lag: 5s}}}
"""


def decided(policy: CompiledPolicy, text: str) -> Decision:
    return policy.judge(command(text), context())


def hits(decision: Decision) -> list[tuple[str, str, str]]:
    return [(hit.rule, hit.mode.value, hit.what) for hit in decision.hits]


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        ("GET catalog:1", True),
        ("HGETALL price:7:eur", True),
        ("MGET catalog:1 price:1:eur", True),
        ("GET catalo", False),
        ("GET price:7:usd", False),
        ("MGET catalog:1 user:1", False),
        ("TTL catalog:1", True),
        ("SET catalog:1 v", False),
        ("GETEX catalog:1", False),
        ("HSCAN catalog:1 0", False),
        ("SCAN 0", False),
        ("OBJECT ENCODING catalog:1", False),
        ("TOUCH catalog:1", False),
        ("XREAD STREAMS catalog:1 0", False),
        ("SINTER catalog:1 catalog:2", True),
        ("EVALSHA_RO 0000000000000000000000000000000000000000 1 catalog:1", True),
        ("EVALSHA_RO 0000000000000000000000000000000000000000 2 catalog:1 user:1", False),
        ("EVALSHA_RO 0000000000000000000000000000000000000000 0", False),
        ("FCALL_RO f 1 catalog:1 user:1", True),
        ("FCALL f 1 catalog:1", False),
    ],
)
def test_reads_of_its_keys_are_moved(text: str, moved: bool) -> None:
    rules = compiled(ENFORCED)
    decision = decided(rules, text)
    assert decision.replica == (ReplicaTerms(5.0) if moved else None)
    assert hits(decision) == ([("catalog", "enforce", "moved")] if moved else [])
    assert planned(rules, text.encode().split()) == PASS
    assert (rules.plan.terms >= 0) == moved


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        ("SORT_RO catalog:1 LIMIT 0 5", True),
        ("SORT_RO catalog:1 GET user:*", False),
        ("SORT_RO catalog:1 by user:*", False),
        ("SORT_RO user:1", False),
    ],
)
def test_what_can_find_other_keys_is_judged(text: str, moved: bool) -> None:
    rules = compiled(ENFORCED)
    decision = decided(rules, text)
    assert decision.replica == (ReplicaTerms(5.0) if moved else None)
    assert hits(decision) == ([("catalog", "enforce", "moved")] if moved else [])
    assert planned(rules, text.encode().split()) == (PASS if "user:1" in text else JUDGE)


def test_a_plan_counts_what_it_moves() -> None:
    rules = compiled(ENFORCED)
    for text in ("GET catalog:1", "GET catalog:2", "GET user:1"):
        planned(rules, text.encode().split())
    assert {hits: rules.plan.changed[counter] for counter, hits in rules.lowered.items()} == {
        decided(rules, "GET catalog:1").hits: 2
    }


@pytest.mark.parametrize("mode", ["audit", "warn", "off"])
def test_what_is_not_enforced_stays_and_is_counted(mode: str) -> None:
    rules = compiled(ENFORCED.replace("enforce", mode))
    decision = decided(rules, "GET catalog:1")
    assert decision.replica is None
    assert hits(decision) == ([] if mode == "off" else [("catalog", mode, "moved")])
    assert planned(rules, [b"GET", b"catalog:1"]) == (JUDGE if mode == "warn" else PASS)
    assert rules.plan.terms == (AT_PRIMARY if mode == "audit" else UNTOLD)
    assert planned(rules, [b"GET", b"user:1"]) == PASS
    assert rules.plan.terms == (OUTSIDE if mode == "audit" else UNTOLD)


def test_the_kill_switch_leaves_all_reads_with_the_primary() -> None:
    paused = compile_policy(policy(ENFORCED), STANDARD, paused=True)
    assert hits(decided(paused, "GET catalog:1")) == [("catalog", "audit", "moved")]
    assert decided(paused, "GET catalog:1").replica is None
    planned(paused, [b"GET", b"catalog:1"])
    assert paused.plan.terms == AT_PRIMARY


def test_exceptions_apply() -> None:
    rules = compiled(f"""{ENFORCED}
    exceptions: [{{rule: catalog, keys: "catalog:stock:*", because: it must be right}}]
    """)
    assert decided(rules, "GET catalog:1").replica == ReplicaTerms(5.0)
    assert decided(rules, "GET catalog:stock:1") == Decision(decided(rules, "PING").verdict)
    assert planned(rules, [b"GET", b"catalog:1"]) == JUDGE


def test_a_share_of_keys() -> None:
    rules = compiled(ENFORCED.replace("enforce", "enforce 50%"))
    found = {decided(rules, f"GET catalog:{n}").replica for n in range(50)}
    assert found == {None, ReplicaTerms(5.0)}


SEVERAL = """
    rules:
      all: {replica_reads: {keys: ["*"], max_lag: 9s}, mode: enforce}
      prices: {replica_reads: {keys: ["price:*"], max_lag: 2s}, mode: enforce}
      stock: {replica_reads: {keys: ["price:*", "stock:*"], max_lag: 1s}, mode: audit}
"""


@pytest.mark.parametrize(
    ("text", "max_lag", "counted"),
    [
        ("GET a", 9.0, ["all"]),
        ("GET price:1", 2.0, ["all", "prices", "stock"]),
        ("GET stock:1", 9.0, ["all", "stock"]),
        ("MGET price:1 price:2", 2.0, ["all", "prices", "stock"]),
        ("MGET price:1 stock:1", 9.0, ["all", "stock"]),
        ("MGET price:1 a", 9.0, ["all"]),
    ],
)
def test_of_several_rules_the_smallest_lag_of_the_enforced_holds(text: str, max_lag: float, counted: list[str]) -> None:
    rules = compiled(SEVERAL)
    decision = decided(rules, text)
    assert decision.replica == ReplicaTerms(max_lag)
    assert [hit.rule for hit in decision.hits] == counted
    outcome = planned(rules, text.encode().split())
    if outcome == PASS:
        assert rules.plan.replica_reads is not None
        assert rules.plan.replica_reads.terms[rules.plan.terms] == decision.replica
    else:
        assert text.split()[1] != text.rsplit(maxsplit=1)[-1], "a single key needs no judging"


def test_nothing_inside_a_transaction_is_moved() -> None:
    rules = compiled(ENFORCED)
    inside = replace(context(), in_transaction=True)
    assert rules.judge(command("GET catalog:1"), inside).hits == ()


def test_a_script_whose_keys_cannot_be_told_stays_and_is_not_refused() -> None:
    decision = decided(compiled(ENFORCED), "FCALL_RO f x catalog:1")
    assert (type(decision.verdict), decision.replica, decision.hits) == (Pass, None, ())


def test_what_other_rules_say_of_scripts_holds() -> None:
    rules = compiled("""
        defaults: {mode: enforce}
        rules:
          catalog: {replica_reads: {keys: ["catalog:*"]}}
          scripts: {scripts: {commands: follow_rules, undeclared_keys: refuse}}
    """)
    texts = [b"return redis.call('GET', %s)" % key for key in (b"KEYS[1]", b"'cart:' .. ARGV[1]")]
    commands = [Command(STANDARD, [b"EVAL_RO", text, b"1", b"catalog:1"]) for text in texts]
    declared, undeclared = (rules.judge(each, context()) for each in commands)
    assert declared.replica == ReplicaTerms(1.0)
    assert isinstance(undeclared.verdict, Refuse)


def test_what_another_rule_changes_stays_with_the_primary() -> None:
    renewed = compiled("""
        defaults: {mode: enforce}
        rules:
          catalog: {replica_reads: {keys: ["*"]}}
          slides: {lifetime: {default: 1h, sliding: true}}
    """)
    assert decided(renewed, "GET catalog:1").replica is None
    assert "moved" not in [hit.what for hit in decided(renewed, "GET catalog:1").hits]
    assert decided(renewed, "TTL catalog:1").replica == ReplicaTerms(1.0)


def test_the_yaml_names_what_is_wrong_with_line_and_path() -> None:
    def fault(text: str) -> str:
        (found,) = problems(f"rules:\n  r:\n    replica_reads: {text}")
        return found

    assert fault("{max_lag: 1s}").startswith("4: rules.r.replica_reads.keys: found nothing")
    assert fault('{keys: ["a?"]}').startswith("4: rules.r.replica_reads.keys[0]: found 'a?', expected a pattern")
    assert fault('{keys: ["a"], max_lag: 500ms}').startswith("4: rules.r.replica_reads.max_lag: found '500ms'")
    assert fault('{keys: ["a"], max_lag: 2h}') == (
        "4: rules.r.replica_reads.max_lag: found 7200 s, expected at most 3600s"
    )
    assert fault('{keys: ["a"], prefer: [near]}') == (
        "4: rules.r.replica_reads.prefer[0]: found 'near', expected same-zone, the only preference"
    )
    assert fault('{keys: ["a"], prefer: [same-zone]}').startswith(
        "3: rules.r.replica_reads.prefer: found same-zone without zones, expected zones: {eu-1a: [10.0.1.0/24]}"
    )
    assert fault('{keys: ["a"], max_lags: 1s}').startswith("4: rules.r.replica_reads.max_lags: found an unknown key")


TESTED = """
    rules:
      catalog: {replica_reads: {keys: ["catalog:*"]}}
      price: {replica_reads: {keys: ["catalog:price:*"]}}
    tests: [{send: %s, %s}]
"""


@pytest.mark.parametrize(
    ("send", "outcome", "got"),
    [
        ("GET catalog:1", "moved_by: catalog", ""),
        ("GET catalog:1", "unchanged: true", ""),
        ("GET catalog:1", "moved_by: price", "it moved by catalog"),
        ("GET catalog:price:1", "moved_by: price", ""),
        ("GET cart:1", "moved_by: catalog", "it moved by no rule"),
        ("GET catalog:1", "refused_by: catalog", "it moved by catalog"),
    ],
)
def test_a_policy_s_tests_can_say_which_rule_moves_a_read(send: str, outcome: str, got: str) -> None:
    assert [each.got for each in run_tests(policy(TESTED % (send, outcome)), 0.0).outcomes] == [got]


def test_it_is_explained() -> None:
    rules = compiled(SEVERAL)
    text = str(explain(rules, [b"GET", b"price:1"], context()))
    assert "lets a replica answer it that is at most 9 s behind  [enforce: rule" in text
    assert "would let a replica answer it that is at most 1 s behind  [audit: rule" in text
    assert text.splitlines()[-1].startswith("to a replica, or to the primary if none is near enough: *2")
    audited = str(explain(compiled(ENFORCED.replace("enforce", "audit")), [b"GET", b"catalog:1"], context()))
    assert audited.splitlines()[-1].startswith("to Redis: *2")
