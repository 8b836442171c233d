"""``sizes: {value: 10KB, members: 100, command: 1MB}``."""

from proxy.policy_yaml.fields import Fields, integer, read_fields, read_size
from proxy.policy_yaml.yaml_source import Value
from proxy.rules.sizes.rule import SizesSettings

_MOST_MEMBERS = 1_000_000


def read_sizes(value: Value, rule: Fields) -> SizesSettings | None:
    fields = read_fields(value, rule.problems)
    if fields is None:
        return None
    settings = SizesSettings(
        value=fields.maybe("value", read_size),
        members=fields.maybe("members", integer(1, _MOST_MEMBERS)),
        command=fields.maybe("command", read_size),
    )
    fields.finish()
    if not any(key in fields for key in ("value", "members", "command")):
        rule.problems.add(fields.where, fields.path, "no limit", "at least one of value, members, command")
    return settings
