"""The interface of rules.

``judge`` defines a rule. ``lower`` tells how a plan reaches the same verdict without calling it; commands for which it
adds no plan operation are judged. A property test checks that both agree.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Protocol

from proxy.commands.command import Command
from proxy.commands.table import Spec, Table
from proxy.rules.context import Context
from proxy.rules.judged_by import JudgedBy
from proxy.rules.key_claims import KeyClaim
from proxy.rules.known_libraries import Exemptions
from proxy.rules.limit_membership import NO_LIMIT, Presence
from proxy.rules.lowering import Lowering
from proxy.rules.memory import Memory
from proxy.rules.other_rules import OtherRules
from proxy.rules.shared_state import FactKey, Stored
from proxy.rules.stored import Fault, StoredFault, StoredKey
from proxy.rules.verdict import Refuse, ReplyEdit, Verdict
from proxy.schema.entries import NO_SCHEMA, Schema


@dataclass(frozen=True, slots=True)
class Wording:
    """The policy author's own words for a refusal; the rule's own words replace empty ones.

    `contact` is the contact for questions about the rule.
    """

    because: str = ""
    instead: str = ""
    contact: str = ""


def ascii_of(key: bytes) -> str:
    """A key as printable ASCII."""
    return repr(key)[2:-1]


def nobody_of(_key: bytes) -> str:
    """Keys have no owner."""
    return ""


@dataclass(frozen=True, slots=True)
class Binding:
    """The objects and facts that a policy's rules are bound to.

    `available` are the commands, among those that rules need, that the engine is known to run for this user; None means
    all. `seed` fixes the random numbers of plans. `app` is the app of the judged clients, empty for clients of no app;
    `proven` are the proven apps. `schema` is the policy's. `memory` keeps the state of rules. `beside` are the claims
    of other rules that may take keys from the bound rule: those in the same or a stricter mode, and of no other app.
    For refusals: `contacts` are those of apps (by name), `may_exempt` tells whether an exception from the rule is
    possible, `exemptions` what libraries need for one, and `show_key` returns a key as it may be shown. `owner_of`
    returns the app that owns a key, "" for nobody's; of `tenants`, all keys are the client's app's.
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
    exemptions: Exemptions = field(default_factory=Exemptions)
    show_key: Callable[[bytes], str] = ascii_of
    owner_of: Callable[[bytes], str] = nobody_of
    tenants: frozenset[str] = frozenset()

    def can_send(self, command: str) -> bool:
        """Whether a rewrite may send this command in place of the client's command."""
        return self.available is None or command in self.available


def takes(spec: Spec, argc: int) -> bool:
    """Whether Redis accepts `argc` arguments, the command's name included, for this command."""
    return spec.takes(argc)


_SCOPED = frozenset({"keys", "except", "apps"})
KEY_BY_KEY = _SCOPED - {"keys"}
"""What a guardrail takes that names its keys itself."""
BY_APP = frozenset({"apps"})
"""What a guardrail takes whose commands have no keys that it could be about."""


class DictionaryUse(NamedTuple):
    """Values of keys that match the pattern `keys` are read with the dictionary of this `name`."""

    keys: str
    name: str


