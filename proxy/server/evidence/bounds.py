"""How much is kept of an hour: texts are cut, and the lightest rows are folded, so that sums stay exact."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import add
from typing import TypeVar

from proxy.server.evidence.model import MOST_CHARACTERS, cut
from proxy.traffic.evidence_rows import (
    CommandKey,
    EvidenceRows,
    Exemplar,
    FormKey,
    FormRow,
    Identity,
    VerdictKey,
    VerdictRow,
)

MOST_OF_AN_EXEMPLAR = 4000
"""The most characters of an exemplar's words. A longer one is not kept: cut, it would be another command."""

FOLDED = "rows folded into others: too many in an hour"
FOLDED_FOR_ROOM = "rows folded into others: the store is full"
DROPPED_FOR_ROOM = "commands of hours that were dropped: the store is full"
LONG_EXEMPLARS = "exemplars that are too long"
NOT_KEPT = "rows that could not be kept"

WATCHED_HOURS, WATCHED_SECONDS = 12, 48 * 3600
"""Hours are dropped by their age while so many hours of so long a time were watched: a clock that jumps for less than
that makes nothing old."""
MOST_SPANS = 10_000

_ROW_BYTES, _COMMAND_BYTES, _EXEMPLAR_BYTES, _WORD_BYTES = 1500, 1000, 300, 70
"""About what Python's objects need at most, with names of usual length."""

_FEWEST_ROWS, _MOST_ROWS = 16, 512
_BYTES_FOR_A_ROW = 1 << 17


Key = TypeVar("Key", VerdictKey, CommandKey, FormKey)
Row = TypeVar("Row", VerdictRow, FormRow)
Value = TypeVar("Value")


@dataclass(frozen=True)
class Bounds:
    """The most rows of their own for each route and hour: verdicts of each rule, commands, forms. Rows of others come
    on top; there is one for each app."""

    verdicts: int
    commands: int
    forms: int

    @classmethod
    def of(cls, most_bytes: int) -> "Bounds":
        """The bounds for a store of this size."""
        most = min(max(most_bytes // _BYTES_FOR_A_ROW, _FEWEST_ROWS), _MOST_ROWS)
        return cls(most, 4 * most, 4 * most)

    @property
    def quarter(self) -> "Bounds":
        """A quarter of the rows."""
        return Bounds(self.verdicts // 4, self.commands // 4, self.forms // 4)


NO_ROWS = Bounds(0, 0, 0)


def kept_of(rows: EvidenceRows, bounds: Bounds) -> tuple[EvidenceRows, dict[str, int]]:
    """A copy of rows within the bounds, and what is lost of them, by reason."""
    kept = EvidenceRows()
    long = 0
    for verdict, its in rows.verdicts.items():
        known = kept.verdicts.setdefault(_cut_verdict(verdict), VerdictRow())
        known.add(its)
        known.exemplars, dropped = _short(known.exemplars)
        long += dropped
    for command, count in rows.commands.items():
        key = CommandKey(_cut_identity(command.who), cut(command.command))
        kept.commands[key] = kept.commands.get(key, 0) + count
    for form, found in rows.forms.items():
        row = kept.forms.setdefault(FormKey(_cut_identity(form.who), *map(cut, form[1:])), FormRow())
        row.add(found)
        row.exemplars, dropped = _short(row.exemplars)
        long += dropped
    lost = {FOLDED: fold(kept, bounds), LONG_EXEMPLARS: long}
    return kept, {reason: count for reason, count in lost.items() if count}


def fold(rows: EvidenceRows, bounds: Bounds) -> int:
    """Fold the lightest rows into those of others until rows are within the bounds; the number of rows folded."""
    return (
        _fold(rows.verdicts, bounds.verdicts, lambda key: key.rule, _count, _joined)
        + _fold(rows.commands, bounds.commands, lambda _: "", int, add)
        + _fold(rows.forms, bounds.forms, lambda _: "", _count, _joined)
    )


def _fold(
    rows: dict[Key, Value],
    most: int,
    group_of: Callable[[Key], str],
    weight: Callable[[Value], int],
    joined: Callable[[Value, Value], Value],
) -> int:
    folded = 0
    while lightest := _lightest(rows, most, group_of, weight):
        for key in lightest:
            value, others = rows.pop(key), key.others
            rows[others] = joined(rows[others], value) if others in rows else value
        folded += len(lightest)
    return folded


def _lightest(
    rows: dict[Key, Value], most: int, group_of: Callable[[Key], str], weight: Callable[[Value], int]
) -> list[Key]:
    if len(rows) <= most:
        return []
    groups = defaultdict(list)
    for key in rows:
        if key.others != key:
            groups[group_of(key)].append(key)
    found: list[Key] = []
    for keys in groups.values():
        if len(keys) > most:
            keys.sort(key=lambda key: -weight(rows[key]))
            found += keys[most:]
    return found


def _count(row: Row) -> int:
    return row.count


def _joined(row: Row, more: Row) -> Row:
    row.add(more)
    return row


def size_of(rows: EvidenceRows) -> int:
    """About the bytes that rows take in memory."""
    told: list[VerdictRow | FormRow] = [*rows.verdicts.values(), *rows.forms.values()]
    exemplars = [each for row in told for each in row.exemplars]
    words = sum(_WORD_BYTES + len(word) for each in exemplars for word in each.words)
    words += sum(_EXEMPLAR_BYTES + len(each.prefix) for each in exemplars)
    return _COMMAND_BYTES * len(rows.commands) + _ROW_BYTES * len(told) + words


def _cut_identity(who: Identity) -> Identity:
    return Identity(*map(cut, who))


def _cut_verdict(key: VerdictKey) -> VerdictKey:
    rule, mode, outcome, who, command, shape = key
    return VerdictKey(cut(rule), cut(mode), cut(outcome), _cut_identity(who), cut(command), cut(shape))


def _short(exemplars: Iterable[Exemplar]) -> tuple[list[Exemplar], int]:
    """The exemplars that can be kept, and the number of the others."""
    exemplars = list(exemplars)
    short = [
        each if len(each.why) <= MOST_CHARACTERS else each._replace(why=cut(each.why))
        for each in exemplars
        if sum(map(len, each.words)) + len(each.words) <= MOST_OF_AN_EXEMPLAR
    ]
    return short, len(exemplars) - len(short)
