"""No error of accept() ends a listener, whatever it is: it is counted by reason, and the next client gets in.

Proves, with the fault injected into a listening socket: errors of one connection, a lack of files, a lack of memory.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
import uvloop

from proxy.net.acceptor import Acceptor
from proxy.net.admission import Admission
from proxy.net.failures import Failures


class Listening:
    """A listening socket whose next accepts fail with these errors."""

    def __init__(self, *errors: int) -> None:
        self.real = socket.create_server(("127.0.0.1", 0))
        self.real.setblocking(False)
        self.errors = list(errors)
        self.family, self.type, self.proto = self.real.family, self.real.type, self.real.proto

    def accept(self) -> tuple[socket.socket, object]:
        if self.errors:
            failed = self.errors.pop(0)
            raise OSError(failed, os.strerror(failed))
        return self.real.accept()

    def fileno(self) -> int:
        return self.real.fileno()

    def close(self) -> None:
        self.real.close()


class Greeter(asyncio.Protocol):
    """A client that is told at once that it has been accepted."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(b"welcome")

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport.close()


Say = Callable[[], Awaitable[bytes]]


def play(listening: Listening, case: Callable[[Say, Failures], Awaitable[None]]) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        failures = Failures(loop.time)
        stand_ins: Any = listening, Greeter
        acceptor = Acceptor(stand_ins[0], "redis://here", (0, 0), loop, stand_ins[1], None, failures, Admission(0))
        acceptor.listen()

        async def hear() -> bytes:
            reader, writer = await asyncio.open_connection(*listening.real.getsockname())
            try:
                return await asyncio.wait_for(reader.read(7), 10.0)
            finally:
                writer.close()

        try:
            await case(hear, failures)
        finally:
            acceptor.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


@pytest.mark.parametrize("failed", [errno.ECONNABORTED, errno.EPROTO, errno.ENOBUFS, errno.ENOMEM, errno.EINVAL])
def test_after_a_failed_accept_the_client_is_accepted(failed: int, caplog: pytest.LogCaptureFixture) -> None:
    async def case(hear: Say, failures: Failures) -> None:
        assert await hear() == b"welcome"
        assert failures.figures() == {"accept": {errno.errorcode[failed]: 3}}

    with caplog.at_level(logging.WARNING):
        play(Listening(failed, failed, failed), case)
    assert caplog.messages == [
        f"redis://here: a connection could not be accepted: [Errno {failed}] {os.strerror(failed)}"
    ]


@pytest.mark.parametrize("failed", [errno.EMFILE, errno.ENFILE])
def test_without_a_free_file_the_client_is_closed_and_the_next_one_gets_in(failed: int) -> None:
    async def case(hear: Say, failures: Failures) -> None:
        assert await hear() == b""
        assert await hear() == b"welcome"
        assert failures.figures() == {"accept": {errno.errorcode[failed]: 1}}

    play(Listening(failed), case)


def test_a_listener_that_lacks_files_for_long_goes_on_trying() -> None:
    async def case(hear: Say, failures: Failures) -> None:
        assert await hear() == b"welcome"
        assert failures.figures() == {"accept": {"EMFILE": 2}}

    # The first is for the connection, the second for turning it away, and so again after the pause.
    play(Listening(*[errno.EMFILE] * 4), case)


def test_failures_are_logged_once_a_minute_for_each_reason(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    failures = Failures(lambda: now)
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            failures.note("accept", "EMFILE", "no file")
        failures.note("accept", "ENOBUFS", "no memory")
        now = 61.0
        failures.note("accept", "EMFILE", "no file")
        failures.note("accept", "EMFILE", "no file")
    assert caplog.messages == ["no file", "no memory", "no file (4 more since the last such line)"]
    assert failures.figures() == {"accept": {"EMFILE": 7, "ENOBUFS": 1}}


def test_peers_cannot_make_up_reasons_without_end() -> None:
    failures = Failures(lambda: 0.0)
    for number in range(1000):
        failures.note("tls_client", f"reason {number}", "")
    counts = failures.figures()["tls_client"]
    assert len(counts) == 51
    assert counts["other"] == 950
