"""Limits that several workers share: what each wants of them, and what each gets.

A worker says a few times a second how much of each limit every subject could have used with it, and gets its share of
that subject's limit back (``rules.shared_state``), and with it how many clients the subject has elsewhere.
Where a subject is silent the worker keeps an equal part.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from proxy.rules.shared_state import Demand, Lease, deal

LEASE_SECONDS = 0.25
"""Between two times that a worker says what it wants."""

LOST_SECONDS = 3.0
"""A worker that has heard of no share for so long keeps to an equal part of everything."""

Demands: TypeAlias = Mapping[str, Mapping[str, Demand]]
"""By rule and subject."""
Leases: TypeAlias = Mapping[str, Mapping[str, Lease]]

_NOTHING = Demand(0.0, 0)


def deal_out(wanted: Sequence[Demands], worker: int) -> Leases:
    """What one of the workers gets of one route's limits, when each wants so much of them."""
    leases = {}
    for rule, mine in wanted[worker].items():
        by_worker = [demands.get(rule, {}) for demands in wanted]
        subjects = {*mine, *(subject for each in by_worker for subject, demand in each.items() if demand.clients)}
        leases[rule] = {
            subject: deal([each.get(subject, _NOTHING) for each in by_worker], worker) for subject in subjects
        }
    return leases
