"""Policy + command table -> a plan for the hot path, and the judgement for commands that the plan does not decide.

To judge, a policy is only bound to the table (``bind``), which takes little time. The plan (``lower``) takes much more,
but it consists of tables that other processes can use (``proxy.policy.plan_tables``).

A policy is compiled for one app and for the commands that the engine lets a user run. ``judge`` checks a command
against every rule that touches it, in the order of ``proxy.rules.order``. All modes take this path: an enforced verdict
is applied, any other is only counted. So audit reports what enforce would do, with one exception: later rules do not
see a rewrite that is not applied.

A rule may have to ask Redis first (``Procedure``). Then ``resume`` continues from that rule with the end of the
procedure. The procedure of a rule that is not enforced runs in the *background*: no client waits for it, and its end is
only counted.

A rule that needs the keys of a command with unknown keys (``KeysUnknownError``) refuses it, in its own mode.

If a rule raises anything else, it has a bug. The command is refused or passed, as the policy says, and the bug is
counted.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import TypeAlias, assert_never

from proxy.commands.command import Command, KeysUnknownError
from proxy.commands.table import Spec, Table
from proxy.commands.tenant_commands import goes_at_once
from proxy.hotpath.plan.plan import Plan
from proxy.hotpath.plan.replica_reads import ReplicaTerms
from proxy.policy.apps import UNKNOWN, App
from proxy.policy.decision import (
    NOTHING,
    BackgroundProcedure,
    Decision,
    HiddenCommands,
    Hit,
    PausedJudgement,
    Step,
    What,
    noted,
    passing,
)
from proxy.policy.key_claims import ClaimingRules
from proxy.policy.key_owners import KeyOwners
from proxy.policy.lower_policy import LoweredPolicy, TouchingSteps, lower_policy, put_edits
from proxy.policy.model import Mode, OnError, Policy, PolicyRule
from proxy.policy.precedence import counting_parts, effective_mode, is_active, parts_for_everybody
from proxy.policy.script_call_rules import introduce
from proxy.policy.tenant_scripts import TenantScripts, judge_of_scripts
from proxy.policy.wording import exemptions_of, refusals_of, shown_by, wording_of
from proxy.rules.context import Context
from proxy.rules.key_claims import KeyClaim
from proxy.rules.limit_membership import LimitMemberships
from proxy.rules.memory import Memory
from proxy.rules.order import own_parts_of, parts_of, place_of
from proxy.rules.refusals import Refusals
from proxy.rules.request_edits import EditChains
from proxy.rules.rule import Binding, Rule, RuleSettings, takes
from proxy.rules.shared_state import FactKey
from proxy.rules.verdict import (
    PASS,
    Answer,
    EditReply,
    End,
    FromReplica,
    InspectReply,
    Pass,
    Procedure,
    Refuse,
    ReplyEdit,
    Rewrite,
    Surround,
    Verdict,
    chained,
)


@cache
def _hit(rule: str, mode: Mode, what: What) -> tuple[Hit]:
    """A hit without a detail. There are few different ones, and each judged command reports some, so they are
    cached."""
    return (Hit(rule, mode, what),)


Observer: TypeAlias = Callable[[Step, Command, Mode, Verdict | Exception], None]
"""Is called for each rule that judges: with the command, the rule's mode, and its verdict."""


