"""The file of the evidence: damaged, locked, full, of another version, killed, copied; nothing is half added."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from proxy.server.evidence import schema
from proxy.server.evidence.store import (
    Batch,
    Evidence,
    EvidenceError,
    RuleVersion,
    SqliteStore,
    read_store,
)
from proxy.traffic.evidence_rows import EvidenceRows
from tests.conftest import seeds
from tests.failures.test_full_disk import small_disk
from tests.server.made_evidence import HOUR, NOON, batch, joined, rows, sums

MB = 1 << 20


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "evidence.sqlite"


@pytest.fixture
def store(file: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(file, 64 * MB, 30)
    yield opened
    opened.close()


def filled(file: Path, count: int = 30) -> Evidence:
    """The evidence of a new file, which nobody has open any more."""
    made = SqliteStore(file, 64 * MB, 30)
    made.add(batch(rows(Random(1), count=count)))
    found = made.read(0)
    made.close()
    return found


@pytest.mark.parametrize("write_ahead", [True, False])
def test_only_its_owner_may_read_it_from_its_first_moment(
    file: Path, write_ahead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not write_ahead:
        without_write_ahead(monkeypatch)
    seen = set[int]()

    def look() -> int:
        seen.update(each.stat().st_mode & 0o777 for each in file.parent.iterdir() if each.is_file())
        return 0

    before = os.umask(0)
    try:
        made = SqliteStore(file, 64 * MB, 30)
        made._connection.set_progress_handler(look, 20)
        for number in range(3):
            made.add(batch(rows(Random(number))))
        look()
        made.close()
    finally:
        os.umask(before)
    assert seen == {0o600}


def test_what_is_closed_is_read_again(file: Path) -> None:
    before = filled(file)
    again = SqliteStore(file, 64 * MB, 30)
    assert again.read(0) == before
    again.close()
    assert read_store(file, 0) == before


def without_write_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind of locks with which SQLite has no write-ahead log, as on network file systems."""
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda file, **how: connect(f"{file}&vfs=unix-dotfile", **how))


