"""``alerts: {hot_key: {share: 10%, rate: 1000/s}, hot_slot: {share: 20%, rate: 5000/s}, big_value: 1MB}``."""

import re

from proxy.policy_yaml.fields import Fields, read_fields, read_percent, read_size, scan
from proxy.policy_yaml.yaml_source import Problems, Value
from proxy.traffic.alerts import USUAL, Alerts, Hot

_RATE = re.compile(r"([0-9]{1,9})/s")


def read_alerts(value: Value, problems: Problems) -> Alerts | None:
    """The thresholds, with defaults for missing ones."""
    fields = read_fields(value, problems)
    if fields is None:
        return None
    alerts = Alerts(
        _read_hot(fields, "hot_key", USUAL.hot_key),
        _read_hot(fields, "hot_slot", USUAL.hot_slot),
        fields.read("big_value", read_size, USUAL.big_value),
    )
    fields.finish()
    return alerts


def _read_hot(fields: Fields, key: str, usual: Hot) -> Hot:
    value = fields.take(key)
    found = None if value is None else read_fields(value, fields.problems)
    if found is None:
        return usual
    hot = Hot(found.read("share", read_percent, usual.share), found.read("rate", _read_rate, usual.rate))
    found.finish()
    return hot


def _read_rate(value: Value, problems: Problems) -> float | None:
    match = scan(value, _RATE, "a number per second, such as 1000/s", problems)
    return None if match is None else float(match[1])
