"""FLUSHDB of a tenant on real engines: all that its clients have written before is gone, all that they write behind it
stays, and nothing of anybody else is touched."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import Fleet, seeds
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Wire, eventually, pack
from tests.tenants.test_against_engines import POLICY, login, prepared
from tests.tenants.test_keyspace import write

pytestmark = pytest.mark.skipif(DIRECT, reason="tenants are Keyrail's own")

FLUSHES = ", flush: walk, only_keyrail: yes"
OK = b"+OK\r\n"
DENIED = b"-DENIED keyrail: FLUSHDB has not been comp"
OWN = ("a", "acme:a", "acme:acme:a", "globex:a", "", "*", "{a}", "a\r\nb", "\\", "[x]")
OTHERS = ("acme", "acmE:a", "acme2:a", "xacme:a", "outside", "globex:a", "globex:acme:a", "globex:", "")


@pytest.fixture
def shared(fleet: Fleet, engine_name: str) -> Engine:
    return prepared(fleet.engine(engine_name))


@contextmanager
def serving(shared: Engine, folder: Path, more: str = FLUSHES, *, workers: int = 1) -> Iterator[Keyrail]:
    file = folder / "tenants.yaml"
    file.write_text(POLICY.replace("globex]}", f"globex]{more}}}"), encoding="utf-8")
    keyrail = Keyrail(shared.url, policy=file, workers=workers)
    try:
        yield keyrail
    finally:
        keyrail.close()


def names(engine: Engine) -> set[bytes]:
    with engine.wire() as wire:
        found = wire.value("KEYS", "*")
        assert isinstance(found, list)
        return {name for name in found if isinstance(name, bytes)}


@pytest.mark.parametrize("protocol", [2, 3])
def test_its_own_keys_go_and_no_others(shared: Engine, tmp_path: Path, protocol: int) -> None:
    with serving(shared, tmp_path) as keyrail, keyrail.wire(protocol=protocol) as acme, shared.wire() as direct:
        login(acme, "acme")
        for how in ([], ["ASYNC"], ["sync"]):
            for key in OTHERS:
                assert direct.ask("SET", key, 1) == OK
            write(acme, 1300, "k:{}")
            acme.send(b"".join(pack("SET", key, 1) for key in OWN) + pack("FLUSHDB", *how) + pack("DBSIZE"))
            assert acme.frames(len(OWN) + 2) == [OK] * (len(OWN) + 1) + [b":0\r\n"]
            assert names(shared) == {key.encode() for key in OTHERS}
        acme.ask("SET", "in", "0")
        acme.send(pack("SELECT", 1) + pack("SET", "in", "1") + pack("FLUSHDB") + pack("GET", "in") + pack("SELECT", 0))
        null = b"$-1\r\n" if protocol == 2 else b"_\r\n"
        assert acme.frames(5) == [OK, OK, OK, null, OK]
        assert acme.ask("GET", "in") == b"$1\r\n0\r\n"
        assert acme.ask("FLUSHDB", "NOW") == acme.ask("FLUSHDB", "ASYNC", "ASYNC") == b"-ERR syntax error\r\n"
        assert acme.ask("FLUSHALL").startswith(b"-DENIED keyrail: FLUSHALL is not offered to tenants")
        acme.send(pack("MULTI") + pack("SET", "k", 1) + pack("FLUSHDB") + pack("EXEC"))
        ok, queued, refused, aborted = acme.frames(4)
        assert (ok, queued, aborted[:10]) == (OK, b"+QUEUED\r\n", b"-EXECABORT")
        assert refused.startswith(b"-DENIED keyrail: FLUSHDB has not been completed: it is inside MULTI; no key")
        assert acme.ask("GET", "in") == b"$1\r\n0\r\n"


def test_only_unlinks_of_its_own_keys_reach_redis(shared: Engine, tmp_path: Path) -> None:
    with serving(shared, tmp_path) as keyrail, keyrail.wire() as acme, shared.wire() as direct, shared.wire() as seen:
        login(acme, "acme")
        direct.ask("SET", "globex:a", 1)
        write(acme, 250, "k:{}")
        seen.ask("MONITOR")
        assert acme.ask("FLUSHDB") == OK
        direct.ask("ECHO", "over")
        lines = []
        while b"over" not in (line := seen.frame()):
            lines.append(line)
        unlinks = [line for line in lines if b'"UNLINK"' in line]
        assert sum(line.count(b'"acme:k:') for line in unlinks) == 250
        assert max(line.count(b'"acme:k:') for line in unlinks) <= 100
        assert not [line for line in lines if b"FLUSH" in line or b'"DEL"' in line or b"globex" in line]


def test_a_user_without_the_rights_and_a_time_that_is_over(shared: Engine, tmp_path: Path) -> None:
    with serving(shared, tmp_path, FLUSHES + ", walk: {time: 1s, count: 1}") as keyrail, keyrail.wire() as acme:
        login(acme, "acme")
        write(acme, 5, "k:{}")
        for command in ("UNLINK", "SCAN"):
            shared.do("ACL", "SETUSER", "acme", f"-{command}")
            told = acme.ask("FLUSHDB")
            assert told.startswith(
                b"-DENIED keyrail: FLUSHDB has not been completed: this user may not run " + command.encode()
            )
            assert told.endswith(b"; no key of this tenant is gone; send it again\r\n")
            shared.do("ACL", "SETUSER", "acme", f"+{command}")
        shared.do("DEBUG", "POPULATE", 400_000, "other")
        write(acme, 3000, "k:{}")
        told = acme.ask("FLUSHDB")
        assert b"it took longer than 1 s, the time of tenants.walk; " in told
        left = acme_keys(shared)
        assert f" {3000 - left} keys of this tenant are gone; send it again".encode() in told
        assert left > 0
        assert acme.ask("SET", "k", 1) == OK


def acme_keys(engine: Engine) -> int:
    found = engine.do("KEYS", "acme:*")
    assert isinstance(found, list)
    return len(found)


class Write(NamedTuple):
    """One write, and when it was sent and answered."""

    keys: tuple[str, ...]
    began: float
    ended: float


class Writer:
    """A client that writes keys that nobody has written before, in one of several ways, until it is told to stop."""

    def __init__(self, keyrail: Keyrail, user: str, name: str, seed: int) -> None:
        self.wire = login(keyrail.wire(protocol=2 + seed % 2), user)
        self.name, self.chance = name, random.Random(seed)
        self.written: list[Write] = []
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        while not self.stop.is_set():
            self.step(len(self.written))

    def has_written(self, times: int) -> bool:
        return len(self.written) >= times or not self.thread.is_alive()

    def end(self) -> None:
        """Stop before the connection is closed."""
        self.stop.set()
        self.thread.join()

    def step(self, number: int) -> None:
        one, two = (f"{self.name}:{number}:{half}" for half in "ab")
        sent, replies = {
            0: (pack("MSET", one, 1, two, 2), 1),
            1: (pack("MULTI") + pack("SET", one, 1) + pack("SET", two, 2) + pack("EXEC"), 4),
            2: (pack("WATCH", "w") + pack("MULTI") + pack("SET", one, 1) + pack("LPUSH", two, 2) + pack("EXEC"), 5),
            3: (pack("RPUSH", one, 1, 2) + pack("LMOVE", one, two, "LEFT", "RIGHT"), 2),
            4: (pack("RPUSH", one, 1, 2) + pack("BLMOVE", one, two, "LEFT", "RIGHT", 1), 2),
            5: (pack("MSET", one, 1, two, "x" * 1_200_000), 1),
            6: (b"".join(pack("SET", key, 1) for key in (one, two)), 2),
        }[self.chance.choice((0, 0, 1, 1, 2, 3, 4, 5, 6)) if number % 7 else 5]
        began = time.monotonic()
        self.wire.send(sent)
        told = self.wire.frames(replies, 120)
        self.written.append(Write((one, two), began, time.monotonic()))
        assert not any(frame.startswith(b"-") for frame in told), told


def flushed(wire: Wire) -> tuple[float, float]:
    """From when on it has been done, and until when. On a busy machine, a write may be under way for a second."""
    told = b"in 1 s; no key"
    began = 0.0
    while b"in 1 s; no key" in told:
        began = time.monotonic()
        wire.send(pack("FLUSHDB"))
        told = wire.frame(120)
    assert told == OK
    return began, time.monotonic()


@pytest.mark.parametrize("seed", seeds(2, 40))
@pytest.mark.parametrize("workers", [1, 2])
def test_each_write_comes_before_it_or_behind(fleet: Fleet, tmp_path: Path, seed: int, workers: int) -> None:
    shared, chance = prepared(fleet.engine("valkey-9.1")), random.Random(seed)
    with shared.wire() as direct:
        write(direct, 4000, "other:{}")
    walk = ", walk: {time: 60s, count: 10}"
    with serving(shared, tmp_path, FLUSHES + walk, workers=workers) as keyrail, ExitStack() as stack:
        writers = [Writer(keyrail, "acme", f"w{number}", 10 * seed + number) for number in range(4)]
        other = Writer(keyrail, "globex", "acme", seed)
        flusher = stack.enter_context(login(keyrail.wire(), "acme"))
        for each in (*writers, other):
            stack.enter_context(each.wire)
            each.thread.start()
            stack.callback(each.end)
        flushes = []
        for _ in range(6):
            more = len(writers[0].written) + chance.randrange(1, 10)
            eventually(partial(writers[0].has_written, more))
            flushes.append(flushed(flusher))
        for each in (*writers, other):
            each.stop.set()
        for each in (*writers, other):
            each.end()
        began, ended = flushes[-1]
        left = {name.removeprefix(b"acme:").decode() for name in names(shared) if name.startswith(b"acme:")}
        for each in writers:
            stayed = [sum(key in left for key in write.keys) for write in each.written]
            assert [len(write.keys) for write in each.written if write.began > ended] == stayed[
                len(stayed) - sum(write.began > ended for write in each.written) :
            ], "what was written behind it stays"
            gone = [kept for write, kept in zip(each.written, stayed, strict=True) if write.ended < began]
            assert sum(gone) == 0, "what was written before it is gone"
            halves = [kept for write, kept in zip(each.written, stayed, strict=True) if kept == 1]
            assert halves.count(1) <= 1, "at most where two commands are one write"
            assert stayed == sorted(stayed), "and what a client wrote later stays if what it wrote earlier does"
        assert sum(len(each.written) for each in writers) > 20
        theirs = {name.decode() for name in names(shared) if name.startswith(b"globex:")}
        assert theirs == {f"globex:{key}" for write in other.written for key in write.keys}


def test_a_client_that_leaves_and_one_that_is_blocked_hold_nobody_up(shared: Engine, tmp_path: Path) -> None:
    with serving(shared, tmp_path, FLUSHES + ", walk: {time: 60s, count: 1}") as keyrail, ExitStack() as stack:
        acme, blocked, leaves = (stack.enter_context(login(keyrail.wire(), "acme")) for _ in range(3))
        with shared.wire() as direct:
            direct.value("DEBUG", "POPULATE", 20_000, "other")
        write(acme, 10, "k:{}")
        blocked.send(pack("BLPOP", "queue", 0))
        leaves.send(pack("FLUSHDB"))
        acme.send(pack("SET", "before", 1))
        assert acme.frame() == OK
        leaves.close()
        assert acme.ask("RPUSH", "queue", "job") == b":1\r\n"
        assert blocked.frame() == b"*2\r\n$5\r\nqueue\r\n$3\r\njob\r\n"
        assert acme.ask("FLUSHDB") == OK
        assert acme.ask("DBSIZE") == b":0\r\n"


def test_reads_go_on_and_another_tenant_writes_while_it_walks(shared: Engine, tmp_path: Path) -> None:
    with serving(shared, tmp_path, FLUSHES + ", walk: {time: 60s, count: 1}") as keyrail, ExitStack() as stack:
        acme, writes, reads = (stack.enter_context(login(keyrail.wire(), "acme")) for _ in range(3))
        globex = stack.enter_context(login(keyrail.wire(), "globex"))
        with shared.wire() as direct:
            direct.value("DEBUG", "POPULATE", 20_000, "other")
        write(acme, 1, "k:{}")
        for wire in (writes, reads, globex):
            wire.ask("GET", "k:0")
        shared.do("CONFIG", "RESETSTAT")
        acme.send(pack("FLUSHDB"))
        eventually(lambda: scans(shared) > 0)
        assert globex.ask("SET", "k", 1) == OK
        writes.send(pack("SET", "k:1", 1))
        reads.ask("GET", "k:0")
        assert reads.ask("EXISTS", "k:1") == b":0\r\n", "it waits"
        assert acme.silent(0), "it still walks"
        assert acme.frame() == OK
        assert writes.frame() == OK
        assert acme.ask("KEYS", "*") == b"*1\r\n$3\r\nk:1\r\n"


def scans(engine: Engine) -> int:
    text = engine.do("INFO", "commandstats")
    assert isinstance(text, bytes)
    return text.count(b"cmdstat_scan:")


def test_a_worker_that_dies_meanwhile_is_told_of(shared: Engine, tmp_path: Path) -> None:
    with ExitStack() as stack:
        keyrail = stack.enter_context(serving(shared, tmp_path, FLUSHES + ", walk: {time: 60s, count: 1}", workers=2))
        with shared.wire() as direct, keyrail.wire() as acme:
            direct.value("DEBUG", "POPULATE", 20_000, "other")
            login(acme, "acme")
            write(acme, 5, "k:{}")
            other = next(pid for pid in keyrail.pids()[1:] if not serves(pid, acme))
            shared.do("CONFIG", "RESETSTAT")
            acme.send(pack("FLUSHDB"))
            eventually(lambda: scans(shared) > 0)
            os.kill(other, signal.SIGKILL)
            told = acme.frame()
            assert told.startswith(b"-DENIED keyrail: FLUSHDB has not been completed: a")
            assert b"worker" in told
            assert told.endswith(b"; 5 keys of this tenant are gone; send it again\r\n")
            keyrail.await_line("replacing it")
            eventually(lambda: acme.ask("FLUSHDB") == OK)


def serves(pid: int, wire: Wire) -> bool:
    """Whether this process has the other end of the connection."""
    port = f":{wire.socket.getsockname()[1]:04X} "
    rows = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines() if port in line]
    sockets = {f"socket:[{row[9]}]" for row in rows if row[2].endswith(port.strip())}
    return any(str(each.readlink()) in sockets for each in Path(f"/proc/{pid}/fd").iterdir())


def walking(shared: Engine, acme: Wire, behind: bytes = b"") -> None:
    """FLUSHDB of this client is in the middle of its walk."""
    login(acme, "acme")
    with shared.wire() as direct:
        direct.value("DEBUG", "POPULATE", 20_000, "other")
    write(acme, 5, "k:{}")
    shared.do("CONFIG", "RESETSTAT")
    acme.send(pack("FLUSHDB") + behind)
    eventually(lambda: scans(shared) > 0)


@pytest.mark.parametrize("behind", [("RESET",), ("AUTH", "globex", "secret")], ids=" ".join)
def test_a_login_and_a_reset_wait_for_its_end(shared: Engine, tmp_path: Path, behind: tuple[str, ...]) -> None:
    with serving(shared, tmp_path, FLUSHES + ", walk: {time: 60s, count: 1}") as keyrail, keyrail.wire() as acme:
        walking(shared, acme, pack(*behind) + pack("SET", "k", 1))
        assert acme.frame() == OK
        assert acme.frame() == (OK if behind[0] == "AUTH" else b"+RESET\r\n")
        assert not acme.remaining(), "it is closed behind that, as it has named keys of acme"
        assert {name for name in names(shared) if not name.startswith(b"other:")} == set()


@pytest.mark.parametrize("prefix", ["{app}:", "{app}/"])
def test_a_policy_that_is_loaded_meanwhile(shared: Engine, tmp_path: Path, prefix: str) -> None:
    with serving(shared, tmp_path, FLUSHES + ", walk: {time: 60s, count: 1}") as keyrail, ExitStack() as stack:
        acme, writes = stack.enter_context(keyrail.wire()), stack.enter_context(keyrail.wire())
        login(writes, "acme")
        walking(shared, acme)
        file = tmp_path / "tenants.yaml"
        text = file.read_text(encoding="utf-8").replace("{app}:", prefix)
        file.write_text(text.replace("rules: {}", "rules: {lazy: {replace: {DEL: UNLINK}}}"), encoding="utf-8")
        keyrail.process.send_signal(signal.SIGHUP)
        keyrail.await_line("generation 2")
        if prefix == "{app}:":
            assert acme.frame() == OK
            assert writes.ask("GET", "k:0") == b"$-1\r\n"
        else:
            assert acme.remaining() in ([], [OK]), "its names have another prefix now"
        # What is held is let go, in each case.
        assert writes.ask("SET", "k:1", 1) == OK
        assert writes.ask("GET", "k:1") == b"$1\r\n1\r\n"


INVALIDATED = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"


@pytest.mark.parametrize("way", [(), ("BCAST",), ("NOLOOP",), ("OPTIN",)], ids=" ".join)
def test_a_client_that_tracks_is_told(shared: Engine, tmp_path: Path, way: tuple[str, ...]) -> None:
    with serving(shared, tmp_path) as keyrail, keyrail.wire(protocol=3) as acme:
        login(acme, "acme")
        assert acme.ask("SET", "k", 1) == acme.ask("CLIENT", "TRACKING", "ON", *way) == OK
        assert acme.ask("GET", "k") == b"$1\r\n1\r\n"
        acme.send(pack("FLUSHDB") + pack("PING"))
        *told, end, _ = until(acme, b"+PONG\r\n")
        # Its own connection is the only one of its user. Redis tells nothing of what comes on that with NOLOOP, and
        # with OPTIN a question of Keyrail's own would take the place of the client's next command.
        if way in (("NOLOOP",), ("OPTIN",)):
            assert (told, end[:42]) == ([], DENIED)
            assert acme.ask("CLIENT", "TRACKING", "OFF") == acme.ask("FLUSHDB") == OK
        else:
            assert (told, end) == ([INVALIDATED], OK)
        assert acme.ask("GET", "k") == b"_\r\n"


def until(wire: Wire, last: bytes) -> list[bytes]:
    frames = [wire.frame()]
    while frames[-1] != last:
        frames.append(wire.frame())
    return frames
