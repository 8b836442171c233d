"""Whether scripts may do what rules refuse to clients. Redis checks each call of a script by the ACL, so what a script
may call has to be allowed to its client."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from proxy.commands.rows import ROWS
from proxy.commands.spec import Spec
from proxy.policy.decision import Step
from proxy.policy.script_call_rules import holds_scripts
from proxy.rules.scripts.rule import Dynamic, ScriptsSettings

_RUNS_SCRIPTS = frozenset(row.name for row in ROWS.values() if row.script in ("text", "sha", "function"))
_NOT_IN_SCRIPTS = "noscript"


@dataclass(frozen=True, slots=True)
class ScriptCalls:
    """What scripts of an app's clients may call beyond its clients' own commands: any commands, unless they
    `follow_commands`, and with any keys, unless they `follow_keys`. Nothing, if none `run`."""

    follow_commands: bool
    follow_keys: bool
    run: bool = True

    def may_make(self, spec: Spec, step: Step) -> bool:
        """Whether a script may call this command, which the step's rule refuses to clients."""
        if not self.run or _NOT_IN_SCRIPTS in spec.flags:
            return False
        return not self.follow_commands or step.source.audits_scripts or not holds_scripts(step.rule)


NONE = ScriptCalls(follow_commands=True, follow_keys=True, run=False)
"""No script runs, or what scripts call does not count."""


def script_calls(steps: Collection[Step], is_refused: Callable[[str], bool]) -> ScriptCalls:
    """What scripts may call under these rules; `is_refused` tells whether one of them always refuses a command."""
    if all(map(is_refused, _RUNS_SCRIPTS)):
        return NONE
    enforced = [step.source.settings for step in steps if step.enforced]
    found = [settings for settings in enforced if isinstance(settings, ScriptsSettings)]
    closed = any(settings.follow_rules and settings.dynamic is Dynamic.REFUSE for settings in found)
    return ScriptCalls(closed, closed and any(settings.declared_keys for settings in found))
