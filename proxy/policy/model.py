"""A policy, loaded: what the files say, checked in itself, and not yet bound to any command table's ids."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum

from proxy.policy.apps import App
from proxy.policy_yaml.errors import Where
from proxy.rules.rule import RuleSettings, Wording
from proxy.schema.entries import NO_SCHEMA, Schema
from proxy.traffic.alerts import USUAL, Alerts
from proxy.traffic.redaction import Redact


class Mode(StrEnum):
    """How a rule's verdict is applied. All modes but OFF judge alike; only the last step differs."""

    OFF = "off"
    AUDIT = "audit"
    """Count it."""
    WARN = "warn"
    """Count it, and log it with a sample."""
    ENFORCE = "enforce"
    """Do it."""

    @property
    def strictness(self) -> int:
        """Modes in the order of what they do: OFF is 0."""
        return _MODES.index(self)


_MODES = tuple(Mode)


class OnError(StrEnum):
    """What becomes of a command when an enforced rule fails on it."""

    REFUSE = "refuse"
    LET_THROUGH = "pass"


@dataclass(frozen=True, slots=True)
class Stage:
    """How far a rule has come: its mode, and for ENFORCE the share of keys, by hash, that it is enforced for.

    0 < `share` <= 1; the other keys are audited.
    """

    mode: Mode
    where: Where
    share: float = 1.0

    def __str__(self) -> str:
        return f"{self.mode} {self.share * 100:.4g}%" if self.share < 1 else str(self.mode)

    def tightens(self, other: "Stage") -> bool:
        """Whether no command is judged more mildly by this stage than by the other."""
        return (self.mode.strictness, self.share) >= (other.mode.strictness, other.share)


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One rule as its file has it.

    `mode` is what it says itself, if anything. A `locked` rule is enforced whatever else is said. With an `app`
    it is that team's own, and holds for nobody else. With `audits_scripts` it counts the calls in scripts that it would
    refuse, and refuses no script for them.
    """

    name: str
    settings: RuleSettings
    mode: Stage | None
    wording: Wording
    where: Where
    locked: bool = False
    app: str = ""
    audits_scripts: bool = False


@dataclass(frozen=True, slots=True)
class RolloutLine:
    """One rule's line of the rollout: the default, and what differs for single apps."""

    default: Stage | None
    apps: Mapping[str, Stage] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PolicyException:
    """What a rule is not to be held against: an app's commands, keys of a pattern, or both, until a day comes.

    Until then the rule is off for them; from that day on (UTC) it has the mode `then`, or, without one, whatever
    it has for everybody. `keys` is a glob with `*` only.
    """

    rule: str
    app: str
    keys: str
    because: str
    until: date | None
    then: Mode | None
    where: Where


@dataclass(frozen=True, slots=True)
class Expectation:
    """One test of a policy: what becomes of `send`, sent by `app`.

    Exactly one of `refused_by` (a rule), `asked_by` (a rule that asks Redis before it decides), `answered_by` (one that
    answers in Redis's place), `followed_by` (one that sends hidden commands behind it), `becomes` (arguments) and
    `unchanged` is said.
    """

    send: tuple[bytes, ...]
    app: str
    refused_by: str
    asked_by: str
    answered_by: str
    followed_by: str
    becomes: tuple[bytes, ...]
    unchanged: bool
    without_jitter: bool
    where: Where

    @property
    def by(self) -> dict[str, str]:
        """By the key that names it: the rule that is to decide; empty where another outcome is expected."""
        return {
            "refused_by": self.refused_by,
            "asked_by": self.asked_by,
            "answered_by": self.answered_by,
            "followed_by": self.followed_by,
        }


@dataclass(frozen=True, slots=True)
class Policy:
    """All that a policy's files say. `source` is the file it starts with, for people; `files` are all of them."""

    source: str
    rules: tuple[PolicyRule, ...] = ()
    on_rule_error: OnError = OnError.REFUSE
    count_keys: bool = True
    redact: Redact = Redact.NONE
    """How traffic views show keys."""
    alerts: Alerts = USUAL
    default: Stage = Stage(Mode.AUDIT, Where(""))
    contact: str = ""
    """Whom to ask about a rule that names nobody itself."""
    apps: tuple[App, ...] = ()
    schema: Schema = NO_SCHEMA
    rollout: Mapping[str, RolloutLine] = field(default_factory=dict)
    tightened: Mapping[tuple[str, str], Stage] = field(default_factory=dict)
    """By rule and app: what the app's own file asks of itself."""
    exceptions: tuple[PolicyException, ...] = ()
    tests: tuple[Expectation, ...] = ()
    files: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def rule_names(self) -> tuple[str, ...]:
        """The names of its rules."""
        return tuple(rule.name for rule in self.rules)


TRANSPARENT = Policy(source="none", count_keys=False)
"""No rule, and nothing counted: Keyrail as a wire."""
