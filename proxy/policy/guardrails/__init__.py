"""The YAML of each guardrail: one file each, named like the key that it reads.

A reader gets the value under its key and the whole rule, from which it takes the keys that only this guardrail has. It
returns the guardrail's settings, or notes problems.
"""

from collections.abc import Callable, Mapping

from proxy.policy.fields import Fields
from proxy.policy.guardrails.lifetime import read_lifetime
from proxy.policy.guardrails.names import read_names
from proxy.policy.guardrails.refuse import read_refuse
from proxy.policy.guardrails.replace import read_replace
from proxy.policy.yaml_source import Value
from proxy.rules.rule import Settings

GUARDRAILS: Mapping[str, Callable[[Value, Fields], Settings | None]] = {
    "refuse": read_refuse,
    "replace": read_replace,
    "names": read_names,
    "lifetime": read_lifetime,
}
"""By its key in a rule."""
