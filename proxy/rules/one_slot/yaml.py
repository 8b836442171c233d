"""``one_slot: true``."""

from proxy.policy_yaml.fields import Fields, choice
from proxy.policy_yaml.yaml_source import Value
from proxy.rules.one_slot.rule import OneSlotSettings


def read_one_slot(value: Value, rule: Fields) -> OneSlotSettings | None:
    return choice({"true": OneSlotSettings()})(value, rule.problems)
