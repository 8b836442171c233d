"""Rewrites values of one server's keys while they are walked, each only if nobody has written to its key since it was
read.

A key is watched, read, and written in a transaction, on one connection; EXEC does nothing if somebody has written
meanwhile, or the key has expired. No script runs, and a reply that was lost is no harm: the key is read again, and has
the new value or the old one. SET … XX KEEPTTL keeps the TTL of a key. HSET takes the TTL from a field, so fields with
one are written with HSETEX … FXX KEEPTTL, or left where the engine has no HSETEX (Redis 7.4).

MULTI is sent with the reads, before the values are known: if it is refused, nothing is written outside of a
transaction. These are at most four commands, which are never sent apart (``LEAST_COMMANDS``).

Keyrail itself would show each value plain, and compress once more what is compressed here. It refuses PSYNC in every
mode; Redis counts its arguments first, and tells that there are too few.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import hiredis

from proxy.commands.slots import slot_of
from proxy.compression.frames import FIELD, HEAD, STRING
from proxy.rules.compress.stored_form import LARGEST, Left, Made, StoredForm
from proxy.rules.stored import StoredKey
from proxy.server.stored.changes import checked
from proxy.server.stored.changes.rewritten import Rewritten, RewrittenRow
from proxy.server.stored.changes.transaction import ABANDONING, abandon
from proxy.server.stored.model import NodeFigures
from proxy.server.stored.node_run import NodeLostError
from proxy.server.stored.node_walk import (
    Act,
    EnoughError,
    LostReplyError,
    Request,
    ScanRefusedError,
    Tally,
    Walking,
)
from proxy.server.stored.page import Command, has_moved, is_momentary
from proxy.server.stored.seen import mark_of
from proxy.server.stored.totals import Judged

_T = TypeVar("_T")
_Asking: TypeAlias = Generator[Request, Sequence[Any], _T]
_Decide: TypeAlias = "Callable[[Sequence[Any]], _Attempt]"
_TRIES = 5
_MOST_FIELDS = 100
_PAGE = 256 << 10
"""The bytes of a page of a hash, about."""
_HASH = "hash"
_VERSIONS = {"string": STRING, _HASH: FIELD}
_NO_TTL, _SOME_TTL = -1, 1
_REFUSED_BY_KEYRAIL: Command = (b"PSYNC",)
_FIELD_TTL = Left("fields with a TTL, which this Redis cannot keep in a write (no HSETEX)")


class Wanted(Protocol):
    """Which keys are rewritten, and into which form."""

    def concerns(self, database: int, name: bytes) -> bool:
        """Whether it is about the key, by its name. What is not, is never read."""

    def form_of(self, name: bytes, judged: Judged) -> StoredForm | Left | None:
        """What the key's values have to become, or why they stay as they are; None if the key is not meant."""


class Rewrites:
    """One run over all servers; ``dry``: it is only counted what would be done. At most ``limit`` keys are
    rewritten."""

    def __init__(self, wanted: Wanted, *, dry: bool, limit: int | None = None) -> None:
        self.wanted = wanted
        self.dry = dry
        self._left = limit
        self.found = Rewritten()

    def concerns(self, database: int, key: bytes) -> bool:
        """Whether it is about the key, by its name."""
        return self.wanted.concerns(database, key)

    def at(self, tally: Tally, figures: NodeFigures, moved: Callable[[int], None]) -> Act:
        """What is done with the keys of a server."""
        return _NodeRewrites(self, tally, figures, moved).act

    def grant(self) -> None:
        """One more key is to be rewritten. Raises EnoughError."""
        if self._left == 0:
            self.found.reached_limit = True
            raise EnoughError
        self._left = None if self._left is None else self._left - 1

    def give_back(self) -> None:
        """It was not."""
        self._left = None if self._left is None else self._left + 1


class _Key(NamedTuple):
    key: StoredKey
    judged: Judged
    form: StoredForm


class _MovedError(Exception):
    """The key is at another node now, or will be."""


class _StopError(Exception):
    """Nothing more can be done with this key; it is told why."""


