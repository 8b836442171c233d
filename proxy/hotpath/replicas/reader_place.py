# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""Whether a replica has all that a client has seen or written at its primary.

Time is counted in *looks* at a primary, which are numbered. A look asks the primary for its replication offset, and
then its replicas for what they have applied. So both sides of the question are numbers of looks:

    Replica.covered     the last look whose offset of the primary the replica has applied
    ReaderPlace.mark    the first look that was begun after all that the client has read or written there was answered

A replica whose ``covered`` reaches the ``mark`` has all that the client knows. A client's command to the primary makes
its place ``marked``, whatever it reads there: the mark is not known before a look is begun while no reply is pending
for the client. Reads from the replica of a place need no mark, since a replica does not go back; a change of the
replica does.

All replicas of one primary in one replication stream are a ``ReplicaGroup``. Another stream is another group, and what
is known of clients by the old one is void: they are marked.
"""

from collections.abc import Callable

from proxy.hotpath.upstream.in_flight import ReplySink
from proxy.hotpath.upstream.outgoing import MOST_KEPT
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline

_NEVER = -1
_NO_LAG = 1e18


class Replica:
    """A replica, as it was when it was asked last. ``lag`` is by how many seconds, at most, its data was older than the
    primary's, ``until`` is the time up to which that counts. ``name`` is for figures."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.covered = _NEVER
        self.lag = _NO_LAG
        self.until = 0.0

    def measured(self, covered: int, lag: float, until: float) -> None:
        """It has applied all up to this look."""
        self.covered = covered
        self.lag = lag
        self.until = until

    def leave(self) -> None:
        """It answers no reads any more, as far as is known."""
        self.covered = _NEVER
        self.lag = _NO_LAG
        self.until = 0.0


def _nobody() -> None:
    """In place of a call of whoever looks, where nobody does."""


class ReplicaGroup:
    """The replicas of one primary in one replication stream. ``version`` counts what may let clients choose another
    replica. ``looks`` is the number of the last look that was begun; ``hurry`` is called where a client's read stays
    with the primary for want of one. Without ``watched``, nobody looks, and no place is kept in ``marked``.

    ``moved`` counts the reads of replicas, ``behind`` and ``unfit`` those of the primary: since the replica did not
    have what the client knows, and since there was none within the bound.
    """

    def __init__(self, watched: bool = True, hurry: Callable[[], object] = _nobody) -> None:
        self.version = 0
        self.looks = 0
        self.watched = watched
        self.wanted = False
        self.hurry = hurry
        self.marked: list[ReaderPlace] = []
        self.moved = 0
        self.behind = 0
        self.unfit = 0

    def follow(self, before: "ReplicaGroup") -> None:
        """Go on where another group ends: its stream has ended."""
        self.looks = before.looks
        self.hurry = before.hurry
        self.moved, self.behind, self.unfit = before.moved, before.behind, before.unfit
        before.watched = False
        before.marked = []
        before.changed()

    def want(self) -> None:
        """A look would help a client."""
        if not self.wanted:
            self.wanted = True
            self.hurry()

    def begin_look(self) -> int:
        """A look begins: whoever awaits no reply knows nothing that is newer. Returns its number."""
        self.looks += 1
        self.wanted = False
        waiting = self.marked
        self.marked = []
        for place in waiting:
            sender = place.sender
            if sender.gone or place.group is not self:
                continue
            if sender.pending_replies == 0:
                place.mark = self.looks
                place.marked = False
            else:
                self.marked.append(place)
            place.wrote = False
        return self.looks

    def returning(self) -> "list[ReaderPlace]":
        """Places of clients that have only read since the last look, and whose replica had everything then. A client
        that always awaits a reply can return to its replica only if its commands wait for a look."""
        found = []
        for place in self.marked:
            replica = place.replica
            if not place.wrote and replica is not None and replica.covered >= self.looks:
                found.append(place)
        return found

    def changed(self) -> None:
        """Clients look for a replica anew."""
        self.version += 1


