"""Open files come to a worker in their order, however many there are, and a worker that nobody needs ends."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

from proxy.server.descriptors import hand_over, take_over
from proxy.server.worker_process import start_process


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
    async def ends() -> tuple[int, int | None]:
        unneeded, left = await start_process(), await start_process()
        left.control.close()  # as if the supervisor had ended
        status = await left.process.wait()
        await unneeded.end()
        return status, unneeded.process.returncode

    status, killed = asyncio.run(ends())
    assert status == 0
    assert killed is not None
