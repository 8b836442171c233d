"""A rule about the local cache has no verdict; it says which keys are cached, and how."""

import pytest

from proxy.rules.guardrails import KEY_CACHE
from proxy.rules.local_cache.rule import LocalCacheRule, LocalCacheSettings, When
from proxy.rules.verdict import PASS
from tests.policy.given import policy, problems
from tests.rules.given import BINDING, NO_WORDS, command, context, spec


def test_it_is_about_reads_of_its_keys_and_passes_them() -> None:
    rule = LocalCacheSettings(("product:*", "config")).bind("hot", NO_WORDS, BINDING)
    assert [rule.fits(key) for key in (b"product:1", b"config", b"config:1", b"order:1")] == [True, True, False, False]
    assert rule.touches(spec("GET"))
    assert not rule.touches(spec("SET"))
    assert not rule.touches(spec("TTL"))
    assert rule.judge(command("GET product:1"), context()) is PASS


def test_a_remedy_is_about_one_key_whatever_bytes_it_has() -> None:
    rule = KEY_CACHE(b"a*\xff").bind("remedy-1", NO_WORDS, BINDING)
    assert isinstance(rule, LocalCacheRule)
    assert rule.fits(b"a*\xff")
    assert not rule.fits(b"ab\xff")
    assert rule.settings.when is When.ALWAYS


def test_as_policies_say_it() -> None:
    (rule,) = policy("rules: {hot: {local_cache: {keys: ['product:*'], when: always, max_age: 2s, memory: 8MB}}}").rules
    assert rule.settings == LocalCacheSettings(("product:*",), When.ALWAYS, 2, 64 << 10, 8 << 20)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("{}", "keys"),
        ("{keys: []}", "keys"),
        ("{keys: ['a?']}", "keys"),
        ("{keys: [a], when: often}", "when"),
        ("{keys: [a], max_age: 2h}", "max_age"),
        ("{keys: [a], max_value: 0B}", "max_value"),
        ("{keys: [a], max_value: 17MB}", "max_value"),
        ("{keys: [a], memory: 1KB}", "memory"),
        ("{keys: [a], max_value: 1MB, memory: 1MB}", "memory"),
        ("{keys: [a], ttl: 2s}", "ttl"),
    ],
)
def test_what_cannot_be_meant_is_an_error(text: str, wrong: str) -> None:
    found = problems(f"rules: {{hot: {{local_cache: {text}}}}}")
    assert any(f"rules.hot.local_cache.{wrong}" in problem for problem in found), found