class ReaderPlace:
    """What one client reads from the replicas of one primary, by its ``number``: on ``upstream``, the connection to
    ``replica``.

    ``version`` is that of the group when the place chose last (``chosen``), or another one if it has to choose anew.
    ``wrote``: since the last look, the client has sent more than reads to the primary. ``used``: it has sent anything.
    ``asked`` is the last round in which the replica was asked: see ``ClientReads``. ``same_zone``: the client has read
    by terms that prefer replicas of Keyrail's own zone.
    """

    def __init__(self, sender: ReplySink, group: ReplicaGroup, number: int = 0) -> None:
        self.sender = sender
        self.group = group
        self.number = number
        self.version = _NEVER
        self.chosen = _NEVER
        self.looked = _NEVER
        self.replica: Replica | None = None
        self.upstream: UpstreamPipeline | None = None
        self.mark = 0
        self.marked = False
        self.wrote = False
        self.used = False
        self.asked = _NEVER
        self.same_zone = False
        self._run = _NEVER
        self._terms = _NEVER
        self._hides_absence = False

    def note(self, wrote: bool) -> None:
        """The client sends something to the primary by which it may learn or change what it reads here."""
        self.used = True
        self._run = _NEVER
        if wrote:
            self.wrote = True
        if not self.marked:
            self.marked = True
            if self.group.watched:
                self.group.marked.append(self)

    def attach(self, group: ReplicaGroup) -> None:
        """From now on its replicas are those of another group: what is known of the client is void."""
        self.group = group
        self.version = self.chosen = self._run = _NEVER
        self.replica = None
        self.upstream = None
        self.marked = False
        if self.used:
            self.note(False)

    def choose(self, replica: Replica | None, upstream: UpstreamPipeline | None) -> None:
        """Read on this connection from now on, or from the primary. Another connection may lead to older data."""
        self.version = self.chosen = self.group.version
        if upstream is self.upstream and replica is self.replica:
            return
        self.replica = replica
        self.upstream = upstream
        self._run = _NEVER
        if self.used:
            self.note(False)

    def reader(self, max_lag: float, now: float, hides_absence: bool = False) -> UpstreamPipeline | None:
        """The connection to a replica for a read that may be ``max_lag`` seconds old; None for the primary's. Its reply
        may not show that one of its keys does not exist (``hides_absence``). It is counted."""
        group = self.group
        if not self._is_near(max_lag, now, hides_absence):
            group.unfit += 1
            if self.looked != group.looks:
                # Another one may be near, as far as the last look tells.
                self.looked = group.looks
                self.version = _NEVER
            return None
        if self._is_behind():
            group.behind += 1
            group.want()
            return None
        self.used = True
        group.moved += 1
        return self.upstream

    def note_reader(self, run: int, terms: int, hides_absence: bool) -> None:
        """The replica answers a read by these terms, in this run of the client's commands."""
        self._run = run
        self._terms = terms
        self._hides_absence = hides_absence

    def goes_on(self, run: int, terms: int, hides_absence: bool) -> bool:
        """Whether a read is like that one, and the client has learned nothing since: the replica answers it, too."""
        return run == self._run and terms == self._terms and hides_absence == self._hides_absence

    def may_read(self, max_lag: float, now: float, hides_absence: bool) -> bool:
        """Whether ``reader`` would find a connection. Nothing is counted."""
        return self._is_near(max_lag, now, hides_absence) and not self._is_behind()

    def _is_near(self, max_lag: float, now: float, hides_absence: bool) -> bool:
        replica = self.replica
        upstream = self.upstream
        if replica is None or upstream is None:
            return False
        if hides_absence and upstream.doubts:
            return False  # a key may be at another node already, and nobody would notice
        near = replica.lag <= max_lag and now <= replica.until
        return near and upstream.usable and upstream.kept < MOST_KEPT  # what is not kept cannot be sent again

    def _is_behind(self) -> bool:
        # What the client knows, the replica may lack.
        return self.marked or (self.replica is not None and self.replica.covered < self.mark)
