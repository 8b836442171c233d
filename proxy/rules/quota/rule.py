"""Quotas: an owner of keys that has too many may create no more.

    quota: {keys: 1M, bytes: 2GB, per: app, max_age: 24h}

How much is stored is known from the last scan of the state folder (``keyrail scan --state-dir``), and from what clients
have written since (``holdings``). A command that may create a key is refused if even the keys that are surely left of
those of the scan are too many; so what clients have added since refuses nothing before the next scan. If the scan is
older than `max_age`, or there is none, nothing is refused.

A proxy cannot know whether a key exists: SET, HSET, INCR and LPUSH are refused for existing keys, too, and the error
says so. Commands that write only if their key exists pass: SET … XX, ZADD … XX, XADD … NOMKSTREAM, LPUSHX.

With `per: app`, the clients of an app are judged by the keys that the app owns; with `per: owner`, each client by the
owners of the keys that it writes. Clients of no app and keys of nobody have no quota.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from proxy.commands.command import Command, KeysUnknownError
from proxy.commands.creation import DELETES, adds_keys, created_keys, creation_of, needs_key
from proxy.commands.table import Spec
from proxy.rules.context import Context
from proxy.rules.limit_membership import Presence
from proxy.rules.lowering import Lowering
from proxy.rules.quota.holdings import ANY_NUMBER, NO_APP, Holding, Holdings, Most, holding
from proxy.rules.refusals import Refusals, shown_time
from proxy.rules.rule import BY_APP, Binding, InScripts, Needs, Rule, RuleSettings, Wording
from proxy.rules.shared_state import Stored, Written
from proxy.rules.verdict import PASS, Verdict
from proxy.wire.encode import encoded_size

_INSTEAD = "delete keys that nobody needs, or write existing keys with XX; the next scan counts anew"


class Per(StrEnum):
    """Whose quota a command is about."""

    APP = "app"
    """That of the client's app."""
    OWNER = "owner"
    """Those of the owners of its keys."""


@dataclass(frozen=True, slots=True)
class DeletionsSettings(RuleSettings):
    """The part of a quota that counts what clients delete. It refuses nothing."""

    quota: "QuotaSettings"

    @property
    def only_counts(self) -> bool:
        """Whoever deletes a key, its owner has one less."""
        return True

    @property
    def takes(self) -> frozenset[str]:
        return BY_APP

    @property
    def beyond_acl(self) -> str:
        return ""

    def bind(self, name: str, _wording: Wording, binding: Binding) -> "Deletions":
        return Deletions(name, self, binding)


@dataclass(frozen=True, slots=True)
class QuotaSettings(RuleSettings):
    """The most keys and bytes of each owner; None is no limit. `max_age`: seconds for which a scan counts."""

    keys: int | None = None
    bytes: int | None = None
    per: Per = Per.APP
    max_age: int = 86_400

    @property
    def most(self) -> Most:
        """The limits."""
        return Most(self.keys, self.bytes)

    @property
    def takes(self) -> frozenset[str]:
        """A scan has no figures for other keys than those of an owner."""
        return BY_APP

    @property
    def later(self) -> DeletionsSettings:
        return DeletionsSettings(self)

    @property
    def beyond_acl(self) -> str:
        return "an ACL does not know how much is stored"

    @property
    def judges_by_scan(self) -> bool:
        return True

    def holdings(self) -> Holdings:
        """What the rule knows before it has learnt anything."""
        return Holdings(self.most, self.max_age, by_owner=self.per is Per.OWNER)

    def standing(self, stored: Stored, now: float) -> dict[str, Any]:
        known = self.holdings()
        known.learn(stored, now)
        return {
            "scan": None if stored.scanned is None else _moment(stored.scanned),
            "missing": stored.missing if stored.scanned is None else "",
            "max_age_seconds": self.max_age,
            "age_seconds": None if stored.scanned is None else round(now - stored.scanned, 3),
            "judges": known.is_fresh(now),
            "per": str(self.per),
            "keys": self.keys,
            "bytes": self.bytes,
            "owners": {
                owner: _figures(holding(stored, owner, now)) | {"over": known.over(owner, now) is not None}
                for owner in sorted(stored.owners)
                if owner != NO_APP
            },
        }

    def bind(self, name: str, wording: Wording, binding: Binding) -> "Quota":
        return Quota(name, self, wording, binding)


