"""A loaded policy: the content of its files, checked, and not yet bound to a command table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum

from proxy.policy.apps import App
from proxy.policy.scope import EVERYTHING, Scope
from proxy.policy.tenants import NO_TENANTS, OwnName, StoredNames, Tenants
from proxy.policy.zones import NO_ZONES, Zones
from proxy.policy_yaml.errors import Where
from proxy.rules.rule import RuleSettings, Wording
from proxy.schema.entries import NO_SCHEMA, Schema
from proxy.traffic.alerts import USUAL, Alerts
from proxy.traffic.redaction import Redact


class Mode(StrEnum):
    """How a rule's verdict is applied. All modes but OFF judge in the same way; only the last step differs."""

    OFF = "off"
    AUDIT = "audit"
    """Count the verdict."""
    WARN = "warn"
    """Count the verdict, and log it with a sample."""
    ENFORCE = "enforce"
    """Apply the verdict."""

    @property
    def strictness(self) -> int:
        """The strictness of the mode; OFF is 0."""
        return _MODES.index(self)


_MODES = tuple(Mode)


class OnError(StrEnum):
    """What happens to a command if an enforced rule fails on it."""

    REFUSE = "refuse"
    LET_THROUGH = "pass"


@dataclass(frozen=True, slots=True)
class Stage:
    """A rule's mode, and for ENFORCE the share of keys (by hash) that it is enforced for.

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
    """One rule of a file.

    `mode` is the rule's own mode, if it has one. A `locked` rule is always enforced. With an `app`, the rule is in that
    app's own file and applies to that app only. With `audits_scripts` it only counts the calls in scripts that it would
    refuse. It is on for the clients and the keys of its `scope`.
    """

    name: str
    settings: RuleSettings
    mode: Stage | None
    wording: Wording
    where: Where
    locked: bool = False
    app: str = ""
    audits_scripts: bool = False
    scope: Scope = EVERYTHING


@dataclass(frozen=True, slots=True)
class RolloutLine:
    """One rule's line of the rollout: the default mode, and the modes of single apps."""

    default: Stage | None
    apps: Mapping[str, Stage] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PolicyException:
    """An exception from a rule: for an app's commands, for keys of a pattern, or both, until a day.

    Until then the rule is off for them. From that day on (UTC) it has the mode `then`; without one, the mode that it
    has for everybody. `keys` is a glob with `*` only.
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
    """One test of a policy: the expected outcome for the command `send` of `app`.

    It has one of `refused_by` (a rule), `asked_by` (a rule that asks Redis before it decides), `answered_by` (a rule
    that answers in Redis's place) and `warned_by` (a rule in mode `warn` that would have had an effect); or some of
    `becomes` (arguments) or `unchanged`, `followed_by` (rules that send hidden commands behind it) and `moved_by`
    (rules that let replicas answer it), which all have to hold.
    """

    send: tuple[bytes, ...]
    app: str
    refused_by: str
    asked_by: str
    answered_by: str
    warned_by: str
    followed_by: tuple[str, ...]
    moved_by: tuple[str, ...]
    becomes: tuple[bytes, ...]
    unchanged: bool
    without_jitter: bool
    where: Where

    @property
    def by(self) -> dict[str, tuple[str, ...]]:
        """The rules that each outcome names, by the outcome's key."""
        return {
            "refused_by": (self.refused_by,),
            "asked_by": (self.asked_by,),
            "answered_by": (self.answered_by,),
            "warned_by": (self.warned_by,),
            "followed_by": self.followed_by,
            "moved_by": self.moved_by,
        }


@dataclass(frozen=True, slots=True)
class Policy:
    """The content of a policy's files. `source` is the first file, as errors show it; `files` are all files."""

    source: str
    rules: tuple[PolicyRule, ...] = ()
    on_rule_error: OnError = OnError.REFUSE
    splits_writes: bool = False
    """Whether a write of keys in several slots of a cluster is split, although it is not atomic then."""
    zones: Zones = NO_ZONES
    """Where servers are, for rules that prefer replicas of Keyrail's own zone."""
    tenants: Tenants = NO_TENANTS
    """Apps whose clients see only their own keys."""
    count_keys: bool = True
    exact_evidence: bool = False
    """Whether every command is recorded with its form, and not only some."""
    redact: Redact = Redact.NONE
    """How traffic views show keys."""
    alerts: Alerts = USUAL
    default: Stage = Stage(Mode.AUDIT, Where(""))
    contact: str = ""
    """The contact for rules without their own."""
    apps: tuple[App, ...] = ()
    schema: Schema = NO_SCHEMA
    rollout: Mapping[str, RolloutLine] = field(default_factory=dict)
    tightened: Mapping[tuple[str, str], Stage] = field(default_factory=dict)
    """By rule and app: the mode in the app's own file."""
    exceptions: tuple[PolicyException, ...] = ()
    tests: tuple[Expectation, ...] = ()
    files: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def own_names(self) -> Callable[[bytes], OwnName | None] | None:
        """Tells a tenant's own name for a key of Redis; None if there are no tenants."""
        return StoredNames(self.tenants).own if self.tenants else None

    @property
    def rule_names(self) -> tuple[str, ...]:
        """The names of its rules."""
        return tuple(rule.name for rule in self.rules)


TRANSPARENT = Policy(source="none", count_keys=False)
"""A policy without rules and without counting: Keyrail is transparent."""
