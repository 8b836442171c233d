"""``lifetime: {default: 5m, jitter: 10%}``."""

from proxy.policy.fields import Fields, read_duration, read_fields, read_percent
from proxy.policy.yaml_source import Value
from proxy.rules.lifetime import LifetimeSettings


def read_lifetime(value: Value, rule: Fields) -> LifetimeSettings | None:
    """What stands under ``lifetime``."""
    fields = read_fields(value, rule.problems)
    if fields is None:
        return None
    if fields.take("default") is None:
        rule.problems.add(fields.where, fields.path_of("default"), "nothing", "a time such as 5m")
    settings = LifetimeSettings(
        default=fields.read("default", read_duration, 1),
        jitter=fields.read("jitter", read_percent, 0.0),
    )
    fields.finish()
    return settings
