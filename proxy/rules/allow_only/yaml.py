"""``allow_only: ["@read", SET, CONFIG GET]``."""

import difflib

from proxy.commands.table import STANDARD
from proxy.policy_yaml.fields import Fields, read_list
from proxy.policy_yaml.yaml_source import Problems, Scalar, Value
from proxy.rules.allow_only.rule import AllowOnlySettings
from proxy.rules.listing_yaml import read_listed

_CATEGORIES = frozenset().union(*(spec.categories for spec in STANDARD.specs))


def read_allow_only(value: Value, rule: Fields) -> AllowOnlySettings | None:
    commands: dict[str, None] = {}
    categories: dict[str, None] = {}
    for scalar in read_list(value, rule.problems) or ():
        found = categories if scalar.text.startswith("@") else commands
        text = (_read_category if found is categories else read_listed)(scalar, rule.problems)
        if text in found:
            rule.problems.unexpected(scalar, "each command once")
        elif text is not None:
            found[text] = None
    return AllowOnlySettings(tuple(commands), tuple(categories)) if commands or categories else None


def _read_category(scalar: Scalar, problems: Problems) -> str | None:
    name = scalar.text.removeprefix("@").lower()
    if name in _CATEGORIES:
        return name
    close = difflib.get_close_matches(name, _CATEGORIES, 1)
    problems.unexpected(scalar, f"an ACL category of Redis, such as @{close[0] if close else 'read'}")
    return None
