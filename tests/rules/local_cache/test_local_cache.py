"""A rule about the local cache has no verdict; it says which keys are cached, and how."""

import pytest

from proxy.rules.guardrails import KEY_CACHE
from proxy.rules.local_cache.rule import LocalCacheRule, LocalCacheSettings, When
from proxy.rules.one_key import OneKey
from proxy.rules.verdict import PASS
from tests.policy.given import policy, problems
from tests.rules.given import BINDING, NO_WORDS, command, context, spec


def test_it_is_about_reads_of_its_keys_and_passes_them() -> None:
    rule = LocalCacheSettings(("product:*", "config")).bind("hot", NO_WORDS, BINDING)
    keys = (b"product:1", b"config", b"config:1", b"order:1")
    assert [rule.fits(key, key) for key in keys] == [True, True, False, False]
    assert rule.touches(spec("GET"))
    assert not rule.touches(spec("SET"))
    assert not rule.touches(spec("TTL"))
    assert rule.judge(command("GET product:1"), context()) is PASS


def test_a_remedy_is_about_one_key_whatever_bytes_it_has() -> None:
    rule = KEY_CACHE(OneKey(b"a*\xff")).bind("remedy-1", NO_WORDS, BINDING)
    assert isinstance(rule, LocalCacheRule)
    assert rule.fits(b"a*\xff", b"a*\xff")
    assert not rule.fits(b"ab\xff", b"ab\xff")
    assert rule.settings.when is When.ALWAYS


def test_a_remedy_is_about_a_tenants_key_whatever_clients_call_it() -> None:
    rule = KEY_CACHE(OneKey(b"acme:a", b"a")).bind("remedy-1", NO_WORDS, BINDING)
    assert isinstance(rule, LocalCacheRule)
    assert rule.fits(b"a", b"acme:a")
    assert rule.fits(b"acme:a", b"acme:a")
    assert not rule.fits(b"a", b"globex:a")
    assert not rule.fits(b"acme:a", b"acme:acme:a")
    assert [rule.remark(command(text), True) for text in ("GET a", "GET b")] == ["may answer it from memory", ""]


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
