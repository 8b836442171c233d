"""Runs the tests of a policy.

A test runs every rule as if it were enforced, even if the rollout only audits it. So a policy can be tested before it
is enforced. A rule that is off for an app, or exempted, stays off. Only ``warned_by`` is about the modes themselves:
its test runs every rule in its own mode.

Each test runs with the least, the middle and the greatest random number, so that jitter cannot make it pass by chance;
with ``jitter: 0`` only with the middle.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import assert_never

from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from proxy.policy.compile import CompiledPolicy, PolicyCompiler
from proxy.policy.decision import Decision
from proxy.policy.explain import followers, judged_first, refused_alone, shown_command
from proxy.policy.model import Expectation, Mode, Policy, PolicyRule
from proxy.policy.precedence import is_active
from proxy.policy.tenants import TENANTS, Tenant
from proxy.rules.context import Context
from proxy.rules.rule import Binding, takes
from proxy.rules.verdict import Answer, Pass, Procedure, Refuse, Rewrite
from proxy.tenants.requests import refusal_of

_CHANCES = (0.5, 0.0, 0.999999)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one test; `got` is empty if it passed."""

    test: Expectation
    got: str

    @property
    def passed(self) -> bool:
        """Whether the policy does what the test expects."""
        return not self.got

    def __str__(self) -> str:
        sender = f" as {self.test.app}" if self.test.app else ""
        line = f"{self.test.where}: {shown_command(self.test.send)}{sender}: {_expected(self.test)}"
        return f"PASS {line}" if self.passed else f"FAIL {line}, got {self.got}"


@dataclass(frozen=True, slots=True)
class PolicyTestReport:
    """The results of all tests of a policy, and the rules that no test reaches."""

    outcomes: tuple[Outcome, ...]
    unreached: tuple[str, ...]

    @property
    def failed(self) -> int:
        """How many tests failed."""
        return sum(not outcome.passed for outcome in self.outcomes)


def run_tests(policy: Policy, now: float, late: Callable[[], bool] = lambda: False) -> PolicyTestReport:
    """Run the policy's own tests; `now`, in seconds since the epoch, tells which exceptions are over.

    When it is `late`, the tests that are left are left out.
    """
    apps = {app.name: app for app in policy.apps}
    compiled: dict[tuple[str, bool], CompiledPolicy] = {}
    reached: set[str] = set()
    outcomes = []
    for test in policy.tests:
        if late():
            break
        sender = test.app, not test.warned_by
        if sender not in compiled:
            compiled[sender] = PolicyCompiler(policy, STANDARD).bind(apps.get(test.app), rehearsal=not test.warned_by)
        if _is_not_offered(compiled[sender], Command(STANDARD, test.send)):
            outcomes.append(Outcome(test, "" if test.refused_by == TENANTS else f"refused by {TENANTS}"))
            continue
        decisions = list(_decisions(compiled[sender], test, now))
        reached.update(rule for decision in decisions for rule in _heard(decision))
        got = next((text for decision in decisions if (text := _mismatch(test, decision))), "")
        outcomes.append(Outcome(test, got))
    testable = (rule for rule in policy.rules if is_active(policy, rule) and not _needs_history(policy, rule))
    return PolicyTestReport(tuple(outcomes), tuple(rule.name for rule in testable if rule.name not in reached))


def _is_not_offered(compiled: CompiledPolicy, command: Command) -> bool:
    # Whether the app is a tenant that gets a refusal before rules judge the command.
    tenants = compiled.policy.tenants
    if compiled.app not in tenants.apps or Tenant(b"", terms=tenants.terms).empties(command.spec.name):
        return False
    if refusal_of(command, tenants.terms.scripts):
        return True
    scripts = compiled.tenant_scripts
    return scripts is not None and isinstance(scripts.refusal(command, in_transaction=False), Refuse)


def _needs_history(policy: Policy, rule: PolicyRule) -> bool:
    return rule.settings.bind(rule.name, rule.wording, Binding(STANDARD, schema=policy.schema)).needs.history


def _decisions(compiled: CompiledPolicy, test: Expectation, now: float) -> Iterator[Decision]:
    for chance in _CHANCES[:1] if test.without_jitter else _CHANCES:
        context = Context("default", "", 0, False, now, repeat(chance).__next__, test.app)
        yield compiled.judge(judged_first(compiled, Command(STANDARD, test.send), context), context)


