"""The YAML of `limits`: rates, and an error for a rule without a limit."""

import pytest

from proxy.policy_yaml.errors import PolicyError
from proxy.rules.limits.rule import LimitsSettings, Per
from proxy.rules.rates import Rate
from tests.policy.given import policy

LIMITS = "rules: {a: {limits: {%s}}}"


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("rate: 1000/s", LimitsSettings(rate=Rate(1000, 1, 1000))),
        ("per: app, rate: 10/m, burst: 3", LimitsSettings(Per.APP, Rate(10, 60, 3))),
        ("bytes: 1MB/s, concurrency: 5", LimitsSettings(bytes=Rate(1 << 20, 1, 1 << 20), concurrency=5)),
        ("per: user, connections: 5", LimitsSettings(Per.USER, connections=5)),
        ("commands: [scan, keys], rate: 5/h", LimitsSettings(rate=Rate(5, 3600, 5), commands=("KEYS", "SCAN"))),
        ('keys: "product:*", rate: 7/d', LimitsSettings(rate=Rate(7, 86_400, 7), keys=("product:*",))),
        ('keys: ["a:*", "b*"], rate: 7/d', LimitsSettings(rate=Rate(7, 86_400, 7), keys=("a:*", "b*"))),
    ],
)
def test_limits_are_read(text: str, settings: LimitsSettings) -> None:
    assert policy(LIMITS % text).rules[0].settings == settings


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "rules.a.limits: found no limit, expected at least one of rate, bytes, concurrency, connections"),
        ("rate: 1000", "rules.a.limits.rate: found '1000', expected a number of commands per time, such as 1000/s"),
        ("rate: 10MB/s", "rules.a.limits.rate: found '10MB/s', expected a number of commands"),
        ("rate: 0/s", "rules.a.limits.rate: found '0/s', expected a number of commands"),
        ("bytes: 10mb", "rules.a.limits.bytes: found '10mb', expected a size per time"),
        ("burst: 5, bytes: 1KB/s", "rules.a.limits.burst: found a burst, expected a rate beside it"),
        ("rate: 1/s, per: key", "rules.a.limits.per: found 'key', expected one of all, app, user, address"),
        ("rate: 1/s, commands: [GETT]", "rules.a.limits.commands[0]: found 'GETT', expected a command; did you mean"),
        ("connections: 5, keys: a*", "rules.a.limits.keys: found keys, expected a separate rule for connections"),
        ("concurrency: 5, commands: [GET]", "rules.a.limits.commands: found commands, expected a separate rule for"),
        ("rate: 1/s, each: app", "rules.a.limits.each: found an unknown key"),
    ],
)
def test_what_makes_no_limit_is_told(text: str, problem: str) -> None:
    with pytest.raises(PolicyError) as caught:
        policy(LIMITS % text)
    assert problem in str(caught.value)


def test_no_file_has_a_rule_with_the_name_of_a_remedy() -> None:
    with pytest.raises(PolicyError, match=r"rules\.remedy-3: found 'remedy-3', expected another name") as caught:
        policy("rules: {remedy-3: {refuse: [KEYS]}, remedy-x: {refuse: [DEL]}}")
    assert len(caught.value.problems) == 1
