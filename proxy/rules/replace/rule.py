"""Commands that run under another name: DEL as UNLINK.

Only commands with the same arguments and the same replies can replace each other, so only the name changes. Keyrail
probes whether the engine accepts the other name for this user. Until it is known to, the command is forwarded unchanged
and counted as skipped. A command that Redis refuses anyway (too few arguments, no permission) is forwarded unchanged,
too, since Redis's error names the command and the client should see its own.

FLUSHALL ASYNC is FLUSHALL with an argument. It replaces only the bare command, since SYNC is an explicit choice. It
needs no probe: a user who may send FLUSHALL may send it with this argument, and every supported engine has it.
"""

from dataclasses import dataclass

from proxy.commands.command import Command
from proxy.commands.table import Spec
from proxy.rules.context import Context
from proxy.rules.judged_by import JudgedBy
from proxy.rules.listing import entry_of
from proxy.rules.lowering import Lowering
from proxy.rules.rule import Binding, Needs, Rule, RuleSettings, Wording, takes
from proxy.rules.verdict import PASS, Pass, Rewrite, Verdict

_NAME_AND_ARGUMENTS = -2
"""The arity of a command with one argument or more."""


@dataclass(frozen=True, slots=True)
class ReplaceSettings(RuleSettings):
    """Pairs of a command and its replacement, both in capitals: another command, or the same one with an argument."""

    pairs: tuple[tuple[str, str], ...]

    @property
    def beyond_acl(self) -> str:
        return "an ACL changes no commands"

    def bind(self, name: str, _wording: Wording, binding: Binding) -> "Replacement":
        return Replacement(name, self, binding)


class Replacement(Rule):
    """Replaces the commands of a list."""

    def __init__(self, name: str, settings: ReplaceSettings, binding: Binding) -> None:
        self.name = name
        self._can_send = binding.can_send
        self._targets: dict[int, Spec] = {}
        self._added: dict[int, tuple[bytes, ...]] = {}
        for command, target in settings.pairs:
            entry = entry_of(target, binding.table)
            spec, target_spec = binding.table.find(command), binding.table.find(entry.command)
            if spec is not None and target_spec is not None:
                self._targets[spec.id] = target_spec
                if entry.words:
                    self._added[spec.id] = entry.words
        renamed = [(source, target) for source, target in self._targets.items() if source != target.id]
        self._unsent = {source for source, _ in renamed if not self._can_send(binding.table.specs[source].display)}
        names = (name for source, target in renamed for name in (target.display, binding.table.specs[source].display))
        self.needs = Needs(frozenset(names))

    def touches(self, spec: Spec) -> bool:
        """The commands to be replaced."""
        return spec.id in self._targets

    def judge(self, command: Command, _context: Context) -> Verdict:
        """Rewrite, or PASS if Redis refuses the command anyway."""
        target = self._targets[command.spec.id]
        if command.spec.id in self._added:
            return self._add_words(command)
        if not takes(command.spec, len(command.argv)):
            return PASS
        if not self._can_send(target.display):
            return Pass(skipped=f"Redis does not have {target.display}, or this user may not run it")
        if command.spec.id in self._unsent:
            return PASS
        if command.streamed is not None and command.streamed < len(command.argv) - 1:
            return Pass(skipped="its name was already sent when the whole command had arrived")
        return Rewrite([target.name.encode(), *command.argv[1:]], spec=target)

    def _add_words(self, command: Command) -> Verdict:
        bare = command.spec.name.count("|") + 1
        if len(command.argv) != bare:
            return PASS
        return Rewrite([*command.argv, *self._added[command.spec.id]], spec=command.spec)

    def judged_by(self, _spec: Spec) -> JudgedBy:
        return JudgedBy.FORM

    def lower(self, spec: Spec, lowering: Lowering) -> None:
        """A swap of the name, if the plan can tell that there are enough arguments."""
        target = self._targets[spec.id]
        runs = self._can_send(target.display) and spec.id not in self._unsent
        if spec.id not in self._added and runs and spec.arity == _NAME_AND_ARGUMENTS:
            lowering.swap(target)
        else:
            lowering.judge()
