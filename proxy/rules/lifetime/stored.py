"""Keys that are stored already, by the bounds that apply when they are written.

A key needs a TTL if a rule gives it one, requires one or has a longest, and it may not have more left than that.

Where it cannot agree with live traffic:

- A TTL shorter than the minimum proves nothing: what is left of a TTL gets less all the time.
- Only keys of the rule's types are judged; of stated TTLs, EXPIRE is judged for keys of any type.
"""

from proxy.rules.lifetime.scope import LifetimeScope
from proxy.rules.refusals import shown_time
from proxy.rules.stored import Fault, StoredFault, StoredKey
from proxy.schema.bounds import Bounds

SPREAD = 0.1
"""See ``ttl_of_stored``."""


def stored_fault(scope: LifetimeScope, key: StoredKey) -> StoredFault | None:
    """What is wrong with the TTL of a key; None if nothing is, or if the rule is not about the key or its type."""
    bounds = scope.bounds_of_stored(key)
    if bounds is None:
        return None
    most = bounds.most
    if key.ttl is None:
        needed = bounds.gives or most is not None
        return StoredFault(Fault.NO_TTL, f"has no TTL, and the policy {_wanted(bounds)}") if needed else None
    if most is None or key.ttl <= most * 1000:
        return None
    by = key.ttl - most * 1000
    excess = f"{shown_time(by)} more than the limit of {shown_time(most * 1000)}"
    return StoredFault(Fault.TTL_TOO_LONG, f"has a TTL of {shown_time(key.ttl)}, {excess}", by=by)


def faults_of(scope: LifetimeScope) -> frozenset[Fault]:
    """What can be wrong with TTLs by these bounds."""
    bounds = [each for each in scope.places if each is not None]
    found = {Fault.TTL_TOO_LONG, Fault.NO_TTL} if any(each.most is not None for each in bounds) else set[Fault]()
    return frozenset(found | ({Fault.NO_TTL} if any(each.gives for each in bounds) else set()))


def ttl_of_stored(scope: LifetimeScope, key: StoredKey, chance: float) -> int | None:
    """The milliseconds that a key without a TTL is to live: the default, or the longest TTL where one is required.

    Many keys get theirs at once. So where the bounds have no jitter, it is up to ``SPREAD`` shorter.
    """
    bounds = scope.bounds_of_stored(key)
    if bounds is None or bounds.given is None:
        return None
    if bounds.jitter:
        return 1000 * bounds.seconds(chance)
    return bounds.nearest(max(1000, round(1000 * bounds.given * (1 - SPREAD * chance))))


def _wanted(bounds: Bounds) -> str:
    """``gives 5m and allows 1d``."""
    wanted = [] if bounds.default is None else [f"gives {shown_time(bounds.default * 1000)}"]
    if bounds.most is not None:
        wanted.append(f"allows {shown_time(bounds.most * 1000)}")
    return " and ".join(wanted) or "requires one"
