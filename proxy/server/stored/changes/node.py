"""Changes the keys of one server while they are walked, each of them only if it is still what the walk has found.

A batch of keys takes two requests: a read, which waits until the server may be asked, and behind it, at once and on the
same connection, what changes the keys. That one is never sent twice: if its replies are lost, the keys may have been
changed, and are left alone from then on. What the server has refused for a moment is looked at, and sent, again.

A key counts as seen when it is decided what becomes of it. Until then another node may come to it: its slot may move.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import hiredis

from proxy.commands.slots import slot_of
from proxy.rules.stored import StoredKey
from proxy.server.stored.changes import checked
from proxy.server.stored.changes.journal import Record
from proxy.server.stored.changes.model import Change, Changed, Outcome, Wish
from proxy.server.stored.changes.transaction import ABANDONING, abandon
from proxy.server.stored.model import NodeFigures
from proxy.server.stored.node_run import NodeLostError
from proxy.server.stored.node_walk import (
    Act,
    EnoughError,
    LostReplyError,
    OtherProcessError,
    Request,
    ScanRefusedError,
    Tally,
    Walking,
)
from proxy.server.stored.page import Command, with_asking, without_asking
from proxy.server.stored.seen import mark_of
from proxy.server.stored.totals import Judged

_T = TypeVar("_T")
_Asking: TypeAlias = Generator[Request, Sequence[Any], _T]
_Picked: TypeAlias = Mapping[bytes, tuple[StoredKey, Judged]]
_Told: TypeAlias = tuple[Outcome, Any]
"""What became of a key, and the reply that says so."""
_TRIES = 5
_MOST_REFUSALS = 20
_AGAIN = (Outcome.BUSY, Outcome.LATE)
_UNTOUCHED = (*_AGAIN, Outcome.MOVED)


class Changes:
    """One run of a change over all servers. Without a ``journal`` it is only counted what would be done. At most
    ``limit`` keys are changed."""

    def __init__(self, change: Change, journal: Record | None, limit: int | None = None) -> None:
        self.change = change
        self.journal = journal
        self.left = limit
        self.found = Changed()
        self.in_work: set[int] = set()
        """The marks of the keys about which a server has been asked."""

    def concerns(self, database: int, key: bytes) -> bool:
        """Whether it is about the key, by its name."""
        return self.change.concerns(database, key)

    def at(self, tally: Tally, figures: NodeFigures, moved: Callable[[int], None]) -> Act:
        """What is done with the keys of a server."""
        return _NodeChanges(self, tally, figures, moved).act

    def grant(self, wanted: int) -> int:
        """How many of so many keys may be changed now."""
        granted = wanted if self.left is None else min(wanted, self.left)
        self.give_back(-granted)
        return granted

    def give_back(self, number: int) -> None:
        """So many keys were not changed."""
        if self.left is not None:
            self.left += number


class _NodeChanges:
    def __init__(self, changes: Changes, tally: Tally, figures: NodeFigures, moved: Callable[[int], None]) -> None:
        self._changes = changes
        self._change = changes.change
        self._found = changes.found
        self._tally = tally
        self._figures = figures
        self._moved = moved
        self._has_scripts = True

    def act(self, database: int, keys: list[StoredKey], asking: frozenset[bytes]) -> Walking:
        """Change these keys. Raises EnoughError, ScanRefusedError, NodeLostError and JournalError."""
        picked = self._pick(database, keys)
        for _ in range(_TRIES):
            if not picked:
                return
            again = yield from self._attempt(database, picked, asking)
            picked = {name: each for name, each in picked.items() if name in again}
        self._found.outcomes[Outcome.BUSY] += len(picked)
        self._found.sent += len(picked)

    def _pick(self, database: int, keys: list[StoredKey]) -> _Picked:
        picked = {}
        for key in keys:
            mark = mark_of(database, key.name)
            # The walk has asked, too. What is not meant must not get further than here, whatever happens there.
            if not self._change.concerns(database, key.name) or self._tally.seen.has(mark):
                continue
            judged = self._tally.judge.judge(key)
            if self._change.picks(key, judged, self._found.left):
                picked[key.name] = key, judged
            else:
                self._tally.seen.add(mark)
        return picked

    def _attempt(self, database: int, picked: _Picked, asking: frozenset[bytes]) -> _Asking[set[bytes]]:
        """Look at the keys, and change them; those with which that has to be done again."""
        wishes = yield from self._wishes(database, picked, asking)
        granted = self._changes.grant(len(wishes))
        again: set[bytes] = set()
        for batch in self._batches(wishes[:granted]):
            told = yield from self._change_all(database, batch, asking)
            again |= self._end(database, batch, told, picked)
        if granted < len(wishes):
            self._found.reached_limit = True
            raise EnoughError
        return again

    def _batches(self, wishes: Sequence[Wish]) -> Sequence[Sequence[Wish]]:
        if self._has_scripts or self._changes.journal is None:
            return [wishes] if wishes else []
        return [[wish] for wish in wishes]

    # What the server is asked before

    def _wishes(self, database: int, picked: _Picked, asking: frozenset[bytes]) -> _Asking[list[Wish]]:
        first: Command = (b"TIME",) if self._change.asks_time else (b"TYPE", next(iter(picked)))
        commands = [first]
        for name in picked if self._change.asks_idle else ():
            commands += with_asking(name, (b"OBJECT", b"IDLETIME", name), asking)
        time, *replies = yield Request(database, commands)
        idle_times = self._idle_times(picked, replies, asking)
        now = _milliseconds(time) if self._change.asks_time else 0
        found = []
        for name, idle in idle_times.items():
            key, judged = picked[name]
            mark = mark_of(database, name)
            wish = self._change.wish(database, key, judged, now, idle)
            if wish is None:
                self._tally.seen.add(mark)
            elif mark not in self._changes.in_work and not self._tally.seen.has(mark):
                found.append(wish)
        return found

    def _idle_times(self, picked: _Picked, replies: Sequence[Any], asking: frozenset[bytes]) -> dict[bytes, int]:
        if not self._change.asks_idle:
            return dict.fromkeys(picked, 0)
        found = {}
        for name, reply in zip(picked, without_asking(picked, replies, asking), strict=True):
            if isinstance(reply, int):
                found[name] = reply
            elif isinstance(reply, hiredis.ReplyError):
                if checked.outcome_of(reply) is not Outcome.MOVED:
                    raise ScanRefusedError(f"OBJECT IDLETIME: {reply}")
                self._moved(slot_of(name))
        return found

    # What changes keys

    def _change_all(self, database: int, batch: Sequence[Wish], asking: frozenset[bytes]) -> _Asking[Sequence[_Told]]:
        self._found.sent += len(batch)
        if self._changes.journal is None:
            return [(Outcome.DONE, None)] * len(batch)
        number = self._changes.journal.will(self._figures.name, database, batch)
        marks = {mark_of(database, wish.key.name) for wish in batch}
        self._changes.in_work |= marks
        other: OtherProcessError | None = None
        try:
            told = yield from (self._by_script if self._has_scripts else self._by_watch)(database, batch, asking)
        except (LostReplyError, OtherProcessError) as error:
            told = [(Outcome.UNKNOWN, None)] * len(batch)
            other = error if isinstance(error, OtherProcessError) else None
        self._changes.in_work -= marks
        self._changes.journal.done(number, [(wish, outcome) for wish, (outcome, _) in zip(batch, told, strict=True)])
        if other is not None:
            self._end(database, batch, told, {})
            raise other
        return told

    def _by_script(self, database: int, batch: Sequence[Wish], asking: frozenset[bytes]) -> _Asking[Sequence[_Told]]:
        names = [wish.key.name for wish in batch]
        commands = [each for wish in batch for each in with_asking(wish.key.name, checked.scripted(wish), asking)]
        replies = yield Request(database, commands, once=True)
        told = without_asking(names, replies, asking)
        if not any(map(checked.refuses_scripts, told)):
            return [(checked.outcome_of(reply), reply) for reply in told]
        self._has_scripts = False
        return [
            (Outcome.BUSY if checked.refuses_scripts(reply) else checked.outcome_of(reply), reply) for reply in told
        ]

    def _by_watch(self, database: int, batch: Sequence[Wish], asking: frozenset[bytes]) -> _Asking[Sequence[_Told]]:
        (wish,) = batch
        if not wish.is_plain:
            return [(Outcome.REFUSED, "this needs EVAL, which the user may not run")]
        if wish.key.name in asking:
            return [(Outcome.REFUSED, "its slot moves, and without EVAL that has to end first")]
        outcome, reply = checked.decision(wish, (yield Request(database, checked.watching(wish), undo=ABANDONING)))
        if outcome is not Outcome.DONE:
            yield from abandon(database)
            return [(outcome, reply)]
        replies = yield Request(database, checked.executing(wish), once=True)
        if checked.is_open_after(replies):
            yield from abandon(database)
        return [checked.outcome_of_exec(wish, replies)]

    # What became of them

    def _end(self, database: int, batch: Sequence[Wish], told: Sequence[_Told], picked: _Picked) -> set[bytes]:
        again = set()
        for wish, (outcome, reply) in zip(batch, told, strict=True):
            name = wish.key.name
            if outcome not in (Outcome.DONE, Outcome.UNKNOWN):
                self._changes.give_back(1)
            if outcome in _UNTOUCHED:
                self._found.sent -= 1
                if outcome is Outcome.MOVED:
                    self._moved(slot_of(name))
                    self._figures.elsewhere += 1
                else:
                    again.add(name)
                continue
            self._found.outcomes[outcome] += 1
            fresh = self._tally.seen.add(mark_of(database, name))
            if outcome is Outcome.REFUSED:
                texts = self._found.refusals
                texts[str(reply) if str(reply) in texts or len(texts) < _MOST_REFUSALS else "other errors"] += 1
            elif outcome is Outcome.DONE and fresh:
                key, judged = picked[name]
                self._tally.totals.add(key, judged, self._figures, database)
                self._found.show(judged.pattern, judged.app, name)
        if any(checked.became_replica(reply) for _, reply in told):
            raise NodeLostError("it is a replica, and takes no writes")
        return again


def _milliseconds(time: Any) -> int:
    if not isinstance(time, list):
        raise ScanRefusedError(f"TIME: {time}")
    return int(time[0]) * 1000 + int(time[1]) // 1000
