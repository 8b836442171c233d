"""All guardrails, by their keys in a policy file, and the guardrails of remedies and of ``--read-from replicas``.

A reader gets the value under its key, and the whole rule for further keys of its guardrail. It returns the settings, or
notes problems.
"""

from collections.abc import Callable, Mapping

from proxy.policy_yaml.fields import Fields
from proxy.policy_yaml.yaml_source import Value
from proxy.rules.allow_only.yaml import read_allow_only
from proxy.rules.breaker.yaml import read_breaker
from proxy.rules.collections.yaml import read_collections
from proxy.rules.compress.yaml import read_compress
from proxy.rules.databases.yaml import read_databases
from proxy.rules.fan_out.yaml import read_fan_out
from proxy.rules.keys_by_scan.yaml import read_keys_by_scan
from proxy.rules.lifetime.yaml import read_lifetime
from proxy.rules.limits.remedy import key_cap, traffic_remedy
from proxy.rules.limits.yaml import read_limits
from proxy.rules.local_cache.remedy import key_cache
from proxy.rules.local_cache.yaml import read_local_cache
from proxy.rules.names.yaml import read_names
from proxy.rules.one_key import OneKey
from proxy.rules.one_slot.yaml import read_one_slot
from proxy.rules.quota.yaml import read_quota
from proxy.rules.ranges.yaml import read_ranges
from proxy.rules.rates import Rate
from proxy.rules.read_only.yaml import read_read_only
from proxy.rules.refuse.yaml import read_refuse
from proxy.rules.replace.yaml import read_replace
from proxy.rules.replica_reads.rule import ReplicaReadsSettings
from proxy.rules.replica_reads.yaml import read_replica_reads
from proxy.rules.replies.yaml import read_replies
from proxy.rules.rule import RuleSettings
from proxy.rules.scan_counts.yaml import read_scan_counts
from proxy.rules.schema.yaml import read_schema_rule
from proxy.rules.scripts.yaml import read_scripts
from proxy.rules.sizes.yaml import read_sizes
from proxy.rules.transactions.yaml import read_transactions
from proxy.rules.unknown_commands.yaml import read_unknown_commands
from proxy.rules.values.yaml import read_values
from proxy.rules.whole_collections.yaml import read_whole_collections

GUARDRAILS: Mapping[str, Callable[[Value, Fields], RuleSettings | None]] = {
    "refuse": read_refuse,
    "allow_only": read_allow_only,
    "unknown_commands": read_unknown_commands,
    "read_only": read_read_only,
    "databases": read_databases,
    "transactions": read_transactions,
    "one_slot": read_one_slot,
    "scripts": read_scripts,
    "limits": read_limits,
    "breaker": read_breaker,
    "quota": read_quota,
    "replace": read_replace,
    "names": read_names,
    "sizes": read_sizes,
    "values": read_values,
    "fan_out": read_fan_out,
    "ranges": read_ranges,
    "scan_counts": read_scan_counts,
    "collections": read_collections,
    "whole_collections": read_whole_collections,
    "keys_by_scan": read_keys_by_scan,
    "replies": read_replies,
    "schema": read_schema_rule,
    "lifetime": read_lifetime,
    "compress": read_compress,
    "local_cache": read_local_cache,
    "replica_reads": read_replica_reads,
}
"""By its key in a rule."""

READS_FROM_REPLICAS: RuleSettings = ReplicaReadsSettings(("*",))
"""The settings of a rule that lets replicas answer all reads."""

KEY_CAP: Callable[[OneKey, Rate, bool], RuleSettings] = key_cap
"""The settings of a remedy: the key, the rate, and whether the rate is for each app."""

TRAFFIC_REMEDY: Callable[[tuple[str, str, str] | None, str, Rate | None, bool], RuleSettings] = traffic_remedy
"""The settings of a remedy about a client (user, name, host), an app or a command: the rate, or whether it closes."""

KEY_CACHE: Callable[[OneKey], RuleSettings] = key_cache
"""The settings of a remedy that answers reads of this key from memory."""
