"""Open files come to a worker in their order, however many there are, and a worker that nobody needs ends."""

import asyncio
import errno
import os
import resource
import signal
import socket
from itertools import count, islice
from pathlib import Path
from typing import Any, cast

import pytest

from proxy.server import worker_process
from proxy.server.descriptors import hand_over, take_over
from proxy.server.worker_start import StartedProcess, dismiss_rest, next_process, start_ahead


@pytest.mark.parametrize("number", [0, 1, 199, 200, 201, 450])
def test_all_come_in_their_order(number: int) -> None:
    here, there = socket.socketpair()
    with here, there:
        files = [os.memfd_create(f"file {index}") for index in range(number)]
        try:
            hand_over(here, files)
            here.sendall(b"the first message")
            taken = take_over(there)
            assert taken is not None
            assert [os.fstat(each).st_ino for each in taken] == [os.fstat(each).st_ino for each in files]
            assert there.recv(100) == b"the first message"
        finally:
            for each in (*files, *(taken or ())):
                os.close(each)


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("number", [0, 1])
def test_who_gets_no_more_keeps_none(number: int) -> None:
    here, there = socket.socketpair()
    with there:
        before = _open_files()
        file = os.memfd_create("file")
        for _ in range(number):
            socket.send_fds(here, [b"+"], [file])
        here.close()
        os.close(file)
        assert take_over(there) is None
        assert _open_files() == before - 1


def test_who_may_not_have_so_many_says_so_and_takes_none_for_another() -> None:
    here, there = socket.socketpair()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with here, there:
        file = os.memfd_create("file")
        hand_over(here, [file] * 20)
        used = {int(each.name) for each in Path("/proc/self/fd").iterdir()}
        before, free = _open_files(), (number for number in count() if number not in used)
        resource.setrlimit(resource.RLIMIT_NOFILE, (next(islice(free, 5, None)), hard))
        try:
            with pytest.raises(OSError, match="Too many open files"):
                take_over(there)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            os.close(file)
        assert _open_files() == before - 1, "they are closed again"


def test_a_process_that_cannot_be_told_what_to_serve_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_many(*_: object) -> None:
        raise OSError(errno.ETOOMANYREFS, os.strerror(errno.ETOOMANYREFS))

    class NoSockets:
        def sockets(self) -> list[object]:
            return []

    monkeypatch.setattr(worker_process, "hand_over", too_many)
    before, started = _open_files(), StartedProcess()
    try:
        with pytest.raises(OSError, match="Too many references"):
            asyncio.run(worker_process.launch(0, started, cast("Any", NoSockets()), 0, cast("Any", None)))
        assert _open_files() == before
        assert not Path(f"/proc/{started.pid}").exists(), "nor is it a zombie"
    finally:
        started.dismiss()


def test_a_process_that_is_not_needed_ends() -> None:
    unneeded, left = StartedProcess(), StartedProcess()
    left.control.close()  # as if the supervisor had ended
    assert asyncio.run(left.wait()) == 0
    unneeded.dismiss()
    assert asyncio.run(unneeded.wait()) == -signal.SIGKILL


def test_what_was_started_ahead_is_used_first_and_ended_if_nobody_needs_it() -> None:
    start_ahead()
    used = next_process()
    start_ahead()
    other = next_process()
    try:
        assert other.pid != used.pid
    finally:
        for each in (used, other):
            each.dismiss()
    before = _open_files()
    start_ahead()
    dismiss_rest()
    assert _open_files() == before