class CompiledPolicy:
    """A policy bound to a command table, for the clients of one app.

    `plan` runs on the hot path. Until ``run`` replaces it, it sends every command to the rules. `limits` are the rules
    that clients are members of, by `memberships`. `needs` are the commands that rewrites send in place of the client's
    own. `lowered` maps each counter of the plan to the hits that one count stands for. `app` is the name under which
    clients are counted. With `follows_slots`, rules need the hash slot of a transaction's keys. `learning` are the
    rules that know facts, `ending` those that close clients at once. `tenant_scripts` judges the scripts of a tenant's
    clients.
    """

    def __init__(
        self,
        policy: Policy,
        table: Table,
        app: App | None,
        steps: tuple[Step, ...],
        chains: EditChains | None = None,
        tenant_scripts: TenantScripts | None = None,
    ) -> None:
        self.policy = policy
        self.table = table
        self.app = UNKNOWN if app is None else app.name
        self.steps = steps
        self.needs: frozenset[str] = frozenset().union(*(step.rule.needs.commands for step in steps))
        self.follows_slots = any(step.rule.needs.slots for step in steps)
        self.tenant_scripts = tenant_scripts
        self.learning = tuple(step for step in steps if step.rule.needs.facts)
        self.ending = tuple(step.rule for step in steps if step.rule.needs.ends and step.enforced)
        introduce(steps)
        self.limits = tuple(step.rule for step in steps if step.rule.needs.place)
        self.memberships = LimitMemberships(self.limits)
        self._touching = TouchingSteps(steps, table)
        self._chains: EditChains = {} if chains is None else chains
        self.plan = Plan.judging(len(table.specs))
        self.lowered: Mapping[int, tuple[Hit, ...]] = {}

    def run(self, lowered: LoweredPolicy) -> None:
        """Use this plan from now on. ``lower`` has made it for the same policy, commands and ``plan_inputs``."""
        put_edits(lowered.plan, self.table, self.steps)
        if self.app in self.policy.tenants.apps:  # many of their commands are judged
            lowered.plan.keep_to_tenant(bytes(goes_at_once(spec.name) for spec in self.table.specs))
        self.plan, self.lowered = lowered.plan, lowered.hits

    @property
    def learns(self) -> bool:
        """Whether facts of other workers can be missing to judge a command."""
        return bool(self.learning) or self.tenant_scripts is not None

    @property
    def plan_inputs(self) -> Hashable:
        """What its plan depends on: apps of the policy for which it is equal have equal plans."""
        return tuple((step.rule.name, step.rule.plan_inputs, step.varies, step.mode) for step in self.steps)

    def lower(self) -> LoweredPolicy:
        """The plan of this policy. It shares edits with the plans for other apps."""
        return lower_policy(self.table, self.steps, self._touching, self.limits, self.policy.count_keys, self._chains)

    def has_opinion(self, spec: Spec) -> bool:
        """Whether any rule touches this command, or limits connections."""
        return bool(self._touching.of(spec) or self.limits or self.follows_slots)

    def judge(self, command: Command, context: Context, observer: Observer | None = None) -> Decision:
        """The decision about a command. An exception in a rule is never raised."""
        steps = self._touching.of(command.spec)
        return self._walk(command, command, None, (), steps, context, observer) if steps else NOTHING

    def resume(self, pause: PausedJudgement, ended: End | Exception, context: Context) -> Decision:
        """The decision about a command whose procedure has ended, or has failed."""
        return self._walk(pause.command, pause.current, pause.edit, pause.hidden, pause.steps, context, None, ended)

    def unknown_to(self, command: Command, client: Callable[[], Context]) -> frozenset[FactKey]:
        """The facts that are missing to judge the command by enforced rules, and as a tenant's script."""
        lacking = ((step, step.rule.lacks(command)) for step in self.learning)
        unknown = [keys for step, keys in lacking if keys and step.mode_for(command, client()) is Mode.ENFORCE]
        if self.tenant_scripts is not None:
            unknown.append(self.tenant_scripts.lacks(command))
        return frozenset[FactKey]().union(*unknown)

    def most_in_page(self, command: Command, context: Context) -> int | None:
        """The most keys that enforced rules allow in a page that Keyrail makes itself; None if none says so."""
        steps = self._touching.of(command.spec)
        said = [(step, step.rule.most_in_page(command.spec)) for step in steps]
        enforced = (
            most for step, most in said if most is not None and self._is_enforced(step, command, lambda: context)
        )
        return min(enforced, default=None)

    def edit_of_reply(self, command: Command, client: Callable[[], Context]) -> ReplyEdit | None:
        """The edit with which rules learn from the reply to a forwarded command, and change the reply."""
        edit = None if self.tenant_scripts is None else self.tenant_scripts.edit_of_reply(command)
        for step in self.learning:
            enforced = partial(self._is_enforced, step, command, client)
            edit = chained(edit, step.rule.edit_of_reply(command, enforced))
        return edit

    def _is_enforced(self, step: Step, command: Command, client: Callable[[], Context]) -> bool:
        return step.mode_for(command, client()) is Mode.ENFORCE

    def said(self, rule: str, mode: Mode, ended: End | Surround | Exception) -> tuple[Hit, ...]:
        """The hits that count this verdict of a rule."""
        match ended:
            case Exception():
                return (Hit(rule, mode, "error", _locate(ended)),)
            case Pass(skipped=why, would_refuse=refused):
                audited = () if refused is None else _hit(rule, Mode.AUDIT, "refused")
                return (*audited, Hit(rule, mode, "skipped", why)) if why else audited
            case Refuse(error=error):
                return (Hit(rule, mode, "refused", error=error),)
            case Rewrite():
                return _hit(rule, mode, "rewritten")
            case Answer():
                return _hit(rule, mode, "answered")
            case Surround():
                return _hit(rule, mode, "accompanied")
            case _:
                assert_never(ended)

    def _walk(
        self,
        command: Command,
        current: Command,
        edit: ReplyEdit | None,
        hidden: tuple[HiddenCommands, ...],
        steps: tuple[Step, ...],
        context: Context,
        observer: Observer | None,
        ended: End | Exception | None = None,
    ) -> Decision:
        hits: tuple[Hit, ...] = ()
        background: tuple[BackgroundProcedure, ...] = ()
        moves: list[tuple[Hit, ReplicaTerms]] = []
        i = 0
        while i < len(steps):
            step = steps[i]
            i += 1
            mode = step.mode_for(current, context) if step.varies else step.mode
            if mode is Mode.OFF:
                continue
            found = self._ask(step, current, context, mode, observer) if ended is None else ended
            ended = None
            if found is PASS:
                continue
            name = step.rule.name
            if isinstance(found, InspectReply | FromReplica):
                hidden += noted(found, name, mode, moves)
                continue
            if isinstance(found, EditReply):
                edit = chained(found.edit, edit)
                continue
            if isinstance(found, Procedure):
                if mode is Mode.ENFORCE and found.waits:
                    return Decision(
                        found, hits, PausedJudgement(command, current, edit, hidden, steps[i - 1 :]), background
                    )
                background += (BackgroundProcedure(found, name, mode),)
                continue
            hits += self.said(name, mode, found)
            verdict = self._failed(name) if isinstance(found, Exception) else found
            if mode is not Mode.ENFORCE:
                continue
            match verdict:
                case Pass():
                    pass
                case Refuse() | Answer():
                    return Decision(verdict, hits, None, background)
                case Rewrite():
                    current = self._rewritten(current, verdict)
                    edit = chained(verdict.edit, edit)  # Redis answers the last command
                    steps = self._touching.behind(step, current.spec)
                    i = 0
                case Surround():
                    hidden += (HiddenCommands(verdict, step.rule.name, mode),)
                case _:
                    assert_never(verdict)
        if current is not command:
            return Decision(Rewrite(current.argv, edit, current.spec), hits, None, background, hidden)
        return passing(hits, background, hidden, moves, edit)

    def _ask(
        self, step: Step, command: Command, context: Context, mode: Mode, observer: Observer | None
    ) -> Verdict | Exception:
        try:
            verdict: Verdict | Exception = step.rule.judge(command, context)
            if isinstance(verdict, Procedure) and verdict.waits and context.no_wait:
                verdict = verdict.otherwise(context.no_wait)
        except KeysUnknownError as unknown:
            verdict = _without_keys(refusals_of(self.policy, step.rule.name, self.table), command, str(unknown))
        except Exception as error:  # noqa: BLE001 - a rule's bug must not take the session down
            verdict = error
        if observer is not None:
            observer(step, command, mode, verdict)
        return verdict

    def _failed(self, rule: str) -> Pass | Refuse:
        if self.policy.on_rule_error is not OnError.REFUSE:
            return PASS
        refusals = refusals_of(self.policy, rule, self.table)
        return refusals.of("the rule itself failed on this command", "tell the owners of this policy", reason=False)

    def _rewritten(self, command: Command, by: Rewrite) -> Command:
        rewritten = Command(self.table, by.argv, by.spec, command.streamed, command.streamed_length)
        rewritten.further = command.further
        return rewritten


