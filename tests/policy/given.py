"""Policies in tests: the text of a file, with the first line that every file needs."""

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent
from types import MappingProxyType

from proxy.commands.table import STANDARD, Table
from proxy.policy.apps import App
from proxy.policy.compile import CompiledPolicy, PolicyCompiler
from proxy.policy.decision import Step
from proxy.policy.load import load_policy
from proxy.policy.lower_policy import LoweredPolicy
from proxy.policy.model import Mode, OnError, Policy, PolicyRule, Stage
from proxy.policy.plan_tables import PlanReader, PlanTables
from proxy.policy.precedence import effective_mode
from proxy.policy_yaml.errors import PolicyError, Where
from proxy.rules.memory import Memory
from proxy.rules.refuse.rule import RefuseSettings
from proxy.rules.rule import Rule, Wording


def policy(text: str, files: Mapping[str, bytes] = MappingProxyType({})) -> Policy:
    """The policy that a file with these lines holds, beside these files; raises PolicyError as loading does."""
    with TemporaryDirectory() as folder:
        for name, content in files.items():
            Path(folder, name).write_bytes(content)
        file = Path(folder, "policy.yaml")
        file.write_text("keyrail: 1\n" + dedent(text), encoding="utf-8")
        return load_policy(file)


def problems(text: str) -> list[str]:
    """The error of such a file, without its name; nothing if it loads."""
    try:
        policy(text)
    except PolicyError as error:
        return [str(problem).partition("policy.yaml:")[2] for problem in error.problems]
    return []


def compiled(text: str, available: frozenset[str] | None = None, seed: int = 7) -> CompiledPolicy:
    """The same, bound to the standard table."""
    return compile_policy(policy(text), STANDARD, available, seed)


def compile_policy(
    policy: Policy,
    table: Table,
    available: frozenset[str] | None = None,
    seed: int | None = None,
    *,
    app: App | None = None,
    paused: bool = False,
    rehearsal: bool = False,
    memory: Memory | None = None,
) -> CompiledPolicy:
    """A policy with its plan, for the clients of one app."""
    bound = PolicyCompiler(policy, table, available, seed, memory).bind(app, paused=paused, rehearsal=rehearsal)
    bound.run(bound.lower())
    return bound


def with_plan(compiler: PolicyCompiler, app: App | None, *, paused: bool = False) -> CompiledPolicy:
    """The policy of a compiler with its plan, which shares edits with those of other apps."""
    bound = compiler.bind(app, paused=paused)
    bound.run(bound.lower())
    return bound


def as_sent(policy: Policy, lowered: LoweredPolicy) -> LoweredPolicy:
    """A plan of this policy as another process gets it."""
    tables, reader = PlanTables(policy.schema.automaton), PlanReader(policy.schema.automaton)
    number = tables.add(lowered)
    reader.take(pickle.loads(pickle.dumps(tables.since(0, [number]))))
    return reader.plan(number)


def bound_rules(rules: Sequence[tuple[Rule, Mode]], on_rule_error: OnError = OnError.REFUSE) -> CompiledPolicy:
    """A policy of these very rules, in their order."""
    policy = Policy("test", on_rule_error=on_rule_error)
    steps = []
    for place, (rule, mode) in enumerate(rules):
        source = PolicyRule(rule.name, RefuseSettings(()), Stage(mode, Where("test")), Wording(), Where("test"))
        steps.append(Step(place, rule, source, effective_mode(policy, source, None, False), False, mode))
    return CompiledPolicy(policy, STANDARD, None, tuple(steps))


def policy_files(folder: Path, files: dict[str, str]) -> Policy:
    """The policy of several files; the first is the platform's. Raises PolicyError as loading does."""
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text), encoding="utf-8")
    return load_policy(folder / next(iter(files)))
