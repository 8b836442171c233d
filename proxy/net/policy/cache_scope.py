"""What the rules of a policy say about the local cache, for all apps together.

Patterns are about the names that clients know, and the cache has keys as Redis has them. So a pattern is also about
each key that matches it behind a prefix of some tenant.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from proxy.hotpath.plan.automaton import Automaton
from proxy.policy.model import Policy
from proxy.policy.precedence import is_active
from proxy.policy.tenants import NO_TENANTS, StoredNames
from proxy.rules.key_globs import KeyGlob, none_fits
from proxy.rules.local_cache.rule import LocalCacheSettings, When

_log = logging.getLogger("keyrail.policies")


@dataclass(frozen=True, slots=True)
class CacheScope:
    """``rules`` are the settings of the rules that are not off for all clients, by name; ``hot`` are the patterns of
    those about hot keys; ``uncached`` owns the keys that no other rule is about, and is None if there is no such
    rule. ``stored`` tells the names of tenants' keys."""

    rules: dict[str, LocalCacheSettings]
    hot: tuple[KeyGlob, ...]
    uncached: Automaton | None
    stored: StoredNames = field(default_factory=lambda: StoredNames(NO_TENANTS))

    @classmethod
    def of(cls, policy: Policy) -> "CacheScope":
        """Those of this policy. It may take some time."""
        rules = cache_rules(policy)
        hot = tuple(glob for each in rules.values() if each.when is When.HOT for glob in each.globs)
        always = always_cached(rules.values())
        uncached = none_fits(always, policy.tenants.prefixes) if always else None
        if always and uncached is None:
            _log.error("the local cache is off: the key patterns of its rules are too many together")
            return cls({}, (), None)
        return cls(rules, hot, uncached, StoredNames(policy.tenants))

    def may_be_hot(self, key: bytes) -> bool:
        """Whether a rule about hot keys is about it, as some client knows it."""
        own = self.stored.own(key)
        names = (key,) if own is None else (key, own.name)
        return any(glob.fits(name) for glob in self.hot for name in names)


def cache_rules(policy: Policy) -> dict[str, LocalCacheSettings]:
    """The settings of the rules about the local cache that are not off for all clients, by name."""
    return {
        rule.name: rule.settings
        for rule in policy.rules
        if isinstance(rule.settings, LocalCacheSettings) and is_active(policy, rule)
    }


def always_cached(rules: Iterable[LocalCacheSettings]) -> frozenset[KeyGlob]:
    """The patterns of keys that are cached whether or not they are hot."""
    return frozenset(glob for each in rules if each.when is When.ALWAYS for glob in each.globs)
