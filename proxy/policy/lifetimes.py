"""Which rules about lifetimes leave keys to which, for the clients of one app.

The more specific rule takes its keys (``proxy.rules.lifetime.precedence``) from a rule that is in no stricter mode, so
one that is only audited never switches off one that is enforced. Nor does an app's own rule take keys from a rule of
the platform's, which it could loosen like that: both act then, the app's own first.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from proxy.policy.model import PolicyRule
from proxy.policy.precedence import EffectiveMode
from proxy.rules.lifetime.precedence import compare
from proxy.rules.lifetime.settings import LifetimeSettings
from proxy.rules.rule import RuleSettings

RuleMode: TypeAlias = tuple[PolicyRule, EffectiveMode]


def beside(each: RuleMode, active: Iterable[RuleMode]) -> tuple[RuleSettings, ...]:
    """What the rules say that may take keys from this one."""
    return tuple(
        other.settings for other, effective in active if other is not each[0] and _may_take((other, effective), each)
    )


def _may_take(other: RuleMode, each: RuleMode) -> bool:
    own_of_an_app = other[0].app not in {"", each[0].app}
    return not own_of_an_app and other[1].stage.tightens(each[1].stage)


def specific_first(active: Sequence[RuleMode]) -> list[RuleMode]:
    """The same, of lifetimes each app's own and the more specific ones first: what acts sees what the client sent."""
    globs = [rule.settings.globs for rule, _ in active if isinstance(rule.settings, LifetimeSettings)]

    def rank(each: RuleMode) -> tuple[bool, int]:
        rule, _ = each
        if not isinstance(rule.settings, LifetimeSettings):
            return False, 0
        mine = rule.settings.globs
        return not rule.app, sum(bool(compare(mine, other).takings) for other in globs if other != mine)

    return sorted(active, key=rank)
