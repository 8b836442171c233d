"""``limits: {per: app, rate: 5000/s, burst: 10000, bytes: 10MB/s, concurrency: 50, connections: 200}``."""

import re

from proxy.policy_yaml.fields import SIZE_UNITS, Fields, choice, integer, read_fields, read_list, scan
from proxy.policy_yaml.globs import read_key_patterns
from proxy.policy_yaml.yaml_source import Problems, Value
from proxy.rules.limits.rule import LimitsSettings, Per
from proxy.rules.listing_yaml import read_command
from proxy.rules.rates import SECONDS, Rate, parse_rate

_RATE = re.compile(r"([1-9][0-9]{0,8})/([smhd])")
_BYTE_RATE = re.compile(r"([1-9][0-9]{0,5})(B|KB|MB|GB)/([smhd])")


def read_limits(value: Value, rule: Fields) -> LimitsSettings | None:
    fields = read_fields(value, rule.problems)
    if fields is None:
        return None
    burst = fields.read("burst", integer(1, 10**9 - 1), 0)
    rate = fields.read("rate", _read_rate, None)
    bytes_ = fields.read("bytes", _read_byte_rate, None)
    listed = fields.take("commands")
    named = () if listed is None else read_list(listed, rule.problems) or ()
    commands = {spec.display for each in named if (spec := read_command(each, rule.problems)) is not None}
    settings = LimitsSettings(
        per=fields.read("per", choice({each.value: each for each in Per}), Per.ALL),
        rate=Rate(rate.tokens, rate.seconds, burst) if rate is not None and burst else rate,
        bytes=bytes_,
        concurrency=fields.read("concurrency", integer(1, 10**9 - 1), None),
        connections=fields.read("connections", integer(1, 10**9 - 1), None),
        commands=tuple(sorted(commands)),
        keys=fields.read("keys", read_key_patterns, ()),
    )
    fields.finish()
    _check_limits(settings, fields)
    return settings


def _check_limits(settings: LimitsSettings, fields: Fields) -> None:
    """Note a rule without a limit, and settings that exclude each other."""
    problems = fields.problems
    if not any(key in fields for key in ("rate", "bytes", "concurrency", "connections")):
        problems.add(fields.where, fields.path, "no limit", "at least one of rate, bytes, concurrency, connections")
    if fields.take("burst") is not None and settings.rate is None:
        problems.add(fields.line_of("burst"), fields.path_of("burst"), "a burst", "a rate beside it")
    for key in ("commands", "keys"):
        if fields.take(key) is not None and (settings.connections or settings.concurrency):
            expected = "a separate rule for connections and concurrency: they count clients, not commands"
            problems.add(fields.line_of(key), fields.path_of(key), key, expected)


def _read_rate(value: Value, problems: Problems) -> Rate | None:
    match = scan(value, _RATE, "a number of commands per time, such as 1000/s, 600/m or 50/h", problems)
    return None if match is None else parse_rate(match[0])


def _read_byte_rate(value: Value, problems: Problems) -> Rate | None:
    match = scan(value, _BYTE_RATE, "a size per time, such as 10MB/s or 500KB/m", problems)
    return None if match is None else Rate(tokens := int(match[1]) * SIZE_UNITS[match[2]], SECONDS[match[3]], tokens)
