"""No error of accept() ends a listener: it is counted by reason, and the next client gets in.

Proves, with the fault injected into a listening socket: errors of one connection, a lack of files, a lack of memory.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import socket
import ssl
import struct
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest
import uvloop

from proxy.net.config.address import ListenerTls
from proxy.net.connection.failures import Failures
from proxy.net.connection.tls import listener_context
from proxy.net.downstream.acceptor import Acceptor
from proxy.net.downstream.admission import Admission
from proxy.net.downstream.patience import Patience
from tests.net.certificates import authority, issue
from tests.resp import PATIENCE_SECONDS

PATIENT = Patience(0.0, lambda: 0.0)


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

    def getsockopt(self, level: int, name: int, size: int) -> bytes:
        return self.real.getsockopt(level, name, size)

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
        acceptor = Acceptor(stand_ins[0], "redis://here", loop, stand_ins[1], None, failures, Admission(0), PATIENT)
        acceptor.listen()

        async def hear() -> bytes:
            reader, writer = await asyncio.open_connection(*listening.real.getsockname())
            try:
                return await asyncio.wait_for(reader.read(7), PATIENCE_SECONDS)
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
        reason = errno.errorcode[failed] if failed != errno.EINVAL else "unknown"
        assert failures.figures() == {"accept": {reason: 3}}

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


class Loads:
    """The number of this worker's connections, as other workers see it."""

    alone = True

    def __init__(self) -> None:
        self.number = 0

    def add(self, number: int) -> None:
        self.number += number


def test_a_connection_that_cannot_be_served_is_closed_and_the_others_are_served() -> None:
    faults = [ValueError("no client"), None, MemoryError()]

    def new_client() -> Greeter:
        if faults and (fault := faults.pop()) is not None:
            raise fault
        return Greeter()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        told: list[object] = []
        loop.set_exception_handler(lambda _loop, context: told.append(type(context.get("exception"))))
        listening, loads, stand_ins = Listening(), Loads(), cast("Any", (new_client,))
        admission = Admission(0, cast("Any", loads))
        of: Any = listening
        acceptor = Acceptor(of, "redis://here", loop, stand_ins[0], None, Failures(loop.time), admission, PATIENT)
        crowd = [await asyncio.open_connection(*listening.real.getsockname()) for _ in range(5)]
        acceptor.listen()
        try:
            heard = [await asyncio.wait_for(reader.read(7), PATIENCE_SECONDS) for reader, _ in crowd]
            gc.collect()  # a task that nobody waits for tells of its exception when it is forgotten
            assert sorted(heard) == [b"", b"", *[b"welcome"] * 3]
            assert set(told) == {ValueError, MemoryError}
            assert loads.number == 3
        finally:
            for _, writer in crowd:
                writer.close()
            acceptor.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def test_of_a_crowd_a_few_become_clients_in_a_turn_the_latest_first_and_nobody_who_has_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One in four is the one that has waited longest. Between two turns, those who are clients already are served."""
    monkeypatch.setattr("proxy.net.downstream.acceptor._SHARE", float("inf"))  # the number alone counts, and no time
    crowd, left = 60, range(20, 40)
    came: list[list[int]] = [[]]

    async def main() -> None:
        loop = asyncio.get_running_loop()
        listening, failures = Listening(), Failures(loop.time)
        all_came = asyncio.Event()
        clients = [socket.create_connection(listening.real.getsockname()) for _ in range(crowd)]
        numbers = {client.getsockname()[1]: number for number, client in enumerate(clients)}
        for number in left:
            clients[number].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            clients[number].close()

        class Client(Greeter):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                came[-1].append(numbers[transport.get_extra_info("peername")[1]])
                super().connection_made(transport)
                if sum(map(len, came)) == crowd - len(left):
                    all_came.set()

        def turn() -> None:
            if came[-1]:
                came.append([])
            loop.call_soon(turn)

        stand_ins: Any = listening, Client
        acceptor = Acceptor(stand_ins[0], "redis://here", loop, stand_ins[1], None, failures, Admission(0), PATIENT)
        turn()
        acceptor.listen()
        await all_came.wait()
        acceptor.close()
        assert failures.figures() == {"accept": {"gave_up": len(left)}}
        for client in clients:
            client.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(main(), PATIENCE_SECONDS))
    assert max(map(len, came)) <= 4
    assert [number for turn in came[:3] for number in turn] == [0, 59, 58, 57, 1, 56, 55, 54, 2, 53, 52, 51]
    assert sorted(number for turn in came for number in turn) == [n for n in range(crowd) if n not in left]


class Observed(socket.socket):
    """An accepted connection that notes when it is told to acknowledge at once."""

    events: list[str]
    acknowledges: asyncio.Event

    def setsockopt(self, *words: Any) -> None:
        super().setsockopt(*words)
        if words == (socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1):
            self.events.append("acknowledges")
            self.acknowledges.set()


@pytest.mark.skipif(sys.platform != "linux", reason="the option is Linux's")
def test_the_end_of_a_tls_handshake_is_acknowledged_at_once(tmp_path: Path) -> None:
    """Else a client without TCP_NODELAY waits 40 ms for that before it sends its first command."""
    ca = authority(tmp_path, "ca")
    own = issue(tmp_path, "server", ca)
    context = listener_context(ListenerTls(own.certificate, own.key), pytest.fail)
    events: list[str] = []

    class Client(Greeter):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            events.append("handshake done")
            super().connection_made(transport)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        listening: Any = Listening()
        new_client: Any = Client
        name, failures, admission = "rediss://here", Failures(loop.time), Admission(0)
        acceptor = Acceptor(listening, name, loop, new_client, context, failures, admission, PATIENT)
        trusted = ssl.create_default_context(cafile=ca.certificate)
        place = listening.real.getsockname()
        coming = loop.create_task(asyncio.open_connection(*place, ssl=trusted, server_hostname="127.0.0.1"))
        accepted, _ = await loop.sock_accept(listening.real)
        observed = Observed(accepted.family, accepted.type, accepted.proto, accepted.detach())
        observed.events, observed.acknowledges = events, asyncio.Event()
        acceptor._adopt(observed, None, 0.0)
        reader, writer = await asyncio.wait_for(coming, PATIENCE_SECONDS)
        try:
            assert await asyncio.wait_for(reader.readexactly(7), PATIENCE_SECONDS) == b"welcome"
            await asyncio.wait_for(observed.acknowledges.wait(), PATIENCE_SECONDS)
        finally:
            writer.close()
            acceptor.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(main(), 30.0))
    assert events == ["handshake done", "acknowledges"]


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
