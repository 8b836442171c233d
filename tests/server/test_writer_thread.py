"""No reader of a log stalls who writes to it: lines are dropped, counted, and the number is said."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import threading
from pathlib import Path

import pytest

from proxy.net.config.background_thread import MOST_WAITING, BackgroundThread
from proxy.net.config.settings import ViolationsSettings
from proxy.server import writer_thread
from proxy.server.violations import ViolationLog
from proxy.server.writer_thread import UnstallableStderr, dropped_lines
from tests.resp import eventually


def read_to(reader: int, pattern: bytes) -> bytes:
    """What comes, up to something like this."""
    found = b""
    while re.search(pattern, found) is None:
        found += os.read(reader, 1 << 16)
    return found


def test_lines_that_nobody_reads_are_dropped_and_the_number_is_said() -> None:
    reader, writer = os.pipe()
    stderr = UnstallableStderr(writer, lambda number: f"{number} lines were dropped")
    before = dropped_lines["stderr"]
    written = 3 * MOST_WAITING
    for number in range(written):
        print(f"{number} " + "x" * 200, file=stderr)
    dropped = dropped_lines["stderr"] - before
    assert dropped > 0
    read = read_to(reader, rb"lines were dropped\n")
    lines = len(re.findall(rb"(?m)^\d+ x{200}$", read))
    assert (lines + dropped, b"\n%d lines were dropped\n" % dropped in read) == (written, True)
    print("later", file=stderr)
    assert read_to(reader, rb"later\n").endswith(b"later\n"), "it is said once"
    os.close(reader)

    def drops() -> bool:
        print("in vain", file=stderr)
        return dropped_lines["stderr"] > before + dropped

    eventually(drops)


def test_the_end_of_the_process_waits_a_moment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_thread, "ENDING_SECONDS", 0.05)
    reader, writer = os.pipe()
    stderr = UnstallableStderr(writer, str)
    stderr.write("last words\n")
    stderr.drain()
    assert os.read(reader, 100) == b"last words\n"
    for _ in range(3):
        stderr.write("x" * 60_000 + "\n")
    stderr.drain()


def test_a_fifo_that_nobody_reads_takes_no_violations(tmp_path: Path) -> None:
    fifo = tmp_path / "violations"
    os.mkfifo(fifo)
    log = ViolationLog(ViolationsSettings(fifo))
    before = dropped_lines["violations"]
    log.write([b"one\n"] * 3)
    eventually(lambda: dropped_lines["violations"] == before + 3)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    log.write([b"two\n"])
    log.close()
    assert os.read(reader, 100) == b"two\n"
    os.close(reader)


def test_whoever_waits_for_a_write_waits_so_long_only() -> None:
    stuck = threading.Event()
    thread = BackgroundThread("a test", most=2)

    async def act() -> None:
        assert await thread.run(lambda: 7, 5.0) == 7
        with pytest.raises(ZeroDivisionError):
            await thread.run(lambda: 1 // 0, 5.0)
        for _ in range(4):
            with pytest.raises(TimeoutError, match="timed out"):
                await thread.run(lambda: stuck.wait(30.0), 0.01)

    asyncio.run(act())
    stuck.set()
    thread.drain(5.0)
    assert thread.idle


def test_in_memory_nothing_changes(capsys: pytest.CaptureFixture[str]) -> None:
    print("x", file=sys.stderr)
    assert capsys.readouterr().err == "x\n"
