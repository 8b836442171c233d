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
from typing import Any, NamedTuple, Protocol, TypeAlias

import hiredis

from proxy.commands.slots import slot_of
from proxy.net.connection.info_figures import read_info
from proxy.rules.stored import StoredKey
from proxy.server.stored.model import NodeFigures
from proxy.server.stored.page import Command, Details, Missing, members_of
from proxy.server.stored.seen import SeenKeys, mark_of
from proxy.server.stored.totals import Judged, Totals
from proxy.wire.numbers import read_digits

COUNT = 100
"""Keys of a page, about: a server runs the commands for so many in less than a millisecond."""


_WOULD_TOUCH = "CLIENT NO-TOUCH (Redis 7.2) is not there or not allowed, and --touch is not given"


class Request(NamedTuple):
    """Commands for a database, or for none in particular, sent in one piece.

    ``once``: sent at most once, at once, and on the connection that has carried the request before it; if that is lost,
    ``LostReplyError`` is thrown, or ``OtherProcessError``. Other requests are sent again until the server serves.
    """

    database: int | None
    commands: Sequence[Command]
    once: bool = False


Walking: TypeAlias = Generator[Request, Sequence[Any], None]
Act: TypeAlias = Callable[[int, list[StoredKey], frozenset[bytes]], Walking]
"""What is done with keys of a database, in place of counting them. Of the last ones, the node has their slots only in
part: each command about them follows ASKING. It marks as seen what need not be looked at again."""


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
        self.notes: dict[str, None] = {}

    def note(self, text: str) -> None:
        """Say once what the result lacks."""
        self.notes[text] = None

    def count(self, key: StoredKey, node: NodeFigures, database: int) -> None:
        """Judge and count a key, unless it has been counted meanwhile."""
        if self.seen.add(mark_of(database, key.name)):
            self.totals.add(key, self.judge.judge(key), node, database)
        else:
            node.repeated += 1


class NodeWalk:
    """One server's keys: those of ``database``, or of all databases that it names. ``counts_members``: commands that
    count members leave access times alone, or are allowed anyway. ``moved`` hears of each slot of which a key was shown
    here but belongs to another node. Keys are counted, or ``act`` gets them."""

    def __init__(
        self,
        tally: Tally,
        figures: NodeFigures,
        database: int | None = None,
        moved: Callable[[int], None] = lambda _: None,
        act: Act | None = None,
    ) -> None:
        self.counts_members = False
        self.figures = figures
        self._tally = tally
        self._database = database
        self._moved = moved
        self._act = act or self._count
        self._details = Details()

    def walk(self) -> Walking:
        """The requests of the whole walk. Raises ScanRefusedError."""
        self.figures.walks += 1
        self.figures.after = 0
        try:
            yield from self._walk()
        except EnoughError:
            pass
        self.figures.finished = True

    def _walk(self) -> Walking:
        for database in (yield from self._databases()):
            size = yield from self._size(database)
            self.figures.before += size if self.figures.walks == 1 else 0
            while True:
                try:
                    yield from self._pages(database)
                    break
                except OtherProcessError:
                    self.figures.restarts += 1
            self.figures.after += yield from self._size(database)

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
        # For what means the same whichever process answers it.
        while True:
            try:
                (reply,) = yield Request(database, [command])
            except OtherProcessError:
                continue
            return reply

    def _pages(self, database: int) -> Walking:
        cursor: bytes = b"0"
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
        yield from self._act(
            database, [each for each in found.values() if isinstance(each, StoredKey)], frozenset(here)
        )

    def _miss(self, key: bytes, why: Missing) -> None:
        match why:
            case Missing.GONE:
                self.figures.gone += 1
            case Missing.UNREADABLE:
                self.figures.unreadable += 1
            case Missing.MOVED | Missing.ASK:
                self.figures.elsewhere += 1
                self._moved(slot_of(key))

    def _count(self, database: int, stored: list[StoredKey], _asking: frozenset[bytes]) -> Walking:
        wanted: dict[int, Command] = {}
        for at, key in enumerate(stored):
            if self._tally.judge.wants_members(key) and (command := members_of(key)) is not None:
                wanted[at] = command
        if wanted and not self.counts_members:
            self._tally.note(f"members of keys were not counted at {self.figures.name}: {_WOULD_TOUCH}")
        elif wanted:
            replies = yield Request(database, [*wanted.values()])
            for at, members in zip(wanted, replies, strict=True):
                if isinstance(members, int):  # else its type has changed, or the user may not ask
                    key = stored[at]
                    stored[at] = StoredKey(key.name, key.type, key.ttl, key.memory, members)
        for key in stored:
            self._tally.count(key, self.figures, database)
