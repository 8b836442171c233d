"""What a rule is.

``judge`` is the whole truth about a rule. ``lower`` only says how a plan may reach the same verdict without
calling it: what it leaves out, or cannot say in plan operations, is judged. A property test holds the two to
each other.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from proxy.commands.command import Command
from proxy.commands.table import Spec, Table
from proxy.rules.context import Context
from proxy.rules.lifetime.precedence import NO_OTHERS, OtherLifetimes
from proxy.rules.lowering import Lowering
from proxy.rules.memory import Memory
from proxy.rules.verdict import Verdict
from proxy.schema.entries import NO_SCHEMA, Schema


@dataclass(frozen=True, slots=True)
class Wording:
    """The policy author's own words for a refusal; empty where the rule's own words are to be used.

    `contact` is whom to ask about the rule.
    """

    because: str = ""
    instead: str = ""
    contact: str = ""


def ascii_of(key: bytes) -> str:
    """A key as it is, but for what is no printable ASCII."""
    return repr(key)[2:-1]


@dataclass(frozen=True, slots=True)
class Binding:
    """What a policy's rules are bound to.

    `available` are the commands that the engine is known to run for this user, among those that rules need;
    None stands for all. `seed` fixes the chances that are drawn beforehand. `app` is whose clients are judged, empty
    for clients of no app; `proven` are the apps that no client can merely claim to be. `schema` is the policy's.
    `memory` keeps what rules remember. `lifetimes` are those that may take keys from the rule that is bound.
    For its refusals: `contacts` are the apps' (by name), `may_exempt` says whether an exception could let somebody off
    the rule, and `show_key` writes a key as it may be shown.
    """

    table: Table
    available: frozenset[str] | None = None
    seed: int | None = None
    app: str = ""
    schema: Schema = NO_SCHEMA
    memory: Memory = field(default_factory=Memory)
    proven: frozenset[str] = frozenset()
    lifetimes: OtherLifetimes = NO_OTHERS
    contacts: Mapping[str, str] = field(default_factory=dict)
    may_exempt: bool = False
    show_key: Callable[[bytes], str] = ascii_of

    def can_send(self, command: str) -> bool:
        """Whether a rewrite may send this command in place of the client's."""
        return self.available is None or command in self.available


def takes(spec: Spec, argc: int) -> bool:
    """Whether Redis accepts `argc` arguments, the command's name included, for this command."""
    return argc == spec.arity if spec.arity >= 0 else argc >= -spec.arity


class Settings(Protocol):
    """What a policy says about one guardrail: a frozen value, defaults included."""

    def bind(self, name: str, wording: Wording, binding: Binding, /) -> "Rule":
        """The rule itself."""


class Rule(Protocol):
    """One guardrail of a policy, bound to a command table."""

    @property
    def name(self) -> str:
        """The rule's name in the policy, as errors and metrics show it."""

    @property
    def needs(self) -> frozenset[str]:
        """Commands that its rewrites send instead of the client's own, to be probed before that."""

    def touches(self, spec: Spec, /) -> bool:
        """Whether `judge` can say anything but PASS to this command."""

    def judge(self, command: Command, context: Context, /) -> Verdict:
        """The verdict on one command that the rule touches."""

    def lower(self, spec: Spec, lowering: Lowering, /) -> None:
        """Add to `lowering` what the plan is to do with a command that the rule touches."""


@runtime_checkable
class CommandRule(Rule, Protocol):
    """A rule about commands as such, their first arguments at most: scripts are held to it as well."""

    def refuses_part(self, command: Command, /) -> bool:
        """Whether a request may be refused of which only these first arguments are known. The rule touches it."""
