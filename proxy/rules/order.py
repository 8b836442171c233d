"""The order of guardrails. It is fixed, so moving a rule in a file never changes its effect. Two rules of one guardrail
keep the order of the file.

A rule sees the command as the rules before it left it, so rules that judge the *client's* command come before rules
that change it:

- ``refuse``: a refused command needs no other rule, and no rewrite may hide it.
- ``allow_only``: after ``refuse``, since a refusal by name has the better error text.
- ``unknown_commands``: after both, which may name an unknown command.
- ``read_only``, ``databases``, ``transactions``: about the command, so before all rules about its keys.
- ``fan_out``: about the number of keys, before the rules that check each key.
- ``names``: about the client's keys, before any rule adds arguments.
- ``schema: type``, ``schema: size``, ``schema: fields``: about the schema entries of keys with right names.
- ``one_slot``: after the rules about single keys, since it is about several keys together.
- ``sizes``, ``ranges``: about the sizes in the arguments, the cheapest rule first.
- ``values``: about what the arguments begin with, after their sizes.
- ``limits``: after refusals that cost little, so that they cost no tokens; before a script is read, which costs more.
- remedies about clients, apps and commands (no rule of a file is one): as ``limits``.
- ``scripts``: about the calls of a script, after all rules about the command that runs it.
- ``breaker``: after all refusals, so that they do not count as commands to Redis.
- ``limits`` by key: ``scripts`` has found the keys that a script names itself.
- ``quota``: after most refusals, so that what they refuse does not count as written.
- ``scan_counts``: it may lower a COUNT, which no rule above is about.
- the caps of ``schema: size``, ``collections``, ``whole_collections``, ``keys_by_scan``: they may ask Redis, which a
  refused command must not cause.
- ``replies``: about the replies to commands that all rules above have passed.
- ``replace``: before lifetimes, which then see the command that Redis runs.
- ``schema: ttl``, ``lifetime``: since they complete a write that every rule above has passed.
- ``compress``: after all rules that judge plain sizes and complete a write; its part for every client comes behind the
  one that compresses.
- ``replica_reads``: only commands that no rule changes leave the primary.
- ``local_cache``: last, since only a read that every other rule has let pass unchanged is answered from memory.
"""

from proxy.rules.allow_only.rule import AllowOnlySettings
from proxy.rules.breaker.rule import BreakerSettings
from proxy.rules.collections.rule import CollectionsSettings
from proxy.rules.compress.plain_values import PlainValuesSettings
from proxy.rules.compress.rule import CompressSettings
from proxy.rules.databases.rule import DatabasesSettings
from proxy.rules.fan_out.rule import FanOutSettings
from proxy.rules.keys_by_scan.rule import KeysByScanSettings
from proxy.rules.lifetime.settings import LifetimeSettings, SchemaTtlSettings
from proxy.rules.limits.remedy import RemedySettings
from proxy.rules.limits.rule import LimitsSettings
from proxy.rules.local_cache.rule import LocalCacheSettings
from proxy.rules.names.rule import NamesSettings
from proxy.rules.one_slot.rule import OneSlotSettings
from proxy.rules.quota.rule import DeletionsSettings, QuotaSettings
from proxy.rules.ranges.rule import RangesSettings
from proxy.rules.read_only.rule import ReadOnlySettings
from proxy.rules.refuse.rule import RefuseSettings
from proxy.rules.replace.rule import ReplaceSettings
from proxy.rules.replica_reads.rule import ReplicaReadsSettings
from proxy.rules.replies.rule import RepliesSettings
from proxy.rules.rule import RuleSettings
from proxy.rules.scan_counts.rule import ScanCountsSettings
from proxy.rules.schema.fields import SchemaFieldsSettings
from proxy.rules.schema.members import SchemaMembersSettings
from proxy.rules.schema.size import SchemaSizeSettings
from proxy.rules.schema.type import SchemaTypeSettings
from proxy.rules.scripts.rule import ScriptsSettings
from proxy.rules.sizes.rule import SizesSettings
from proxy.rules.transactions.rule import TransactionsSettings
from proxy.rules.unknown_commands.rule import UnknownCommandsSettings
from proxy.rules.values.rule import ValuesSettings
from proxy.rules.whole_collections.rule import WholeCollectionsSettings

ORDER: tuple[type[RuleSettings], ...] = (
    RefuseSettings,
    AllowOnlySettings,
    UnknownCommandsSettings,
    ReadOnlySettings,
    DatabasesSettings,
    TransactionsSettings,
    FanOutSettings,
    NamesSettings,
    SchemaTypeSettings,
    SchemaSizeSettings,
    SchemaFieldsSettings,
    OneSlotSettings,
    SizesSettings,
    RangesSettings,
    ValuesSettings,
    LimitsSettings,
    ScriptsSettings,
    BreakerSettings,
    QuotaSettings,
    DeletionsSettings,
    ScanCountsSettings,
    SchemaMembersSettings,
    CollectionsSettings,
    WholeCollectionsSettings,
    KeysByScanSettings,
    RepliesSettings,
    ReplaceSettings,
    SchemaTtlSettings,
    LifetimeSettings,
    CompressSettings,
    PlainValuesSettings,
    ReplicaReadsSettings,
    LocalCacheSettings,
)
"""First to last."""
_PLACES = {kind: place for place, kind in enumerate(ORDER)}


def place_of(settings: RuleSettings) -> float:
    """The place of a rule with these settings among all guardrails."""
    if isinstance(settings, LimitsSettings) and settings.by_key:
        return _PLACES[BreakerSettings] + 0.5
    if isinstance(settings, RemedySettings):
        return _PLACES[LimitsSettings] + 0.5
    return _PLACES[type(settings)]


def parts_of(settings: RuleSettings) -> tuple[RuleSettings, ...]:
    """The parts of a rule, each with a place of its own in the order."""
    everybody = settings.for_everybody(enforced=True)
    return own_parts_of(settings) if everybody is None else (*own_parts_of(settings), everybody)


def own_parts_of(settings: RuleSettings) -> tuple[RuleSettings, ...]:
    """Those that act with the mode that the rule has for a client."""
    return (settings,) if settings.later is None else (settings, settings.later)
