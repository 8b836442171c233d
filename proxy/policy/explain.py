"""Explains what a policy does with one command, rule by rule, and why. It observes the usual judgement.

SET user:1 x, of app checkout

argument 1        checkout.yaml:3   is a key of checkout/user, user:{id:int}
no-flush          platform.yaml:8   not about SET
printable-names   platform.yaml:15  passes it
lifetimes         platform.yaml:18  rewrites it to SET user:1 x EX 300  [enforce: rollout, platform.yaml:23; else …]

to Redis: *5\\r\\n$3\\r\\nSET\\r\\n$6\\r\\nuser:1\\r\\n$1\\r\\nx\\r\\n$2\\r\\nEX\\r\\n$3\\r\\n300\\r\\n
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from proxy.commands.command import Command
from proxy.commands.spec import ConnectionState
from proxy.commands.wrapped import wrapped_in
from proxy.policy.compile import CompiledPolicy
from proxy.policy.decision import Decision, Step
from proxy.policy.model import Mode, PolicyRule
from proxy.policy.precedence import effective_mode
from proxy.policy.tenants import Tenant
from proxy.rules.context import Context
from proxy.rules.order import place_of
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
    Rewrite,
    Surround,
    Verdict,
)
from proxy.schema.entries import Schema
from proxy.tenants.requests import NotOfferedError, arity_error, prefixed, refusal_of, walk_of
from proxy.wire.encode import encode_command

_LONGEST_SHOWN = 200
_MOST_KEYS = 5
_VERBS = ("refuse", "rewrite", "answer", "ask", "send", "let")


@dataclass(frozen=True, slots=True)
class RuleLine:
    """The verdict of one rule. `stage` is everything that sets its mode for this command; empty if it does not
    matter."""

    rule: str
    where: str
    said: str
    stage: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The owners of the keys, all rules in their order, and the outcome."""

    command: str
    app: str
    lines: tuple[RuleLine, ...]
    outcome: str

    def __str__(self) -> str:
        """The explanation as text."""
        name_width = max((len(line.rule) for line in self.lines), default=0)
        where_width = max((len(line.where) for line in self.lines), default=0)
        rows = [
            f"{line.rule:{name_width}}  {line.where:{where_width}}  {line.said}{line.stage and f'  [{line.stage}]'}"
            for line in self.lines
        ]
        return "\n".join((f"{self.command}, of app {self.app}", "", *rows, "", self.outcome))


def explain(compiled: CompiledPolicy, argv: Sequence[bytes], context: Context, listener: str = "") -> Explanation:
    """Judge a command of a client of this listener, and note the verdict of every rule of the policy. Jitter is left
    out."""
    tenant = compiled.policy.tenants.of(compiled.app, context.user, listener)
    context = replace(context, random=_without_chance, tenant=b"" if tenant is None else tenant.prefix)
    command = judged_first(compiled, Command(compiled.table, argv), context)
    said: dict[str, tuple[str, str]] = {}

    def observer(step: Step, current: Command, mode: Mode, verdict: Verdict | Exception) -> None:
        verdict, acts = _alone(current, verdict), mode is Mode.ENFORCE
        remark = step.rule.remark(current, acts) if _silent(verdict) else ""
        text = remark or describe(verdict, acts)
        stage = "" if _silent(verdict) and not remark else step.effective_mode.precedence(current, context)
        if step.rule.name not in said or stage:  # a rule with two places has said something at the first, perhaps
            said[step.rule.name] = text, stage

    decision = compiled.judge(command, context, observer)
    rules = sorted(compiled.policy.rules, key=lambda rule: place_of(rule.settings))
    # Of a rule with two places, the one that is about the command.
    asked = {step.rule.name: step for step in sorted(compiled.steps, key=lambda step: step.rule.touches(command.spec))}
    lines = []
    for rule in rules:
        if rule.name in said:
            lines.append(RuleLine(rule.name, str(rule.where), *said[rule.name]))
        else:
            lines.append(RuleLine(rule.name, str(rule.where), *_unasked(compiled, rule, asked, command, context)))
    owned = _owners(compiled.policy.schema, command)
    verdict = refused_alone(command, decision)[0] or decision.verdict
    end, tenant_line = _for_tenant(compiled, command, verdict, tenant)
    outcome = end if isinstance(end, str) else _outcome(end, command.argv)
    if decision.replica is not None:
        outcome = outcome.replace("to Redis", "to a replica, or to the primary if none is near enough", 1)
    return Explanation(shown_command(argv), compiled.app, (*owned, *lines, *tenant_line), outcome)


