"""The tables of the evidence's file, and how the file is opened.

texts      each text once; bytes, since clients' names may have surrogates and NULs
clients    who
subjects   what a row of verdicts, commands or forms is about, the row that it is folded into, and its exemplars
counts     one row for each hour and subject
spans      who has watched when: its beginning, by which it is known, since when its rows are kept, its end
watched    the hours of the last two days in which somebody watched
rules      versions of rules
lost       what could not be kept, by hour and reason
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

try:
    import sqlite3
except ImportError:  # need_sqlite says so
    pass

from proxy.server.evidence.model import EvidenceError
from proxy.server.notices import Level, notice

VERSION = 1
_APPLICATION = 0x4B657952
_BUSY_SECONDS = 2.0
_SET_ASIDE = 3
"""The files set aside that are kept."""
_TABLES = """
PRAGMA auto_vacuum = INCREMENTAL;
BEGIN IMMEDIATE;
CREATE TABLE texts (id INTEGER PRIMARY KEY, text BLOB NOT NULL UNIQUE);
CREATE TABLE clients (
    id INTEGER PRIMARY KEY, app INTEGER, user INTEGER, name INTEGER, library INTEGER, address INTEGER,
    UNIQUE (app, user, name, library, address)
);
CREATE TABLE subjects (
    id INTEGER PRIMARY KEY, kind INTEGER, route INTEGER, rule INTEGER, mode INTEGER, outcome INTEGER, client INTEGER,
    command INTEGER, shape INTEGER, form INTEGER, others INTEGER, exemplars BLOB,
    UNIQUE (kind, route, rule, mode, outcome, client, command, shape, form)
);
CREATE TABLE counts (
    hour INTEGER, subject INTEGER, count INTEGER, seen INTEGER, first REAL, last REAL, PRIMARY KEY (hour, subject)
) WITHOUT ROWID;
CREATE TABLE spans (began REAL PRIMARY KEY, since REAL, ended REAL) WITHOUT ROWID;
CREATE TABLE watched (hour INTEGER PRIMARY KEY);
CREATE TABLE rules (route BLOB, rule BLOB, digest BLOB, since REAL);
CREATE TABLE lost (hour INTEGER, reason BLOB, count INTEGER, PRIMARY KEY (hour, reason)) WITHOUT ROWID;
"""
_COLUMNS = (
    "SELECT text FROM texts", "SELECT address FROM clients", "SELECT exemplars, others, form FROM subjects",
    "SELECT seen, first, last FROM counts", "SELECT since FROM spans", "SELECT hour FROM watched",
    "SELECT since FROM rules", "SELECT count FROM lost",
)  # fmt: skip


class NotOursError(Exception):
    """A file of another program, of an unknown older version, or a damaged one; the text says which."""


def need_sqlite() -> None:
    """Raises EvidenceError if Python has no SQLite."""
    if find_spec("_sqlite3") is None:
        raise EvidenceError("this Python has no module _sqlite3, which evidence in a file needs")


def open_to_write(path: Path) -> sqlite3.Connection:
    """Open the file, or begin one; one that cannot be used is set aside. Raises EvidenceError and sqlite3's errors."""
    _make(path)
    try:
        with told_damage():
            return _opened(path)
    except NotOursError as error:
        set_aside(path, str(error))
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        set_aside(path, str(error))
    _make(path)
    return _opened(path)


def open_to_read(path: Path) -> sqlite3.Connection:
    """Open the file for reading alone. Raises EvidenceError and sqlite3's errors."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise EvidenceError(f"{path} is no regular file")
    connection = _connected(f"file:{quote(str(path))}?mode=ro")
    try:
        with told_damage():
            _check(path, connection)
    except NotOursError as error:
        connection.close()
        raise EvidenceError(f"cannot read the evidence in {path}: {error}") from None
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def told_damage() -> Iterator[None]:
    """Raise damage as SQLite's error: if what SQLite calls damaged has a name that is no UTF-8, Python raises
    another."""
    try:
        yield
    except UnicodeDecodeError as error:
        damage = sqlite3.DatabaseError(f"its tables are damaged: {error}")
        damage.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise damage from None


def is_damage(error: sqlite3.Error) -> bool:
    """Whether an error says that the file is damaged."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def set_aside(path: Path, why: str) -> None:
    """Rename a file that cannot be used, and say so. Raises OSError."""
    aside = path.with_name(f"{path.name}.{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")
    path.rename(aside)
    for ending in ("-wal", "-journal", "-shm"):
        beside = path.with_name(path.name + ending)
        if beside.exists():
            beside.rename(aside.with_name(aside.name + ending))
    notice(f"cannot use the evidence in {path}: {why}; it is now {aside}, and a new file begins", Level.ERROR)
    older = sorted(path.parent.glob(f"{path.name}.*Z"))[:-_SET_ASIDE]
    for each in (file for old in older for file in path.parent.glob(f"{old.name}*")):
        each.unlink(missing_ok=True)


def _make(path: Path) -> None:
    """Have a file that only its owner may read, from its first moment."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        # It is not opened, since closing it would drop the locks that SQLite has on it in this process.
        if not stat.S_ISREG(path.stat().st_mode):
            raise EvidenceError(f"cannot keep evidence in {path}: it is no regular file") from None
        path.chmod(0o600)


def _connected(uri: str) -> sqlite3.Connection:
    return sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)


def _opened(path: Path) -> sqlite3.Connection:
    connection = _connected(f"file:{quote(str(path))}?mode=rw")
    try:
        if not value_of(connection, "SELECT count(*) FROM sqlite_master"):
            connection.executescript(
                f"{_TABLES} PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {VERSION}; COMMIT;"
            )
        _check(path, connection)
        # Where memory cannot be shared between processes, as on network file systems, there is no write-ahead log.
        write_ahead = value_of(connection, "PRAGMA journal_mode = WAL") == "wal"
        if not write_ahead:
            connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute(f"PRAGMA synchronous = {'NORMAL' if write_ahead else 'FULL'}")
        connection.execute("PRAGMA temp_store = MEMORY")
    except BaseException:
        connection.close()
        raise
    return connection


def _check(path: Path, connection: sqlite3.Connection) -> None:
    version = value_of(connection, "PRAGMA user_version")
    if value_of(connection, "PRAGMA application_id") != _APPLICATION:
        raise NotOursError("it is not a file of Keyrail's evidence")
    if version > VERSION:
        raise EvidenceError(
            f"{path} has version {version} of the evidence's tables, and this Keyrail knows version {VERSION}: it is "
            "older than the one that wrote the file"
        )
    if version < VERSION:
        raise NotOursError(f"version {version} of its tables is not known")
    found = value_of(connection, "PRAGMA quick_check(1)")
    if found != "ok":
        raise NotOursError(f"it is damaged: {found}")
    try:
        for columns in _COLUMNS:
            with closing(connection.execute(f"{columns} LIMIT 0")):
                pass
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", 0) != sqlite3.SQLITE_ERROR:
            raise
        raise NotOursError(f"it is damaged: {error}") from None


def value_of(connection: sqlite3.Connection, query: str) -> Any:
    """The one value that a query gives."""
    with closing(connection.execute(query)) as cursor:
        return cursor.fetchone()[0]