def _heard(decision: Decision) -> Iterator[str]:
    """The rules that did not pass the command, would ask Redis, look at the reply or send hidden commands behind it."""
    yield from (hit.rule for hit in decision.hits)
    yield from (script_call_rules.rule for script_call_rules in decision.hidden)
    yield from (background.rule for background in decision.background)
    if decision.pause is not None:
        yield decision.pause.rule


def _mismatch(test: Expectation, decision: Decision) -> str:
    """The outcome, if it is not the expected one; else empty."""
    verdict = decision.verdict
    if test.warned_by:
        return _unwarned(test.warned_by, decision)
    match verdict:
        case Refuse():
            by = decision.hits[-1].rule
            return "" if test.refused_by == by else f"refused by {by}"
        case Pass():
            _, alone = refused_alone(Command(STANDARD, test.send), decision)
            if alone:
                return "" if test.refused_by == alone else f"refused by {alone}"
            sent = not test.becomes and bool(test.unchanged or test.followed_by or test.moved_by)
            return _beside(test, decision, rewritten=False) or ("" if sent else f"it unchanged{_misfit(test.send)}")
        case Rewrite(argv=argv):
            return _beside(test, decision, rewritten=True) if test.becomes == tuple(argv) else shown_command(argv)
        case Answer():
            by = decision.hits[-1].rule
            return "" if test.answered_by == by else f"answered by {by}"
        case Procedure():
            by = "" if decision.pause is None else decision.pause.rule
            return "" if test.asked_by == by else f"a question to Redis by {by}"
        case _:
            assert_never(verdict)


def _unwarned(rule: str, decision: Decision) -> str:
    """What the rules do in their own modes, if this one does not warn, or another one decides; else empty."""
    effects = [hit for hit in decision.hits if hit.what not in ("skipped", "error")]
    if isinstance(decision.verdict, Refuse | Answer):
        return f"{effects[-1].what} by {effects[-1].rule}"
    if any(hit.rule == rule and hit.mode is Mode.WARN for hit in effects):
        return ""
    said = [f"{hit.what} by {hit.rule}, in mode {hit.mode}" for hit in effects]
    return " and ".join(said) or "no hit of a rule in its own mode"


def _beside(test: Expectation, decision: Decision, *, rewritten: bool) -> str:
    """What happens beside the command that is sent, if it is not what the test expects; else empty.

    Of a command that is `rewritten`, a test need not say it.
    """
    behind = followers(Command(STANDARD, test.send), decision)
    unsaid = bool(behind) and not (test.followed_by or rewritten)
    if unsaid or not set(test.followed_by).issubset(behind):
        return f"it followed by hidden commands of {' and '.join(behind) or 'no rule'}"
    movers = [hit.rule for hit in decision.hits if hit.what == "moved"]
    unsaid = bool(movers) and not (test.moved_by or test.unchanged or test.followed_by or rewritten)
    if unsaid or not set(test.moved_by).issubset(movers):
        return f"it moved by {' and '.join(movers) or 'no rule'}"
    return ""


def _misfit(argv: tuple[bytes, ...]) -> str:
    """Why every rule passed the command: Redis may not accept its number of arguments, as with a stray space."""
    command = Command(STANDARD, argv)
    if not command.spec.id or takes(command.spec, len(argv)):
        return ""
    return f", as Redis refuses it: {command.name} does not take {len(argv) - 1} arguments"


def _expected(test: Expectation) -> str:
    if test.refused_by:
        return f"refused by {test.refused_by}"
    if test.asked_by:
        return f"asked about by {test.asked_by}"
    if test.answered_by:
        return f"answered by {test.answered_by}"
    if test.warned_by:
        return f"warned of by {test.warned_by}"
    said = ["unchanged"] if test.unchanged else []
    if test.becomes:
        said.append(f"becomes {shown_command(test.becomes)}")
    if test.followed_by:
        said.append(f"followed by hidden commands of {' and '.join(test.followed_by)}")
    if test.moved_by:
        said.append(f"moved to a replica by {' and '.join(test.moved_by)}")
    return ", ".join(said)
