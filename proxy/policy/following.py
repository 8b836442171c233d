"""Scripts follow the rules about commands: what a client may not send, its scripts may not call.

A rule that is only audited for this client refuses nothing, so an enforced rule about scripts lets them call it too.
One that is itself only counted counts what it would refuse if all of them were enforced, or no audit could tell what
enforcing will do.

Nobody can tell from a text whether a call in it will ever run, so every call is one that the script *may* make. A rule
with ``in_scripts: audit`` counts such calls and refuses no script for them.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from proxy.commands.command import Command
from proxy.policy.model import Mode
from proxy.rules.context import Context
from proxy.rules.rule import CommandRule
from proxy.rules.script_memory import ScriptKey
from proxy.rules.scripts import Objection, Refusing, Scripts, keys_of
from proxy.rules.verdict import Procedure, Refuse

if TYPE_CHECKING:
    from proxy.policy.compile import CompiledPolicy, Step


def following(steps: "Sequence[Step]") -> "tuple[tuple[Step, Scripts], ...]":
    """The rules about scripts, each of which now knows the rules that are in force beside it."""
    found = tuple((step, step.rule) for step in steps if isinstance(step.rule, Scripts))
    about_commands = [(step, step.rule) for step in steps if isinstance(step.rule, CommandRule)]
    about_commands.sort(key=lambda each: each[0].source.audits_scripts)  # a refusal comes before what is only counted

    def refusing_from(least: Mode) -> Refusing:
        def refusing(command: Command, complete: bool, context: Context) -> Objection | None:
            for step, rule in about_commands:
                if not rule.touches(command.spec) or mode_of(step, command, context).strictness < least.strictness:
                    continue
                # What would have to be asked first, a script does not wait for.
                refuses_it = not complete and rule.refuses_part(command)
                if refuses_it or isinstance(rule.judge(command, context), Refuse | Procedure):
                    return Objection(rule.name, step.source.audits_scripts)
            return None

        return refusing

    for step, scripts in found:
        scripts.refusing = refusing_from(Mode.ENFORCE if step.mode is Mode.ENFORCE else Mode.AUDIT)
    return found


def mode_of(step: "Step", command: Command, context: Context) -> Mode:
    """The mode that a rule has for this command."""
    return step.voice.mode_for(command, context) if step.varies else step.mode


def unknown_to(policy: "CompiledPolicy", command: Command, client: Callable[[], Context]) -> frozenset[ScriptKey]:
    """What a command names that an enforced rule would have to know, and does not."""
    keys = keys_of(command)
    if not keys:
        return frozenset()
    return frozenset(
        key
        for step, scripts in policy.scripts
        if scripts.must_know(command) and mode_of(step, command, client()) is Mode.ENFORCE
        for key in keys
        if scripts.memory.recall(key) is None
    )


def hides(policy: "CompiledPolicy", command: Command, context: Context, key: ScriptKey) -> bool:
    """Whether an EVALSHA of this script would be answered NOSCRIPT, whatever Redis knows."""
    return any(
        scripts.wants_texts and scripts.memory.recall(key) is None and mode_of(step, command, context) is Mode.ENFORCE
        for step, scripts in policy.scripts
    )
