"""Commands that run under another name: DEL as UNLINK.

Only commands that take the same arguments and give the same replies can stand for each other, so nothing but
the name changes and no reply has to. Whether the engine, for this user, takes the other name is probed
beforehand; until it is known to, the command goes on as it came and is counted as skipped. A command with too
few arguments goes on as it came too: Redis's error names the command, and the client should read of the one
that it sent.
"""

from dataclasses import dataclass

from proxy.commands.command import Command
from proxy.commands.table import Spec
from proxy.rules.context import Context
from proxy.rules.lowering import Lowering
from proxy.rules.rule import Binding, Wording, takes
from proxy.rules.verdict import PASS, Pass, Rewrite, Verdict

_NAME_AND_ARGUMENTS = -2
"""The arity of a command with one argument or more."""


@dataclass(frozen=True, slots=True)
class ReplaceSettings:
    """Pairs of a command and the one that runs in its place, both in capitals."""

    pairs: tuple[tuple[str, str], ...]

    def bind(self, name: str, _wording: Wording, binding: Binding) -> "Replacement":
        """The rule itself."""
        return Replacement(name, self, binding)


class Replacement:
    """A list of commands that run under other names."""

    def __init__(self, name: str, settings: ReplaceSettings, binding: Binding) -> None:
        self.name = name
        self.needs = frozenset(target for _, target in settings.pairs)
        self._can_send = binding.can_send
        self._targets: dict[int, Spec] = {}
        for command, target in settings.pairs:
            spec, target_spec = binding.table.find(command), binding.table.find(target)
            if spec is not None and target_spec is not None:
                self._targets[spec.id] = target_spec

    def touches(self, spec: Spec) -> bool:
        """The commands to be replaced."""
        return spec.id in self._targets

    def judge(self, command: Command, _context: Context) -> Verdict:
        """Rewrite, or PASS where Redis is going to refuse the command anyway."""
        target = self._targets[command.spec.id]
        if not takes(command.spec, len(command.argv)):
            return PASS
        if not self._can_send(target.display):
            return Pass(skipped=f"the engine is not known to run {target.display} for this user")
        if command.streamed is not None and command.streamed < len(command.argv) - 1:
            return Pass(skipped="its name was sent before the rest of it had arrived")
        return Rewrite([target.name.encode(), *command.argv[1:]], spec=target)

    def lower(self, spec: Spec, lowering: Lowering) -> None:
        """A swap of the name, if the plan can tell by itself that there are arguments enough."""
        target = self._targets[spec.id]
        if self._can_send(target.display) and spec.arity == _NAME_AND_ARGUMENTS:
            lowering.swap(target)
        else:
            lowering.judge()
