"""What a rule is.

``judge`` is the whole truth about a rule. ``lower`` only says how a plan may reach the same verdict without
calling it: what it leaves out, or cannot say in plan operations, is judged. A property test holds the two to
each other.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from proxy.commands.command import Command
from proxy.commands.table import Spec, Table
from proxy.rules.context import Context
from proxy.rules.key_claims import KeyClaim
from proxy.rules.limit_membership import NO_LIMIT, Presence
from proxy.rules.lowering import Lowering
from proxy.rules.memory import Memory
from proxy.rules.other_rules import OtherRules
from proxy.rules.shared_state import FactKey
from proxy.rules.verdict import Refuse, ReplyEdit, Verdict
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
    `memory` keeps what rules remember. `beside` are the claims of other rules that may take keys from the one that is
    bound: they are in no weaker mode for any of these clients, and no other app's own.
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
    beside: tuple[KeyClaim, ...] = ()
    contacts: Mapping[str, str] = field(default_factory=dict)
    may_exempt: bool = False
    show_key: Callable[[bytes], str] = ascii_of

    def can_send(self, command: str) -> bool:
        """Whether a rewrite may send this command in place of the client's."""
        return self.available is None or command in self.available


def takes(spec: Spec, argc: int) -> bool:
    """Whether Redis accepts `argc` arguments, the command's name included, for this command."""
    return argc == spec.arity if spec.arity >= 0 else argc >= -spec.arity


class RuleSettings(Protocol):
    """The settings of one rule: a frozen value, defaults included."""

    __slots__ = ()

    @property
    def claim(self) -> KeyClaim | None:
        """The keys that it takes from less specific rules of its kind, and leaves to more specific ones."""
        return None

    @property
    def files(self) -> tuple[str, ...]:
        """Files that it was read from beside the policy's own: with one of them, the policy changes."""
        return ()

    @property
    def expires_keys(self) -> bool:
        """Whether the rule gives keys a TTL."""
        return False

    @property
    def by_app(self) -> bool:
        """Whether the rule is another one for each app: if not, all share one, and it is not told of any app."""
        return False

    def bind(self, name: str, wording: Wording, binding: Binding, /) -> "Rule":
        """The rule itself."""


class InScripts(Enum):
    """How scripts follow a rule."""

    NOTHING = "nothing"
    """It is about who asks, and how much at a time: a script is one command, whatever it calls."""
    COMMANDS = "commands"
    """It is about commands as such, their first arguments at most: ``refuses_part`` is asked, too."""
    CALLS = "calls"
    """It is about keys and arguments: ``judge_call`` is asked about each call that they are known of."""
    ALL_KEYS = "all keys"
    """It is about how keys lie to each other: all that a script touches are judged together."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a rule needs of whoever compiles and runs it, declared so that nobody asks which guardrail it is.

    `commands` are those that its rewrites send instead of the client's own, to be probed before that. `slots`: the hash
    slot of a transaction's keys (``Context.slot``). `place`: clients enter it, and its lowering may ``spend``.
    `history`: what it says depends on the commands before, so that no single command can show it. `others`: it is told
    of the rules in force beside it (``follow``). `facts`: it may have to know what another worker has learnt
    (``lacks``), and learns from replies (``edit_of_reply``).
    """

    commands: frozenset[str] = frozenset()
    slots: bool = False
    place: bool = False
    history: bool = False
    others: bool = False
    facts: bool = False
    in_scripts: InScripts = InScripts.CALLS


class Prepayment(Protocol):
    """The payment to one limit for the bytes of a command that is still arriving."""

    @property
    def bytes(self) -> int:
        """How many have been paid for."""

    def pay(self, total: int, now: float) -> Refuse | None:
        """Pay for all of the first `total` bytes; the refusal if the limit does not allow so many."""


class Rule(Protocol):
    """One guardrail of a policy, bound to a command table. `name` is its name in the policy, as errors and metrics
    show it."""

    name: str
    needs: Needs = Needs()

    def touches(self, spec: Spec, /) -> bool:
        """Whether `judge` can say anything but PASS to this command."""

    def judge(self, command: Command, context: Context, /) -> Verdict:
        """The verdict on one command that the rule touches."""

    def lower(self, spec: Spec, lowering: Lowering, /) -> None:
        """Add to `lowering` what the plan is to do with a command that the rule touches."""

    def refuses_part(self, _command: Command, /) -> bool:
        """Whether a request may be refused of which only these first arguments are known. The rule touches it."""
        return False

    def judge_call(self, command: Command, context: Context, /) -> Verdict:
        """The verdict on a command that a script calls, in which nothing can be changed."""
        return self.judge(command, context)

    def enter(self, _context: Context, /) -> Presence:
        """Count a client in."""
        return NO_LIMIT

    def prepay(self, _command: Command, _context: Context, /) -> Prepayment | None:
        """The payment for bytes before their command is whole; None if, as far as it is known, they are free."""
        return None

    def follow(self, others: OtherRules, /) -> None:
        """Know the rules in force beside this one, before any command is judged."""
        del others  # most rules judge what a client says, and nothing else

    def lacks(self, _command: Command, /) -> frozenset[FactKey]:
        """Facts that the rule needs to judge a command and does not know; another worker may know them."""
        return frozenset()

    def edit_of_reply(self, _command: Command, _enforced: Callable[[], bool], /) -> ReplyEdit | None:
        """The edit by which the rule learns from the reply to a forwarded command; an enforced one may change it."""
        return None
