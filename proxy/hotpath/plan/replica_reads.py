# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""Which reads a policy lets replicas answer, by the keys of the request.

An automaton owns the keys that have terms. A request goes by the terms of its keys if all of them have the same. With a
key of none it is the primary's; where keys have different terms, the rules judge.
"""

from array import array
from collections.abc import Sequence
from typing import NamedTuple

from proxy.commands.keys import KeyFinder
from proxy.hotpath.plan.automaton import NOBODY, Automaton
from proxy.wire.request import Request

# Under two names each: C integers in here, Python's for everybody else.
_OUTSIDE = -1
_MIXED = -2
_UNTOLD = -3
_AT_PRIMARY = -4
OUTSIDE = _OUTSIDE
"""None of its keys has terms."""
MIXED = _MIXED
"""Its keys have different terms: the rules judge."""
UNTOLD = _UNTOLD
"""The plan says nothing of replicas for this command."""
AT_PRIMARY = _AT_PRIMARY
"""Some of its keys have terms, and the primary answers."""


class ReplicaTerms(NamedTuple):
    """What a policy allows for reads: how old they may be, in seconds, and whether a replica of Keyrail's own zone goes
    before others. Where that is not ``enforced``, they are counted only."""

    max_lag: float
    same_zone: bool = False
    enforced: bool = True


class ReplicaReads:
    """``keys`` has for each key the place of its ``terms``. Requests are counted in the plan's counters of the numbers
    in ``counters``, by place."""

    def __init__(self, keys: Automaton, terms: Sequence[ReplicaTerms], counters: Sequence[int]) -> None:
        if len(terms) != len(counters):
            raise ValueError("each of the terms has its counter")
        self.keys = keys
        self.terms = tuple(terms)
        self.counters = array("i", counters)
        self.max_lags = array("d", [each.max_lag for each in terms])
        self.enforced = bytes(each.enforced for each in terms)
        self.same_zone = bytes(each.same_zone for each in terms)

    def place(self, request: Request, data: bytes, keys: KeyFinder, found: int) -> int:
        """The place of the terms for a request with so many keys, or why there is none."""
        if found <= 0:
            return _UNTOLD
        place = self.keys.find(data, request.starts[keys.indexes[0]], request.ends[keys.indexes[0]])
        outside = place == NOBODY
        inside = not outside
        mixed = False
        i = 1
        while i < found:
            index = keys.indexes[i]
            other = self.keys.find(data, request.starts[index], request.ends[index])
            mixed = mixed or other != place
            if other == NOBODY:
                outside = True
            else:
                inside = True
            i += 1
        if not inside:
            return _OUTSIDE
        if outside:
            return _AT_PRIMARY
        return _MIXED if mixed else place

    def in_force(self, place: int) -> int:
        """The place if its terms are enforced; else the primary answers."""
        if place >= 0 and not self.enforced[place]:
            return _AT_PRIMARY
        return place
