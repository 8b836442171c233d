# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""Which of a client's reads go to replicas, and where: never to an older one than what it has seen or written.

A client has a ``ReaderPlace`` for each primary. While replicas of a primary owe it replies, what only that primary can
answer waits, so that the client sees things in their order.
"""

from collections.abc import Callable

from proxy.hotpath.cache.cached_reads import CachedReads
from proxy.hotpath.plan.hot_path_config import MAY_WRITE, HotPathConfig
from proxy.hotpath.replicas.reader_place import ReaderPlace, ReplicaGroup
from proxy.hotpath.upstream.in_flight import ReplySink
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline

_NEVER = -1
_UNTOLD = 0.0


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
        config.count_moved(command_id, data)
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
                    config.count_moved(command_id, data)
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
