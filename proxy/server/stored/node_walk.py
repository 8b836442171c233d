"""The walk over all keys of one server: a generator of requests, which gets their replies.

    SCAN                    of the next page, and in the same pipeline
    TYPE PTTL MEMORY USAGE  of each key of this page that has not been counted yet
    HLEN, STRLEN …          only of keys of which nothing but the number of members can tell whether they are too large

Whoever drives it throws ``OtherProcessError`` where another server process answers than before: its cursors are others,
so the walk of that database starts over. What has been counted stays counted.

SCAN shows each key that is there during the whole walk (https://redis.io/docs/latest/commands/scan/), whatever happens
to others meanwhile. So a walk that ends without that error has met all keys that have stayed on this server.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

import hiredis

from proxy.commands.slots import SLOTS, slot_of
from proxy.net.connection.info_figures import read_info
from proxy.rules.stored import StoredKey
from proxy.server.stored.model import NodeFigures
from proxy.server.stored.page import (
    Command,
    Details,
    Missing,
    has_moved,
    keys_by_type,
    size_commands,
    with_asking,
    with_size,
    without_asking,
)
from proxy.server.stored.sample import (
    GROUPS,
    STEP,
    UNIT,
    Sampling,
    Stands,
    StepKeys,
    cursor_at,
    has_table_of_each_slot,
    slot_at,
)
from proxy.server.stored.seen import SeenKeys, mark_of
from proxy.server.stored.totals import Judged, Totals
from proxy.wire.numbers import read_digits

COUNT = 100
"""Keys of a page, about: a server runs the commands for so many in less than a millisecond."""


_WOULD_TOUCH = "CLIENT NO-TOUCH (Redis 7.2) is not there, not allowed or not safe, and --touch is not given"


class Request(NamedTuple):
    """Commands for a database, or for none in particular, sent in one piece.

    ``once``: sent at most once, at once, and on the connection that has carried the request before it; if that is lost,
    ``LostReplyError`` is thrown, or ``OtherProcessError``. Other requests are sent again until the server serves;
    ``undo`` before that, if the connection is still the same.
    """

    database: int | None
    commands: Sequence[Command]
    once: bool = False
    undo: Sequence[Command] = ()


Walking: TypeAlias = Generator[Request, Sequence[Any], None]
Act: TypeAlias = Callable[[int, list[StoredKey], frozenset[bytes]], Walking]
"""What is done with keys of a database, in place of counting them. Of the last ones, the node has their slots only in
part: each command about them follows ASKING. It marks as seen what need not be looked at again."""


@dataclass(slots=True)
class Place:
    """Where the walk of a server is: which databases are ``done``, and from which ``cursor`` on keys of a ``database``
    may not have been counted. ``run_id`` names the process, if it is known."""

    done: list[int] = field(default_factory=list)
    database: int | None = None
    cursor: str = "0"
    run_id: str = ""


class OtherProcessError(Exception):
    """Another server process answers now."""


class LostReplyError(Exception):
    """The connection was lost: what was to be sent once may have run, or not."""


class EnoughError(Exception):
    """No more keys are wanted."""


class ScanRefusedError(Exception):
    """The server does not let the user walk; the text is its error."""


class Judge(Protocol):
    """What a policy says of stored keys."""

    def judge(self, key: StoredKey) -> Judged: ...
    def wants_members(self, key: StoredKey) -> bool: ...
    def wants_head(self, key: StoredKey) -> bool: ...


def _every_key(_database: int, _key: bytes) -> bool:
    return True


class Tally:
    """What the walks of all servers share: which keys were counted, what was found, and who judges. A key is looked at
    if it ``concerns`` somebody, by its database and name."""

    def __init__(
        self, judge: Judge, totals: Totals, seen: SeenKeys, concerns: Callable[[int, bytes], bool] = _every_key
    ) -> None:
        self.judge = judge
        self.totals = totals
        self.seen = seen
        self.concerns = concerns
        self.sampling: Sampling | None = None
        self.notes: dict[str, None] = {}

    def note(self, text: str) -> None:
        """Say once what the result lacks."""
        self.notes[text] = None

    def count(self, key: StoredKey, node: NodeFigures, database: int) -> None:
        """Judge and count a key, unless it has been counted meanwhile."""
        if self.seen.add(mark_of(database, key.name)):
            self.totals.add(key, self.judge.judge(key), node, database, 1 if self.sampling is None else UNIT)
        else:
            node.repeated += 1

    def draw(self, sampling: Sampling, key: StoredKey, node: NodeFigures, database: int, stands: Stands) -> None:
        """Judge a key of a sample, and count it. Who was drawn twice counts twice."""
        judged = self.judge.judge(key)
        sampling.drawn += 1
        sampling.groups[stands.group].add(key, judged, NodeFigures(""), database, stands.units)
        self.totals.add(key, judged, node, database, stands.units)


class NodeWalk:
    """One server's keys: those of ``database``, or of all databases that it names. ``counts_members``: commands that
    count members leave access times alone, or are allowed anyway. ``moved`` hears of each slot of which a key was shown
    here but belongs to another node. Keys are counted, or ``act`` gets them, at most ``most_keys`` at a time."""

    def __init__(
        self,
        tally: Tally,
        figures: NodeFigures,
        database: int | None = None,
        moved: Callable[[int], None] = lambda _: None,
        act: Act | None = None,
    ) -> None:
        self.counts_members = False
        self.most_keys = COUNT
        self.place = Place()
        self.figures = figures
        self._tally = tally
        self._database = database
        self._moved = moved
        self._counts = act is None
        self._act = act or self._count
        self._details = Details()
        self._stands: Stands | None = None

    def start_over(self) -> None:
        """Another process answers than that of the place where the walk is."""
        self.figures.restarts += bool(self.place.done) or self.place.cursor != "0"
        self.figures.before = self.figures.after = 0
        self.place = Place()

    def walk(self) -> Walking:
        """The requests of the whole walk, from its place on. Raises ScanRefusedError."""
        self.figures.walks += 1
        if not self.place.done:
            self.figures.after = 0
        try:
            yield from self._walk()
        except EnoughError:
            pass
        self.figures.finished = True

    def _walk(self) -> Walking:
        databases = yield from self._databases()
        begun = self.place.database  # its size was counted when that was
        for database in databases:
            if database in self.place.done:
                continue
            size = yield from self._size(database)
            self.figures.before += size if self.figures.walks == 1 and database != begun else 0
            sampling = self._tally.sampling
            steps = 0 if sampling is None else sampling.steps(size)
            self.figures.planned += 0 if sampling is None else steps * STEP or size
            if sampling is not None and steps:
                yield from self._draw(sampling, database, size, steps)
            while not steps:
                try:
                    yield from self._pages(database)
                    break
                except OtherProcessError:
                    self._lose_place()
            self.place.done.append(database)
            self.place.cursor = "0"
            self.figures.after += yield from self._size(database)
        told = (yield from self._one(None, (b"INFO", b"keysizes"))) if self._counts else None
        self.figures.keysizes = keys_by_type(read_info(told), databases) if isinstance(told, bytes) else {}

    def _databases(self) -> Generator[Request, Sequence[Any], list[int]]:
        if self._database is not None:
            return [self._database]
        told = yield from self._one(None, (b"INFO", b"keyspace"))
        if isinstance(told, hiredis.ReplyError):
            self._tally.note(f"only database 0 of {self.figures.name} was walked, since INFO is refused: {told}")
            return [0]
        numbers = [read_digits(name.removeprefix("db")) for name in read_info(told) if name.startswith("db")]
        return sorted(number for number in numbers if number is not None)

    def _size(self, database: int) -> Generator[Request, Sequence[Any], int]:
        size = yield from self._one(database, (b"DBSIZE",))
        return size if isinstance(size, int) else 0

    def _one(self, database: int | None, command: Command) -> Generator[Request, Sequence[Any], Any]:
        (reply,) = yield from self._all(database, [command])
        return reply

    def _all(
        self, database: int | None, commands: Sequence[Command]
    ) -> Generator[Request, Sequence[Any], Sequence[Any]]:
        # For what means the same whichever process answers it. The cursor of an earlier scan, which is to go on here,
        # does not.
        while True:
            try:
                return (yield Request(database, commands))
            except OtherProcessError:
                if self.place.cursor != "0":
                    self._lose_place()

    def _lose_place(self) -> None:
        self.figures.restarts += 1
        self.place.cursor = "0"

    # A sample

    def _draw(self, sampling: Sampling, database: int, size: int, steps: int) -> Walking:
        # A place is as random in the tables of another process.
        units = sampling.begin(size, steps)
        sizes = yield from self._slot_sizes(database)
        for number, place in enumerate(sampling.places(steps)):
            slot, place_there = slot_at(place, sizes) if sizes else (None, place)
            self._stands = Stands(units, number % GROUPS)
            while True:
                try:
                    keys = yield from self._step(database, cursor_at(place_there, slot))
                    if keys:
                        told = yield Request(database, self._details.commands(keys))
                        yield from self._take(database, keys, told)
                    break
                except OtherProcessError:
                    continue
        self._stands = None

    def _step(self, database: int, cursor: bytes) -> Generator[Request, Sequence[Any], list[bytes]]:
        keys: list[bytes] = []
        step, more = StepKeys(cursor), True
        while more:
            page = yield from self._one(database, (b"SCAN", step.cursor, b"COUNT", b"%d" % STEP))
            if isinstance(page, hiredis.ReplyError):
                raise ScanRefusedError(f"SCAN: {page}")
            more = step.take(keys, *page)
        self.figures.shown += len(keys)
        return keys

    def _slot_sizes(self, database: int) -> Generator[Request, Sequence[Any], list[int]]:
        # Of all slots, where each has a table of its own; else nothing.
        told = yield from self._one(None, (b"INFO", b"server"))
        if not isinstance(told, bytes) or not has_table_of_each_slot(read_info(told)):
            return []
        counts = yield from self._all(
            database, [(b"CLUSTER", b"COUNTKEYSINSLOT", b"%d" % slot) for slot in range(SLOTS)]
        )
        refused = next((each for each in counts if isinstance(each, hiredis.ReplyError)), None)
        if refused is not None:
            raise ScanRefusedError(f"CLUSTER COUNTKEYSINSLOT, which a sample needs: {refused}")
        return [*counts]

    def _pages(self, database: int) -> Walking:
        if self.place.database != database:
            self.place.database, self.place.cursor = database, "0"
        cursor = self.place.cursor.encode()
        keys: list[bytes] = []
        more = True
        while more or keys:
            commands = self._details.commands(keys)
            if more:
                commands.append((b"SCAN", cursor, b"COUNT", b"%d" % COUNT))
            *told, last = yield Request(database, commands)
            page = last if more else None
            if page is None:
                told.append(last)
            if isinstance(page, hiredis.ReplyError):
                raise ScanRefusedError(f"SCAN: {page}")
            yield from self._take(database, keys, told)
            self.place.cursor = cursor.decode()  # what it shows is not counted yet
            keys = []
            if page is not None:
                cursor, shown = page
                more = cursor != b"0"
                keys = self._not_counted(database, shown)

    def _not_counted(self, database: int, shown: list[bytes]) -> list[bytes]:
        self.figures.shown += len(shown)
        wanted = [key for key in shown if self._tally.concerns(database, key)]
        fresh = [key for key in dict.fromkeys(wanted) if not self._tally.seen.has(mark_of(database, key))]
        self.figures.repeated += len(wanted) - len(fresh)
        return fresh

    def _take(self, database: int, keys: list[bytes], replies: Sequence[Any]) -> Walking:
        found = dict(zip(keys, self._details.read(keys, replies), strict=True))
        here = [key for key, each in found.items() if each is Missing.MOVED]
        if here:
            # The node may be taking over the slot: keys that it has already are answered for to those who say ASKING.
            # A key that is not here has gone to another node.
            told = yield Request(database, self._details.commands(here, asking=True))
            again = self._details.read(here, told, asking=True)
            told_now = (Missing.MOVED if each is Missing.GONE else each for each in again)
            found |= dict(zip(here, told_now, strict=True))
        if self._details.forbidden:
            raise ScanRefusedError(self._details.forbidden)
        if self._details.refusal:
            self._tally.note(f"bytes are not known: {self.figures.name} answers MEMORY USAGE: {self._details.refusal}")
        for key, each in found.items():
            if isinstance(each, Missing):
                self._miss(key, each)
        stored = [each for each in found.values() if isinstance(each, StoredKey)]
        while stored:
            now, stored = stored[: self.most_keys], stored[self.most_keys :]
            yield from self._act(database, now, frozenset(here))

    def _miss(self, key: bytes, why: Missing) -> None:
        match why:
            case Missing.GONE:
                self.figures.gone += 1
            case Missing.UNREADABLE:
                self.figures.unreadable += 1
            case Missing.MOVED | Missing.ASK:
                self.figures.elsewhere += 1
                self._moved(slot_of(key))

    def _count(self, database: int, stored: list[StoredKey], asking: frozenset[bytes]) -> Walking:
        judge = self._tally.judge
        wanted: dict[int, list[Command]] = {}
        for at, key in enumerate(stored):
            if its := size_commands(key, members=judge.wants_members(key), head=judge.wants_head(key)):
                wanted[at] = its
        moved: set[int] = set()
        if wanted and not self.counts_members:
            self._tally.note(f"members of keys were not counted at {self.figures.name}: {_WOULD_TOUCH}")
        elif wanted:
            names = [stored[at].name for at, its in wanted.items() for _ in its]
            commands = zip(names, (each for its in wanted.values() for each in its), strict=True)
            told = yield Request(database, [each for its in commands for each in with_asking(*its, asking)])
            replies = iter(without_asking(names, told, asking))
            for at, its in wanted.items():
                of_key = [next(replies) for _ in its]
                stored[at] = with_size(stored[at], of_key)
                if any(map(has_moved, of_key)):
                    moved.add(at)
        for at, key in enumerate(stored):
            if at in moved:
                self._miss(key.name, Missing.MOVED)
            elif self._tally.sampling is None or self._stands is None:
                self._tally.count(key, self.figures, database)
            else:
                self._tally.draw(self._tally.sampling, key, self.figures, database, self._stands)
