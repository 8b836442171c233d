"""Limits for each application, user, address or client name: rates, commands in flight, and connections.

    limits: {per: app, rate: 5000/s, bytes: 10MB/s, concurrency: 50, connections: 200}
    limits: {keys: "product:*", rate: 2000/s}

A command pays when all rules that cost little have let it pass, before a script is read. It costs one token of the
rate, and its own size in bytes: the size of its reply is unknown at that time. ``concurrency`` limits the pending
replies of the subject's clients. Some commands are free, because a client needs them to introduce itself, to stay
connected, or to leave its state: commands about the connection or a transaction, commands that libraries send while
they connect, the UNSUBSCRIBE family, and Keyrail's own.

If a client exceeds the limit of ``connections``, its next command is refused and the client is closed, as in Redis at
``maxclients``. The user or name of a client is unknown until it has sent it; commands that send it still pass.

The error never begins with a word on which client libraries retry (LOADING, TRYAGAIN, CLUSTERDOWN, BUSY…).
"""

from dataclasses import dataclass
from enum import StrEnum

from proxy.commands.command import Command, KeysUnknownError
from proxy.commands.table import Spec
from proxy.rules.context import Context
from proxy.rules.free_commands import is_free
from proxy.rules.key_globs import KeyGlob
from proxy.rules.limit_membership import Presence
from proxy.rules.limits.token_buckets import Advance, Quota, Shortage, TokenBuckets
from proxy.rules.lowering import Lowering
from proxy.rules.one_key import OneKey
from proxy.rules.rates import Rate
from proxy.rules.refusals import Refusals
from proxy.rules.rule import KEY_BY_KEY, Binding, InScripts, Needs, Prepayment, Rule, RuleSettings, Wording
from proxy.rules.verdict import PASS, Refuse, Verdict
from proxy.wire.encode import encoded_size

_LONGEST_SUBJECT = 256
"""The most characters of a client name that tell subjects apart. They are kept in memory, and clients choose them."""


class Per(StrEnum):
    """The subject of a limit: the commands of its clients are counted together."""

    ALL = "all"
    APP = "app"
    """Clients of no known application are one subject."""
    USER = "user"
    ADDRESS = "address"
    """The host without the port; clients of a unix socket are one subject."""
    CLIENT_NAME = "client_name"
    """Claimed, not proven: if a client changes its name, the limits of the new name apply."""


@dataclass(frozen=True, slots=True)
class LimitsSettings(RuleSettings):
    """The limits of each subject; None is no limit.

    `keys` are patterns in which `*` stands for any characters; `key` is one key of Redis. With either, only commands
    with a matching key count.
    """

    per: Per = Per.ALL
    rate: Rate | None = None
    bytes: Rate | None = None
    concurrency: int | None = None
    connections: int | None = None
    commands: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    key: OneKey | None = None

    @property
    def by_key(self) -> bool:
        """Whether only commands with certain keys count."""
        return bool(self.keys) or self.key is not None

    @property
    def quota(self) -> Quota:
        """The quota of each subject."""
        return Quota(self.rate, self.bytes, self.concurrency)

    @property
    def takes(self) -> frozenset[str]:
        """Its keys are its own."""
        return KEY_BY_KEY

    @property
    def beyond_acl(self) -> str:
        return "an ACL has no limits"

    def bind(self, name: str, wording: Wording, binding: Binding) -> "LimitRule":
        return LimitRule(name, self, wording, binding)


