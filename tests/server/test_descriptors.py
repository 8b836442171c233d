"""Open files come to a worker in their order, however many there are, and a worker that nobody needs ends."""

import asyncio
import os
import signal
import socket
from pathlib import Path

import pytest

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
