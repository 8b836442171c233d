"""The YAML of each guardrail: one file each, named like the key that it reads.

A reader gets the value under its key and the whole rule, from which it takes the keys that only this guardrail has. It
returns the guardrail's settings, or notes problems.
"""

from collections.abc import Callable, Mapping

from proxy.policy.fields import Fields
from proxy.policy.guardrails.fan_out import read_fan_out
from proxy.policy.guardrails.lifetime import read_lifetime
from proxy.policy.guardrails.names import read_names
from proxy.policy.guardrails.ranges import read_ranges
from proxy.policy.guardrails.refuse import read_refuse
from proxy.policy.guardrails.replace import read_replace
from proxy.policy.guardrails.scan_counts import read_scan_counts
from proxy.policy.guardrails.sizes import read_sizes
from proxy.policy.guardrails.whole_collections import read_whole_collections
from proxy.policy.yaml_source import Value
from proxy.rules.rule import Settings

GUARDRAILS: Mapping[str, Callable[[Value, Fields], Settings | None]] = {
    "refuse": read_refuse,
    "replace": read_replace,
    "names": read_names,
    "sizes": read_sizes,
    "fan_out": read_fan_out,
    "ranges": read_ranges,
    "scan_counts": read_scan_counts,
    "whole_collections": read_whole_collections,
    "lifetime": read_lifetime,
}
"""By its key in a rule."""
