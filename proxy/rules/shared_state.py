"""State of rules that reaches beyond one client, as those see it who carry it: they know these ports, and no guardrail.

A rule keeps its state in ``memory``. State that takes one of these ports is found there and fed:

- ``DividedState``: a whole that the workers divide among themselves. Each tells the supervisor what it could have used,
  and gets its share (``deal``).
- ``SharedFacts``: what one worker has learnt and another one asks for, once.
- ``ObservingState``: goes by how fast Redis answers Keyrail's own PINGs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

_LEAST_WANT = 0.02
"""What a worker is thought to want at least, so that its first command of a subject finds a token."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Of a subject, in one worker: the part of its limit that it could have used lately, and its clients."""

    want: float
    clients: int


@dataclass(frozen=True, slots=True)
class Lease:
    """Of a subject, for one worker: its share of the limit, and the subject's clients in the other workers."""

    share: float
    elsewhere: int


class DividedState:
    """The part of a whole that one worker gives out, by subject.

    Where it `counts_clients`, each worker wants to know of the clients in the others, its own being none or many.
    """

    counts_clients: bool

    def demand(self, seconds: float) -> Mapping[str, Demand]:
        """The demand of the subjects in the last `seconds`."""
        raise NotImplementedError

    def lease(self, leases: Mapping[str, Lease], now: float) -> None:
        """Take over what the supervisor has dealt out; a subject that it does not mention gets an equal part."""
        raise NotImplementedError


def deal(demands: Sequence[Demand], worker: int) -> Lease:
    """The share of one worker in a subject's limit, if each of the workers wants so much of it.

    While they want less than there is, each gets what it wants and an equal part of the rest; else in proportion.
    """
    wants = [max(_LEAST_WANT, demand.want) for demand in demands]
    total = sum(wants)
    share = wants[worker] / total if total > 1.0 else wants[worker] + (1.0 - total) / len(wants)
    return Lease(share, sum(demand.clients for demand in demands) - demands[worker].clients)


FactKey: TypeAlias = tuple[str, bytes]
"""The kind of thing that a fact is about, and its name."""


class Fact:
    """A fact about one thing; it can be sent to another process."""

    __slots__ = ()


class SharedFacts:
    """The facts that one worker knows."""

    def recall(self, key: FactKey) -> Fact | None:
        """The fact, if it is known here."""
        raise NotImplementedError

    def learn(self, key: FactKey, fact: Fact) -> None:
        """Take over what another worker knows."""
        raise NotImplementedError


class ObservingState:
    """State that follows from the observations of one worker. Times are in seconds."""

    @property
    def restricts(self) -> bool:
        """Whether not every command goes to Redis now."""
        raise NotImplementedError

    @property
    def description(self) -> str:
        """The state, for people."""
        raise NotImplementedError

    def observe(self, now: float, took: float | None) -> None:
        """Take note of what an answer took; None for none, or for one that says that Redis cannot work."""
        raise NotImplementedError
