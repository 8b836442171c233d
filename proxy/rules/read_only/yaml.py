"""``read_only: true``."""

from proxy.policy_yaml.fields import Fields, choice
from proxy.policy_yaml.yaml_source import Value
from proxy.rules.read_only.rule import ReadOnlySettings


def read_read_only(value: Value, rule: Fields) -> ReadOnlySettings | None:
    return choice({"true": ReadOnlySettings()})(value, rule.problems)
