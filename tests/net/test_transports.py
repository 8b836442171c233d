"""A plain connection of Keyrail's own serves its protocol as an event loop's transport does.

Each test runs with both: the own one, and uvloop's, which says what is right. Proves, by histories with a peer that
reads and writes as it likes, that no byte is lost, doubled or reordered, however little the system takes at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import os
import random
import select
import socket
import struct
import weakref
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import uvloop

from proxy.net.sockets import ready_sockets as module
from proxy.net.sockets import transport
from proxy.net.sockets.opening import connect_tcp, connect_unix, ready_sockets, schedule_of, take_accepted
from proxy.net.sockets.transport import SocketTransport
from tests.conftest import seeds
from tests.resp import PATIENCE_SECONDS, until

OWN, UVLOOP = "own", "uvloop"
FORMS = pytest.mark.parametrize("form", [OWN, UVLOOP])
LARGE = 4 << 20
"""Bytes that no system takes at once."""


class Recorder(asyncio.Protocol):
    """Records what it is told. ``keeps`` is what it answers to the end of the stream."""

    def __init__(self, *, keeps: bool = False) -> None:
        self.keeps = keeps
        self.received = bytearray()
        self.events: list[str] = []
        self.error: BaseException | None = None
        self.on_data: Callable[[bytes], object] = self.received.extend

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.events.append("made")

    def data_received(self, data: bytes) -> None:
        self.on_data(data)

    def eof_received(self) -> bool:
        self.events.append("end")
        return self.keeps

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def connection_lost(self, exc: BaseException | None) -> None:
        self.error = exc
        self.events.append("lost")


class Stage:
    """Connections of one form, each with a plain socket at the other end."""

    def __init__(self, form: str) -> None:
        self.form = form
        self.loop = asyncio.get_running_loop()
        self.reported: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda _, context: self.reported.append(context))
        self._held = contextlib.ExitStack()
        self._protocols: list[Recorder] = []

    async def connection(self, protocol: Recorder | None = None, *, tcp: bool = True) -> tuple[Recorder, socket.socket]:
        protocol = protocol or Recorder()
        here, there = connected_pair() if tcp else socket.socketpair()
        self.enter(there).setblocking(False)
        if self.form == UVLOOP:
            here.setblocking(False)
            self._protocols.append(protocol)
            await self.loop.connect_accepted_socket(lambda: protocol, here)
        else:
            self.take(here, protocol)
        return protocol, there

    def take(self, here: socket.socket, protocol: Recorder) -> None:
        sockets = ready_sockets(self.loop)
        assert sockets is not None
        self._protocols.append(protocol)
        take_accepted(sockets, here, None, protocol)

    def enter(self, held: Any) -> Any:
        return self._held.enter_context(held)

    async def close(self) -> None:
        with self._held:
            for protocol in self._protocols:
                protocol.resume_writing = lambda: None  # type: ignore[method-assign]  # nobody listens any more
                protocol.transport.abort()
            await until(lambda: all("lost" in protocol.events for protocol in self._protocols))
            await asyncio.sleep(0)


def connected_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = socket.create_connection(server.getsockname())
        return server.accept()[0], there


async def read_all(peer: socket.socket, size: int) -> bytes:
    data = bytearray()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(data) < size:
            piece = await asyncio.get_running_loop().sock_recv(peer, 1 << 16)
            if not piece:
                break
            data += piece
    return bytes(data)


def play(form: str, case: Callable[[Stage], Awaitable[None]]) -> None:
    async def main() -> None:
        stage = Stage(form)
        try:
            await case(stage)
        finally:
            await stage.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


@FORMS
@pytest.mark.parametrize("tcp", [True, False], ids=["tcp", "unix"])
def test_what_is_written_arrives_whole_and_the_close_comes_behind_it(form: str, tcp: bool) -> None:
    async def case(stage: Stage) -> None:
        protocol, peer = await stage.connection(tcp=tcp)
        sent = random.Random(1).randbytes(LARGE)
        protocol.transport.write(sent[:5])
        protocol.transport.write(sent[5:])
        while protocol.transport.get_write_buffer_size() == 0:  # the kernel may take a few megabytes at once
            protocol.transport.write(sent[:LARGE])
            sent += sent[:LARGE]
        protocol.transport.write(b"the end")
        protocol.transport.close()
        assert protocol.transport.is_closing()
        assert protocol.transport.get_write_buffer_size() > 0
        assert await read_all(peer, 2 * len(sent)) == sent + b"the end"
        await until(lambda: "lost" in protocol.events)
        assert protocol.error is None
        assert protocol.transport.get_write_buffer_size() == 0

    play(form, case)


@FORMS
def test_a_protocol_pauses_above_one_limit_and_resumes_below_the_other(form: str) -> None:
    async def case(stage: Stage) -> None:
        protocol, peer = await stage.connection()
        transport = protocol.transport
        transport.set_write_buffer_limits(high=LARGE, low=LARGE // 2)
        for _ in range(4):
            transport.write(bytes(LARGE))
            await asyncio.sleep(0)
        assert protocol.events == ["made", "pause"]
        seen: list[int] = []
        protocol.resume_writing = lambda: seen.append(transport.get_write_buffer_size())  # type: ignore[method-assign]  # asked at that moment
        await read_all(peer, 4 * LARGE)
        await until(lambda: seen)
        assert seen[0] <= LARGE // 2
        assert len(seen) == 1

    play(form, case)


@FORMS
def test_nothing_is_read_while_reading_is_paused(form: str) -> None:
    async def case(stage: Stage) -> None:
        protocol, peer = await stage.connection()
        protocol.transport.pause_reading()
        peer.send(b"held back")
        await _turns(5)
        assert protocol.received == b""
        protocol.transport.resume_reading()
        await until(lambda: protocol.received == b"held back")

    play(form, case)


@FORMS
def test_a_protocol_can_pause_while_it_is_given_bytes(form: str) -> None:
    async def case(stage: Stage) -> None:
        protocol, peer = await stage.connection()

        def one(data: bytes) -> None:
            protocol.received.extend(data)
            protocol.transport.pause_reading()

        protocol.on_data = one
        await stage.loop.sock_sendall(peer, bytes(1 << 20))
        await until(lambda: protocol.received)
        before = len(protocol.received)
        await _turns(5)
        assert len(protocol.received) == before < 1 << 20

    play(form, case)


@FORMS
def test_after_the_end_of_the_stream_a_protocol_may_still_answer(form: str) -> None:
    async def case(stage: Stage) -> None:
        protocol, peer = await stage.connection(Recorder(keeps=True))
        peer.send(b"question")
        peer.shutdown(socket.SHUT_WR)
        await until(lambda: "end" in protocol.events)
        assert protocol.received == b"question"
        await _turns(5)
        protocol.transport.write(b"answer")
        protocol.transport.close()
        assert await read_all(peer, 100) == b"answer"
        await until(lambda: "lost" in protocol.events)
        assert protocol.events == ["made", "end", "lost"]

    play(form, case)


@FORMS
def test_the_end_of_the_stream_closes_a_connection_that_does_not_keep_it(form: str) -> None:
    async def case(stage: Stage) -> None:
        protocol, peer = await stage.connection()
        peer.shutdown(socket.SHUT_WR)
        assert await read_all(peer, 1) == b""
        await until(lambda: "lost" in protocol.events)
        assert (protocol.events, protocol.error) == (["made", "end", "lost"], None)

    play(form, case)


@FORMS
def test_a_reset_is_told_once_with_its_error(form: str) -> None:
    async def case(stage: Stage) -> None:
        protocol, peer = await stage.connection()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()
        await until(lambda: "lost" in protocol.events)
        assert isinstance(protocol.error, ConnectionResetError)
        if form == OWN:  # uvloop's raises
            protocol.transport.write(b"too late")
        protocol.transport.close()
        protocol.transport.abort()
        await _turns(3)
        assert protocol.events == ["made", "lost"]
        assert stage.reported == []

    play(form, case)


@FORMS
def test_a_peer_that_is_gone_is_noticed_by_writing_while_reading_is_paused(form: str) -> None:
    async def case(stage: Stage) -> None:
        protocol, peer = await stage.connection()
        protocol.transport.pause_reading()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()
        await _turns(5)
        assert protocol.events == ["made"]
        protocol.transport.write(b"is anybody there?")
        await until(lambda: "lost" in protocol.events)
        assert isinstance(protocol.error, ConnectionError)

    play(form, case)


@FORMS
def test_abort_drops_what_waits(form: str) -> None:
    async def case(stage: Stage) -> None:
        protocol, peer = await stage.connection()
        protocol.transport.write(bytes(LARGE))
        protocol.transport.abort()
        assert protocol.transport.is_closing()
        assert "lost" not in protocol.events, "a protocol is not called from within its own call"
        await until(lambda: "lost" in protocol.events)
        assert protocol.error is None
        with contextlib.suppress(ConnectionResetError):
            assert len(await read_all(peer, LARGE)) < LARGE

    play(form, case)


@FORMS
@pytest.mark.parametrize("where", ["connection_made", "data_received", "eof_received"])
def test_a_protocol_that_fails_loses_its_own_connection_alone(form: str, where: str) -> None:
    async def case(stage: Stage) -> None:
        broken = Recorder()

        def fail(*given: Any) -> bool:
            if where == "connection_made":
                broken.transport = given[0]
            raise RuntimeError("broken")

        setattr(broken, where, fail)
        if where == "connection_made" and form == UVLOOP:
            return  # there whoever has accepted it gets the error
        _, broken_peer = await stage.connection(broken)
        whole, peer = await stage.connection()
        for each in (broken_peer, peer):
            each.send(b"bytes")
        broken_peer.shutdown(socket.SHUT_WR)
        await until(lambda: whole.received == b"bytes" and "lost" in broken.events)
        assert isinstance(broken.error, RuntimeError)
        assert len(stage.reported) == 1
        peer.send(b" and more")
        await until(lambda: whole.received == b"bytes and more")

    play(form, case)


@FORMS
def test_a_flood_keeps_nobody_waiting(form: str) -> None:
    """Each of a thousand connections is served before the one that floods has been read for the second time more often
    than the size of one read allows."""

    async def case(stage: Stage) -> None:
        flooded, flood = await stage.connection()
        others = [await stage.connection(tcp=False) for _ in range(200)]
        reads: list[int] = []
        flooded.on_data = lambda data: reads.append(len(data))
        flood.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LARGE)
        with contextlib.suppress(BlockingIOError):
            while True:
                flood.send(bytes(1 << 20))
        for _, peer in others:
            peer.send(b"bytes")
        seen: list[int] = []
        for protocol, _ in others:
            protocol.on_data = lambda _: seen.append(sum(reads))
        await until(lambda: len(seen) == len(others))
        assert max(seen) < LARGE

    play(form, case)


def test_a_descriptor_that_is_used_again_within_a_pass_is_not_taken_for_the_one_before() -> None:
    async def case(stage: Stage) -> None:
        first, first_peer = await stage.connection()
        second, second_peer = await stage.connection()
        taken: list[tuple[Recorder, socket.socket]] = []

        def replace(other: Recorder) -> Callable[[bytes], None]:
            def act(_: bytes) -> None:
                # The other one's event of this round is still to come.
                for each in (first, second):
                    each.on_data = each.received.extend
                other.transport.abort()
                descriptor = other.transport.get_extra_info("socket").detach()
                here, there = connected_pair()
                with here:
                    os.dup2(here.fileno(), descriptor)
                protocol = Recorder()
                stage.take(socket.socket(fileno=descriptor), protocol)
                assert protocol.transport.get_extra_info("socket").fileno() == descriptor
                taken.append((protocol, stage.enter(there)))

            return act

        first.on_data, second.on_data = replace(second), replace(first)
        first_peer.send(b"bytes")
        second_peer.send(b"bytes")
        await until(lambda: taken)
        await _turns(5)
        protocol, there = taken[0]
        assert protocol.received == b""
        there.send(b"its own")
        await until(lambda: protocol.received == b"its own")
        assert sorted((first.received, second.received)) == [b"", b""]

    play(OWN, case)


def test_what_is_scheduled_runs_once_when_all_that_is_ready_has_been_read() -> None:
    async def case(stage: Stage) -> None:
        order: list[object] = []
        schedule = schedule_of(stage.loop)
        pairs = [await stage.connection(tcp=False) for _ in range(5)]

        def flush() -> None:
            order.append("flush")

        for index, (protocol, peer) in enumerate(pairs):

            def on_data(_: bytes, index: int = index) -> None:
                order.append(index)
                if len(order) == 1:
                    stage.loop.call_soon(order.append, "next turn")
                    schedule(flush)

            protocol.on_data = on_data
            peer.send(b"bytes")
        await until(lambda: len(order) == 7)
        assert sorted(order[:5], key=str) == [0, 1, 2, 3, 4]
        assert order[5:] == ["flush", "next turn"]
        schedule(flush)
        assert len(order) == 7, "nothing that is scheduled runs at once"
        await until(lambda: len(order) == 8)
        await _turns(3)
        assert len(order) == 8

    play(OWN, case)


def test_what_fails_keeps_nothing_else_from_leaving() -> None:
    async def case(stage: Stage) -> None:
        done: list[int] = []
        schedule = schedule_of(stage.loop)
        _, peer = await stage.connection()

        def fail() -> None:
            raise RuntimeError("broken")

        def again() -> None:
            done.append(1)
            schedule(lambda: done.append(2))

        protocol, peer = await stage.connection()
        protocol.on_data = lambda _: [schedule(fail), schedule(again)]
        peer.send(b"bytes")
        await until(lambda: done == [1, 2])
        assert [str(each["exception"]) for each in stage.reported] == ["broken"]

    play(OWN, case)


def test_what_came_during_a_pause_is_read_in_one_pass() -> None:
    """The timers behind it would take what is unread for missing: see ``proxy/net/connection/deadline.py``."""

    async def case(stage: Stage) -> None:
        protocol, peer = await stage.connection()
        protocol.transport.pause_reading()
        protocol.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, LARGE)
        await stage.loop.sock_sendall(peer, bytes(LARGE // 8))
        protocol.transport.resume_reading()
        sockets = ready_sockets(stage.loop)
        assert sockets is not None
        sockets._pass()
        assert len(protocol.received) == LARGE // 8

    play(OWN, case)


def test_a_pause_is_told_before_anything_is_read_and_before_anything_is_written() -> None:
    async def case(stage: Stage) -> None:
        protocol, peer = await stage.connection()
        sockets = ready_sockets(stage.loop)
        assert sockets is not None
        order: list[str] = []

        def read(_: bytes) -> None:
            order.append("read")
            sockets.schedule(lambda: order.append("flush"))

        protocol.on_data = read
        sockets.on_pause, sockets.pause, sockets.turned = lambda: order.append("pause"), 0.0, 0.0
        peer.send(b"bytes")
        await until(lambda: "flush" in order)
        assert order == ["pause", "read", "pause", "flush"]
        sockets.schedule(lambda: order.append("flush"))
        await until(lambda: len(order) == 6)
        assert order[4:] == ["pause", "flush"]
        sockets.pause = float("inf")
        peer.send(b"bytes")
        await until(lambda: len(order) == 8)
        assert order[6:] == ["read", "flush"]

    play(OWN, case)


def test_nobody_is_read_to_whom_somebody_objects() -> None:
    async def case(stage: Stage) -> None:
        refused, refused_peer = await stage.connection()
        read, peer = await stage.connection()
        sockets = ready_sockets(stage.loop)
        assert sockets is not None
        order: list[str] = []

        def look(protocol: object) -> bool:
            order.append("look")
            return protocol is not refused

        sockets.looks[1] = look
        read.on_data = lambda _: order.append("read")
        for each in (refused_peer, peer):
            each.send(b"bytes")
        await until(lambda: "read" in order)
        assert order[order.index("read") - 1] == "look"
        assert refused.received == b""
        del sockets.looks[1]
        await until(lambda: refused.received == b"bytes")

    play(OWN, case)


def test_a_look_that_fails_loses_its_own_connection_alone() -> None:
    async def case(stage: Stage) -> None:
        broken, broken_peer = await stage.connection()
        whole, peer = await stage.connection()
        sockets = ready_sockets(stage.loop)
        assert sockets is not None

        def look(protocol: object) -> bool:
            if protocol is broken:
                raise OSError(errno.EMFILE, "no file can be opened")
            return True

        sockets.looks[1] = look
        for each in (broken_peer, peer):
            each.send(b"bytes")
        await until(lambda: whole.received == b"bytes" and "lost" in broken.events)
        assert broken.received == b""
        del sockets.looks[1]

    play(OWN, case)


def test_a_read_that_fails_loses_the_connection_and_leaves_no_hole_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def case(stage: Stage) -> None:
        protocol, peer = await stage.connection()
        monkeypatch.setattr(transport, "receive", fail)
        peer.send(b"lost")
        await until(lambda: "lost" in protocol.events)
        assert isinstance(protocol.error, MemoryError)
        assert len(stage.reported) == 1

    def fail(descriptor: int) -> bytes:
        os.read(descriptor, 100)
        raise MemoryError

    if not transport.__file__.endswith(".py"):
        pytest.skip("compiled, the call cannot be replaced")
    play(OWN, case)


def test_where_nothing_can_be_watched_the_next_connection_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    async def case(stage: Stage) -> None:
        monkeypatch.setattr(select, "epoll", fail)
        broken, _ = await stage.connection()
        await until(lambda: "lost" in broken.events)
        assert isinstance(broken.error, OSError)
        monkeypatch.undo()
        protocol, peer = await stage.connection()
        peer.send(b"bytes")
        await until(lambda: protocol.received == b"bytes")

    def fail() -> None:
        raise OSError(errno.ENOSPC, "no room")

    play(OWN, case)


def test_more_sockets_than_are_asked_for_at_once_are_all_read_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    async def case(stage: Stage) -> None:
        pairs = [await stage.connection(tcp=False) for _ in range(40)]
        order: list[object] = []
        for protocol, peer in pairs:
            protocol.on_data = order.append
            peer.send(b"bytes")
        sockets = ready_sockets(stage.loop)
        assert sockets is not None
        sockets._pass()
        assert len(order) == 40

    if not module.__file__.endswith(".py"):
        pytest.skip("compiled, the number is a constant")
    monkeypatch.setattr(module, "_AT_ONCE", 8)
    play(OWN, case)


def test_without_connections_nothing_is_watched_and_no_file_stays_open() -> None:
    async def case(stage: Stage) -> None:
        before = _open_files()
        protocol, peer = await stage.connection()
        protocol.transport.pause_reading()
        protocol.transport.resume_reading()
        protocol.transport.close()
        await until(lambda: "lost" in protocol.events)
        peer.close()
        await _turns(2)
        assert _open_files() == before

    play(OWN, case)


def test_where_the_system_watches_no_more_the_connection_is_lost() -> None:
    async def case(stage: Stage) -> None:
        sockets = ready_sockets(stage.loop)
        assert sockets is not None
        protocol = Recorder()
        unwatchable: Any = stage.enter(os.fdopen(os.open(__file__, os.O_RDONLY), "rb"))  # see man 2 epoll_ctl, EPERM
        SocketTransport(sockets, unwatchable, None, protocol).begin()
        await until(lambda: "lost" in protocol.events)
        assert isinstance(protocol.error, PermissionError)
        assert unwatchable.closed

    play(OWN, case)


@pytest.mark.parametrize("loop_factory", [uvloop.new_event_loop, asyncio.SelectorEventLoop])
def test_a_connection_is_opened_by_any_event_loop(
    loop_factory: Callable[[], asyncio.AbstractEventLoop], tmp_path: Any
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        tcp, path = socket.create_server(("127.0.0.1", 0)), str(tmp_path / "s")
        unix = socket.socket(socket.AF_UNIX)
        unix.bind(path)
        unix.listen()
        with tcp, unix:
            for server in (tcp, unix):
                protocol = Recorder()
                if server is tcp:
                    transport = await connect_tcp(loop, protocol, "localhost", tcp.getsockname()[1])
                else:
                    transport = await connect_unix(loop, protocol, path)
                peer, _ = server.accept()
                with peer:
                    transport.write(b"here")
                    peer.settimeout(PATIENCE_SECONDS)
                    assert peer.recv(10) == b"here"
                    peer.send(b"there")
                    await until(lambda: protocol.received == b"there")  # noqa: B023 - awaited in this turn
                    transport.abort()
                    await until(lambda: "lost" in protocol.events)  # noqa: B023 - as above
            port = tcp.getsockname()[1]
        with pytest.raises(ConnectionRefusedError):
            await connect_tcp(loop, Recorder(), "127.0.0.1", port)
        os.unlink(path)  # noqa: PTH108 - nobody waits for it
        with pytest.raises(FileNotFoundError):
            await connect_unix(loop, Recorder(), path)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(main())


class TwoAddresses(uvloop.Loop):
    """Each name has the address of nobody and that of a server."""

    ports: tuple[int, ...] = ()

    async def getaddrinfo(self, *_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port)) for port in self.ports]


@pytest.mark.parametrize("answers", [False, True])
def test_a_refused_connection_is_freed_without_the_garbage_collector(answers: bool) -> None:
    async def main(loop: TwoAddresses) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            loop.ports = (nobody.getsockname()[1], server.getsockname()[1])[: 1 + answers]
            protocol = Recorder()
            kept = weakref.ref(protocol)
            if answers:
                (await connect_tcp(loop, protocol, "two.example", 1)).abort()
                events = protocol.events
                await until(lambda: "lost" in events)
            else:
                with pytest.raises(ConnectionRefusedError, match="Connection refused"):
                    await connect_tcp(loop, protocol, "two.example", 1)
            del protocol
            await asyncio.sleep(0)
            assert kept() is None

    gc.disable()
    try:
        with asyncio.Runner(loop_factory=TwoAddresses) as runner:
            runner.run(main(cast("TwoAddresses", runner.get_loop())))
    finally:
        gc.enable()


def test_a_unix_socket_whose_queue_is_full_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_UNIX) as server, contextlib.ExitStack() as held:
            server.bind(str(tmp_path / "s"))
            server.listen(0)
            for _ in range(10):
                waiting = held.enter_context(socket.socket(socket.AF_UNIX))
                waiting.setblocking(False)
                if waiting.connect_ex(str(tmp_path / "s")):
                    break
            with pytest.raises(BlockingIOError):
                await connect_unix(loop, Recorder(), str(tmp_path / "s"))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


class Peer:
    """The other end: it writes and reads as it likes, and keeps what came."""

    def __init__(self, sock: socket.socket, chance: random.Random) -> None:
        self.sock = sock
        self.chance = chance
        self.received = bytearray()
        self.to_send = bytearray()
        self.ended = False

    def write(self, data: bytes) -> None:
        self.to_send += data
        self.push()

    def push(self) -> bool:
        with contextlib.suppress(BlockingIOError):
            while self.to_send:
                del self.to_send[: self.sock.send(self.to_send)]
        return not self.to_send

    def read(self, most: int) -> bool:
        with contextlib.suppress(BlockingIOError):
            piece = self.sock.recv(most)
            self.ended = self.ended or not piece
            self.received += piece
        return self.ended


@FORMS
@pytest.mark.parametrize("seed", seeds(12, 120))
def test_in_any_history_no_byte_is_lost_doubled_or_reordered(form: str, seed: int) -> None:
    chance = random.Random(seed)

    async def case(stage: Stage) -> None:
        protocol, sock = await stage.connection(tcp=chance.random() < 0.5)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        protocol.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        protocol.transport.set_write_buffer_limits(high=20_000, low=5_000)
        peer = Peer(sock, chance)
        here, there = bytearray(), bytearray()
        for act in _acts(protocol, peer, here, there):
            act()
            if chance.random() < 0.3:
                await asyncio.sleep(0)
        protocol.transport.resume_reading()
        await until(lambda: peer.push() and protocol.received == there)
        protocol.transport.close()
        await until(lambda: peer.read(1 << 16))
        assert bytes(peer.received) == bytes(here)
        await until(lambda: "lost" in protocol.events)
        told = [each for each in protocol.events if each in ("pause", "resume")]
        assert told == ["pause", "resume"] * (len(told) // 2) + ["pause"] * (len(told) % 2)

    def _acts(protocol: Recorder, peer: Peer, here: bytearray, there: bytearray) -> Iterator[Callable[[], object]]:
        for _ in range(200):
            data = chance.randbytes(chance.choice((1, 10, 1000, 30_000)))
            which = chance.randrange(6)
            if which == 0:
                here += data
                yield lambda data=data: protocol.transport.write(data)  # type: ignore[misc]  # a default
            elif which == 1:
                there += data
                yield lambda data=data: peer.write(data)  # type: ignore[misc]  # a default
            elif which == 2:
                yield lambda: peer.read(chance.choice((1, 100, 100_000)))
            elif which == 3:
                yield protocol.transport.pause_reading
            elif which == 4:
                yield protocol.transport.resume_reading
            else:
                yield peer.push

    play(form, case)


async def _turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)
        await asyncio.get_running_loop().run_in_executor(None, select.select, [], [], [], 0)


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
