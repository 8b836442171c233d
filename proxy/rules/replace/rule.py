"""Commands that run under another name: DEL as UNLINK.

Only commands that take the same arguments and give the same replies can stand for each other, so nothing but
the name changes and no reply has to. Whether the engine, for this user, takes the other name is probed
beforehand; until it is known to, the command goes on as it came and is counted as skipped. What Redis is going
to refuse anyway goes on as it came too (too few arguments, a user who may not send it): Redis's error names the
command, and the client should read of the one that it sent.

FLUSHALL as FLUSHALL ASYNC is the same command with an argument. It replaces the bare command only: who says SYNC means
it. Nothing needs to be probed for it: who may send FLUSHALL with any argument or none may send it with this one, and
every supported engine knows it.
"""

from dataclasses import dataclass

from proxy.commands.command import Command
from proxy.commands.table import Spec
from proxy.rules.context import Context
from proxy.rules.listing import entry_of
from proxy.rules.lowering import Lowering
from proxy.rules.rule import Binding, Needs, Rule, RuleSettings, Wording, takes
from proxy.rules.verdict import PASS, Pass, Rewrite, Verdict

_NAME_AND_ARGUMENTS = -2
"""The arity of a command with one argument or more."""


@dataclass(frozen=True, slots=True)
class ReplaceSettings(RuleSettings):
    """Pairs of a command and the one that runs in its place, both in capitals: another one, or itself with words."""

    pairs: tuple[tuple[str, str], ...]

    def bind(self, name: str, _wording: Wording, binding: Binding) -> "Replacement":
        return Replacement(name, self, binding)


class Replacement(Rule):
    """A list of commands that run under other names."""

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
        """Rewrite, or PASS where Redis is going to refuse the command anyway."""
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
            return Pass(skipped="its name was sent before the whole command had arrived")
        return Rewrite([target.name.encode(), *command.argv[1:]], spec=target)

    def _add_words(self, command: Command) -> Verdict:
        bare = command.spec.name.count("|") + 1
        if len(command.argv) != bare:
            return PASS
        return Rewrite([*command.argv, *self._added[command.spec.id]], spec=command.spec)

    def lower(self, spec: Spec, lowering: Lowering) -> None:
        """A swap of the name, if the plan can tell by itself that there are arguments enough."""
        target = self._targets[spec.id]
        runs = self._can_send(target.display) and spec.id not in self._unsent
        if spec.id not in self._added and runs and spec.arity == _NAME_AND_ARGUMENTS:
            lowering.swap(target)
        else:
            lowering.judge()
