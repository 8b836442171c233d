"""The limit of a remedy: a rate for one key."""

from proxy.rules.limits.rule import LimitsSettings, Per
from proxy.rules.rates import Rate


def key_cap(key: bytes, rate: Rate, per_app: bool) -> LimitsSettings:
    """At most this rate of commands with this key: for each app, or in all."""
    return LimitsSettings(Per.APP if per_app else Per.ALL, rate, key=key)
