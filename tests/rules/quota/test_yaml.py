"""The YAML of `quota`: keys and bytes, and an error for a rule without a limit, or without anybody who owns keys."""

import pytest

from proxy.rules.quota.rule import Per, QuotaSettings
from tests.policy.given import policy, problems

OWNERS = """
apps: {shop: {match: {user: shop}}}
rules: {own: {names: {prefixes: {shop: ["cart:"]}}}, a: {quota: {%s}}}
"""


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("keys: 500", QuotaSettings(keys=500)),
        ("keys: 1M, bytes: 2GB", QuotaSettings(keys=1_000_000, bytes=2 << 30)),
        ("keys: 20K, per: owner, max_age: 2h", QuotaSettings(20_000, None, Per.OWNER, 7200)),
        ("bytes: 1KB", QuotaSettings(bytes=1024)),
    ],
)
def test_it_is_read(text: str, settings: QuotaSettings) -> None:
    assert policy(OWNERS % text).rules[1].settings == settings


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("per: app", "rules.a.quota: found no limit, expected at least one of keys, bytes"),
        ("keys: 0", "rules.a.quota.keys: found '0', expected a number of keys, such as 500, 200K or 1M"),
        ("keys: 1MB", "rules.a.quota.keys: found '1MB', expected a number of keys"),
        ("bytes: 2000", "rules.a.quota.bytes: found '2000', expected a size with its unit"),
        ("keys: 1M, per: user", "rules.a.quota.per: found 'user', expected one of app, owner"),
        ("keys: 1M, max_age: 5", "rules.a.quota.max_age: found '5', expected a time with its unit"),
        ("keys: 1M}, keys: {a*", "rules.a.keys: found "),
    ],
)
def test_what_makes_no_quota_is_told(text: str, problem: str) -> None:
    assert any(problem in each for each in problems(OWNERS % text))


def test_somebody_must_own_keys() -> None:
    expected = "found a rule about the keys that apps own, expected an app that owns keys"
    text = "apps: {shop: {match: {user: shop}}}\nrules: {a: {quota: {keys: 5}%s}}"
    assert any(expected in each for each in problems(text % ""))
    assert not problems(text % ", mode: off")