class RuleSettings(Protocol):
    """The settings of one rule: a frozen value, defaults included."""

    __slots__ = ()

    @property
    def claim(self) -> KeyClaim | None:
        """The keys that it takes from less specific rules of its kind; more specific rules take keys from it."""
        return None

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it was read from, beside the policy's own. If one of them changes, the policy changes."""
        return ()

    @property
    def dictionaries(self) -> frozenset[DictionaryUse]:
        """The dictionaries with which it reads what is stored."""
        return frozenset()

    @property
    def expires_keys(self) -> bool:
        """Whether the rule gives keys a TTL."""
        return False

    @property
    def moves_reads(self) -> bool:
        """Whether the rule is about reads that replicas may answer."""
        return False

    @property
    def prefers_zone(self) -> bool:
        """Whether the rule prefers servers of Keyrail's own zone."""
        return False

    @property
    def is_about_names(self) -> bool:
        """Whether the rule is about the names of keys, or their slots, as libraries choose them."""
        return False

    @property
    def prefixes_of_apps(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The prefixes of keys that belong to an app, by app."""
        return ()

    @property
    def judges_by_scan(self) -> bool:
        """Whether the rule depends on what the last scan has found."""
        return False

    def standing(self, _stored: Stored, _now: float, /) -> dict[str, Any]:
        """How a rule that judges by a scan stands, as JSON can hold it."""
        return {}

    @property
    def is_about_schema(self) -> bool:
        """Whether the rule judges only keys that an entry of the schema owns."""
        return False

    @property
    def hinders_queues(self) -> bool:
        """Whether what the rule refuses is part of the daily work of some job queue, beside names and TTLs."""
        return False

    @property
    def takes(self) -> frozenset[str]:
        """Which of `keys`, `except` and `apps` a rule may have beside its guardrail (``proxy.policy.scope``)."""
        return _SCOPED

    @property
    def later(self) -> "RuleSettings | None":
        """The part of the rule that is judged at a later place in the order; None if it has one place."""
        return None

    def for_everybody(self, *, enforced: bool) -> "RuleSettings | None":
        """The part of the rule that acts for every client, unless the rule is off for all: it is about what is stored,
        whoever wrote it. `enforced`: the rule is enforced for some client."""
        del enforced  # most rules have no such part
        return None

    @property
    def only_counts(self) -> bool:
        """Whether this part decides nothing, and counts what all clients send, also those for whom the rule is off."""
        return False

    @property
    def by_app(self) -> bool:
        """Whether the rule differs between apps. If not, all apps share one rule, which knows no app."""
        return False

    @property
    def beyond_acl(self) -> str:
        """Why Redis's ACLs cannot say what the rule says, but for commands that it always refuses; empty if it neither
        refuses nor changes commands."""
        return "an ACL does not tell arguments"

    def bind(self, name: str, wording: Wording, binding: Binding, /) -> "Rule":
        """The rule itself."""


class InScripts(Enum):
    """How scripts follow a rule."""

    NOTHING = "nothing"
    """The rule is about clients and rates: a script is one command."""
    COMMANDS = "commands"
    """The rule is about commands and at most their first arguments: ``refuses_part`` is asked, too."""
    CALLS = "calls"
    """The rule is about keys and arguments: ``judge_call`` judges each call with known keys and arguments."""
    ALL_KEYS = "all keys"
    """The rule is about keys together: it judges all keys of a script at once."""


@dataclass(frozen=True, slots=True)
class Needs:
    """The needs of a rule, declared, so that the compiler does not depend on the guardrail.

    `commands` are the commands that its rewrites send in place of the client's; Keyrail probes them first. `asks` are
    those that it asks Redis with, beside commands for the size of a collection. `slots`: it
    needs the hash slot of a transaction's keys (``Context.slot``). `place`: clients enter it, and its lowering may
    ``spend``. `history`: its verdict depends on earlier commands, so no single command can test it. `others`: it needs
    the other rules in force (``follow``). `ends`: it may close clients when it comes into force (``ends``). `facts`: it
    may need facts of other workers (``lacks``), and learns from replies (``edit_of_reply``).
    """

    commands: frozenset[str] = frozenset()
    asks: frozenset[str] = frozenset()
    slots: bool = False
    place: bool = False
    history: bool = False
    others: bool = False
    ends: bool = False
    facts: bool = False
    in_scripts: InScripts = InScripts.CALLS


class Prepayment(Protocol):
    """The payment to one limit for the bytes of a command that is still arriving."""

    @property
    def bytes(self) -> int:
        """The number of bytes that are paid for."""

    def pay(self, total: int, now: float) -> Refuse | None:
        """Pay for the first `total` bytes; return the refusal if the limit does not allow them."""


class Rule(Protocol):
    """One rule of a policy, bound to a command table. `name` is its name in the policy, in errors and in metrics."""

    name: str
    needs: Needs = Needs()

    @property
    def plan_inputs(self) -> Hashable:
        """What decides which commands the rule touches, and what ``lower`` adds: living rules of one name for which it
        is equal add the same. Rules that are bound for each app (``by_app``) tell it, since few apps differ."""
        return id(self)

    def touches(self, spec: Spec, /) -> bool:
        """Whether `judge` can return anything but PASS for this command."""

    def judge(self, command: Command, context: Context, /) -> Verdict:
        """The verdict on one command that the rule touches."""

    def judged_by(self, _spec: Spec, /) -> JudgedBy:
        """What decides about the verdict on a command that the rule touches. The kind of the verdict counts: a refusal
        may quote a key. Less than what is said here must never decide."""
        return JudgedBy.STATE

    def lower(self, spec: Spec, lowering: Lowering, /) -> None:
        """Add the plan operations for a command that the rule touches to `lowering`."""

    def edit_of_replies(self, _spec: Spec, /) -> ReplyEdit | None:
        """The edit of the replies to this command: see ``Lowering.edit_replies``."""
        return None

    def refuses_part(self, _command: Command, /) -> bool:
        """Whether a request that begins with these arguments may be refused. The rule touches it."""
        return False

    def judge_call(self, command: Command, context: Context, /) -> Verdict:
        """The verdict on a command that a script calls; it cannot be changed."""
        return self.judge(command, context)

    def remark(self, _command: Command, _acts: bool, /) -> str:
        """What ``explain`` says of a command that the rule passes, if it has more to do with it; ``acts`` tells whether
        the rule is enforced."""
        return ""

    def most_in_page(self, _spec: Spec, /) -> int | None:
        """The most keys that Keyrail may return in one page of this command, where it makes the page itself."""
        return None

    def judge_stored(self, _key: StoredKey, /) -> StoredFault | None:
        """What the rule finds wrong with a key that is stored already, whoever wrote it. The rule is bound for the app
        that owns the key."""
        return None

    @property
    def stored_faults(self) -> frozenset[Fault]:
        """The faults that the rule can find in stored keys."""
        return frozenset()

    def ttl_of_stored(self, _key: StoredKey, _chance: float, /) -> int | None:
        """The TTL, in milliseconds, that a key without one is to get, by a random number in [0, 1); None if the rule
        gives it none."""
        return None

    def members_wanted(self, _key: StoredKey, /) -> bool:
        """Whether only the number of the key's members, for a string of its bytes, can tell if something is wrong."""
        return False

    def enter(self, _context: Context, /) -> Presence:
        """The presence of a client, by its user, name, address and app: clients that are alike in these share it."""
        return NO_LIMIT

    def ends(self, _context: Context, /) -> bool:
        """Whether a client is to be closed when the rule comes into force, whatever it does."""
        return False

    def prepay(self, _command: Command, _context: Context, /) -> Prepayment | None:
        """The payment for the bytes of a command that is still arriving; None if it is free, as far as is known."""
        return None

    def follow(self, others: OtherRules, /) -> None:
        """Take the other rules in force, before any command is judged."""
        del others  # most rules do not need them

    def lacks(self, _command: Command, /) -> frozenset[FactKey]:
        """Unknown facts that the rule needs to judge a command; another worker may know them."""
        return frozenset()

    def edit_of_reply(self, _command: Command, _enforced: Callable[[], bool], /) -> ReplyEdit | None:
        """The edit by which the rule learns from the reply to a forwarded command; an enforced one may change it."""
        return None