class _NodeRewrites:
    def __init__(self, run: Rewrites, tally: Tally, figures: NodeFigures, moved: Callable[[int], None]) -> None:
        self._run = run
        self._found = run.found
        self._tally = tally
        self._figures = figures
        self._moved = moved
        self._granted = False
        self._is_redis = False
        self._knows = _Knows(field_ttls=True, hsetex=False)

    def act(self, database: int, keys: list[StoredKey], asking: frozenset[bytes]) -> Walking:
        """Rewrite values of these keys. Raises EnoughError, NodeLostError and ScanRefusedError. A key whose slot is on
        its way here is left until it has arrived: then the node is walked again."""
        if not self._is_redis:
            yield from self._check_server()
        mine = self._pick(database, keys)
        if any(each.key.type == _HASH for each in mine):
            known = yield Request(None, [(b"HPTTL",), (b"HSETEX",)])  # if another process answers, it is asked again
            self._knows = _Knows(*(not str(reply).startswith("ERR unknown command") for reply in known))
        heads = yield from self._heads(database, [each.key for each in mine if each.key.name not in asking])
        for each in mine:
            name = each.key.name
            is_here = name not in asking
            try:
                if is_here:
                    yield from self._rewrite(database, each, heads.get(name))
            except _MovedError:
                is_here = False
            except _StopError:
                pass
            if not is_here:
                self._moved(slot_of(name))
                self._figures.elsewhere += 1
                continue
            self._note(mark_of(database, name))
            self._figures.counted += 1

    def _note(self, mark: int) -> None:
        # Without room a few keys would be taken for repeated ones and left. To look at a key again is no harm.
        if self._tally.seen.has_room:
            self._tally.seen.add(mark)

    def _check_server(self) -> Walking:
        (told,) = yield Request(None, [_REFUSED_BY_KEYRAIL])
        if isinstance(told, hiredis.ReplyError) and str(told).startswith("DENIED keyrail"):
            raise ScanRefusedError("it is Keyrail, which compresses itself; --upstream has to name the Redis behind it")
        self._is_redis = True

    def _pick(self, database: int, keys: Sequence[StoredKey]) -> list[_Key]:
        picked = []
        for key in keys:
            mark = mark_of(database, key.name)
            if not self._run.concerns(database, key.name) or self._tally.seen.has(mark):
                continue
            if key.type in _VERSIONS:
                judged = self._tally.judge.judge(key)
                form = self._run.wanted.form_of(key.name, judged)
                if isinstance(form, Left):
                    self._found.leave(form)
                elif form is not None:
                    picked.append(_Key(key, judged, form))
                    continue
            self._note(mark)
        return picked

    def _heads(self, database: int, keys: Sequence[StoredKey]) -> _Asking[Mapping[bytes, Sequence[Any]]]:
        names = [key.name for key in keys if key.type != _HASH]
        if not names:
            return {}
        commands = [
            each for name in names for each in ((b"STRLEN", name), (b"GETRANGE", name, b"0", b"%d" % (HEAD - 1)))
        ]
        replies = yield Request(database, commands)
        return dict(zip(names, zip(replies[::2], replies[1::2], strict=True), strict=True))

    def _rewrite(self, database: int, each: _Key, head: Sequence[Any] | None) -> Walking:
        row = RewrittenRow(keys=1)
        self._granted = False
        try:
            if head is None:
                yield from self._hash(database, each, row)
            else:
                yield from self._string(database, each, head, row)
        finally:
            if row.values:
                self._found.add(each.judged, each.key.name, row)
            elif self._granted:
                self._run.give_back()

    def _grant(self) -> None:
        """The key is about to be rewritten. Raises EnoughError."""
        if not self._granted:
            self._run.grant()
            self._granted = True

    # One value

    def _string(self, database: int, each: _Key, head: Sequence[Any], row: RewrittenRow) -> Walking:
        self._check(head)
        size, begins = head
        if not self._wants(each.form, begins, size, STRING):
            return
        name, most = each.key.name, each.form.most

        def decide(replies: Sequence[Any]) -> _Attempt:
            attempt, (stored,) = _Attempt(), replies
            if len(stored) <= most:  # or somebody has written a larger one meanwhile
                new = attempt.take(stored, each.form.made(stored, STRING))
                attempt.writes += [] if new is None else [(b"SET", name, new, b"XX", b"KEEPTTL")]
            return attempt

        reads = [(b"GETRANGE", name, b"0", b"%d" % most)]
        self._end((yield from self._exchange(database, name, reads, decide)), row)

    def _wants(self, form: StoredForm, head: bytes, size: int, version: int) -> bool:
        wants = form.wants(head, size, version)
        if isinstance(wants, Left):
            self._found.leave(wants)
            return False
        return wants

    def _end(self, attempt: "_Attempt", row: RewrittenRow) -> None:
        row.add(attempt.row)
        for why in attempt.left:
            self._found.leave(why)

    # The fields of a hash

    def _hash(self, database: int, each: _Key, row: RewrittenRow) -> Walking:
        name = each.key.name
        (length,) = yield Request(database, [(b"HLEN", name)])
        self._check([length])
        mean = (each.key.memory or 0) // max(length, 1)
        count = max(min(_PAGE // max(mean, 1), _MOST_FIELDS), 1)
        cursor, more = b"0", True
        while more:
            (page,) = yield Request(database, [(b"HSCAN", name, cursor, b"COUNT", b"%d" % count)])
            self._check([page])
            cursor, flat = page
            for fields in self._batches(each.form, zip(flat[::2], flat[1::2], strict=True)):
                yield from self._fields(database, each, fields, row)
            more = cursor != b"0"

    def _batches(self, form: StoredForm, page: Iterable[tuple[bytes, bytes]]) -> Iterator["_Planned"]:
        batch: _Planned = {}
        size = 0
        for field, value in page:
            if not self._wants(form, value[:HEAD], len(value), FIELD):
                continue
            made = form.made(value, FIELD)
            if isinstance(made, Left):
                self._found.leave(made)
            elif made != value:
                batch[field] = value, made
                size += len(value) + len(made)
            if size > LARGEST:
                yield batch
                batch, size = {}, 0
        if batch:
            yield batch

    def _fields(self, database: int, each: _Key, planned: "_Planned", row: RewrittenRow) -> Walking:
        name, knows = each.key.name, self._knows
        reads: list[Command] = [(b"HMGET", name, *planned)]
        if knows.field_ttls:
            reads.append((b"HPTTL", name, b"FIELDS", b"%d" % len(planned), *planned))

        def decide(replies: Sequence[Any]) -> _Attempt:
            attempt, without_ttl = _Attempt(), list[bytes]()
            untold = _SOME_TTL if knows.hsetex else _NO_TTL
            values, ttls = replies if knows.field_ttls else (*replies, [untold] * len(planned))
            if not any(values):
                return attempt  # it is gone, and HPTTL may answer with null then
            for (field, (old, new)), value, ttl in zip(planned.items(), values, ttls, strict=True):
                if value != old:
                    continue  # somebody has written it since, with the rule
                if ttl == _NO_TTL:
                    attempt.take(value, new)
                    without_ttl += field, new
                elif knows.hsetex:
                    attempt.take(value, new)
                    attempt.writes.append((b"HSETEX", name, b"FXX", b"KEEPTTL", b"FIELDS", b"1", field, new))
                else:
                    attempt.left.append(_FIELD_TTL)
            attempt.writes += [(b"HSET", name, *without_ttl)] if without_ttl else []
            return attempt

        self._end((yield from self._exchange(database, name, reads, decide)), row)

    # Reading and writing in one step

    def _exchange(self, database: int, name: bytes, reads: Sequence[Command], decide: _Decide) -> _Asking["_Attempt"]:
        """Read the key, decide by the replies, and write, unless somebody has written meanwhile: then once more. What
        was done. Raises _MovedError and _StopError."""
        if self._run.dry:
            replies = yield Request(database, reads)
            self._check(replies)
            attempt = decide(replies)
            if attempt.writes:
                self._grant()
            return attempt
        for _ in range(_TRIES):
            try:
                done = yield from self._try(database, name, reads, decide)
            except LostReplyError:
                continue
            if done is not None:
                return done
        self._found.unfinished += 1
        raise _StopError

    def _try(self, database: int, name: bytes, reads: Sequence[Command], decide: _Decide) -> _Asking["_Attempt | None"]:
        replies = yield Request(database, [(b"WATCH", name), *reads, (b"MULTI",)], undo=ABANDONING)
        refused = [each for each in replies if isinstance(each, hiredis.ReplyError)]
        attempt = _Attempt() if refused else decide(replies[1:-1])
        if not attempt.writes:
            yield from abandon(database)
            self._check(refused)
            return attempt
        self._grant()
        ended = yield Request(database, [*attempt.writes, (b"EXEC",)], once=True)
        if checked.is_open_after(ended):
            yield from abandon(database)
        if is_momentary(ended):
            return None  # the next read waits until the server serves
        *queued, results = ended
        self._check([*queued, results, *(results if isinstance(results, list) else ())])
        return None if results is None else attempt

    def _check(self, replies: Sequence[Any]) -> None:
        errors = [each for each in replies if isinstance(each, hiredis.ReplyError)]
        if not errors:
            return
        if any(map(checked.became_replica, errors)):
            raise NodeLostError("it is a replica, and takes no writes")
        if any(map(has_moved, errors)):
            raise _MovedError
        if not str(errors[0]).startswith("WRONGTYPE"):  # somebody has written another value
            self._found.refuse(str(errors[0]))
        raise _StopError


class _Knows(NamedTuple):
    """Which commands the engine has."""

    field_ttls: bool
    hsetex: bool


_Planned: TypeAlias = dict[bytes, tuple[bytes, bytes]]
"""The old value and the new one of each field."""


class _Attempt:
    """What is written to a key in one step, and counted if it was: the figures of these values, and why others are
    left."""

    def __init__(self) -> None:
        self.writes: list[Command] = []
        self.row = RewrittenRow()
        self.left: list[Left] = []

    def take(self, stored: bytes, made: Made) -> bytes | None:
        """Count a value; the new one if there is one."""
        if isinstance(made, Left):
            self.left.append(made)
            return None
        if made == stored:
            return None
        self.row.add(RewrittenRow(0, 1, len(stored), len(made)))
        return made
