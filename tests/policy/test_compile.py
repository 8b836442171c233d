"""All modes judge in the same way and only the last step differs. Rules come in the product's order, and each sees the
result of the one before. A rule that fails is counted, and refuses or passes as the policy says. Each verdict of a rule
is counted with its mode."""

import pytest

from proxy.commands.command import Command
from proxy.commands.table import STANDARD, Spec
from proxy.policy.decision import Decision, Hit
from proxy.policy.model import Mode, OnError
from proxy.rules.context import Context
from proxy.rules.lowering import Lowering
from proxy.rules.rule import Rule
from proxy.rules.verdict import PASS, Refuse, Rewrite, Verdict
from tests.policy.given import bound_rules, compile_policy, compiled
from tests.rules.given import command, context, spec, streamed

ALL = """
    defaults: {mode: %s}
    rules:
      lifetimes: {lifetime: {default: 5m}}
      lazy: {replace: {DEL: UNLINK}}
      names: {names: {segments: 2..}}
      no-keys: {refuse: [KEYS]}
"""


def decided(text: str, line: str) -> Decision:
    return compiled(text).judge(command(line), context())


@pytest.mark.parametrize(
    ("line", "hits"),
    [
        ("KEYS *", [("no-keys", "refused")]),
        ("GET bad", [("names", "refused")]),
        ("DEL a:1", [("lazy", "rewritten")]),
        ("SET a:1 v", [("lifetimes", "rewritten")]),
        ("SET a:1 v FROB", [("lifetimes", "skipped")]),
        ("SETNX a:1 v", [("lifetimes", "rewritten")]),
        ("GET a:1", []),
        ("PING", []),
        ("NOSUCH x", [("lifetimes", "skipped")]),
        ("CLIENT NOSUCH x", []),
    ],
)
def test_all_modes_judge_alike_and_only_enforce_acts(line: str, hits: list[tuple[str, str]]) -> None:
    for mode in (Mode.AUDIT, Mode.WARN, Mode.ENFORCE):
        decision = decided(ALL % mode.value, line)
        assert [(hit.rule, hit.what) for hit in decision.hits] == hits
        assert all(hit.mode is mode for hit in decision.hits)
        acted = any(what in ("refused", "rewritten") for _, what in hits) and mode is Mode.ENFORCE
        assert (decision.verdict != PASS) == acted
    assert decided(ALL % "off", line) == Decision(PASS)


def test_an_audited_fault_does_not_stop_the_rules_after_it() -> None:
    decision = decided(ALL % "audit", "SET bad v")
    assert [(hit.rule, hit.what) for hit in decision.hits] == [("names", "refused"), ("lifetimes", "rewritten")]
    decision = decided(ALL % "enforce", "SET bad v")
    assert [(hit.rule, hit.what) for hit in decision.hits] == [("names", "refused")]


def test_the_order_is_the_products_and_not_the_files() -> None:
    text = "defaults: {mode: enforce}\nrules: {n: {names: {segments: 2}}, r: {refuse: [GET]}}"
    verdict = decided(text, "GET bad").verdict
    assert isinstance(verdict, Refuse)
    assert b"keyrail/r:" in verdict.error


def test_a_rewrite_is_seen_by_the_rules_after_it() -> None:
    rules = (
        (_Fixed("first", Rewrite([b"SET", b"k", b"v"], lambda frame: b"1" + frame)), Mode.ENFORCE),
        (_Fixed("second", Rewrite([b"GET", b"k"], lambda frame: b"2" + frame), "SET"), Mode.ENFORCE),
        (_Fixed("third", PASS, "PING"), Mode.ENFORCE),
    )
    decision = bound_rules(rules).judge(command("PING"), context())
    assert [hit.rule for hit in decision.hits] == ["first", "second"]
    assert isinstance(decision.verdict, Rewrite)
    assert decision.verdict.argv == [b"GET", b"k"]
    assert decision.verdict.edit is not None
    assert decision.verdict.edit(b"0") == b"120"


def test_a_rule_does_not_see_its_own_rewrite() -> None:
    rules = ((_Fixed("echo", Rewrite([b"PING", b"x"])), Mode.ENFORCE), (_Once("once"), Mode.ENFORCE))
    decision = bound_rules(rules).judge(command("PING"), context())
    assert [hit.rule for hit in decision.hits] == ["echo", "once"]


def test_a_rewritten_command_keeps_its_streamed_argument() -> None:
    decision = compiled(ALL % "enforce").judge(streamed([b"SETNX", b"a:1", b""], 2, 2**28), context())
    assert isinstance(decision.verdict, Rewrite)
    assert decision.verdict.argv == [b"SET", b"a:1", b"", b"NX", b"EX", b"300"]


