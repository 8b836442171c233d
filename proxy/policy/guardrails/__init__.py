"""The YAML of each guardrail. The module has the name of the key that it reads:

allow_only.py, breaker.py, collections.py, databases.py, fan_out.py, keys_by_scan.py, lifetime.py, limits.py, names.py,
one_slot.py, ranges.py, read_only.py, refuse.py, replace.py, replies.py, scan_counts.py, schema.py, scripts.py,
sizes.py, transactions.py, unknown_commands.py, whole_collections.py
commands.py  reads commands as policies list them, for all of these

A reader gets the value under its key and the whole rule, from which it takes the keys that only this guardrail has. It
returns the guardrail's settings, or notes problems.
"""

from collections.abc import Callable, Mapping

from proxy.policy.guardrails.allow_only import read_allow_only
from proxy.policy.guardrails.breaker import read_breaker
from proxy.policy.guardrails.collections import read_collections
from proxy.policy.guardrails.databases import read_databases
from proxy.policy.guardrails.fan_out import read_fan_out
from proxy.policy.guardrails.keys_by_scan import read_keys_by_scan
from proxy.policy.guardrails.lifetime import read_lifetime
from proxy.policy.guardrails.limits import read_limits
from proxy.policy.guardrails.names import read_names
from proxy.policy.guardrails.one_slot import read_one_slot
from proxy.policy.guardrails.ranges import read_ranges
from proxy.policy.guardrails.read_only import read_read_only
from proxy.policy.guardrails.refuse import read_refuse
from proxy.policy.guardrails.replace import read_replace
from proxy.policy.guardrails.replies import read_replies
from proxy.policy.guardrails.scan_counts import read_scan_counts
from proxy.policy.guardrails.schema import read_schema_rule
from proxy.policy.guardrails.scripts import read_scripts
from proxy.policy.guardrails.sizes import read_sizes
from proxy.policy.guardrails.transactions import read_transactions
from proxy.policy.guardrails.unknown_commands import read_unknown_commands
from proxy.policy.guardrails.whole_collections import read_whole_collections
from proxy.policy_yaml.fields import Fields
from proxy.policy_yaml.yaml_source import Value
from proxy.rules.rule import Settings

GUARDRAILS: Mapping[str, Callable[[Value, Fields], Settings | None]] = {
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
    "replace": read_replace,
    "names": read_names,
    "sizes": read_sizes,
    "fan_out": read_fan_out,
    "ranges": read_ranges,
    "scan_counts": read_scan_counts,
    "collections": read_collections,
    "whole_collections": read_whole_collections,
    "keys_by_scan": read_keys_by_scan,
    "replies": read_replies,
    "schema": read_schema_rule,
    "lifetime": read_lifetime,
}
"""By its key in a rule."""
