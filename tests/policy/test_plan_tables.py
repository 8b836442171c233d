"""Plans that have been sent as tables are the plans that were made; what they have in common is sent and kept once.

``test_plan_agrees`` holds plans that were sent to what the rules say.
"""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from proxy.commands.table import STANDARD
from proxy.policy.compile import PolicyCompiler
from proxy.policy.load import load_policy
from proxy.policy.lower_policy import LoweredPolicy
from proxy.policy.model import Policy
from proxy.policy.plan_tables import NewParts, PlanReader, PlanTables
from proxy.policy_yaml.shipped import packaged
from tests.policy.given import as_sent, policy
from tests.policy.test_garbage import large

NAMES = ("large", "default", "strict", "cache", "observe", "bench", "agents", "compress")
COMPRESS = """
defaults: {mode: enforce}
rules: {docs: {compress: {keys: ["doc:*"]}}, sessions: {compress: {keys: ["session:*"], codec: lz4}}}
"""


def named(name: str) -> Policy:
    if name == "compress":
        return policy(COMPRESS)
    return policy(large(3)) if name == "large" else load_policy(packaged(name))


def told(value: Any) -> Any:
    """All that an object of a plan holds, down to numbers and bytes."""
    if value is None or isinstance(value, int | bytes | str):
        return value
    if isinstance(value, bytearray) or hasattr(value, "itemsize"):
        return memoryview(value).tobytes()
    if isinstance(value, list | tuple):
        return [told(each) for each in value]
    names = (name for name in dir(value) if not name.startswith("_") and not callable(getattr(value, name)))
    return {name: told(getattr(value, name)) for name in names if name != "turn"}


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_what_arrives_is_what_was_sent(name: str, paused: bool) -> None:
    of = named(name)
    compiler = PolicyCompiler(of, STANDARD)
    for app in (None, *of.apps):
        made = compiler.bind(app, paused=paused).lower()
        got = as_sent(of, made)
        assert dict(got.hits) == dict(made.hits)
        assert told(got.plan) == told(made.plan)


class Sender:
    """Sends plans to a reader as the supervisor does to a worker, and knows how many bytes that took."""

    def __init__(self, of: Policy) -> None:
        self.of = of
        self.compiler = PolicyCompiler(of, STANDARD)
        self.tables = PlanTables(of.schema.automaton)
        self.sizes: list[int] = []

    def send(self, app: int, reader: PlanReader) -> LoweredPolicy:
        number = self.tables.add(self.compiler.bind(self.of.apps[app]).lower())
        body = pickle.dumps(self.tables.since(reader.length, [number]))
        self.sizes.append(len(body))
        reader.take(pickle.loads(body))
        return reader.plan(number)


def test_what_plans_have_in_common_is_sent_once_and_kept_once() -> None:
    sender = Sender(policy(large(12)))
    reader = PlanReader(sender.of.schema.automaton)
    plans = [sender.send(app, reader).plan for app in range(12)]
    assert max(sender.sizes[1:]) < sender.sizes[0] / 4
    first, *others = plans
    for plan in others:
        assert plan.changed is not first.changed
        assert [each.automaton for each in plan.entry_programs] == [sender.of.schema.automaton] * len(
            plan.entry_programs
        )
        assert all(one is other for one, other in zip(first.edits_by_entry, plan.edits_by_entry, strict=True))
    plans[0].changed[3] += 1
    assert {plan.changed[3] for plan in others} == {0}


def test_a_plan_that_is_there_is_added_once_more_without_a_new_part() -> None:
    sender = Sender(policy(large(2)))
    reader = PlanReader(sender.of.schema.automaton)
    sender.send(0, reader)
    before = reader.length
    sender.send(0, reader)
    assert reader.length == before


def test_parts_that_come_twice_are_taken_once_and_none_may_be_missing() -> None:
    sender = Sender(policy(large(2)))
    of = sender.of
    numbers = [sender.tables.add(sender.compiler.bind(app).lower()) for app in of.apps]
    whole = sender.tables.since(0, numbers[1:])
    reader = PlanReader(of.schema.automaton)
    first = NewParts((numbers[0],), 0, whole.parts[: numbers[0] + 1])
    for new in (first, whole, first, whole):
        reader.take(new)
    assert reader.length == len(whole.parts)
    alone = PlanReader(of.schema.automaton)
    alone.take(whole)
    assert [told(reader.plan(each).plan) for each in numbers] == [told(alone.plan(each).plan) for each in numbers]
    with pytest.raises(ValueError, match="leave a gap"):
        PlanReader(of.schema.automaton).take(NewParts((9,), 5, whole.parts[5:]))


def test_what_varies_stated_ttls_is_drawn_once_for_each_jitter() -> None:
    entries = [
        f"e{i}: {{key: 'e{i}:{{id}}', ttl: {{default: {300 + i}s, jitter_stated: {1 + i % 2}0%}}}}" for i in range(9)
    ]
    of = policy(f"schema: {{{', '.join(entries)}}}\ndefaults: {{mode: enforce}}\nrules: {{ttl: {{schema: ttl}}}}\n")
    tables = PlanTables(of.schema.automaton)
    parts = tables.since(0, [tables.add(PolicyCompiler(of, STANDARD).bind(None).lower())]).parts
    stated = [each for part in parts for each in getattr(part, "stated", ())]
    assert len(stated) >= 9
    assert len({each[-1] for each in stated}) == 2
