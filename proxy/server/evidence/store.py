"""Evidence in a file of the state folder: SQLite, with a write-ahead log where the file system allows it.

The file has half of the bytes that it may use, its log the rest. If it gets full, the lightest rows of the oldest hours
are folded into those of others, and when no row is left that could be folded, the oldest hours go; `lost` counts both.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from proxy.server.evidence import schema, statements
from proxy.server.evidence.bounds import (
    DROPPED_FOR_ROOM,
    FOLDED,
    FOLDED_FOR_ROOM,
    MOST_SPANS,
    NO_ROWS,
    WATCHED_HOURS,
    WATCHED_SECONDS,
    Bounds,
    kept_of,
)
from proxy.server.evidence.memory_store import MemoryStore
from proxy.server.evidence.model import (
    HOUR,
    Batch,
    Evidence,
    EvidenceError,
    EvidenceStore,
    RuleVersion,
    cut,
    hour_of,
    in_order,
    united,
)
from proxy.server.evidence.subjects import SubjectIds, joined, packed, subjects_of, to_bytes, to_text
from proxy.traffic.evidence_rows import CommandKey, EvidenceRows, FormRow, VerdictKey, VerdictRow

try:
    import sqlite3
except ImportError:  # schema.need_sqlite says so
    pass

__all__ = [
    "Batch", "Evidence", "EvidenceError", "EvidenceStore", "MemoryStore", "RuleVersion", "SqliteStore", "read_store",
]  # fmt: skip

Lost = defaultdict[int, Counter[str]]
"""What is lost, by hour (as the file counts them, from 0 on) and reason."""

_FULL, _ROOMY, _HALF = 7 / 8, 3 / 4, 1 / 2
"""Shares of the file's pages: with more than the first in use, room is made until it is less than the second."""

_LEAST_PAGES = 64