class Quota(Rule):
    """The rule about commands that may create keys."""

    needs = Needs(place=True, history=True)

    def __init__(self, name: str, settings: QuotaSettings, wording: Wording, binding: Binding) -> None:
        self.name = name
        self._settings = settings
        self._refusals = Refusals(name, wording, binding)
        self._holdings = binding.memory.of(name, settings, settings.holdings)
        self._owner_of: Callable[[bytes], str] = binding.owner_of
        self._tenants = binding.tenants

    def touches(self, spec: Spec) -> bool:
        """Commands that may create keys."""
        return adds_keys(spec)

    def judge(self, command: Command, context: Context) -> Verdict:
        """Refuse a command that may create a key of an owner that is over its quota; count any."""
        size = encoded_size(command.argv) + command.unseen
        self._holdings.note(context.app, Written(creating=1, bytes=size))
        return self.judge_call(command, context)

    def judge_call(self, command: Command, context: Context) -> Verdict:
        if not self._holdings.is_fresh(context.now) or needs_key(command):
            return PASS
        for owner in self._owners(command, context):
            over = self._holdings.over(owner, context.now)
            if over is not None:
                return self._refusals.of(self._why(command, owner, over, context.now), _INSTEAD, command)
        return PASS

    def _owners(self, command: Command, context: Context) -> tuple[str, ...]:
        if self._settings.per is Per.APP or context.app in self._tenants:
            return (context.app,)
        creation = creation_of(command.spec)
        names = (key.name for key in command.keys) if creation is None else created_keys(command, creation)
        return tuple(dict.fromkeys(map(self._owner_of, names)))

    def _why(self, command: Command, owner: str, over: Holding, now: float) -> str:
        keys, size, scanned = self._settings.keys, self._settings.bytes, self._holdings.stored.scanned
        assert scanned is not None, "without a scan nobody is over"
        limits = [f"{keys:,} keys" if keys is not None else "", f"{size:,} bytes" if size is not None else ""]
        age = shown_time(max(0, int(now - scanned)) * 1000)
        return (
            f"{command.name} may create a key, and {owner} is over its quota of {' and '.join(filter(None, limits))}: "
            f"the scan of {_moment(scanned)} found {over.found.keys:,} keys of {over.found.bytes:,} bytes, of which at "
            f"most {over.gone:,} have expired or were deleted through Keyrail since (the scan is {age} old, and counts "
            f"for {shown_time(self._settings.max_age * 1000)})"
        )

    def remark(self, _command: Command, acts: bool) -> str:
        return f"{'refuses' if acts else 'would refuse'} it while the last scan says that its owner is over the quota"

    def enter(self, context: Context) -> Presence:
        """The clients of an app share a token set, which is empty while they may have to be refused."""
        return self._holdings.creating(context.app)

    def lower(self, _spec: Spec, lowering: Lowering) -> None:
        """The plan counts, and passes a command unless the token set is empty."""
        lowering.spend()


class Deletions(Rule):
    """Counts the keys that commands delete."""

    needs = Needs(place=True, history=True, in_scripts=InScripts.NOTHING)

    def __init__(self, name: str, settings: DeletionsSettings, binding: Binding) -> None:
        self.name = name
        self._holdings = binding.memory.of(name, settings.quota, settings.quota.holdings)

    def touches(self, spec: Spec) -> bool:
        """Commands that are there to delete keys."""
        return spec.name in DELETES

    def judge(self, command: Command, context: Context) -> Verdict:
        """Count the keys."""
        self._holdings.note(context.app, Written(deleted=_deleted_by(command)))
        return PASS

    def enter(self, context: Context) -> Presence:
        """The clients of an app share a token set, which is never empty."""
        return self._holdings.deleting(context.app)

    def lower(self, spec: Spec, lowering: Lowering) -> None:
        """The plan counts commands that delete one key; any other is judged."""
        if DELETES[spec.name] == "all":
            lowering.judge()
        else:
            if DELETES[spec.name] == "keys":
                lowering.limit(arguments=2)
            lowering.spend()


def _deleted_by(command: Command) -> int:
    match DELETES[command.spec.name]:
        case "one":
            return 1
        case "keys":
            try:
                return len(command.keys)
            except KeysUnknownError:
                return ANY_NUMBER
        case _:
            return ANY_NUMBER


def _figures(its: Holding) -> dict[str, int]:
    return {
        "keys": its.found.keys,
        "bytes": its.found.bytes,
        "gone_at_most": its.gone,
        "least_keys": its.least_keys,
        "least_bytes": its.least_bytes,
        "creating_commands": its.creating,
        "bytes_of_these": its.written,
    }


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
