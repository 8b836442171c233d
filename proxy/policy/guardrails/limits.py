"""``limits: {per: app, rate: 5000/s, burst: 10000, bytes: 10MB/s, concurrency: 50, connections: 200}``."""

import re

from proxy.policy.fields import Fields, choice, integer, read_fields, read_list
from proxy.policy.guardrails.commands import read_command
from proxy.policy.yaml_source import Problems, Scalar, Value
from proxy.rules.limits import LimitsSettings, Per
from proxy.rules.meter import Quota, Rate

_MOST = 10**12
_RATE = re.compile(r"(\d{1,12})(B|KB|MB|GB)?/([smhd])")
_SIZES = {None: 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def read_limits(value: Value, rule: Fields) -> LimitsSettings | None:
    """What stands under ``limits``."""
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
        keys=fields.read("keys", _read_glob, None),
    )
    fields.finish()
    _check_limits(settings, fields)
    return settings


def _check_limits(settings: LimitsSettings, fields: Fields) -> None:
    """Limits of nothing, and what does not go together."""
    problems = fields.problems
    if settings.quota == Quota() and settings.connections is None:
        problems.add(fields.where, fields.path, "no limit", "at least one of rate, bytes, concurrency, connections")
    if fields.take("burst") is not None and settings.rate is None:
        problems.add(fields.line_of("burst"), fields.path_of("burst"), "a burst", "a rate beside it")
    for key in ("commands", "keys"):
        if fields.take(key) is not None and (settings.connections or settings.concurrency):
            expected = "a rule of its own for connections and concurrency, which are of a client as a whole"
            problems.add(fields.line_of(key), fields.path_of(key), key, expected)


def _read_rate(value: Value, problems: Problems) -> Rate | None:
    match = _RATE.fullmatch(value.text) if isinstance(value, Scalar) else None
    if match is None or match[2] is not None:
        problems.unexpected(value, "how many commands in what time, such as 1000/s, 600/m or 50/h")
        return None
    return _rate(value, int(match[1]), match[3], problems)


def _read_byte_rate(value: Value, problems: Problems) -> Rate | None:
    match = _RATE.fullmatch(value.text) if isinstance(value, Scalar) else None
    if match is None:
        problems.unexpected(value, "how many bytes in what time, such as 10MB/s or 500KB/m")
        return None
    return _rate(value, int(match[1]) * _SIZES[match[2]], match[3], problems)


def _rate(value: Value, tokens: int, unit: str, problems: Problems) -> Rate | None:
    if 1 <= tokens <= _MOST:
        return Rate(tokens, _SECONDS[unit], tokens)
    problems.unexpected(value, f"a rate from 1 to {_MOST}")
    return None


def _read_glob(value: Value, problems: Problems) -> str | None:
    if isinstance(value, Scalar) and value.text and value.text.isascii() and value.text.isprintable():
        return value.text
    problems.unexpected(value, "a pattern of keys, such as product:*")
    return None
