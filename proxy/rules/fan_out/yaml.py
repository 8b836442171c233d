"""``fan_out: {max: 100}``."""

from proxy.policy_yaml.fields import Fields, integer, read_fields
from proxy.policy_yaml.yaml_source import Value
from proxy.rules.fan_out.rule import FanOutSettings

_MOST = 1_000_000


def read_fan_out(value: Value, rule: Fields) -> FanOutSettings | None:
    fields = read_fields(value, rule.problems)
    if fields is None:
        return None
    settings = FanOutSettings(fields.require("max", integer(1, _MOST), 1, "a number of keys, such as 100"))
    fields.finish()
    return settings
