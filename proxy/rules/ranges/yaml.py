"""``ranges: {max: 100, bytes: 100KB, endless: refuse}``."""

from proxy.policy_yaml.fields import Fields, choice, integer, read_fields, read_size
from proxy.policy_yaml.yaml_source import Value
from proxy.rules.ranges.rule import RangesSettings

_MOST = 1_000_000


def read_ranges(value: Value, rule: Fields) -> RangesSettings | None:
    fields = read_fields(value, rule.problems)
    if fields is None:
        return None
    settings = RangesSettings(
        max=fields.require("max", integer(1, _MOST), 1, "a number of elements, such as 100"),
        bytes=fields.maybe("bytes", read_size),
        endless=fields.read("endless", choice({"refuse": False, "allow": True}), False),
    )
    fields.finish()
    return settings
