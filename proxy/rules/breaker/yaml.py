"""``breaker: {failing_for: 2s, slower_than: 250ms, window: 5s, cool_down: 10s}``."""

import re

from proxy.policy_yaml.fields import Fields, read_fields, scan
from proxy.policy_yaml.yaml_source import Problems, Value
from proxy.rules.breaker.rule import BreakerSettings

_TIME = re.compile(r"([1-9][0-9]{0,4})(ms|s|m)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0}


def read_breaker(value: Value, rule: Fields) -> BreakerSettings | None:
    fields = read_fields(value, rule.problems)
    if fields is None:
        return None
    usual = BreakerSettings()
    settings = BreakerSettings(
        failing_for=fields.read("failing_for", _read_time, usual.failing_for),
        slower_than=fields.read("slower_than", _read_time, usual.slower_than),
        window=fields.read("window", _read_time, usual.window),
        cool_down=fields.read("cool_down", _read_time, usual.cool_down),
    )
    fields.finish()
    return settings


def _read_time(value: Value, problems: Problems) -> float | None:
    match = scan(value, _TIME, "a time with its unit, such as 250ms, 2s or 1m", problems)
    return None if match is None else int(match[1]) * _SECONDS[match[2]]
