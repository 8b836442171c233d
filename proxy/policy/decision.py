"""What a policy decides about one command, and the steps by which it does: each rule at its place, in its mode."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from proxy.commands.command import Command
from proxy.policy.model import Mode, PolicyRule
from proxy.policy.precedence import EffectiveMode
from proxy.rules.context import Context
from proxy.rules.rule import Rule
from proxy.rules.verdict import End, Procedure, ReplyEdit, Surround

What: TypeAlias = Literal["refused", "rewritten", "answered", "accompanied", "followed", "noticed", "skipped", "error"]
"""`accompanied`: hidden commands may go with the command; `followed`: one did, and it had an effect; `noticed`: its
reply said something worth counting."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A rule had something to say. `detail` is for people: why it was skipped, or where the rule failed."""

    rule: str
    mode: Mode
    what: What
    detail: str = ""


@dataclass(frozen=True, slots=True)
class HiddenCommands:
    """An enforced rule's hidden commands, and the rule that they are counted for."""

    surround: Surround
    rule: str
    mode: Mode

    def hit(self, what: What, detail: str = "") -> Hit:
        """The hit that counts their effect."""
        return Hit(self.rule, self.mode, what, detail)


@dataclass(frozen=True, slots=True)
class Step:
    """A rule at its place in the order. `mode` is what it has where its effective mode does not vary."""

    place: int
    rule: Rule
    source: PolicyRule
    effective_mode: EffectiveMode
    varies: bool
    mode: Mode

    @property
    def enforced(self) -> bool:
        """Whether the rule's verdict is always applied."""
        return not self.varies and self.mode is Mode.ENFORCE

    def mode_for(self, command: Command, context: Context) -> Mode:
        """The mode that the rule has for this command."""
        return self.effective_mode.mode_for(command, context) if self.varies else self.mode


@dataclass(frozen=True, slots=True)
class BackgroundProcedure:
    """A procedure whose end is only counted."""

    procedure: Procedure
    rule: str
    mode: Mode


@dataclass(frozen=True, slots=True)
class PausedJudgement:
    """Where judging stopped for a procedure: what the command is by now, and the steps from that rule on."""

    command: Command
    current: Command
    edit: ReplyEdit | None
    hidden: tuple[HiddenCommands, ...]
    steps: tuple[Step, ...]

    @property
    def rule(self) -> str:
        """The rule that asks Redis."""
        return self.steps[0].rule.name


# Not frozen, as one is made for each judged command and frozen ones take three times as long to make.
@dataclass(slots=True)
class Decision:
    """The verdict on a command, and a hit for each rule that had something to say.

    A `pause` comes with the verdict Procedure, and with no other.
    """

    verdict: End | Procedure
    hits: tuple[Hit, ...] = ()
    pause: PausedJudgement | None = None
    background: tuple[BackgroundProcedure, ...] = ()
    hidden: tuple[HiddenCommands, ...] = ()
