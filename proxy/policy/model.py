"""A policy, loaded: what the file says, checked in itself, and not yet bound to any command table's ids."""

from dataclasses import dataclass
from enum import StrEnum

from proxy.policy.errors import Where
from proxy.rules.rule import Settings, Wording


class Mode(StrEnum):
    """What comes of a rule's verdict. All modes but OFF judge alike; only the last step differs."""

    OFF = "off"
    AUDIT = "audit"
    """Count it."""
    WARN = "warn"
    """Count it, and log it with a sample."""
    ENFORCE = "enforce"
    """Do it."""


class OnError(StrEnum):
    """What becomes of a command when an enforced rule fails on it."""

    REFUSE = "refuse"
    LET_THROUGH = "pass"


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One rule as the file has it."""

    name: str
    settings: Settings
    mode: Mode
    wording: Wording
    where: Where


@dataclass(frozen=True, slots=True)
class Policy:
    """All that a policy file says. `source` is the file, for people."""

    source: str
    rules: tuple[PolicyRule, ...] = ()
    on_rule_error: OnError = OnError.REFUSE
    count_keys: bool = True

    @property
    def rule_names(self) -> tuple[str, ...]:
        """The names of its rules."""
        return tuple(rule.name for rule in self.rules)


TRANSPARENT = Policy(source="none", count_keys=False)
"""No rule, and nothing counted: Keyrail as a wire."""