class SqliteStore:
    """The evidence in a file of which this process is the only writer. One thread at a time calls it."""

    def __init__(self, path: Path, most_bytes: int, days: int) -> None:
        """Open it, or begin a new file. Raises EvidenceError."""
        schema.need_sqlite()
        self._path = path
        self._most_bytes = most_bytes
        self._age = days * 24
        self._bounds = Bounds.of(most_bytes)
        self._file: os.stat_result | None = None
        self._anew = False
        """The file was begun while this process watched: what came before is in another one."""
        with _failing(path):
            self._open()

    def add(self, batch: Batch) -> None:
        """Add all of a batch or, with EvidenceError, nothing: the same batch may then be given again."""
        with _failing(self._path):
            try:
                with schema.told_damage():
                    self._look_after_file()
                    self._add(batch)
            except sqlite3.DatabaseError as error:
                if schema.is_damage(error):
                    self._connection.close()
                    self._file = None
                    schema.set_aside(self._path, str(error))
                    self._open()
                    self._anew = True
                raise

    def read(self, since: float) -> Evidence:
        """What is known of the hour of this time and of those after it. Raises EvidenceError."""
        with _failing(self._path):
            return _read(self._connection, since)

    def close(self) -> None:
        """Let the file go."""
        with _failing(self._path):
            self._connection.close()

    def _open(self) -> None:
        self._connection = connection = schema.open_to_write(self._path)
        self._file = self._path.stat()
        size = schema.value_of(connection, "PRAGMA page_size")
        self._pages = max(self._most_bytes // 2 // size, _LEAST_PAGES)
        connection.create_function("joined", 2, joined, deterministic=True)
        for setting in (
            f"PRAGMA max_page_count = {self._pages}",
            f"PRAGMA wal_autocheckpoint = {self._pages // 8}",
            f"PRAGMA journal_size_limit = {self._most_bytes // 16}",
            "CREATE TEMP TABLE gone (hour, subject, others)",
        ):
            connection.execute(setting).fetchall()
        self._unswept = 0

    def _look_after_file(self) -> None:
        """Begin a new file if somebody has removed this one, and empty its log if readers have kept it from that."""
        there = self._path.stat() if self._path.exists() else None
        if not (self._file and there and os.path.samestat(there, self._file)):
            self._connection.close()
            self._open()
            self._anew = True
        log = self._path.with_name(f"{self._path.name}-wal")
        if log.exists() and log.stat().st_size > self._most_bytes // 4:
            (busy, *_) = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy:
                raise EvidenceError(f"cannot keep evidence in {self._path}: somebody reads it without an end")

    def _add(self, batch: Batch) -> None:
        now = hour_of(batch.now) // HOUR
        self._make_room(now, _FULL, _ROOMY)
        try:
            self._write(batch, self._bounds)
            return
        except sqlite3.OperationalError as error:
            disk = shutil.disk_usage(self._path.parent)
            if error.sqlite_errorcode != sqlite3.SQLITE_FULL or disk.free < self._most_bytes:
                raise
        # The disk is not full: the file may not grow.
        self._make_room(now, 0, _HALF)
        try:
            self._write(batch, self._bounds)
        except sqlite3.OperationalError:
            self._write(batch, NO_ROWS)

    def _write(self, batch: Batch, bounds: Bounds) -> None:
        now = hour_of(batch.now) // HOUR
        lost: Lost = defaultdict(Counter)
        for reason, count in batch.lost.items():
            lost[now][cut(reason)] += count
        with _transaction(self._connection):
            ids = SubjectIds(self._connection)
            for at, route, rows in batch.rows:
                kept, its_loss = kept_of(rows, bounds)
                lost[at // HOUR].update(its_loss)
                self._write_rows(ids, at // HOUR, route, kept)
            for hour in {at // HOUR for at, _, _ in batch.rows}:
                values = {"hour": hour, **vars(bounds)}
                while self._fold(statements.TOO_MANY, values, lost, FOLDED):
                    pass
            self._write_rules(batch.rules)
            self._watch(batch, now)
            self._lose(lost)
        self._anew = False

    def _write_rows(self, ids: SubjectIds, hour: int, route: str, rows: EvidenceRows) -> None:
        values: list[tuple[int, int, int, int, float | None, float | None]] = []
        exemplars: list[tuple[bytes, int]] = []
        for verdict, its in rows.verdicts.items():
            subject = ids.of(route, verdict)
            values.append((hour, subject, its.count, 0, its.first or None, its.last or None))
            if its.exemplars:
                exemplars.append((packed(its.exemplars), subject))
        for command, count in rows.commands.items():
            values.append((hour, ids.of(route, command), count, 0, None, None))
        for form, found in rows.forms.items():
            subject = ids.of(route, form)
            values.append((hour, subject, found.count, found.seen, None, None))
            if found.exemplars:
                exemplars.append((packed(found.exemplars), subject))
        self._connection.executemany(statements.PUT, values)
        self._connection.executemany("UPDATE subjects SET exemplars = joined(exemplars, ?) WHERE id = ?", exemplars)

    def _write_rules(self, rules: list[RuleVersion]) -> None:
        if rules:
            before = _rules(self._connection)
            known = in_order([*before, *rules])
            if known == before:
                return
            rows = [(*map(to_bytes, (each.route, each.rule, each.digest)), each.since) for each in known]
            self._connection.execute("DELETE FROM rules")
            self._connection.executemany("INSERT INTO rules VALUES (?, ?, ?, ?)", rows)

    def _watch(self, batch: Batch, now: int) -> None:
        """Note who has watched, and drop what is too old by what was watched."""
        execute = self._connection.execute
        since = max(batch.began, batch.now) if self._anew else batch.began
        execute(statements.PUT_SPAN, (batch.began, since, max(batch.began, batch.now)))
        execute(statements.DROP_SHORT_SPANS, (batch.began, MOST_SPANS))
        execute("INSERT OR IGNORE INTO watched VALUES (?)", (now,))
        execute("DELETE FROM watched WHERE hour > ? OR hour <= ?", (now, now - WATCHED_SECONDS // HOUR))
        if schema.value_of(self._connection, "SELECT count(*) FROM watched") >= WATCHED_HOURS:
            horizon = now - self._age
            self._unswept += execute("DELETE FROM counts WHERE hour < ?", (horizon,)).rowcount
            execute("DELETE FROM lost WHERE hour < ?", (horizon,))
            self._trim_spans(horizon)

    def _trim_spans(self, horizon: int) -> None:
        """Before this, nobody has watched any more, since the rows are gone."""
        self._connection.execute("DELETE FROM spans WHERE ended <= ?", (horizon * HOUR,))
        self._connection.execute("UPDATE spans SET since = ?1 WHERE since < ?1", (horizon * HOUR,))

    def _make_room(self, now: int, full: float, roomy: float) -> None:
        """Let rows go if more than a share of the pages is in use, in a transaction of its own."""
        if self._unswept > self._pages or self._used > full * self._pages:
            lost: Lost = defaultdict(Counter)
            with _transaction(self._connection):
                self._sweep()
                while self._used > roomy * self._pages:
                    folded = self._fold(statements.OLDEST, {"now": now}, lost, FOLDED_FOR_ROOM)
                    if not folded and not self._drop_oldest(now, lost):
                        break
                    self._sweep()
                self._lose(lost)
        if schema.value_of(self._connection, "PRAGMA page_count") > self._pages:
            # The file is larger than it may be: it was made with a larger bound.
            self._connection.executescript("PRAGMA incremental_vacuum")  # `execute` would free one page
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            self._connection.execute(f"PRAGMA max_page_count = {self._pages}").fetchall()

    @property
    def _used(self) -> int:
        pages: int = schema.value_of(self._connection, "PRAGMA page_count")
        free: int = schema.value_of(self._connection, "PRAGMA freelist_count")
        return pages - free

    def _fold(self, which: str, values: dict[str, int], lost: Lost, reason: str) -> int:
        """Fold the rows that a statement finds into those of others; the number of rows folded."""
        execute = self._connection.execute
        execute("DELETE FROM gone")
        execute(which, values)
        # What others are folded into is not folded in the same step.
        execute("DELETE FROM gone WHERE (hour, subject) IN (SELECT hour, others FROM gone)")
        by_hour = execute("SELECT hour, count(*) FROM gone GROUP BY hour").fetchall()
        for hour, rows in by_hour:
            lost[hour][reason] += rows
        if by_hour:
            execute(statements.PUT_GONE)
            execute("DELETE FROM counts WHERE (hour, subject) IN (SELECT hour, subject FROM gone)")
        folded: int = sum(rows for _, rows in by_hour)
        self._unswept += folded
        return folded

    def _drop_oldest(self, now: int, lost: Lost) -> bool:
        """Drop the oldest hour, or one in the future, which a clock that had jumped has told; False without any."""
        found = self._connection.execute(statements.OLDEST_HOUR, (now,)).fetchone()
        if found is None:
            return False
        (hour,) = found
        lost[hour][DROPPED_FOR_ROOM] += self._connection.execute(statements.COMMANDS_OF, found).fetchone()[0]
        self._connection.execute("DELETE FROM counts WHERE hour = ?", found)
        if hour <= now:
            self._trim_spans(hour + 1)
        else:
            self._connection.execute("DELETE FROM spans WHERE since >= ?", (hour * HOUR,))
        return True

    def _sweep(self) -> None:
        """Delete the subjects, clients and texts that no row has any more."""
        for statement in statements.SWEEP:
            self._connection.execute(statement)
        self._unswept = 0

    def _lose(self, lost: Lost) -> None:
        rows = [(hour, to_bytes(reason), n) for hour, counts in lost.items() for reason, n in counts.items() if n]
        self._connection.executemany(statements.LOSE, rows)


def read_store(path: Path, since: float) -> Evidence:
    """Read the evidence of a copied folder, or beside a Keyrail that writes it. Raises EvidenceError."""
    schema.need_sqlite()
    with _failing(path, "read the"):
        try:
            return _read_only(path, since)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}:
                raise
            # Nothing can be written beside it, where SQLite needs an index of the log for a moment.
            with tempfile.TemporaryDirectory() as folder:
                for file in path.parent.glob(f"{path.name}*"):
                    if file.name in {path.name, f"{path.name}-wal", f"{path.name}-journal"}:
                        shutil.copy(file, folder)
                return _read_only(Path(folder, path.name), since)


def _read_only(path: Path, since: float) -> Evidence:
    with closing(schema.open_to_read(path)) as connection:
        return _read(connection, since)


def _read(connection: sqlite3.Connection, since: float) -> Evidence:
    at = hour_of(since)
    first = (at // HOUR,)
    with _transaction(connection, "DEFERRED"), _readable():
        spans = [(max(at, began), ended) for began, ended in connection.execute("SELECT since, ended FROM spans")]
        lost = connection.execute("SELECT reason, sum(count) FROM lost WHERE hour >= ? GROUP BY reason", first)
        return Evidence(
            united(spans),
            _hours(connection, first),
            _rules(connection),
            {to_text(reason): count for reason, count in lost},
        )


def _hours(connection: sqlite3.Connection, since: tuple[int]) -> dict[tuple[int, str], EvidenceRows]:
    subjects = subjects_of(connection, since)
    hours: dict[tuple[int, str], EvidenceRows] = defaultdict(EvidenceRows)
    with_exemplars: dict[int, dict[int, VerdictRow | FormRow]] = defaultdict(dict)
    counts = "SELECT hour, subject, count, seen, first, last FROM counts WHERE hour >= ? ORDER BY hour"
    for hour, at, count, seen, first, last in connection.execute(counts, since):
        route, key, exemplars = subjects[at]
        rows = hours[hour * HOUR, route]
        row: VerdictRow | FormRow
        if isinstance(key, CommandKey):
            rows.commands[key] = count
            continue
        if isinstance(key, VerdictKey):
            row = rows.verdicts[key] = VerdictRow(count, first or 0.0, last or 0.0)
        else:
            row = rows.forms[key] = FormRow(count, seen)
        if exemplars:
            with_exemplars[at][hour] = row
    for at, by_hour in with_exemplars.items():
        newest = by_hour[max(by_hour)]
        for exemplar in subjects[at].exemplars:
            by_hour.get(hour_of(exemplar.at) // HOUR, newest).exemplars.append(exemplar)
    return dict(hours)


def _rules(connection: sqlite3.Connection) -> list[RuleVersion]:
    found = connection.execute("SELECT route, rule, digest, since FROM rules")
    return in_order(
        RuleVersion(to_text(route), to_text(rule), to_text(digest), since) for route, rule, digest, since in found
    )


@contextmanager
def _transaction(connection: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    if connection.in_transaction:  # one that could not be rolled back when it failed
        connection.execute("ROLLBACK")
    try:
        connection.execute(f"BEGIN {kind}")
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except (LookupError, TypeError, ValueError) as error:
        raise sqlite3.DatabaseError(f"it is damaged: {error!r}") from None


@contextmanager
def _failing(path: Path, doing: str = "keep") -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise EvidenceError(f"cannot {doing} evidence in {path}: {reason}") from error