def test_a_file_system_without_a_write_ahead_log_will_do(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_write_ahead(monkeypatch)
    store = SqliteStore(file, 64 * MB, 30)
    assert schema.value_of(store._connection, "PRAGMA journal_mode") == "delete"
    its = rows(Random(1))
    store.add(batch(its))
    assert joined(read_store(file, 0)) == joined(store.read(0))
    assert sums(store.read(0).hours.values()) == sums([its])
    store.close()


def add_all(store: SqliteStore, many: Iterable[EvidenceRows], tried: list[EvidenceRows] | None = None) -> None:
    for its in many:
        if tried is not None:
            tried.append(its)
        store.add(batch(its))


def lines(capfd: pytest.CaptureFixture[str]) -> str:
    return capfd.readouterr().err


@pytest.mark.parametrize("seed", seeds(6, 100))
def test_a_damaged_file_is_set_aside(file: Path, seed: int, capfd: pytest.CaptureFixture[str]) -> None:
    """Whatever is damaged: the file is set aside, or it can still be used; it never ends the start."""
    random = Random(seed)
    filled(file, 300)
    content = bytearray(file.read_bytes())
    for _ in range(random.choice([1, 3, 30])):
        at = random.randrange(len(content))
        content[at : at + 100] = random.randbytes(min(100, len(content) - at))
    del content[len(content) if random.random() < 0.7 else random.randrange(len(content)) :]
    file.write_bytes(content)
    store = SqliteStore(file, 64 * MB, 30)
    for number in range(3):
        with suppress(EvidenceError):
            store.add(batch(rows(Random(number))))
    set_aside = list(file.parent.glob("evidence.sqlite.*Z"))
    if set_aside:
        assert lines(capfd).count(f"cannot use the evidence in {file}: ") == len(set_aside)
        store.add(batch(rows(Random(number))))
    store.close()


def spoil_names(file: Path) -> None:
    """Give a table a name that is no UTF-8 and no SQL: SQLite's error has it."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET name = CAST(x'ff99' AS TEXT), sql = 'x' WHERE name = 'counts'")
        connection.execute("PRAGMA schema_version = 99")  # others read the schema again
        connection.commit()


def test_damage_of_which_the_name_cannot_be_read_is_damage(
    file: Path, store: SqliteStore, capfd: pytest.CaptureFixture[str]
) -> None:
    store.add(batch(rows(Random(1))))
    spoil_names(file)
    with pytest.raises(EvidenceError, match="its tables are damaged"):
        read_store(file, 0)
    with pytest.raises(EvidenceError, match="its tables are damaged"):
        store.add(batch(rows(Random(2))))
    store.add(batch(rows(Random(2))))
    store.close()
    spoil_names(file)
    again = SqliteStore(file, 64 * MB, 30)
    assert not again.read(0).hours
    again.close()
    assert lines(capfd).count(f"cannot use the evidence in {file}: its tables are damaged") == 2


@pytest.mark.parametrize("content", [b"no database at all" * 1000, b"SQLite format 3\0" + b"x" * 5000])
def test_another_file_is_set_aside_as_it_is(file: Path, content: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(content)
    store = SqliteStore(file, MB, 30)
    store.add(batch(rows(Random(1))))
    store.close()
    (aside,) = file.parent.glob("evidence.sqlite.*Z")
    assert aside.read_bytes() == content
    assert f"it is now {aside}, and a new file begins" in lines(capfd)


def test_a_file_that_is_damaged_while_it_is_used_is_set_aside(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    filled(file, 3000)
    store = SqliteStore(file, 64 * MB, 30)
    store.close()
    store = SqliteStore(file, 64 * MB, 30)
    with file.open("r+b") as raw:
        raw.seek(4096)
        raw.write(b"\xff" * (file.stat().st_size - 4096))
    store._connection.execute("PRAGMA shrink_memory")
    with pytest.raises(EvidenceError, match=f"cannot keep evidence in {file}: database disk image is malformed"):
        store.add(batch(rows(Random(1))))
    its = rows(Random(2))
    store.add(batch(its))
    assert joined(store.read(0)) == its
    store.close()
    assert "a new file begins" in lines(capfd)


def test_few_files_that_are_set_aside_are_kept(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(6):
        monkeypatch.setattr(time, "gmtime", lambda at=number: time.struct_time((2026, 1, 1, 0, 0, at, 0, 0, 0)))
        file.write_bytes(b"no database at all" * 1000)
        SqliteStore(file, MB, 30).close()
    assert len(list(file.parent.glob("evidence.sqlite.*"))) == 3


def test_a_file_of_a_newer_keyrail_stays_as_it_is(file: Path) -> None:
    filled(file)
    change(file, "PRAGMA user_version = 7", "CREATE TABLE more (a)")
    content = file.read_bytes()
    for use in (lambda: SqliteStore(file, MB, 30), lambda: read_store(file, 0)):
        with pytest.raises(EvidenceError, match=f"{file} has version 7 of the .* knows version 1: it is older"):
            use()
    assert file.read_bytes() == content


@pytest.mark.parametrize("change_it", ["PRAGMA user_version = 0", "PRAGMA application_id = 9", "DROP TABLE counts"])
def test_an_unknown_older_file_is_set_aside(file: Path, change_it: str, capfd: pytest.CaptureFixture[str]) -> None:
    filled(file)
    change(file, change_it)
    with pytest.raises(EvidenceError, match=f"cannot read the evidence in {file}: "):
        read_store(file, 0)
    store = SqliteStore(file, MB, 30)
    assert store.read(0) == Evidence()
    store.close()
    assert "a new file begins" in lines(capfd)


def change(file: Path, *statements: str) -> None:
    with sqlite3.connect(file) as connection:
        for each in statements:
            connection.execute(each)
    connection.close()


def test_a_locked_file_is_tried_again(store: SqliteStore, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store._connection.execute("PRAGMA busy_timeout = 10")
    other = sqlite3.connect(file)
    other.execute("BEGIN IMMEDIATE")
    its = batch(rows(Random(1)))
    with pytest.raises(EvidenceError, match=f"cannot keep evidence in {file}: database is locked"):
        store.add(its)
    other.close()
    store.add(its)
    assert sums(store.read(0).hours.values()) == sums(each for _, _, each in its.rows)


def test_a_reader_without_an_end_does_not_let_the_log_grow(file: Path) -> None:
    store = SqliteStore(file, MB, 30)
    store._connection.execute("PRAGMA busy_timeout = 10")
    store.add(batch(rows(Random(0))))
    reader = sqlite3.connect(file, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM counts").fetchall()
    with pytest.raises(EvidenceError, match="somebody reads it without an end"):
        add_all(store, (rows(Random(number), count=60, shapes=1000) for number in range(1000)))
    assert sum(each.stat().st_size for each in file.parent.iterdir()) < MB
    reader.close()
    store.add(batch(rows(Random(0))))
    store.close()


@pytest.mark.parametrize("seed", seeds(10, 300))
def test_nothing_is_half_added(store: SqliteStore, seed: int) -> None:
    """Whichever step of adding fails: nothing of the batch is there, and it can be given again."""
    random = Random(seed)
    store.add(batch(rows(random)))
    its = batch(rows(random), rows(random, NOON + HOUR), at=NOON + HOUR)
    its.rules, its.lost = [RuleVersion("default", "names", "d", NOON)], {"clients that left": 3}
    before = store.read(0)
    failed = 0
    steps = iter(range(random.randrange(200)))
    store._connection.set_progress_handler(lambda: next(steps, None) is None, random.choice([1, 7, 50]))
    try:
        store.add(its)
    except EvidenceError:
        failed = 1
    store._connection.set_progress_handler(None, 0)
    if failed:
        assert store.read(0) == before
        store.add(its)
    expected = sums([joined(before), *[each for _, _, each in its.rows]])
    assert sums(store.read(0).hours.values()) == expected
    assert store.read(0).lost == {"clients that left": 3}


def test_a_full_disk_costs_nothing_but_time(tmp_path: Path) -> None:
    with small_disk(tmp_path, "256k") as disk:
        store = SqliteStore(disk / "evidence.sqlite", 64 * MB, 30)
        added: list[EvidenceRows] = []
        with pytest.raises(EvidenceError, match=r"evidence\.sqlite: database or disk is full"):
            add_all(store, (rows(Random(number), shapes=100_000) for number in range(1000)), added)
        refused = added.pop()
        assert sums(store.read(0).hours.values()) == sums(added)
        subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
        store.add(batch(refused))
        assert sums(store.read(0).hours.values()) == sums([*added, refused])
        store.close()


def test_a_disk_on_which_no_file_has_room_is_told(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path, "16k") as disk,
        pytest.raises(EvidenceError, match=r"keep evidence in .*evidence\.sqlite: "),
    ):
        SqliteStore(disk / "evidence.sqlite", MB, 30)


def test_a_smaller_bound_makes_a_file_smaller(file: Path) -> None:
    store = SqliteStore(file, 64 * MB, 30)
    for number in range(30):
        store.add(batch(rows(Random(number), NOON + number * HOUR, 100_000, 200), at=NOON + number * HOUR, began=NOON))
    before = store.read(0)
    store.close()
    assert file.stat().st_size > MB
    store = SqliteStore(file, MB, 30)
    store.add(Batch(NOON, NOON + 60 * HOUR, [], [], {}))
    assert sums(store.read(0).hours.values()) == sums(before.hours.values())
    store.close()
    assert file.stat().st_size <= MB / 2


def test_a_file_that_was_removed_is_begun_again(store: SqliteStore, file: Path) -> None:
    store.add(batch(rows(Random(1))))
    for each in file.parent.iterdir():
        each.unlink()
    its = rows(Random(2))
    store.add(batch(its))
    assert joined(read_store(file, 0)) == its


def test_a_file_that_is_begun_meanwhile_tells_nothing_of_what_was_watched_before(
    store: SqliteStore, file: Path
) -> None:
    first = batch(rows(Random(1)))
    store.add(first)
    for each in file.parent.iterdir():
        each.unlink()
    for seconds in (60, 120, 180):
        store.add(replace(first, now=first.now + seconds, rows=[]))
    assert read_store(file, 0).spans == [(first.now + 60, first.now + 180)]


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir])
def test_only_a_regular_file_is_one(file: Path, make: object) -> None:
    make(file)  # type: ignore[operator]  # one of the two above
    for use in (lambda: SqliteStore(file, MB, 30), lambda: read_store(file, 0)):
        with pytest.raises(EvidenceError, match="regular file"):
            use()


def test_it_is_read_beside_its_writer(store: SqliteStore, file: Path) -> None:
    for number in range(3):
        store.add(batch(rows(Random(number))))
        assert read_store(file, 0) == store.read(0)
    assert read_store(file, NOON + HOUR) == Evidence()


@pytest.mark.parametrize("beside", [("-wal", "-shm"), ("-wal",)])
@pytest.mark.parametrize("mode", [0o700, 0o500])
def test_a_copied_folder_is_read(store: SqliteStore, file: Path, mode: int, beside: tuple[str, ...]) -> None:
    store.add(batch(rows(Random(1))))
    copy = file.parent / "copy"
    copy.mkdir()
    for ending in ("", *beside):
        shutil.copy(f"{file}{ending}", copy)
    copy.chmod(mode)
    assert read_store(copy / file.name, 0) == store.read(0)
    copy.chmod(0o700)


def test_a_file_beside_which_nothing_can_be_written_is_read(store: SqliteStore, file: Path, tmp_path: Path) -> None:
    store.add(batch(rows(Random(1))))
    with small_disk(tmp_path, "4m") as disk:
        for ending in ("", "-wal"):
            shutil.copy(f"{file}{ending}", disk)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        assert read_store(disk / file.name, 0) == store.read(0)


@pytest.mark.parametrize(
    "damage",
    ["DELETE FROM texts", "UPDATE subjects SET exemplars = x'ff'", "UPDATE subjects SET exemplars = '[[1]]'"],
)
def test_rows_that_make_no_sense_are_an_error(file: Path, damage: str) -> None:
    filled(file)
    change(file, damage)
    with pytest.raises(EvidenceError, match=f"cannot read the evidence in {file}: it is damaged: "):
        read_store(file, 0)


def test_no_file_is_an_error_that_names_it(file: Path) -> None:
    with pytest.raises(EvidenceError, match=f"{file}: No such file"):
        read_store(file, 0)
    with pytest.raises(EvidenceError, match="No such file"):
        SqliteStore(file / "not" / "there", MB, 30)


def test_without_sqlite_memory_is_left() -> None:
    program = """
import sys
sys.modules["_sqlite3"] = None
from pathlib import Path
from proxy.server.evidence.store import EvidenceError, MemoryStore, SqliteStore, read_store
MemoryStore(1 << 20, 30)
for use in (lambda: SqliteStore(Path("no"), 1 << 20, 30), lambda: read_store(Path("no"), 0)):
    try:
        use()
    except EvidenceError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "this Python has no module _sqlite3, which evidence in a file needs\n" * 2


ADDS = """
import sys
from pathlib import Path
from random import Random
from proxy.server.evidence.store import SqliteStore
from tests.server.made_evidence import HOUR, NOON, batch, rows

store = SqliteStore(Path(sys.argv[1]), int(sys.argv[2]), 30)
for number in range(int(sys.argv[3]), 1_000_000):
    hour = NOON + number // 10 * HOUR
    its = batch(rows(Random(number), hour, 100_000), at=hour, began=NOON)
    its.lost = {"batches": 1}
    store.add(its)
    print(number, flush=True)
"""


@pytest.mark.parametrize("most_bytes", [MB, 64 * MB])
@pytest.mark.parametrize("seed", seeds(1, 10))
def test_whoever_is_killed_loses_one_batch_at_most(file: Path, most_bytes: int, seed: int) -> None:
    """Killed again and again, at any moment: the file is whole, and has all that was added, or one batch more."""
    random = Random(seed)
    told = 0
    for _ in range(5):
        command = [sys.executable, "-c", ADDS, str(file), str(most_bytes), str(told)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as adding:
            assert adding.stdout is not None
            for _ in range(random.randrange(1, 30)):
                told = int(adding.stdout.readline()) + 1
            for _ in range(random.randrange(100_000)):
                pass  # a moment that no clock tells
            adding.kill()
            told = max([told, *[int(line) + 1 for line in adding.stdout.read().split()]])
        found = read_store(file, 0)
        assert found.lost["batches"] in {told, told + 1}
        told = found.lost["batches"]
        expected = [rows(Random(number), NOON + number // 10 * HOUR, 100_000) for number in range(told)]
        assert sums(found.hours.values()) == sums(expected)
