"""The file that says what was done with stored keys: lines of JSON.

    {"keyrail": "purge", "version": 1, …}                              what was asked for
    {"batch": 7, "time": …, "database": 0, "will": ["cart:1", …]}      written before these are sent to a server;
                                                                       with "at", when each is to expire
    {"batch": 7, "done": ["cart:1"], "changed": ["cart:2"], …}         what became of them

The keys of a batch without the last line may have been changed, or not. Bytes of a key that are not UTF-8 are lone
surrogates, as Python's ``surrogateescape`` writes them.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from proxy.server.stored.changes.model import Outcome, Wish

VERSION = 1


class JournalError(Exception):
    """The journal cannot be written or read; the text says why."""


class Record(Protocol):
    """What is told of changes: see ``Journal``."""

    def will(self, node: str, database: int, wishes: Sequence[Wish]) -> int: ...
    def done(self, batch: int, outcomes: Sequence[tuple[Wish, Outcome]]) -> None: ...


class Journal:
    """A new file. Lines are on the disk before a server is asked, so that a crash of this machine loses none."""

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        """Raises JournalError, also if the file is there already."""
        self._path = path
        self._batches = 0
        self._failure: JournalError | None = None
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._failed(error) from None
        self._write({**header, "version": VERSION, "time": _now()})

    def will(self, node: str, database: int, wishes: Sequence[Wish]) -> int:
        """Say what is sent next; the number of the batch. Raises JournalError."""
        self._batches += 1
        line: dict[str, Any] = {"batch": self._batches, "time": _now(), "node": node, "database": database}
        line["will"] = [_text(each.key.name) for each in wishes]
        if wishes[0].command[0] == b"PEXPIREAT":
            line["at"] = [int(each.command[-1]) for each in wishes]
        self._write(line)
        return self._batches

    def done(self, batch: int, outcomes: Sequence[tuple[Wish, Outcome]]) -> None:
        """Say what became of a batch. Raises JournalError."""
        line: dict[str, Any] = {"batch": batch}
        for wish, outcome in outcomes:
            line.setdefault(outcome.value, []).append(_text(wish.key.name))
        self._write(line)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _write(self, line: Mapping[str, Any]) -> None:
        if self._failure is not None:
            raise self._failure
        data = json.dumps(line).encode() + b"\n"
        try:
            while data:
                data = data[os.write(self._file, data) :]
            os.fdatasync(self._file)
        except OSError as error:
            raise self._failed(error) from None

    def _failed(self, error: OSError) -> JournalError:
        self._failure = JournalError(f"cannot write {self._path}: {error.strerror}")
        return self._failure


class Entry(NamedTuple):
    """A key that was changed, or may have been, and when it expires since, in milliseconds since the epoch."""

    database: int
    key: bytes
    at: int


def read_expiries(path: Path) -> Iterator[Entry]:
    """The keys that have, or may have, got a TTL by what this journal says. Raises JournalError."""
    waiting: dict[int, dict[bytes, Entry]] = {}
    for line in _lines(path):
        try:
            if "will" in line:
                entries = [
                    Entry(int(line["database"]), _bytes(key), int(at))
                    for key, at in zip(line["will"], line["at"], strict=True)
                ]
                waiting[line["batch"]] = {entry.key: entry for entry in entries}
            elif "batch" in line:
                batch = waiting.pop(line["batch"])
                told = [*line.get(Outcome.DONE, ()), *line.get(Outcome.UNKNOWN, ())]
                yield from (batch[_bytes(key)] for key in told)
        except (KeyError, TypeError, ValueError):
            raise JournalError(f"{path} is no journal of keys that got a TTL") from None
    for batch in waiting.values():
        yield from batch.values()


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        *lines, rest = path.read_bytes().split(b"\n")
    except OSError as error:
        raise JournalError(f"cannot read {path}: {error.strerror}") from None
    del rest  # the process ended while it wrote this: nothing of it was sent
    try:
        found = [json.loads(line) for line in lines]
    except ValueError:
        found = []
    if not found or not all(isinstance(line, dict) for line in found) or found[0].get("version") != VERSION:
        raise JournalError(f"{path} is no journal of this version of Keyrail")
    yield from found[1:]


def _text(key: bytes) -> str:
    return key.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
