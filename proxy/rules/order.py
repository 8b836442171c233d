"""Which guardrail goes before which. The order is the product's, not the policy author's: moving a rule in a
file never changes what it does. Two rules of one guardrail keep the order of the file.

A rule sees the command as the rules before it left it, so whatever judges what the *client* said comes before
whatever changes it:

- ``refuse``: a refused command needs no other opinion, and no rewrite may hide it from its refusal.
- ``allow_only``: behind ``refuse``, whose words about a command are the more telling ones.
- ``unknown_commands``: behind both, which may know such a command by name.
- ``read_only``, ``databases``, ``transactions``: about the command and none of its keys, so before all that is.
- ``fan_out``: how many keys there are, before anything looks at each of them.
- ``names``: about the keys that the client wrote, before anything adds arguments around them.
- ``schema: type``, ``schema: size``: about what the schema says of those keys, whose names are good now.
- ``one_slot``: what is wrong with one key by itself is told before what is wrong with several together.
- ``sizes``, ``ranges``: about what the client asks for, the cheapest first.
- ``scripts``: about what a script calls, behind all that is about the command that brings it.
- ``breaker``: what Redis would not be asked need not be kept from it.
- ``limits``: what is refused for a reason of its own costs nothing.
- ``scan_counts``: it may lower a COUNT, which no rule above is about.
- ``collections``, ``whole_collections``, ``keys_by_scan``: they may ask Redis, and for what is refused anyway nobody
  has to wait.
- ``replies``: about the reply to what has been let through by then.
- ``replace``: before the lifetimes, which then see the command that will really run.
- ``schema: ttl``, ``lifetime``: last, for they complete a write that every other rule has let through.
"""

from proxy.rules.allow_only.rule import AllowOnlySettings
from proxy.rules.breaker.rule import BreakerSettings
from proxy.rules.collections.rule import CollectionsSettings
from proxy.rules.databases.rule import DatabasesSettings
from proxy.rules.fan_out.rule import FanOutSettings
from proxy.rules.keys_by_scan.rule import KeysByScanSettings
from proxy.rules.lifetime.settings import LifetimeSettings, SchemaTtlSettings
from proxy.rules.limits.rule import LimitsSettings
from proxy.rules.names.rule import NamesSettings
from proxy.rules.one_slot.rule import OneSlotSettings
from proxy.rules.ranges.rule import RangesSettings
from proxy.rules.read_only.rule import ReadOnlySettings
from proxy.rules.refuse.rule import RefuseSettings
from proxy.rules.replace.rule import ReplaceSettings
from proxy.rules.replies.rule import RepliesSettings
from proxy.rules.rule import RuleSettings
from proxy.rules.scan_counts.rule import ScanCountsSettings
from proxy.rules.schema.size import SchemaSizeSettings
from proxy.rules.schema.type import SchemaTypeSettings
from proxy.rules.scripts.rule import ScriptsSettings
from proxy.rules.sizes.rule import SizesSettings
from proxy.rules.transactions.rule import TransactionsSettings
from proxy.rules.unknown_commands.rule import UnknownCommandsSettings
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
    OneSlotSettings,
    SizesSettings,
    RangesSettings,
    ScriptsSettings,
    BreakerSettings,
    LimitsSettings,
    ScanCountsSettings,
    CollectionsSettings,
    WholeCollectionsSettings,
    KeysByScanSettings,
    RepliesSettings,
    ReplaceSettings,
    SchemaTtlSettings,
    LifetimeSettings,
)
"""First to last."""
_PLACES = {kind: place for place, kind in enumerate(ORDER)}


def place_of(settings: RuleSettings) -> int:
    """The place of a rule with these settings among all guardrails."""
    return _PLACES[type(settings)]
