"""``databases: [0, 3]``."""

from proxy.policy_yaml.fields import Fields, integer, read_list
from proxy.policy_yaml.yaml_source import Value
from proxy.rules.databases.rule import DatabasesSettings

_HIGHEST = 2**31 - 1


def read_databases(value: Value, rule: Fields) -> DatabasesSettings | None:
    allowed: dict[int, None] = {}
    read = integer(0, _HIGHEST)
    for scalar in read_list(value, rule.problems) or ():
        number = read(scalar, rule.problems)
        if number in allowed:
            rule.problems.unexpected(scalar, "each database once")
        elif number is not None:
            allowed[number] = None
    return DatabasesSettings(tuple(allowed)) if allowed else None
