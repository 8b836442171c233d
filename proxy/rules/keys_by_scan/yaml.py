"""``keys_by_scan: {keys: 10000, bytes: 1MB, time: 2s, count: 500}``."""

from proxy.policy_yaml.fields import Fields, integer, read_duration, read_fields, read_size
from proxy.policy_yaml.yaml_source import Value
from proxy.rules.keys_by_scan.rule import KeysByScanSettings

_MOST_KEYS = 1_000_000
_LONGEST = 60


def read_keys_by_scan(value: Value, rule: Fields) -> KeysByScanSettings | None:
    fields = read_fields(value, rule.problems)
    if fields is None:
        return None
    default = KeysByScanSettings()
    settings = KeysByScanSettings(
        keys=fields.read("keys", integer(1, _MOST_KEYS), default.keys),
        bytes=fields.read("bytes", read_size, default.bytes),
        time=fields.read("time", read_duration, default.time),
        count=fields.read("count", integer(1, _MOST_KEYS), default.count),
    )
    fields.finish()
    if settings.time > _LONGEST:
        rule.problems.add(fields.line_of("time"), fields.path_of("time"), f"{settings.time} s", f"at most {_LONGEST}s")
    return settings
