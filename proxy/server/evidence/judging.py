"""What one rule of a policy does with a command that was recorded, as if every rule that is not off were enforced.

Each rule is judged for itself: a rule that is only audited hides nothing of what the next one does. Commands are judged
alone, not as parts of transactions.
"""

from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property

from proxy.commands.command import Command
from proxy.commands.spec import Spec
from proxy.commands.table import STANDARD
from proxy.policy.apps import App
from proxy.policy.compile import CompiledPolicy, PolicyCompiler
from proxy.policy.decision import Decision, Step
from proxy.policy.explain import followers, refused_alone
from proxy.policy.model import Mode, Policy, PolicyException
from proxy.policy.precedence import effective_mode, today
from proxy.policy.scope import walks
from proxy.policy.wording import wording_of
from proxy.rules.context import Context
from proxy.rules.judged_by import JudgedBy
from proxy.rules.rule import Rule
from proxy.rules.verdict import Answer, Refuse, Rewrite
from proxy.traffic.exemplars import Remade


@dataclass(frozen=True, slots=True)
class Said:
    """What a rule does with a command: nothing (empty), or one of ``refused``, ``answered``, ``rewritten``,
    ``followed``, ``asked`` and ``moved``.

    `applied`: it is enforced for this command. `text`: the error; `argv`: what the command becomes.
    """

    outcome: str = ""
    applied: bool = False
    text: str = ""
    argv: tuple[bytes, ...] = ()


def told_by(made: Remade) -> JudgedBy:
    """The most that may decide about a verdict which this command tells."""
    if made.cut:
        return JudgedBy.FORM
    if made.hidden:
        return JudgedBy.NUMBERS
    return JudgedBy.NAMES if made.filled else JudgedBy.DATA


class RuleForApp:
    """One rule, or one part of it, for the clients of one app."""

    def __init__(self, policy: Policy, app: App | None, step: Step) -> None:
        self.name = step.rule.name
        self.contact = wording_of(policy, step.source).contact
        self._step = step
        self._alone = CompiledPolicy(policy, STANDARD, app, (step,))
        self._effective = effective_mode(policy, step.source, app, paused=False)
        self._app = "" if app is None else app.name

    @property
    def mode(self) -> str:
        """Its mode as policies write it: ``enforce 10%``."""
        return str(self._effective.stage)

    @property
    def enforces(self) -> bool:
        """Whether it is enforced, if only for a share of keys."""
        return self._effective.stage.mode is Mode.ENFORCE

    @property
    def follows_others(self) -> bool:
        """Whether it does otherwise if other rules do, as rules about scripts do."""
        return self._step.rule.needs.others

    @property
    def does(self) -> tuple[object, ...]:
        """What is equal for two rules that do the same, under the same schema and beside the same rules."""
        stage = self._effective.stage
        exceptions = tuple((each.keys, each.until, each.then) for each in self._effective.exceptions)
        source = self._step.source
        return type(self._step.rule), source.settings, source.scope, stage.mode, stage.share, exceptions

    def judged_by(self, spec: Spec) -> JudgedBy | None:
        """What decides about its verdict on a command; None if it has none."""
        rule, effective = self._step.rule, self._effective
        if not rule.touches(spec):
            return None
        by_key = effective.scope.by_key or effective.stage.share < 1 or any(each.keys for each in effective.exceptions)
        least = JudgedBy.FORM
        if by_key:  # for commands that walk the keys, their patterns decide
            least = JudgedBy.DATA if walks(spec) else JudgedBy.NAMES
        return max(least, rule.judged_by(spec))

    def says(self, command: Command, user: str, client_name: str, at: float) -> Said:
        """What it does with a command of a client at a time."""
        if not self._step.rule.touches(command.spec):
            return Said()
        context = Context(user, client_name, 0, False, at, _without_chance, self._app)
        applied = self._effective.mode_for(command, context) is Mode.ENFORCE
        return _said(command, self._alone.judge(command, context), applied)


def _without_chance() -> float:
    return 0.5


def _said(command: Command, decision: Decision, applied: bool) -> Said:
    verdict = refused_alone(command, decision)[0] or decision.verdict
    match verdict:
        case Refuse(error=error):
            return Said("refused", applied, error.decode("utf-8", "replace").rstrip("\r\n").removeprefix("-"))
        case Answer():
            return Said("answered", applied)
        case Rewrite(argv=argv):
            return Said("rewritten", applied, argv=tuple(argv))
    if decision.pause is not None:
        return Said("asked", applied)
    if followers(command, decision):
        return Said("followed", applied)
    return Said("moved", applied) if decision.replica is not None else Said()


class PolicyForApps:
    """A policy bound for each app when it is first asked for. `now` (seconds since the epoch) tells which exceptions
    are over."""

    def __init__(self, policy: Policy, now: float) -> None:
        exceptions = tuple(_settled(each, now) for each in policy.exceptions)
        self.policy = replace(policy, exceptions=exceptions)
        self.apps = {app.name: app for app in policy.apps}
        self._compiler = PolicyCompiler(self.policy, STANDARD)
        self._rules: dict[str, dict[tuple[str, type[Rule]], RuleForApp]] = {}

    def rules_for(self, app: str) -> dict[tuple[str, type[Rule]], RuleForApp]:
        """The rules that are not off for an app, by name and kind. An app that the policy does not have is none."""
        if app not in self._rules:
            its = self.apps.get(app)
            steps = self._compiler.bind(its, rehearsal=True).steps
            self._rules[app] = {(step.rule.name, type(step.rule)): RuleForApp(self.policy, its, step) for step in steps}
        return self._rules[app]

    def said(self, command: Command, app: str, at: float) -> tuple[str, ...]:
        """The rules that refuse, change or follow up a command of an app, whoever of its clients sends it."""
        rules = self.rules_for(app).values()
        return tuple(rule.name for rule in rules if rule.says(command, "", "", at).outcome not in {"", "moved"})

    @cached_property
    def surroundings(self) -> tuple[object, ...]:
        """What all rules are judged with, beside themselves."""
        policy = self.policy
        claims = tuple((rule.name, rule.settings.claim) for rule in policy.rules if rule.settings.claim is not None)
        proven = frozenset(app.name for app in policy.apps if app.proven)
        return policy.schema, claims, proven, policy.on_rule_error


def _settled(exception: PolicyException, now: float) -> PolicyException:
    # Commands are judged at the time at which they came, but exceptions as they are now.
    over = exception.until is not None and today(now) >= exception.until
    return replace(exception, until=date.min if over else None)