class PolicyCompiler:
    """Compiles a policy for its apps, one after the other. Rules that apps share are bound once.

    `available` are the commands of `needs` that the engine is known to run for the user; None means all. `seed` fixes
    the order of the plan's jittered TTLs. `memory` keeps the state of rules between bindings; without it commands are
    only tried, and cost no tokens.
    """

    def __init__(
        self,
        policy: Policy,
        table: Table,
        available: frozenset[str] | None = None,
        seed: int | None = None,
        memory: Memory | None = None,
    ) -> None:
        self._policy = policy
        self._table = table
        self._bound: dict[tuple[str, type[RuleSettings], str, tuple[KeyClaim, ...]], tuple[RuleSettings, Rule]] = {}
        self._chains: EditChains = {}
        self._binding = Binding(
            table,
            available,
            seed,
            schema=policy.schema,
            memory=Memory(rehearsal=True) if memory is None else memory,
            proven=frozenset(each.name for each in policy.apps if each.proven),
            contacts={each.name: each.contact for each in policy.apps},
            exemptions=exemptions_of(policy),
            show_key=shown_by(policy.redact),
            owner_of=KeyOwners(policy).app_of,
            tenants=policy.tenants.apps,
        )

    def bind(self, app: App | None, *, paused: bool = False, rehearsal: bool = False) -> CompiledPolicy:
        """The policy for the clients of `app` (None: of no app). It judges each command.

        `paused` is the kill switch: only locked rules are enforced. `rehearsal` enforces every rule that is not off,
        for a policy's tests.
        """
        name = "" if app is None else app.name
        mine = [rule for rule in self._policy.rules if rule.app in {"", name}]
        effective_modes = [(rule, effective_mode(self._policy, rule, app, paused)) for rule in mine]
        if rehearsal:
            effective_modes = [(rule, effective.rehearsed()) for rule, effective in effective_modes]
        active = [
            (rule, effective)
            for rule, effective in effective_modes
            if effective.varies or effective.stage.mode is not Mode.OFF
        ]
        claiming = ClaimingRules(active)
        active = claiming.specific_first(active)
        parts = [(part, rule, effective) for rule, effective in active for part in own_parts_of(rule.settings)]
        parts = [each for each in parts if not each[0].only_counts] + counting_parts(self._policy)
        parts += parts_for_everybody(self._policy, rehearsal=rehearsal)
        parts.sort(key=lambda each: place_of(each[0]))
        steps = []
        for place, (part, rule, effective) in enumerate(parts):
            made = self._bind(rule, part, name, claiming.beside((rule, effective)))
            steps.append(Step(place, made, rule, effective, effective.varies, effective.stage.mode))
        scripts = judge_of_scripts(self._policy.tenants, name, self._table, self._binding.memory)
        return CompiledPolicy(self._policy, self._table, app, tuple(steps), self._chains, scripts)

    def _bind(self, rule: PolicyRule, part: RuleSettings, app: str, beside: tuple[KeyClaim, ...]) -> Rule:
        told = app if part.by_app else ""
        bound = self._bound.get((rule.name, type(part), told, beside))
        if bound is None or bound[0] != part:  # a part for everybody is another one in a rehearsal
            binding = replace(self._binding, app=told, beside=beside, may_exempt=not rule.locked)
            bound = part, part.bind(rule.name, wording_of(self._policy, rule), binding)
            self._bound[rule.name, type(part), told, beside] = bound
        return bound[1]


def needs_of(policy: Policy, table: Table) -> frozenset[str]:
    """The commands that rewrites may send in place of the clients' own, for clients of any app."""
    binding = Binding(table, schema=policy.schema)
    rules = (
        part.bind(rule.name, rule.wording, binding)
        for rule in policy.rules
        if is_active(policy, rule)
        for part in parts_of(rule.settings)
    )
    return frozenset().union(*(rule.needs.commands for rule in rules))


def _without_keys(refusals: Refusals, command: Command, why: str) -> Verdict:
    """The verdict on a command with unknown keys, for a rule that needs them: Redis refuses it by its arity, or the
    rule does."""
    if command.spec.id and not takes(command.spec, len(command.argv)):
        return PASS
    return refusals.of(why, "send it with arguments that Redis takes")


def _locate(error: Exception) -> str:
    """The place where a rule failed, without the error's own text, which may quote a key."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f" in {trace.tb_frame.f_code.co_name}, line {trace.tb_lineno}"
    return type(error).__name__ + place
