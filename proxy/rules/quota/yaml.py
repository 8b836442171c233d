"""``quota: {keys: 1M, bytes: 2GB, per: app|owner, max_age: 24h}``."""

import re

from proxy.policy_yaml.fields import Fields, choice, read_duration, read_fields, read_size, scan
from proxy.policy_yaml.yaml_source import Problems, Value
from proxy.rules.quota.rule import Per, QuotaSettings

_KEYS = re.compile(r"([1-9][0-9]{0,11})(K|M|G)?")
_UNITS = {None: 1, "K": 10**3, "M": 10**6, "G": 10**9}


def read_quota(value: Value, rule: Fields) -> QuotaSettings | None:
    fields = read_fields(value, rule.problems)
    if fields is None:
        return None
    usual = QuotaSettings()
    settings = QuotaSettings(
        keys=fields.maybe("keys", _read_keys),
        bytes=fields.maybe("bytes", read_size),
        per=fields.read("per", choice({each.value: each for each in Per}), usual.per),
        max_age=fields.read("max_age", read_duration, usual.max_age),
    )
    if "keys" not in fields and "bytes" not in fields:
        fields.problems.add(fields.where, fields.path, "no limit", "at least one of keys, bytes")
    fields.finish()
    return settings


def _read_keys(value: Value, problems: Problems) -> int | None:
    match = scan(value, _KEYS, "a number of keys, such as 500, 200K or 1M", problems)
    return None if match is None else int(match[1]) * _UNITS[match[2]]