def _for_tenant(
    compiled: CompiledPolicy, command: Command, verdict: End | Procedure, tenant: Tenant | None
) -> tuple[End | Procedure | str, Sequence[RuleLine]]:
    """What becomes of the verdict for a client of a tenant, or of the command, and the line that tells so."""
    if tenant is None:
        return verdict, ()
    said = tenant.problem or f"its keys begin with {tenant.prefix.decode()} in Redis"
    line = RuleLine("tenants", str(compiled.policy.tenants.where), said)
    flushes = tenant.empties(command.spec.name)
    refusal = b"" if flushes else refusal_of(command, tenant.scripts)
    if not refusal and compiled.tenant_scripts is not None:
        verdict = compiled.tenant_scripts.refusal(command, in_transaction=False) or verdict
    if refusal or not isinstance(verdict, Pass | Rewrite) or tenant.problem:
        return (Refuse(refusal) if refusal else verdict), (line,)
    sent = command if isinstance(verdict, Pass) else Command(compiled.table, verdict.argv, verdict.spec)
    if walk_of(sent) is not None and not arity_error(sent):
        return f"Keyrail answers {sent.name} by a walk over the keys of the tenant", (line,)
    if flushes:
        return "Keyrail deletes the keys of the tenant, in a walk over them", (line,)
    try:
        return Rewrite(prefixed(sent, tenant.prefix, tenant.scripts).argv), (line,)
    except NotOfferedError as refused:
        return Refuse(refused.error), (line,)


def judged_first(compiled: CompiledPolicy, command: Command, context: Context) -> Command:
    """The command that decides: the one that KEYRAIL NODE carries, unless the policy refuses KEYRAIL NODE itself."""
    wrapped = wrapped_in(command, compiled.table)
    if wrapped is None or isinstance(compiled.judge(command, context).verdict, Refuse | Answer):
        return command
    return wrapped


def refused_alone(command: Command, decision: Decision) -> tuple[Refuse | None, str]:
    """The refusal of a command that may block and so cannot have hidden commands, and the rule's name."""
    for each in decision.hidden:
        verdict = _alone(command, each.surround)
        if isinstance(verdict, Refuse):
            return verdict, each.rule
    return None, ""


def followers(command: Command, decision: Decision) -> tuple[str, ...]:
    """The rules that send hidden commands with a command. A rule that only looks at the reply sends none."""
    sending = (each for each in decision.hidden if each.surround.about)
    return tuple(each.rule for each in sending if isinstance(_alone(command, each.surround), Surround))


def _alone(command: Command, verdict: Verdict | Exception) -> Verdict | Exception:
    """The verdict on a command that may block, and so cannot have hidden commands."""
    if (
        isinstance(verdict, Surround)
        and (verdict.before or verdict.after)
        and command.spec.state is ConnectionState.BLOCKING
    ):
        return verdict.otherwise or Pass(skipped="the command may block, and nothing runs as one with it")
    return verdict


def _without_chance() -> float:
    return 0.5


def _owners(schema: Schema, command: Command) -> list[RuleLine]:
    """The owners of the keys; of a command with many keys, the first few."""
    if not schema.entries:
        return []
    found = list(zip(command.known_keys, schema.owners_of(command.known_keys), strict=True))
    lines = [
        RuleLine(f"argument {key.index}", "", "is a key of no entry of the schema")
        if owner is None
        else RuleLine(f"argument {key.index}", owner.place, f"is a key of {owner.title}, {owner.pattern.text}")
        for key, owner in found[:_MOST_KEYS]
    ]
    left = len(found) - len(lines)
    return [*lines, RuleLine("", "", f"and {left} more keys")] if left else lines


