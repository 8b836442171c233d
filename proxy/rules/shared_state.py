"""Ports for the state of rules that workers share. The code that carries the state depends on them, on no guardrail.

A rule keeps its state in ``memory``. State with one of these ports is found there and updated:

- ``DividedState``: a whole that the workers divide. Each reports to the supervisor what it could have used, and gets
  its share (``deal``).
- ``SharedFacts``: facts that one worker has learnt, for other workers.
- ``ObservingState``: depends on how fast Redis answers Keyrail's own PINGs.
- ``CompressedValues``: what rules have compressed, for figures.
- ``StoredState``: depends on what is stored, by the last scan and what clients have written since.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

_LEAST_WANT = 0.02
"""The least demand that is assumed of a worker, so that its first command of a subject finds a token."""


@dataclass(frozen=True, slots=True)
class Demand:
    """A subject's demand in one worker: the part of its limit that it could have used, and its number of clients."""

    want: float
    clients: int


@dataclass(frozen=True, slots=True)
class Lease:
    """One worker's lease for a subject: its share of the limit, and the subject's clients in the other workers."""

    share: float
    elsewhere: int


class DividedState:
    """The part of a whole that one worker gives out, by subject.

    If it `counts_clients`, each worker needs the number of clients in the other workers.
    """

    counts_clients: bool

    def demand(self, seconds: float) -> Mapping[str, Demand]:
        """The demand of the subjects in the last `seconds`."""
        raise NotImplementedError

    def lease(self, leases: Mapping[str, Lease], now: float) -> None:
        """Take over the supervisor's shares; a subject without a share gets an equal part."""
        raise NotImplementedError


def deal(demands: Sequence[Demand], worker: int) -> Lease:
    """The share of one worker in a subject's limit, given the demand of each worker.

    If the sum of demands is below the limit, each worker gets its demand and an equal part of the rest; else a share in
    proportion to its demand.
    """
    wants = [max(_LEAST_WANT, demand.want) for demand in demands]
    total = sum(wants)
    share = wants[worker] / total if total > 1.0 else wants[worker] + (1.0 - total) / len(wants)
    return Lease(share, sum(demand.clients for demand in demands) - demands[worker].clients)


FactKey: TypeAlias = tuple[str, bytes]
"""The kind of a fact's subject, and its name."""


class Fact:
    """A fact about one thing; it can be sent to another process."""

    __slots__ = ()


class SharedFacts:
    """The facts that one worker knows."""

    def recall(self, key: FactKey) -> Fact | None:
        """The fact; None if it is unknown."""
        raise NotImplementedError

    def learn(self, key: FactKey, fact: Fact) -> None:
        """Take over a fact of another worker."""
        raise NotImplementedError


class ObservingState:
    """State that depends on the observations of one worker, of each node by its number. Times are in seconds.

    ``owner`` says which node has a slot; None where one node has all.
    """

    owner: Callable[[int], int] | None = None

    @property
    def restricts(self) -> bool:
        """Whether some commands are kept from Redis now."""
        raise NotImplementedError

    def description(self, node: int) -> str:
        """The state of a node, for people."""
        raise NotImplementedError

    def observe(self, node: int, now: float, took: float | None, *, may_open: bool = True) -> None:
        """Note the time that an answer took; None for no answer, or for an error such as BUSY. Unless it ``may_open``,
        commands wait for another server in the node's place."""
        raise NotImplementedError

    def excuse(self, node: int) -> None:
        """The node is loading, and says so."""
        raise NotImplementedError

    def retain(self, nodes: Collection[int]) -> None:
        """Forget all nodes but these."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class OwnedKeys:
    """The keys of one owner at a scan. ``expiring``: so many of them had a TTL of more than so many seconds."""

    keys: int = 0
    bytes: int = 0
    expiring: tuple[tuple[float, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Written:
    """What clients have sent: commands that may create keys, the bytes of these commands, and the keys that commands
    have deleted at most."""

    creating: int = 0
    bytes: int = 0
    deleted: int = 0

    def __add__(self, other: "Written") -> "Written":
        return Written(self.creating + other.creating, self.bytes + other.bytes, self.deleted + other.deleted)


@dataclass(frozen=True, slots=True)
class Stored:
    """What is known of the keys behind a route. Times are in seconds since the epoch.

    ``owners`` are their figures at a scan that began at ``scanned``; None, and ``missing`` says why, if there is no
    scan. ``since`` is what the clients of each app have written since then, as far as it was counted: from
    ``counted_from`` on.
    """

    scanned: float | None = None
    missing: str = "no scan is kept"
    owners: Mapping[str, OwnedKeys] = field(default_factory=dict)
    since: Mapping[str, Written] = field(default_factory=dict)
    counted_from: float = 0.0


class StoredState:
    """State of a rule that depends on what is stored."""

    def written(self) -> Mapping[str, Written]:
        """What the clients of each app have written in this worker since the last call."""
        raise NotImplementedError

    def learn(self, stored: Stored, now: float) -> None:
        """Take over what is known of all workers."""
        raise NotImplementedError


_ONE_WAY = ("values", "plain_bytes", "stored_bytes", "seconds")
COMPRESSION_FIGURES = (*_ONE_WAY, "as_they_are", *(f"decompressed_{figure}" for figure in _ONE_WAY))
"""The figures of ``CompressedValues``."""


class CompressedValues:
    """What the rules of a route have compressed and decompressed in one worker, by the rule's name.

    All rules share it (``Memory.shared``), so counts go on when a policy changes. ``cpu`` tells the seconds of a
    processor that the caller has used.
    """

    def __init__(self) -> None:
        self._by_rule: dict[str, dict[str, float]] = {}
        self._clock: Callable[[], float] = float  # always 0.0, where rules are only tried

    def run_by(self, clock: Callable[[], float]) -> None:
        """Use this clock from now on."""
        self._clock = clock

    def cpu(self) -> float:
        return self._clock()

    def note(self, rule: str, plain: int, stored: int, seconds: float) -> None:
        """Count a value of `plain` bytes that is stored in `stored` bytes; equal sizes: compressing it did not pay."""
        its = self._of(rule)
        its["seconds"] += seconds
        if stored == plain:
            its["as_they_are"] += 1
        else:
            its["values"] += 1
            its["plain_bytes"] += plain
            its["stored_bytes"] += stored

    def note_decompressed(self, rule: str, plain: int, stored: int, seconds: float) -> None:
        """Count a value that was decompressed."""
        its = self._of(rule)
        its["decompressed_values"] += 1
        its["decompressed_plain_bytes"] += plain
        its["decompressed_stored_bytes"] += stored
        its["decompressed_seconds"] += seconds

    def _of(self, rule: str) -> dict[str, float]:
        return self._by_rule.setdefault(rule, dict.fromkeys(COMPRESSION_FIGURES, 0))

    def figures(self) -> dict[str, dict[str, float]]:
        """All counts."""
        return {rule: dict(its) for rule, its in list(self._by_rule.items())}
