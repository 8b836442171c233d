"""Which rules leave keys to more specific rules, for the clients of one app.

A more specific rule takes its keys (``proxy.rules.key_claims``) from a rule in the same or a weaker mode, so an audited
rule never takes keys from an enforced rule. An app's own rule takes no keys from a rule of the platform, since that
could loosen it: both act, the app's own first. Nor does a rule with a scope by key: for the others it is off.

Patterns are found by their beginnings, so the work grows with the number of patterns and of overlapping pairs.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TypeAlias

from proxy.policy.model import PolicyRule
from proxy.policy.precedence import EffectiveMode
from proxy.rules.key_claims import Globs, KeyClaim
from proxy.schema.globs import GlobIndex, is_narrower

RuleMode: TypeAlias = tuple[PolicyRule, EffectiveMode]


class ClaimingRules:
    """The rules in force for the clients of one app that claim keys."""

    def __init__(self, active: Sequence[RuleMode]) -> None:
        self._by_schema: list[tuple[int, RuleMode, KeyClaim]] = []
        self._by_globs: dict[Globs, list[tuple[int, RuleMode, KeyClaim]]] = {}
        for place, each in enumerate(active):
            claim = each[0].settings.claim
            if claim is not None:
                kept = self._by_globs.setdefault(claim.globs, []) if claim.globs else self._by_schema
                kept.append((place, each, claim))
        self._narrower = narrower_globs(tuple(self._by_globs))

    def beside(self, each: RuleMode) -> tuple[KeyClaim, ...]:
        """The claims that may take keys from this rule."""
        claim = each[0].settings.claim
        if claim is None or claim.by_schema:
            return ()
        others = list(self._by_schema)
        for globs in self._narrower[claim.globs]:
            others += self._by_globs[globs]
        others.sort(key=lambda other: other[0])
        return tuple(theirs for _, other, theirs in others if _may_take(other, each))

    def specific_first(self, active: Iterable[RuleMode]) -> list[RuleMode]:
        """The rules with the app's own and the more specific claims first: these see the client's own command."""

        def rank(each: RuleMode) -> tuple[bool, int]:
            claim = each[0].settings.claim
            if claim is None or claim.by_schema:
                return False, 0
            return not each[0].app, sum(len(self._by_globs[globs]) for globs in self._narrower[claim.globs])

        return sorted(active, key=rank)


def _may_take(other: RuleMode, each: RuleMode) -> bool:
    own_of_an_app = other[0].app not in {"", each[0].app}
    # A rule that is off for some keys would leave those to nobody.
    return not own_of_an_app and not other[0].scope.by_key and other[1].stage.tightens(each[1].stage)


@lru_cache(maxsize=32)  # a policy is bound for each application and user
def narrower_globs(claims: tuple[Globs, ...]) -> dict[Globs, tuple[Globs, ...]]:
    """For each claim, the others with a glob that lies wholly within one of its globs."""
    claimed_by: dict[str, list[Globs]] = {}
    for globs in claims:
        for glob in globs:
            claimed_by.setdefault(glob, []).append(globs)
    index = GlobIndex(claimed_by)
    found: dict[Globs, tuple[Globs, ...]] = {}
    for globs in claims:
        within = (inner for glob in globs for inner in index.overlapping(glob) if is_narrower(inner, glob))
        others = dict.fromkeys(other for inner in within for other in claimed_by[inner])
        found[globs] = tuple(other for other in others if other != globs)
    return found
