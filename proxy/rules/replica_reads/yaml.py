"""``replica_reads: {keys: ["catalog:*"], max_lag: 1s, prefer: [same-zone]}``."""

from proxy.policy_yaml.fields import Fields, read_duration, read_fields, read_list
from proxy.policy_yaml.globs import read_key_pattern
from proxy.policy_yaml.yaml_source import Problems, Value
from proxy.rules.replica_reads.rule import ReplicaReadsSettings

SAME_ZONE = "same-zone"
_LONGEST = 3600
_DEFAULT_LAG = 1


def read_replica_reads(value: Value, rule: Fields) -> ReplicaReadsSettings | None:
    fields = read_fields(value, rule.problems)
    if fields is None:
        return None
    no_keys: tuple[str, ...] = ()
    settings = ReplicaReadsSettings(
        keys=fields.require("keys", _read_keys, no_keys, 'patterns of keys, such as ["catalog:*"]; ["*"] for all'),
        max_lag=fields.read("max_lag", read_duration, _DEFAULT_LAG),
        same_zone=fields.read("prefer", _read_preferences, False),
    )
    fields.finish()
    if settings.max_lag > _LONGEST:
        rule.problems.add(
            fields.line_of("max_lag"), fields.path_of("max_lag"), f"{settings.max_lag} s", f"at most {_LONGEST}s"
        )
    return settings


def _read_keys(value: Value, problems: Problems) -> tuple[str, ...] | None:
    listed = read_list(value, problems)
    patterns = None if listed is None else [read_key_pattern(each, problems) for each in listed]
    return None if patterns is None else tuple(pattern for pattern in patterns if pattern is not None)


def _read_preferences(value: Value, problems: Problems) -> bool | None:
    listed = read_list(value, problems)
    if listed is None:
        return None
    for each in listed:
        if each.text != SAME_ZONE:
            problems.unexpected(each, f"{SAME_ZONE}, the only preference")
    return any(each.text == SAME_ZONE for each in listed)
