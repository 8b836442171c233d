"""``keys_by_scan: {keys: 10000, bytes: 1MB, time: 2s, count: 500}``."""

from proxy.policy_yaml.fields import Fields
from proxy.policy_yaml.yaml_source import Value
from proxy.rules.key_walk_yaml import read_walk_budget
from proxy.rules.keys_by_scan.rule import KeysByScanSettings


def read_keys_by_scan(value: Value, rule: Fields) -> KeysByScanSettings | None:
    return read_walk_budget(value, rule.problems, KeysByScanSettings)