class LimitRule(Rule):
    """One limit of a policy."""

    needs = Needs(place=True, history=True, in_scripts=InScripts.NOTHING)

    def __init__(self, name: str, settings: LimitsSettings, wording: Wording, binding: Binding) -> None:
        self.name = name
        self._settings = settings
        self._refusals = Refusals(name, wording, binding)
        self._connections = settings.connections
        self._buckets = binding.memory.of(
            name,
            settings,
            lambda: TokenBuckets(settings.quota, binding.memory.workers, connections=settings.connections),
        )
        self._rehearsal = binding.memory.rehearsal
        self._limited = settings.quota != Quota()
        found = (binding.table.find(command) for command in settings.commands)
        self._listed = frozenset(spec.id for spec in found if spec is not None)
        self._keys = _counted_keys(settings)

    def touches(self, spec: Spec) -> bool:
        """The commands that cost tokens; all commands if connections are limited."""
        return self._costs(spec) or self._closes(spec)

    def _costs(self, spec: Spec) -> bool:
        if not self._limited or (self._listed and spec.id not in self._listed):
            return False
        if self._keys and not spec.may_have_keys:
            return False
        return bool(self._listed) or not is_free(spec)

    def _closes(self, spec: Spec) -> bool:
        known_from_the_start = self._settings.per in (Per.ALL, Per.ADDRESS)
        return self._connections is not None and (known_from_the_start or not is_free(spec))

    def judge(self, command: Command, context: Context) -> Verdict:
        """Refuse a command over the limit; PASS any other and take its tokens."""
        if self.name in context.surplus and self._closes(command.spec):
            return self._too_many_clients()
        if not self._costs(command.spec) or not self._names_counted_key(command, context) or self._rehearsal:
            return PASS
        paid = context.prepaid.get(self.name, 0) if context.prepaid else 0
        size = encoded_size(command.argv) + command.unseen
        account = self._buckets.account(self._subject(context), context.now)
        shortage = account.take(size, context.now, paid)
        return PASS if shortage is None else self.too_much(shortage)

    def prepay(self, command: Command, context: Context) -> Prepayment | None:
        """The context's ``prepaid`` hands the payment to ``judge``."""
        counts = not self._keys or any(self._counts(key.name, context) for key in command.known_keys)
        if self._rehearsal or not counts or not self._costs(command.spec):
            return None
        advance = self._buckets.account(self._subject(context), context.now).advance()
        return None if advance is None else _Prepayment(self, advance)

    def _names_counted_key(self, command: Command, context: Context) -> bool:
        if not self._keys or any(self._counts(key.name, context) for key in command.named):
            return True
        try:
            return any(self._counts(key.name, context) for key in command.keys)
        except KeysUnknownError:
            return True  # the keys are unknown, so one may match

    def _counts(self, name: bytes, context: Context) -> bool:
        key = self._settings.key
        if key is not None:
            return key.is_meant(name, context.tenant)
        return any(glob.fits(name) for glob in self._keys)

    def _subject(self, context: Context) -> str:
        match self._settings.per:
            case Per.ALL:
                return ""
            case Per.APP:
                return context.app
            case Per.USER:
                return context.user
            case Per.ADDRESS:
                return context.address
            case Per.CLIENT_NAME:
                return context.client_name[:_LONGEST_SUBJECT]

    def too_much(self, shortage: Shortage) -> Refuse:
        """The refusal of a command that cannot pay."""
        if shortage.of == "places":
            allowed = f"{self._settings.concurrency} commands in flight"
        else:
            rate = self._settings.rate if shortage.of == "commands" else self._settings.bytes
            assert rate is not None, "what has no limit is never short"
            allowed = f"{rate.tokens} {shortage.of}/{rate.unit}"
        about = f"about {', '.join(self._settings.keys)} " if self._settings.keys else ""
        why = f"more than {allowed} {about}{self._whose()}"
        return self._refusals.of(why, "", retry=shortage.seconds)

    def _too_many_clients(self) -> Refuse:
        why = f"more than {self._connections} connections {self._whose()}"
        return Refuse(self._refusals.of(why, "share connections in a pool").error, close=True)

    def _whose(self) -> str:
        match self._settings.per:
            case Per.ALL:
                return "in all"
            case Per.CLIENT_NAME:
                return "from this client name"
            case per:
                return f"from this {per.value}"

    # A client's membership

    def enter(self, context: Context) -> Presence:
        """The presence of the client's subject."""
        return self._buckets.account(self._subject(context), context.now).presence

    def lower(self, spec: Spec, lowering: Lowering) -> None:
        """The plan spends tokens. Commands with a matching key, and free commands, are judged."""
        if self._keys and self._connections is None:
            for glob in self._keys:
                lowering.judge_keys(glob)
        elif not self._keys and (self._costs(spec) or not is_free(spec)):
            lowering.spend()
        else:
            lowering.judge()


class _Prepayment:
    """The payments of one command to one limit while it arrives."""

    def __init__(self, limit: LimitRule, advance: Advance) -> None:
        self._limit = limit
        self._advance = advance

    @property
    def bytes(self) -> int:
        return self._advance.bytes

    def pay(self, total: int, now: float) -> Refuse | None:
        shortage = self._advance.pay(total, now)
        return None if shortage is None else self._limit.too_much(shortage)


def _counted_keys(settings: LimitsSettings) -> tuple[KeyGlob, ...]:
    if settings.key is not None:
        return settings.key.globs
    return tuple(map(KeyGlob.of, settings.keys))
