"""The decision of a policy about one command, and the steps that lead to it: each rule at its place, in its mode."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from proxy.commands.command import Command
from proxy.hotpath.plan.replica_reads import ReplicaTerms
from proxy.policy.model import Mode, PolicyRule
from proxy.policy.precedence import EffectiveMode
from proxy.rules.context import Context
from proxy.rules.replica_keys import strictest
from proxy.rules.rule import Rule
from proxy.rules.verdict import PASS, End, FromReplica, InspectReply, Procedure, ReplyEdit, Surround

What: TypeAlias = Literal[
    "refused", "rewritten", "answered", "accompanied", "followed", "noticed", "moved", "skipped", "error"
]
"""`accompanied`: hidden commands may go with the command; `followed`: a hidden command had an effect; `noticed`: the
reply is worth counting; `moved`: a replica may answer."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One verdict of a rule, for counting. `detail` is text: why the rule was skipped, or where it failed. `error` is
    that of a refusal that a rule has judged; a plan that refuses makes none."""

    rule: str
    mode: Mode
    what: What
    detail: str = ""
    error: bytes = field(default=b"", compare=False)


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
    """A rule at its place in the order. `mode` is its mode if its effective mode does not vary."""

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
    """A procedure that no client waits for: its end is only counted."""

    procedure: Procedure
    rule: str
    mode: Mode


@dataclass(frozen=True, slots=True)
class PausedJudgement:
    """The point at which judging waits for a procedure: the command so far, and the steps from that rule on."""

    command: Command
    current: Command
    edit: ReplyEdit | None
    hidden: tuple[HiddenCommands, ...]
    steps: tuple[Step, ...]

    @property
    def rule(self) -> str:
        """The rule that asks Redis."""
        return self.steps[0].rule.name


# Not frozen: each judged command has one, and a frozen dataclass takes three times as long to construct.
@dataclass(slots=True)
class Decision:
    """The verdict on a command, and a hit for each rule with a verdict other than PASS.

    `edit`, if any, is applied to the reply to a command that passes; a rewrite has its own. Only the verdict Procedure
    comes with a `pause`. Replicas may answer the command within the terms of `replica`.
    """

    verdict: End | Procedure
    hits: tuple[Hit, ...] = ()
    pause: PausedJudgement | None = None
    background: tuple[BackgroundProcedure, ...] = ()
    hidden: tuple[HiddenCommands, ...] = ()
    replica: ReplicaTerms | None = None
    edit: ReplyEdit | None = None


NOTHING = Decision(PASS)


def passing(
    hits: tuple[Hit, ...],
    background: tuple[BackgroundProcedure, ...],
    hidden: tuple[HiddenCommands, ...],
    moves: Sequence[tuple[Hit, ReplicaTerms]],
    edit: ReplyEdit | None,
) -> Decision:
    """A command that goes on as it is. With hidden commands, it stays with the primary."""
    if hidden or not moves:
        some = hits or background or hidden or edit is not None
        return Decision(PASS, hits, None, background, hidden, edit=edit) if some else NOTHING
    terms = strictest([each for _, each in moves])
    hits += tuple(hit for hit, _ in moves)
    return Decision(PASS, hits, None, background, hidden, terms if terms.enforced else None, edit=edit)


def noted(
    found: InspectReply | FromReplica, name: str, mode: Mode, moves: list[tuple[Hit, ReplicaTerms]]
) -> tuple[HiddenCommands, ...]:
    """The hidden commands, none of which is sent, of a rule that only reads the reply. What a replica may answer is
    added to `moves`."""
    if isinstance(found, InspectReply):
        return (HiddenCommands(Surround(_nothing, "", notice=found.at), name, mode),)
    moves.append((Hit(name, mode, "moved"), found.terms._replace(enforced=mode is Mode.ENFORCE)))
    return ()


def _nothing(_line: bytes, _lines: Sequence[bytes]) -> tuple[()]:
    """The hidden commands behind a reply that a rule only reads: none."""
    return ()