@pytest.mark.parametrize(
    ("mode", "on_error", "refused"),
    [
        (Mode.ENFORCE, OnError.REFUSE, True),
        (Mode.ENFORCE, OnError.LET_THROUGH, False),
        (Mode.AUDIT, OnError.REFUSE, False),
        (Mode.WARN, OnError.REFUSE, False),
    ],
)
def test_a_rule_that_fails(mode: Mode, on_error: OnError, refused: bool) -> None:
    rules = ((_Failing("broken"), mode), (_Fixed("after", PASS, "PING"), Mode.ENFORCE))
    decision = bound_rules(rules, on_error).judge(command("PING"), context())
    assert [(hit.rule, hit.mode, hit.what) for hit in decision.hits] == [("broken", mode, "error")]
    assert decision.hits[0].detail.startswith("ZeroDivisionError in judge, line ")
    if refused:
        assert isinstance(decision.verdict, Refuse)
        assert decision.verdict.error.startswith(b"-DENIED keyrail/broken: the rule itself failed on this command; ")
    else:
        assert decision.verdict == PASS


def test_what_rewrites_need_is_told() -> None:
    assert compiled(ALL % "audit").needs >= {"UNLINK", "SET"}
    assert compiled(ALL % "off").needs == frozenset()


def test_what_is_not_available_is_skipped_and_not_in_the_plan() -> None:
    bound = compiled(ALL % "enforce", available=frozenset())
    decision = bound.judge(command("DEL a:1"), context())
    assert decision.verdict == PASS
    assert [(hit.rule, hit.what) for hit in decision.hits] == [("lazy", "skipped")]
    assert spec("DEL").id not in bound.lowered


def test_what_the_plan_does_by_itself_stands_for_hits() -> None:
    bound = compiled(ALL % "enforce")
    assert bound.lowered == {
        spec("DEL").id: (Hit("lazy", Mode.ENFORCE, "rewritten"),),
        spec("GETSET").id: (Hit("lifetimes", Mode.ENFORCE, "rewritten"),),
        spec("SET").id: (Hit("lifetimes", Mode.ENFORCE, "rewritten"),),
        spec("KEYS").id: (Hit("no-keys", Mode.ENFORCE, "refused"),),
    }
    assert compiled(ALL % "audit").lowered == {}


def test_a_seed_fixes_the_jitter() -> None:
    text = "rules: {l: {lifetime: {default: 5m, jitter: 10%}, mode: enforce}}"
    plans = [compiled(text, seed=seed).plan for seed in (1, 1, 2)]
    suffixes = [plan.edits[plan.edit_of[spec("SET").id]].appending for plan in plans]
    first, same, other = [each.suffixes for each in suffixes if each is not None]
    assert first == same
    assert first != other
    assert sorted(first) == sorted(other)
    assert len(set(first)) > 50


def test_a_table_that_was_completed_by_the_engine_is_judged_too() -> None:
    reply = [[b"shop.set", 3, [b"write"], 1, 1, 1, [b"@write"], [], [], []]]
    table = STANDARD.completed_by(reply)
    bound = compile_policy(compiled(ALL % "enforce").policy, table)
    given = Command(table, [b"SHOP.SET", b"bad", b"v"])
    assert given.spec.id != 0
    assert isinstance(bound.judge(given, context()).verdict, Refuse)


class _Fixed(Rule):
    """A rule that says one thing about one command."""

    def __init__(self, name: str, verdict: Verdict, about: str = "PING") -> None:
        self.name = name
        self._verdict = verdict
        self._about = about

    def touches(self, spec: Spec) -> bool:
        return spec.name == self._about

    def judge(self, command: Command, context: Context) -> Verdict:
        return self._verdict

    def lower(self, spec: Spec, lowering: Lowering) -> None:
        lowering.judge()


class _Once(_Fixed):
    """A rule that must be asked once."""

    def __init__(self, name: str) -> None:
        super().__init__(name, Rewrite([b"PING", b"y"]))
        self._asked = False

    def judge(self, command: Command, context: Context) -> Verdict:
        assert not self._asked
        self._asked = True
        return super().judge(command, context)


class _Failing(_Fixed):
    """A rule with a bug."""

    def __init__(self, name: str) -> None:
        super().__init__(name, PASS)

    def judge(self, command: Command, context: Context) -> Verdict:
        raise ZeroDivisionError("with a key in its text")


def test_too_many_keys_are_refused_before_anything_looks_at_each_of_them() -> None:
    text = """
        defaults: {mode: enforce}
        rules:
          one-slot: {one_slot: true}
          names: {names: {segments: 2..}}
          few: {fan_out: {max: 3}}
    """
    assert [hit.rule for hit in decided(text, "MGET a b c d").hits] == ["few"]
    assert [hit.rule for hit in decided(text, "MGET a b c").hits] == ["names"]
