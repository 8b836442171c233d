"""``replace: {DEL: UNLINK, FLUSHALL: FLUSHALL ASYNC}``."""

from proxy.commands.equivalents import interchangeable
from proxy.policy_yaml.fields import Fields, read_mapping
from proxy.policy_yaml.yaml_source import Scalar, Value
from proxy.rules.listing_yaml import read_command, read_listed
from proxy.rules.replace.rule import ReplaceSettings


def read_replace(value: Value, rule: Fields) -> ReplaceSettings | None:
    mapping = read_mapping(value, rule.problems)
    if mapping is None:
        return None
    if not mapping.entries:
        rule.problems.unexpected(mapping, "pairs such as {DEL: UNLINK}")
    pairs = []
    for key, target_value in mapping.entries.items():
        path = f"{mapping.path}.{key}"
        command = read_command(Scalar(key, mapping.keys[key], path), rule.problems)
        if not isinstance(target_value, Scalar):
            rule.problems.unexpected(target_value, "a command")
            continue
        target = read_listed(target_value, rule.problems)
        if command is None or target is None:
            continue
        if not interchangeable(command.display, target):
            expected = f"a command with the same arguments and the same replies as {command.display}"
            rule.problems.unexpected(target_value, expected)
        pairs.append((command.display, target))
    return ReplaceSettings(tuple(pairs))
