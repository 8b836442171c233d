"""What a client has given up does not run later, whatever happens to the workers and the supervisor meanwhile.

Each history kills or stops some of them while clients, old and new ones, send commands. Who has no reply in time gives
up: it closes its connection, resets it, or forgets it, and writes something else over another one. Then the processes
go on, or are replaced. No write that was given up may have run after that; what changes nothing is answered, however
long it has waited.
"""

from __future__ import annotations

import os
import random
import select
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.conftest import seeds
from tests.engines import Engine
from tests.resp import Address, Closed, FrameReader, Wire, pack
from tests.server.running import Running, serve, ticks

PATIENCE, TIMEOUT = "400ms", 0.9
"""How long Keyrail takes clients to wait, and after how many seconds they give up."""
RESET = struct.pack("ii", 1, 0)

READS = [pack("GET", "read"), pack("PING"), b"PING\r\n", pack("CLIENT", "SETNAME", "me"), pack("HELLO", "2")]
READS += [pack("SELECT", "0"), pack("CLIENT", "SETINFO", "LIB-NAME", "lib"), pack("EXISTS", "read"), b"GET read\r\n"]
WRITES: list[Callable[[str], bytes]] = [
    lambda key: pack("SET", key, "OLD"),
    lambda key: b"SET %s OLD\r\n" % key.encode(),
    lambda key: pack("MULTI") + pack("SET", key, "OLD") + pack("EXEC"),
    lambda key: pack("EVAL", "return redis.call('SET',KEYS[1],'OLD')", 1, key),
    lambda key: pack("MSET", "other", "OLD", key, "OLD"),
    lambda key: pack("GETSET", key, "OLD"),
    lambda key: pack("SET", key, "OLD" + "-" * 100_000),
]


@dataclass
class Client:
    """One that sends ``said`` as one, and is answered with so many frames. ``writes`` if that could change ``key``."""

    key: str
    said: bytes
    frames: int
    writes: bool
    leaves: str
    plain: socket.socket
    reader: FrameReader = field(default_factory=FrameReader)
    heard: int = 0
    closed: bool = False

    @property
    def answered(self) -> bool:
        return self.heard >= self.frames

    def listen(self) -> None:
        try:
            data = self.plain.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self.closed = not data
        self.reader.feed(data)
        while self.reader.frame() is not None:
            self.heard += 1

    def give_up(self) -> None:
        if self.leaves == "resets":
            self.plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        if self.leaves != "stays":
            self.plain.close()


def client(chance: random.Random, number: int, address: Address) -> Client:
    plain = address.connect(30.0)
    plain.setblocking(False)
    key, writes = f"key:{number}", chance.random() < 0.7
    said = [chance.choice(READS) for _ in range(chance.randrange(0, 3) if writes else chance.randrange(1, 5))]
    frames = len(said)
    if writes:
        said.insert(chance.randint(0, len(said)), chance.choice(WRITES)(key))
        frames += 3 if b"MULTI" in b"".join(said) else 1
    leaves = chance.choice(["closes", "resets", "stays"])
    return Client(key, b"".join(said), frames, writes, leaves, plain)


