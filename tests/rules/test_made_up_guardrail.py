"""A guardrail of this file, added by the recipe alone: its key and its place. It is read, explained, judged, lowered
and followed by scripts, and workers share its state, although no other file knows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import pytest

from proxy.commands.command import Command
from proxy.commands.spec import Spec
from proxy.commands.table import STANDARD
from proxy.hotpath.plan.plan import PASS
from proxy.policy.compile import needs_of
from proxy.policy.json_schema import json_schema
from proxy.policy_yaml.fields import Fields, integer, read_fields
from proxy.policy_yaml.yaml_source import Value
from proxy.rules import guardrails, order
from proxy.rules.context import Context
from proxy.rules.lowering import Lowering
from proxy.rules.memory import Memory
from proxy.rules.refusals import Refusals
from proxy.rules.rule import Binding, InScripts, Needs, Rule, RuleSettings, Wording
from proxy.rules.shared_state import Demand, DividedState, Lease
from proxy.rules.verdict import PASS as PASSED
from proxy.rules.verdict import Refuse, Verdict
from proxy.wire.encode import encode_command
from tests.policy.given import compile_policy, compiled, policy, problems
from tests.policy.test_plan_agrees import assert_agreement, planned
from tests.rules.given import command, context

TEXT = "defaults: {mode: enforce}\nrules: {short: {echoes: {max: 3}}, s: {scripts: {commands: follow_rules}}}"


@dataclass(frozen=True)
class EchoesSettings(RuleSettings):
    most: int

    def bind(self, name: str, wording: Wording, binding: Binding) -> Echoes:
        return Echoes(name, self.most, Refusals(name, wording, binding), binding.memory.of(name, self, Echoed))


class Echoed(DividedState):
    """How many there have been."""

    counts_clients = False

    def __init__(self) -> None:
        self.count = 0
        self.leased: dict[str, Lease] = {}

    def demand(self, seconds: float) -> Mapping[str, Demand]:
        return {"": Demand(self.count / seconds, 0)}

    def lease(self, leases: Mapping[str, Lease], now: float) -> None:
        self.leased = dict(leases)


class Echoes(Rule):
    """No ECHO of more than so many bytes."""

    needs = Needs(frozenset({"PING"}), in_scripts=InScripts.CALLS)

    def __init__(self, name: str, most: int, refusals: Refusals, echoed: Echoed) -> None:
        self.name = name
        self._most = most
        self._refusals = refusals
        self._echoed = echoed

    def touches(self, spec: Spec) -> bool:
        return spec.name == "ECHO"

    def judge(self, command: Command, _context: Context) -> Verdict:
        self._echoed.count += 1
        return PASSED if len(command.argv[1]) <= self._most else self._refusals.of("too long", "be brief")

    def lower(self, _spec: Spec, lowering: Lowering) -> None:
        lowering.limit(size=len(encode_command([b"ECHO", b"x" * self._most])))


def read_echoes(value: Value, rule: Fields) -> RuleSettings | None:
    fields = read_fields(value, rule.problems)
    if fields is None:
        return None
    settings = EchoesSettings(fields.read("max", integer(1, 99), 10))
    fields.finish()
    return settings


@pytest.fixture(autouse=True)
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    readers = cast("dict[str, Any]", guardrails.GUARDRAILS)
    monkeypatch.setitem(readers, "echoes", read_echoes)
    monkeypatch.setitem(cast("dict[Any, int]", order._PLACES), EchoesSettings, len(order.ORDER))


def test_it_is_read_and_described() -> None:
    assert policy(TEXT).rules[0].settings == EchoesSettings(3)
    assert "found '0', expected a whole number from 1 to 99" in problems("rules: {a: {echoes: {max: 0}}}")[0]
    rule = json_schema()["properties"]["rules"]["additionalProperties"]
    assert "max" in rule["properties"]["echoes"]["properties"]
    assert {"required": ["echoes"]} in rule["oneOf"]


def test_it_is_judged_and_lowered() -> None:
    rules = compiled(TEXT)
    assert isinstance(rules.judge(command("ECHO long"), context()).verdict, Refuse)
    assert planned(rules, [b"ECHO", b"abc"]) == PASS
    for text in (b"a", b"abc", b"long"):
        assert_agreement(rules, [b"ECHO", text])


def test_what_it_declares_is_heeded() -> None:
    assert needs_of(policy(TEXT), STANDARD) == {"PING"}
    script = Command(STANDARD, [b"EVAL", b"redis.call('ECHO','long')", b"0"])
    assert isinstance(compiled(TEXT).judge(script, context()).verdict, Refuse)


def test_what_it_remembers_is_found_by_its_port() -> None:
    memory = Memory(2)
    compile_policy(policy(TEXT), STANDARD, memory=memory).judge(command("ECHO abc"), context())
    states = memory.each(DividedState)
    assert {name: state.demand(1.0) for name, state in states.items()} == {"short": {"": Demand(1.0, 0)}}
