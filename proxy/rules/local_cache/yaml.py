"""``local_cache: {keys: ["product:*"], when: hot, max_age: 5s, max_value: 64KB, memory: 64MB}``."""

from proxy.policy_yaml.fields import Fields, choice, read_duration, read_fields, read_size
from proxy.policy_yaml.globs import read_key_patterns
from proxy.policy_yaml.yaml_source import Problems, Value
from proxy.rules.key_globs import none_fits
from proxy.rules.local_cache.rule import LocalCacheSettings, When

_USUAL = LocalCacheSettings()
_LONGEST_AGE = 3600
_LARGEST = 16 << 20
_LEAST_MEMORY = 1 << 20


def read_local_cache(value: Value, rule: Fields) -> LocalCacheSettings | None:
    fields = read_fields(value, rule.problems)
    if fields is None:
        return None
    settings = LocalCacheSettings(
        keys=fields.require("keys", read_key_patterns, (), "a list of key patterns, such as [product:*]"),
        when=fields.read("when", choice({each.value: each for each in When}), _USUAL.when),
        max_age=fields.read("max_age", _read_age, _USUAL.max_age),
        max_value=fields.read("max_value", _read_largest, _USUAL.max_value),
        memory=fields.read("memory", _read_memory, _USUAL.memory),
    )
    fields.finish()
    if settings.memory < 2 * settings.max_value:
        where, path = fields.line_of("memory"), fields.path_of("memory")
        rule.problems.add(where, path, "less than two of the largest replies", "at least twice max_value")
    if settings.when is When.ALWAYS and settings.keys and none_fits(frozenset(settings.globs)) is None:
        rule.problems.add(fields.line_of("keys"), fields.path_of("keys"), "too many patterns", "fewer, or shorter ones")
    return settings


def _read_age(value: Value, problems: Problems) -> int | None:
    seconds = read_duration(value, problems)
    if seconds is not None and seconds > _LONGEST_AGE:
        problems.unexpected(value, "at most 1h")
        return None
    return seconds


def _read_largest(value: Value, problems: Problems) -> int | None:
    size = read_size(value, problems)
    if size is not None and not 1 <= size <= _LARGEST:
        problems.unexpected(value, "a size from 1B to 16MB")
        return None
    return size


def _read_memory(value: Value, problems: Problems) -> int | None:
    size = read_size(value, problems)
    if size is not None and size < _LEAST_MEMORY:
        problems.unexpected(value, "a size of at least 1MB")
        return None
    return size
