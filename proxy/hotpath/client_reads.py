# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""Which replica a client may read from now: never an older one than what it has seen or written.

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

from proxy.hotpath.cached_reads import CachedReads
from proxy.hotpath.hot_path_config import MAY_WRITE, HotPathConfig
from proxy.hotpath.in_flight import ReplySink
from proxy.hotpath.outgoing import MOST_KEPT
from proxy.hotpath.upstream_pipeline import UpstreamPipeline

_NEVER = -1
_NO_LAG = 1e18
_UNTOLD = 0.0


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


class ClientReads:
    """What one client may read from replicas, at a place for each primary. A place begins in the group ``unknown``.

    ``primary`` is the connection to the primary that the client used last. ``away`` says that replicas may owe it
    replies: those that were asked in this ``round``. Without ``eligible``, the primary answers all. While
    ``asks_owner``, it is asked whether a key exists that a replica does not have. ``clock`` tells the time, in seconds;
    ``choose`` chooses the replica of a place anew.
    """

    def __init__(
        self,
        sender: ReplySink,
        unknown: ReplicaGroup,
        clock: Callable[[], float],
        choose: Callable[[ReaderPlace], None],
    ) -> None:
        self.places: list[ReaderPlace] = []
        self.primary: UpstreamPipeline | None = None
        self.away = False
        self.round = 0
        self.eligible = True
        self.asks_owner = False
        self.clock = clock
        self.choose = choose
        self._sender = sender
        self._unknown = unknown
        self._now = _UNTOLD
        self._map_version = _NEVER
        self._run = 0
        self._last: ReaderPlace | None = None
        # To primaries that have no place yet, it has sent nothing.
        self._new = sender.requested == 0

    def place(self, number: int) -> ReaderPlace:
        """The place for the primary of this number: what it chose still holds."""
        place = self._at(number)
        if place.version != place.group.version:
            self.choose(place)
        return place

    def prefer_zone(self, place: ReaderPlace) -> None:
        """The client reads by terms that prefer replicas of Keyrail's own zone: it changes to one, if there is one."""
        if not place.same_zone:
            place.same_zone = True
            self.choose(place)

    def _at(self, number: int) -> ReaderPlace:
        while number >= len(self.places):
            place = ReaderPlace(self._sender, self._unknown, len(self.places))
            self.places.append(place)
            if not self._new:
                place.note(True)
        return self.places[number]

    # What the client learns elsewhere

    def note(self, number: int, wrote: bool) -> None:
        """The client sends something to this primary by which it may learn or change what it reads."""
        self._at(number).note(wrote)

    def note_everywhere(self, wrote: bool) -> None:
        """The same for all of them."""
        self._new = False
        for place in self.places:
            place.note(wrote)

    def follow(self, map_version: int) -> None:
        """This map is in force: after another one, keys may have another primary."""
        if map_version != self._map_version:
            if self._map_version != _NEVER:
                self.note_everywhere(True)
            self._map_version = map_version

    def choose_anew(self, eligible: bool) -> None:
        """The connections to replicas that the client may use are others; it may use none if it is not eligible."""
        self.eligible = eligible
        for place in self.places:
            place.version = _NEVER

    # Where a command goes

    def home(self, upstream: UpstreamPipeline | None) -> UpstreamPipeline | None:
        """The connection for commands that replicas do not answer, where this one was used last."""
        if upstream is None or not upstream.reads_only:
            self.primary = upstream
        self._now = _UNTOLD
        self._run += 1
        return self.primary

    def end_round(self) -> None:
        """No replica owes the client anything."""
        self.away = False
        self.round += 1

    def goes_on(self, config: HotPathConfig, command_id: int, upstream: UpstreamPipeline | None) -> bool:
        """Whether a command that the plan has looked at is a read like the last one of its run, which went to a replica
        on this connection, so that it goes there, too, if the plan lets it pass as it is. Memory must have no part in
        it. Nothing is counted."""
        place = self._last
        if place is None or place.upstream is not upstream or place.version != place.group.version:
            return False
        plan = config.plan
        hides_absence = plan.several or config.hides_absence[command_id] != 0
        return place.goes_on(self._run, plan.terms, hides_absence) and not plan.may_edit(command_id)

    def go_on(self, config: HotPathConfig, command_id: int, data: bytes) -> int:
        """The command goes there."""
        plan, place = config.plan, self._last
        assert place is not None, "another one has gone before"
        plan.count_terms()
        plan.count_moved(command_id, config.request, data, config.keys, config.counters)
        place.group.moved += 1
        place.asked = self.round
        return 0

    def holds(
        self,
        config: HotPathConfig,
        cached_reads: CachedReads | None,
        command_id: int,
        data: bytes,
        count: int,
        number: int,
    ) -> bool:
        """Whether a command that the plan has looked at waits for replies of replicas, behind ``count`` commands that
        have not left: it is for the primary of this number, or memory answers it, and replicas of that primary owe
        replies. Nothing is counted."""
        if not self.away or config.beside[command_id] != 0 or not self._waits_at(self._at(number), count):
            return False
        plan = config.plan
        reads = plan.replica_reads
        if reads is None or plan.may_edit(command_id):
            return True
        terms = plan.terms
        if not self._is_movable(config, cached_reads, command_id, data, terms):
            return True
        hides_absence = plan.several or config.hides_absence[command_id] != 0
        place = self.place(number)
        if reads.same_zone[terms] != 0:
            self.prefer_zone(place)
        return not place.may_read(reads.max_lags[terms], self._now, hides_absence)

    def source(
        self,
        config: HotPathConfig,
        cached_reads: CachedReads | None,
        command_id: int,
        data: bytes,
        passes: bool,
        count: int,
        number: int,
    ) -> UpstreamPipeline:
        """Where the command goes that the plan has decided and that is not held, of the primary of this number, behind
        ``count`` that have not left."""
        plan = config.plan
        primary = self.primary
        assert primary is not None, "the intake has a connection to the primary"
        if config.beside[command_id] != 0:
            return primary
        place = self.place(number)
        reads = plan.replica_reads
        if passes:
            if self.eligible:
                plan.count_terms()
            if reads is not None and self._is_movable(config, cached_reads, command_id, data, plan.terms):
                hides_absence = plan.several or config.hides_absence[command_id] != 0
                if reads.same_zone[plan.terms] != 0:
                    self.prefer_zone(place)
                replica = place.reader(reads.max_lags[plan.terms], self._now, hides_absence)
                if replica is not None:
                    plan.count_moved(command_id, config.request, data, config.keys, config.counters)
                    place.note_reader(self._run, plan.terms, hides_absence)
                    self._last = place
                    self.away = True
                    place.asked = self.round
                    return replica
        assert not self._waits_at(place, count), "it was not held"
        if self.away and not self.waits(count):
            self.end_round()
        place.note(config.pooled[command_id] == MAY_WRITE)
        return primary

    def _is_movable(
        self, config: HotPathConfig, cached_reads: CachedReads | None, command_id: int, data: bytes, terms: int
    ) -> bool:
        # Whether a replica may answer, if there is one for these terms.
        if terms < 0 or not self.eligible:
            return False
        if self._now == _UNTOLD:
            self._now = self.clock()
        # A replica may know more than what the client may be answered from memory.
        return not _is_remembered(config, cached_reads, command_id, data)

    def waits(self, count: int) -> bool:
        """Whether replies of replicas may be pending, behind ``count`` commands that have not left."""
        return self.away and (self._sender.pending_replies > 0 or count > 0)

    def _waits_at(self, place: ReaderPlace, count: int) -> bool:
        return place.asked == self.round and self.waits(count)


def _is_remembered(config: HotPathConfig, cached_reads: CachedReads | None, command_id: int, data: bytes) -> bool:
    if cached_reads is None or cached_reads.mask == 0 or cached_reads.cache.idle:
        return False
    return cached_reads.may_serve_any(command_id, config.request, data, config.keys)
