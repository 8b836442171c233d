"""The limit that an operator puts on one key at once."""

from proxy.rules.limits.rule import LimitsSettings, Per
from proxy.rules.rates import Rate


def key_cap(key: bytes, rate: Rate, per_app: bool) -> LimitsSettings:
    """At most so many commands about this key: of each app, or in all."""
    return LimitsSettings(Per.APP if per_app else Per.ALL, rate, key=key)
