"""The limits of remedies: a rate for one key, and what an operator does about a client, an app or a command.

A remedy about a client names its user, its own name and its host, as figures show them. Clients that it is not about
have a token set without limits, and those that it stops have one without tokens, so the plan decides for all clients
but these.
"""

from dataclasses import dataclass
from typing import NamedTuple

from proxy.commands.command import Command
from proxy.commands.table import Spec
from proxy.hotpath.plan.leased_tokens import LeasedTokens, TokenSet
from proxy.rules.context import Context
from proxy.rules.free_commands import is_free
from proxy.rules.limit_membership import NO_LIMIT, Presence
from proxy.rules.limits.rule import LimitsSettings, Per
from proxy.rules.limits.token_buckets import Quota, TokenBuckets
from proxy.rules.listing import Listing
from proxy.rules.lowering import Lowering
from proxy.rules.one_key import OneKey
from proxy.rules.rates import Rate
from proxy.rules.refusals import Refusals
from proxy.rules.rule import Binding, InScripts, Needs, Rule, RuleSettings, Wording
from proxy.rules.verdict import PASS, Refuse, Verdict

_STOPPED = Presence(TokenSet(LeasedTokens(0), LeasedTokens(0), LeasedTokens(0)))
_ALL = ""
LONGEST_NAME = 64
"""The most characters of a user or a client's name that figures show."""
_ASK = "ask the operators of this Redis"


class ClientName(NamedTuple):
    """Who a client says that it is, and where it is: no more than ``LONGEST_NAME`` characters of its names."""

    user: str
    name: str
    host: str

    def is_of(self, context: Context) -> bool:
        """Whether this is the client of the context."""
        user, name = context.user[:LONGEST_NAME], context.client_name[:LONGEST_NAME]
        return (user, name, context.address) == self


def key_cap(key: OneKey, rate: Rate, per_app: bool) -> LimitsSettings:
    """At most this rate of commands with this key: for each app, or in all."""
    return LimitsSettings(Per.APP if per_app else Per.ALL, rate, key=key)


@dataclass(frozen=True, slots=True)
class RemedySettings(RuleSettings):
    """A rate for all commands, or for one, of all clients, or of one. Without a rate all of them are refused; if it
    ``closes``, the client is closed, too. The rule may be of one app."""

    client: ClientName | None = None
    command: str = ""
    rate: Rate | None = None
    closes: bool = False

    def bind(self, name: str, wording: Wording, binding: Binding) -> "Remedy":
        return Remedy(name, self, wording, binding)


class Remedy(Rule):
    """One remedy about a client, an app or a command."""

    def __init__(self, name: str, settings: RemedySettings, wording: Wording, binding: Binding) -> None:
        self.name = name
        self._settings = settings
        self._app = binding.app
        self._refusals = Refusals(name, wording, binding)
        self._listing = Listing([settings.command], binding.table) if settings.command else None
        stops_command = self._listing is not None and settings.rate is None
        self.needs = Needs(
            place=True,
            history=settings.rate is not None,
            ends=settings.closes and self._listing is None,
            in_scripts=InScripts.COMMANDS if stops_command else InScripts.NOTHING,
        )
        rate = settings.rate
        self._buckets = (
            None
            if rate is None
            else binding.memory.of(name, settings, lambda: TokenBuckets(Quota(rate), binding.memory.workers))
        )
        self._rehearsal = binding.memory.rehearsal

    def touches(self, spec: Spec) -> bool:
        return not is_free(spec) if self._listing is None else self._listing.touches(spec)

    def judge(self, command: Command, context: Context) -> Verdict:
        client = self._settings.client
        listed = self._listing is None or self._listing.find(command) is not None
        if not listed or (client is not None and not client.is_of(context)):
            return PASS
        if self._buckets is None:
            why = f"{command.name} is refused" if self._listing else f"commands {self._whose()} are refused"
            return Refuse(self._refusals.of(why, _ASK).error, close=self._settings.closes)
        if self._rehearsal:
            return PASS
        shortage = self._buckets.account(_ALL, context.now).take(0, context.now)
        if shortage is None:
            return PASS
        about = f"{self._settings.command} " if self._listing else ""
        why = f"more than {self._settings.rate} commands {about}{self._whose()}"
        return self._refusals.of(why, "", retry=shortage.seconds)

    def _whose(self) -> str:
        if self._settings.client is not None:
            return "from this client"
        return "from this app" if self._app else "in all"

    def refuses_part(self, command: Command) -> bool:
        """Whether the listed command may follow from these arguments: of all clients, since it is not said of whom."""
        everybody = self._settings.client is None
        return everybody and self._listing is not None and self._listing.find_any(command) is not None

    def ends(self, context: Context) -> bool:
        client = self._settings.client
        return client is None or client.is_of(context)

    def enter(self, context: Context) -> Presence:
        """No tokens for those that it stops, and any number for those that it is not about."""
        client = self._settings.client
        if client is not None and not client.is_of(context):
            return NO_LIMIT
        return _STOPPED if self._buckets is None else self._buckets.account(_ALL, context.now).presence

    def lower(self, spec: Spec, lowering: Lowering) -> None:
        """The plan spends tokens; a command whose words decide whether it is meant is judged."""
        if self._listing is None or self._listing.always(spec) is not None:
            lowering.spend()
        else:
            lowering.judge()


def traffic_remedy(
    client: tuple[str, str, str] | None, command: str, rate: Rate | None, closes: bool
) -> RemedySettings:
    """What a remedy does about a client (user, name, host), an app or a command."""
    return RemedySettings(None if client is None else ClientName(*client), command, rate, closes)
