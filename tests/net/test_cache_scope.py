"""What the rules of a policy say about the local cache, for all apps together."""

from proxy.net.policy.cache_scope import CacheScope
from tests.policy.given import policy


def test_rules_that_are_off_say_nothing() -> None:
    scope = CacheScope.of(policy("rules: {a: {local_cache: {keys: ['a:*']}, mode: off}, b: {refuse: [KEYS]}}"))
    assert (scope.rules, scope.hot, scope.uncached) == ({}, (), None)


def test_keys_are_cached_always_or_when_they_are_hot() -> None:
    scope = CacheScope.of(
        policy("""
        rules:
          a: {local_cache: {keys: ["a:*", "x"], when: always}, mode: enforce}
          b: {local_cache: {keys: ["b:*"]}, mode: audit}
        """)
    )
    assert set(scope.rules) == {"a", "b"}
    assert [glob.fits(b"b:1") for glob in scope.hot] == [True]
    assert scope.uncached is not None
    assert [scope.uncached.owner(key) < 0 for key in (b"a:1", b"x", b"b:1", b"xa:1")] == [True, True, False, False]
