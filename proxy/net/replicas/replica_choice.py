"""Which replica a client reads from, of those that have a connection.

It keeps to the one that it has while that is near enough: with another one, the primary answers first, until a look has
shown that the other one has all that the client has seen. Where replicas come, or come near again, each client moves
there by the chance that spreads all clients evenly.
"""

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from proxy.hotpath.replicas.reader_place import ReaderPlace, Replica
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline


class Candidate(NamedTuple):
    """A replica and the connection to it. It may be read from since this version of its group; ``nearby``: it is where
    reads prefer replicas."""

    replica: Replica
    upstream: UpstreamPipeline
    since: int
    nearby: bool = False


def chosen(
    candidates: Sequence[Candidate],
    place: ReaderPlace,
    bounds: Sequence[float],
    now: float,
    chance: Callable[[], float] = random.random,
) -> Candidate | None:
    """The one for this place, which may have chosen before; None if there is none. ``bounds`` are the seconds that its
    reads may be behind, the smallest one first."""
    fit = _fit(candidates, bounds, now)
    if not fit:
        return None
    current = next((each for each in fit if each.upstream is place.upstream), None)
    if current is None:
        return fit[int(chance() * len(fit))]
    share = 1 / len(fit)
    came = (each for each in fit if each.since > place.chosen and each is not current)
    return next((each for each in came if chance() < share), current)


def _fit(candidates: Sequence[Candidate], bounds: Sequence[float], now: float) -> Sequence[Candidate]:
    # Within the smallest bound that any of them is within; of these, those nearby, if there are some.
    near: Sequence[Candidate] = candidates
    for bound in bounds:
        within = [each for each in candidates if each.replica.lag <= bound and now <= each.replica.until]
        if within:
            near = within
            break
    return [each for each in near if each.nearby] or near
