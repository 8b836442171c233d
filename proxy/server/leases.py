"""Divides rate limits among the workers that share them.

A few times a second a worker reports how much of each limit every subject (such as an app) could have used. The reply
is the worker's share of that subject's limit (``rules.shared_state``), and how many clients the subject has in other
workers. If a subject sends nothing, the worker keeps an equal part.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from proxy.rules.shared_state import Demand, Lease, deal

LEASE_SECONDS = 0.25
"""Seconds between two requests of a worker."""

LOST_SECONDS = 3.0
"""Seconds without a reply after which a worker uses an equal part of every limit."""

Demands: TypeAlias = Mapping[str, Mapping[str, Demand]]
"""By rule and subject."""
Leases: TypeAlias = Mapping[str, Mapping[str, Lease]]

_NOTHING = Demand(0.0, 0)


def deal_out(wanted: Sequence[Demands], worker: int) -> Leases:
    """One worker's shares of a route's limits, given what each worker wants."""
    leases = {}
    for rule, mine in wanted[worker].items():
        by_worker = [demands.get(rule, {}) for demands in wanted]
        subjects = {*mine, *(subject for each in by_worker for subject, demand in each.items() if demand.clients)}
        leases[rule] = {
            subject: deal([each.get(subject, _NOTHING) for each in by_worker], worker) for subject in subjects
        }
    return leases
