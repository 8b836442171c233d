"""Primaries and their replicas, as looks at them have found them: see ``replica_watch``."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from proxy.hotpath.replicas.reader_place import Replica, ReplicaGroup
from proxy.net.config.endpoint import Endpoint
from proxy.net.replicas.replica_history import PrimaryHistory, Told
from proxy.net.topology.slot_map import OwnSlots
from proxy.session.ports.pool_key import Node

_GOOD_SECONDS = 0.9
"""How long what a replica has answered counts for reads."""
_SILENT_SECONDS = 0.9
"""A primary that has told nothing for so long may have written since."""
_MOVING_SECONDS = 2.0
"""How long a primary of a cluster that gives slots away answers all reads by itself, after the last sign of that."""


def _nothing() -> None:
    """Nobody looks."""


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """What is known of a replica. ``reached``: it answers. ``linked``: it is connected to its primary. ``syncing``: it
    gets a copy of all data. ``foreign``: it has another primary's data. ``is_primary``: it is the primary itself, which
    the URL names, too. ``lag`` is in bytes and ``lag_seconds`` at most so long, None if unknown."""

    reached: bool
    linked: bool = True
    syncing: bool = False
    foreign: bool = False
    is_primary: bool = False
    lag: int | None = None
    lag_seconds: float | None = None


LOST = ReplicaState(reached=False)


@dataclass(slots=True, eq=False)
class WatchedReplica:
    """A replica. All that is known of it was told by the server ``process`` of this run_id: connections that lead to
    another one are not to it. Its ``readable`` is another one once its data may be older than it was. ``since`` is the
    version of its group at which it last came within a bound of the lag, and ``listed_at`` when it was last listed."""

    node: Node
    endpoint: Endpoint
    readable: Replica
    state: ReplicaState | None = None
    applied: int = -1
    process: str = ""
    since: int = -1
    listed_at: float = 0.0

    def begin_anew(self) -> None:
        """It may be older than what clients have read there."""
        self.readable.leave()
        self.readable, self.applied = Replica(), -1


@dataclass(slots=True, eq=False)
class WatchedPrimary:
    """A primary: its ``process``, and its replicas in the replication ``stream``, by their addresses. With a cluster
    upstream, ``slots`` are its own; up to ``moving_until``, its replicas may not know where their keys are, unless it
    ``replicates_slots``. ``hurry`` is called when clients wait for a look."""

    node: Node
    hurry: Callable[[], None] = _nothing
    group: ReplicaGroup = field(init=False)
    stream: str = ""
    process: str = ""
    history: PrimaryHistory = field(default_factory=PrimaryHistory)
    slots: OwnSlots | None = None
    moving_until: float = 0.0
    replicates_slots: bool = False
    replicas: dict[Endpoint, WatchedReplica] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.group = ReplicaGroup(hurry=self.hurry)

    def told(self, look: int, at: float, told: Told) -> bool:
        """The primary has answered at this look: whether that is another stream than before."""
        another = told.stream != self.stream
        if another:
            self.leave()
            self.stream = told.stream
        self.process, self.replicates_slots = told.process, told.replicates_slots
        self.history.add(look, at, told.offset)
        return another

    def owns(self, slots: OwnSlots, now: float) -> None:
        """With a cluster upstream: it has these slots now."""
        if slots.gives or (self.slots is not None and slots.lack(self.slots)):
            self.migrates(now)
        self.slots = slots

    def migrates(self, now: float) -> None:
        """Keys leave for other nodes. A replica says of them that they do not exist, until it knows another owner of
        their slots: for a while, the primary answers everything."""
        self.moving_until = now + _MOVING_SECONDS
        for replica in self.replicas.values():
            replica.readable.until = 0.0

    def leave(self) -> None:
        """The stream has ended: nothing that is known of it counts any more."""
        before, self.group = self.group, ReplicaGroup()
        self.group.follow(before)
        self.history = PrimaryHistory()
        for replica in self.replicas.values():
            replica.begin_anew()

    def measured(self, replica: WatchedReplica, told: Told | None, now: float, bounds: Sequence[float] = ()) -> None:
        """A replica has answered, or has not (None). Clients look for one anew when it may answer reads again, also
        those within one of these ``bounds`` of its lag, or none any more."""
        before = _fits(replica.readable, bounds)
        replica.state = self._state(replica, told, now)
        after = _fits(replica.readable, bounds)
        if after > before or (after < 0) != (before < 0):
            self.group.changed()
            replica.since = self.group.version

    def _state(self, replica: WatchedReplica, told: Told | None, now: float) -> ReplicaState:
        newest = self.history.last
        linked, syncing = told is not None and told.is_replica and told.linked, told is not None and told.syncing
        if told is None or newest is None or not linked or syncing or told.stream != self.stream:
            replica.readable.leave()
            if told is not None and not told.is_replica and told.process == self.process != "":
                return ReplicaState(reached=True, is_primary=True)
            foreign = told is not None and (not told.is_replica or (linked and told.stream != self.stream))
            return ReplicaState(told is not None, linked or told is None, syncing, foreign and newest is not None)
        if told.offset < replica.applied or told.process != replica.process:
            replica.begin_anew()
        replica.applied, replica.process = told.offset, told.process
        covered = self.history.covered_by(told.offset)
        if covered is None:
            replica.readable.leave()
            return ReplicaState(reached=True, lag=newest.offset - told.offset)
        until = now + _GOOD_SECONDS if now >= self.moving_until else 0.0
        replica.readable.measured(covered.look, now - covered.at, until)
        fresh = covered is newest and now - newest.at < _SILENT_SECONDS
        seconds = 0.0 if fresh else round(now - covered.at, 3)
        return ReplicaState(reached=True, lag=max(0, newest.offset - told.offset), lag_seconds=seconds)


def _fits(readable: Replica, bounds: Sequence[float]) -> int:
    # Within how many of the bounds its lag is; below zero where nothing is known.
    return -1 if readable.covered < 0 else sum(readable.lag <= bound for bound in bounds)