def _unasked(
    compiled: CompiledPolicy, rule: PolicyRule, asked: dict[str, Step], command: Command, context: Context
) -> tuple[str, str]:
    step = asked.get(rule.name)
    if rule.app and rule.app != compiled.app:
        return f"for app {rule.app} only", ""
    if step is None:
        app = next((app for app in compiled.policy.apps if app.name == compiled.app), None)
        effective = effective_mode(
            compiled.policy, rule, app, paused=False
        )  # the kill switch does not affect rules that are off
        return "off", effective.precedence(command, context)
    if not step.rule.touches(command.spec):
        return f"not about {command.name}", ""
    if step.effective_mode.mode_for(command, context) is Mode.OFF:
        return "off", step.effective_mode.precedence(command, context)
    return "not asked: an earlier rule has decided", ""


def _silent(verdict: Verdict | Exception) -> bool:
    return verdict == PASS


def describe(verdict: Verdict | Exception, acts: bool) -> str:
    """A verdict as text; `acts` tells whether it is applied."""
    refuses, rewrites, answers, asks, sends, lets = (verb + "s" if acts else "would " + verb for verb in _VERBS)
    match verdict:
        case Exception():
            return f"failed on it ({type(verdict).__name__})"
        case Pass(would_refuse=Refuse(error=error)):
            return f"would refuse it: {_text(error)}"
        case Pass(skipped=why):
            return f"leaves it: {why}" if why else "passes it"
        case Refuse(error=error):
            return f"{refuses} it: {_text(error)}"
        case Rewrite(argv=argv, edit=edit):
            return f"{rewrites} it to {shown_command(argv)}{' and its reply back' if edit is not None else ''}"
        case Answer(reply=reply):
            return f"{answers} it: {_shown(reply)}"
        case Procedure(waits=True):
            return f"{asks} Redis before it decides"
        case Procedure():
            return "passes it, and asks Redis about it meanwhile"
        case InspectReply():
            return "passes it, and looks at its reply"
        case EditReply(about=about):
            return f"passes it, and {about}"
        case Surround(about=about):
            return f"{sends} {about} behind it"
        case FromReplica(terms=terms):
            return f"{lets} a replica answer it that is at most {terms.max_lag:g} s behind"
        case _:
            assert_never(verdict)


def _outcome(verdict: End | Procedure, argv: Sequence[bytes]) -> str:
    match verdict:
        case Pass():
            return f"to Redis: {_wire(argv)}"
        case Refuse(error=error):
            return f"to the client: {_text(error)}"
        case Rewrite(argv=rewritten):
            return f"to Redis: {_wire(rewritten)}"
        case Answer(reply=reply):
            return f"to the client: {_shown(reply)}"
        case Procedure():
            return "the rule decides by Redis's reply"
        case _:
            assert_never(verdict)


def _wire(argv: Sequence[bytes]) -> str:
    return _shown(encode_command(argv))


def _shown(data: bytes) -> str:
    return _cut(repr(data)[2:-1])


def _text(error: bytes) -> str:
    return error.decode("utf-8", "replace").rstrip("\r\n")


def shown_command(argv: Sequence[bytes]) -> str:
    """A command as typed into redis-cli, cut if it is long."""
    return _cut(" ".join(word_as_typed(word) for word in argv))


def word_as_typed(word: bytes) -> str:
    """An argument as typed into redis-cli, with quotes if it needs them."""
    text = repr(word)[2:-1]
    plain = word and text.isprintable() and not set(text) & set(" \"'\\")
    return text if plain else '"' + text.replace('"', '\\"').replace("\\'", "'") + '"'


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"