def listen_until(clients: list[Client], over: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not over():
        waiting = [each for each in clients if each.plain.fileno() >= 0 and not each.closed and not each.answered]
        ready, _, _ = select.select([each.plain for each in waiting], [], [], 0.02)
        for each in waiting:
            if each.plain in ready:
                each.listen()


@contextmanager
def disturbed(how: str, running: Running) -> Iterator[None]:
    """The processes are killed or stopped within the block; behind it, they go on."""
    workers, supervisor = running.workers(), running.process.pid
    some = workers[:1] if "one" in how else workers
    if "supervisor" in how:
        os.kill(supervisor, signal.SIGSTOP)
    for pid in some:
        os.kill(pid, signal.SIGKILL if "kill" in how else signal.SIGSTOP)
    yield
    if "then dies" in how:
        os.kill(some[0], signal.SIGKILL)
    elif how.startswith("stop"):
        for pid in some:
            os.kill(pid, signal.SIGCONT)
    if "supervisor" in how:
        os.kill(supervisor, signal.SIGCONT)
    if "kill" in how or "dies" in how:
        for _ in ticks():
            if len(running.workers()) == len(workers) and not set(some) & set(running.workers()):
                break
        running.await_metric("keyrail_workers", len(workers))


DISTURBANCES = [
    "kill one",
    "stop all",
    "kill all with the supervisor stopped",
    "stop one",
    "kill one with the supervisor stopped",
    "kill all",
    "stop one, which then dies",
    "stop all with the supervisor stopped",
]


@pytest.mark.parametrize("seed", seeds(4, 48))
def test_no_write_runs_that_its_client_has_given_up(
    seed: int, new_engine: Callable[..., Engine], tmp_path: Path
) -> None:
    chance = random.Random(seed)
    engine, path = new_engine(), tmp_path / "socket"
    how = DISTURBANCES[seed % len(DISTURBANCES)]
    workers = 2 if "one" in how else chance.choice([1, 2, 3])
    listen = ("--listen", "127.0.0.1:0", "--listen", f"unix://{path}")
    options = ("--policy", chance.choice(["none", "default"]), "--workers", str(workers), "--accept-patience", PATIENCE)
    with serve(*listen, "--upstream", engine.url, *options) as running, ExitStack() as held:
        port = running.ready().ports()[0]
        addresses = [Address(port=port), Address(path=str(path))]
        witnesses = [held.enter_context(Wire(Address(port=port))) for _ in range(4 * workers)]
        for witness in witnesses:
            assert witness.ask("PING") == b"+PONG\r\n"
        engine.do("SET", "read", "value")
        old = [client(chance, number, chance.choice(addresses)) for number in range(20)]
        running.await_metric('keyrail_clients{route="default"}', len(old) + len(witnesses))
        with disturbed(how, running):
            clients = old + [client(chance, 100 + number, chance.choice(addresses)) for number in range(40)]
            for each in clients:
                held.callback(each.plain.close)
                try:
                    each.plain.sendall(each.said)
                except OSError:
                    each.closed = True
            listen_until(clients, lambda: False, TIMEOUT)
            given_up = [each for each in clients if each.writes and not each.answered]
            for each in clients:
                if not each.answered:
                    each.give_up()
            with Wire(Address(port=engine.port)) as elsewhere:
                for each in given_up:
                    assert elsewhere.ask("SET", each.key, "NEW") == b"+OK\r\n"
        for _ in range(20):
            with Wire(chance.choice(addresses)) as wire:
                assert wire.ask("PING") == b"+PONG\r\n"
        for witness in witnesses * 2 if "kill" not in how and "dies" not in how else ():
            assert witness.ask("PING") == b"+PONG\r\n"
        ran = [each for each in given_up if engine.do("GET", each.key) != b"NEW"]
        assert not ran, (how, len(given_up), ran)
        stay = [each for each in clients[20:] if not each.writes and each.leaves == "stays"]
        listen_until(stay, lambda: all(each.answered for each in stay), 30.0)
        assert all(each.answered for each in stay), (how, [each.said for each in stay if not each.answered])


@pytest.mark.parametrize("policy", ["none", "strict"])
def test_behind_a_pause_only_who_has_given_up_a_write_is_closed(policy: str, new_engine: Callable[..., Engine]) -> None:
    """All of them would share a connection to Redis."""
    engine = new_engine()
    options = ("--policy", policy, "--workers", "1", "--accept-patience", PATIENCE)
    with serve("--listen", "127.0.0.1:0", "--upstream", engine.url, *options) as running, ExitStack() as held:
        port = running.ready().ports()[0]
        late, reading, asking = (held.enter_context(Wire(Address(port=port))) for _ in range(3))
        for each in (late, reading, asking):
            assert each.ask("GET", "user:1") == b"$-1\r\n"
        with disturbed("stop all", running):
            late.say("SET", "user:1", "OLD", "EX", "600")
            reading.say("GET", "user:1")
            asking.say("PING")
            listen_until([], lambda: False, TIMEOUT)
            new = held.enter_context(Wire(Address(port=port)))
            new.say("SET", "user:2", "NEW", "EX", "600")
        assert reading.frame() == b"$-1\r\n"
        assert asking.frame() == b"+PONG\r\n"
        assert new.frame() == b"+OK\r\n"
        with pytest.raises(Closed):
            late.frame()
        assert engine.do("GET", "user:1") is None
        running.await_metric('keyrail_client_closes_total{cause="gave_up",route="default"}', 1.0)
