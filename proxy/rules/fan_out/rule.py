"""A limit on the keys of one command.

MGET, DEL, UNLINK, EXISTS or SUNION of thousands of keys is one command in Redis, and all clients wait until it ends. If
a command names a key twice, it counts twice.
"""

from dataclasses import dataclass

from proxy.commands.buckets import ends_bucket
from proxy.commands.command import Command
from proxy.commands.spec import KeySpec, Spec
from proxy.rules.context import Context
from proxy.rules.judged_by import JudgedBy
from proxy.rules.lowering import Lowering
from proxy.rules.refusals import Refusals, over
from proxy.rules.rule import Binding, Rule, RuleSettings, Wording
from proxy.rules.verdict import PASS, Verdict


@dataclass(frozen=True, slots=True)
class FanOutSettings(RuleSettings):
    """The most keys of one command; with `commands`, of these only."""

    max: int
    commands: tuple[str, ...] = ()

    @property
    def beyond_acl(self) -> str:
        return "an ACL counts no keys"

    def bind(self, name: str, wording: Wording, binding: Binding) -> "FanOut":
        return FanOut(name, self, Refusals(name, wording, binding))


class FanOut(Rule):
    """One limit on the keys of a command."""

    def __init__(self, name: str, settings: FanOutSettings, refusals: Refusals) -> None:
        self.name = name
        self._max = settings.max
        self._commands = settings.commands
        self._refusals = refusals

    def touches(self, spec: Spec) -> bool:
        """Commands that can have more keys than the limit."""
        if self._commands and spec.name not in self._commands:
            return False
        named = [key_spec for key_spec in spec.key_specs if key_spec.names_keys]
        return any(not _single(key_spec) for key_spec in named) or len(named) > self._max

    def judge(self, command: Command, _context: Context) -> Verdict:
        """Refuse too many keys, else PASS."""
        if len(command.argv) <= 1 + self._max:
            return PASS  # too few arguments for more keys, even if it is unknown which arguments are keys
        keys = len(command.key_places)
        if keys <= self._max:
            return PASS
        why = f"{command.name} names {keys} keys, {over(keys, self._max)}"
        return self._refusals.of(why, f"send it in pieces of at most {self._max} keys", command)

    def judged_by(self, _spec: Spec) -> JudgedBy:
        return JudgedBy.FORM if ends_bucket(self._max) else JudgedBy.NUMBERS

    def lower(self, spec: Spec, lowering: Lowering) -> None:
        """Commands with too few arguments for more keys pass."""
        step, name = 1, 1
        if len(spec.key_specs) == 1 and spec.key_specs[0].find == "range":
            step, name = max(1, spec.key_specs[0].step), spec.key_specs[0].start
        lowering.limit(arguments=name + self._max * step if step > 1 and name > 0 else 1 + self._max)


def _single(key_spec: KeySpec) -> bool:
    return key_spec.find == "range" and key_spec.last == 0
