"""Purges of real engines, beside clients that write: what has changed stays."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from proxy.net.config.address import parse_upstream
from proxy.rules.stored import StoredKey
from proxy.server.stored.changes.checked import outcome_of, scripted
from proxy.server.stored.changes.expire import Expire, Undo
from proxy.server.stored.changes.journal import Journal, read_expiries
from proxy.server.stored.changes.model import Change, Changed, Outcome, Wish
from proxy.server.stored.changes.node import Changes
from proxy.server.stored.changes.purge import Purge, Wanted
from proxy.server.stored.scanner import Options, ScanError, Scanner, WallClock
from tests.cluster.nodes import RealCluster
from tests.conftest import kind_named
from tests.engines import EXPECTED, Engine
from tests.resp import eventually, pack
from tests.server.stored.changes.given import Notes
from tests.server.stored.fake_servers import FakeJudge, of_slots, slot_of

NewEngine = Callable[..., Engine]
DAY = 86_400


def purged(url: str, wanted: Wanted, journal: Journal | Notes | None = None, *, share: float = 1.0) -> Changed:
    return changed(url, Purge(wanted, lambda _app, _command: "", Random(1).random), journal or Notes(), share)


def changed(url: str, change: Change, journal: Journal | Notes, share: float = 1.0) -> Changed:
    changes = Changes(change, journal)
    scanner = Scanner(parse_upstream(url), None, FakeJudge(), str, Options(share), WallClock(), changes)
    asyncio.run(scanner.run())
    return changes.found


def fill(engine: Engine, keys: list[bytes], *options: str) -> None:
    with engine.wire() as wire:
        wire.send(b"".join(pack("SET", key, "x", *options) for key in keys))
        assert set(wire.frames(len(keys))) == {b"+OK\r\n"}


def left(engine: Engine) -> set[bytes]:
    return {*cast("list[bytes]", engine.do("KEYS", "*"))}


@pytest.mark.parametrize("scripts", [True, False])
@pytest.mark.parametrize("engine_name", EXPECTED)
def test_each_condition(new_engine: NewEngine, engine_name: str, scripts: bool) -> None:
    engine = new_engine(engine_name)
    fill(engine, [b"cart:%d" % each for each in range(300)])
    fill(engine, [b"cart:ttl:%d" % each for each in range(50)], "EX", "9000")
    fill(engine, [b"cart", b"scart:1", b"user:1"])
    engine.do("RPUSH", "cart:list", "a")
    url = engine.url
    if not scripts:
        engine.do("ACL", "SETUSER", "cleaner", "on", ">secret", "~*", "+@all", "-eval", "-evalsha")
        url = engine.url.replace("redis://", "redis://cleaner:secret@")
    found = purged(url, Wanted(b"cart:*", "string", without_ttl=True))
    assert found.outcomes == {Outcome.DONE: 300}
    assert left(engine) == {b"cart", b"scart:1", b"user:1", b"cart:list"} | {b"cart:ttl:%d" % n for n in range(50)}
    assert purged(url, Wanted(b"cart:ttl:[0-8]")).outcomes == {Outcome.DONE: 9}
    assert purged(url, Wanted(b"cart:ttl:*", expire=DAY)).left == {"expire sooner": 41}
    found = purged(url, Wanted(b"cart:*", "list", expire=DAY))
    if scripts:
        assert found.outcomes == {Outcome.DONE: 1}
        assert DAY * 1000 - 60_000 < cast("int", engine.do("PTTL", "cart:list")) <= 1.1 * DAY * 1000
    else:
        assert found.outcomes == {Outcome.REFUSED: 1}


@pytest.mark.parametrize("engine_name", EXPECTED)
def test_who_may_not_discard_a_transaction_gets_no_further(new_engine: NewEngine, engine_name: str) -> None:
    engine = new_engine(engine_name)
    fill(engine, [b"k%d" % each for each in range(5)])
    engine.do("ACL", "SETUSER", "cleaner", "on", ">secret", "~*", "+@all", "-eval", "-discard")

    class Writing(Notes):
        def will(self, *told: Any) -> int:
            for each in range(5):
                engine.do("EXPIRE", f"k{each}", 9000)
            return super().will(*told)

    with pytest.raises(ScanError, match="DISCARD: NOPERM"):
        purged(engine.url.replace("redis://", "redis://cleaner:secret@"), Wanted(b"k*", without_ttl=True), Writing())
    assert len(left(engine)) == 5


@pytest.mark.parametrize("engine_name", EXPECTED)
def test_a_key_is_deleted_although_others_were_left_that_somebody_writes(
    new_engine: NewEngine, engine_name: str
) -> None:
    engine = new_engine(engine_name)
    fill(engine, [b"k%d" % each for each in range(20)])
    engine.do("ACL", "SETUSER", "cleaner", "on", ">secret", "~*", "+@all", "-eval", "-multi")

    class Writing(Notes):
        def done(self, batch: int, outcomes: Any) -> None:
            super().done(batch, outcomes)
            refused = self.ended(Outcome.REFUSED)
            if len(refused) == 10:
                for name in refused:
                    engine.do("SET", name, "another")
                engine.do("ACL", "SETUSER", "cleaner", "+multi")

    found = purged(engine.url.replace("redis://", "redis://cleaner:secret@"), Wanted(b"k*"), Writing())
    assert found.outcomes == {Outcome.REFUSED: 10, Outcome.DONE: 10}


@pytest.mark.parametrize("engine_name", EXPECTED)
def test_idle_keys_and_only_those(new_engine: NewEngine, engine_name: str) -> None:
    engine = new_engine(engine_name)
    fill(engine, [b"k%d" % each for each in range(20)])
    for each in range(20):
        name = b"k%d" % each
        dump = cast("bytes", engine.do("DUMP", name))
        engine.do("RESTORE", name, 0, dump, "REPLACE", "IDLETIME", 5000 if each < 10 else 100)
    engine.do("GET", "k3")

    class Reading(Notes):
        def will(self, *told: Any) -> int:
            engine.do("GET", "k5")  # between the look and the check
            return super().will(*told)

    found = purged(engine.url, Wanted(b"k*", idle=4000), Reading())
    assert found.outcomes == {Outcome.DONE: 8, Outcome.CHANGED: 1}
    assert left(engine) == {b"k3", b"k5"} | {b"k%d" % each for each in range(10, 20)}
    engine.do("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu")
    with pytest.raises(ScanError, match="LFU"):
        purged(engine.url, Wanted(b"k*", idle=50))
    assert len(left(engine)) == 12


@pytest.mark.parametrize("engine_name", EXPECTED)
def test_what_is_left_alone_is_as_idle_as_before(new_engine: NewEngine, engine_name: str) -> None:
    engine = new_engine(engine_name)
    fill(engine, [b"k"])
    engine.do("RESTORE", "k", 0, cast("bytes", engine.do("DUMP", "k")), "REPLACE", "IDLETIME", 5000)
    key = StoredKey(b"k", "string", None)
    wishes = {
        Wish(key, (b"UNLINK", b"k"), -1, -1, idle=6000): Outcome.CHANGED,
        Wish(key, (b"UNLINK", b"k"), 0, 9, idle=4000): Outcome.CHANGED,
        Wish(key, (b"UNLINK", b"k"), -1, -1, idle=4000, at=17): Outcome.CHANGED,
        Wish(key, (b"UNLINK", b"k"), -1, -1, idle=4000, until=17): Outcome.LATE,
    }
    for wish, outcome in wishes.items():
        assert outcome_of(engine.do(*scripted(wish))) is outcome
        assert cast("int", engine.do("OBJECT", "IDLETIME", "k")) >= 5000
    assert outcome_of(engine.do(*scripted(Wish(key, (b"UNLINK", b"k"), -1, -1, 4000)))) is Outcome.DONE
    assert outcome_of(engine.do(*scripted(Wish(key, (b"UNLINK", b"k"), -1, -1, 4000)))) is Outcome.GONE


@contextmanager
def writers(act: Callable[[Random], object]) -> Iterator[None]:
    """Threads that act until the end of the block."""
    ended, failures = threading.Event(), list[BaseException]()

    def write(seed: int) -> None:
        random = Random(seed)
        try:
            while not ended.is_set():
                act(random)
        except BaseException as error:  # noqa: BLE001 - the test reports it
            failures.append(error)

    threads = [threading.Thread(target=write, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert not failures


@pytest.mark.parametrize("scripts", [True, False])
@pytest.mark.parametrize("engine_name", EXPECTED)
def test_beside_writers_no_key_that_has_changed_goes(new_engine: NewEngine, engine_name: str, scripts: bool) -> None:
    """Writers give keys a TTL, or make them lists, with one command each: what they have changed first has to stay."""
    engine = new_engine(engine_name)
    keys = [b"k%d" % each for each in range(4000)]
    fill(engine, [*keys, *(b"other%d" % each for each in range(500))])
    url = engine.url
    if not scripts:
        engine.do("ACL", "SETUSER", "cleaner", "on", ">secret", "~*", "+@all", "-eval")
        url = engine.url.replace("redis://", "redis://cleaner:secret@")
    kept: set[bytes] = set()
    lock = threading.Lock()
    local = threading.local()

    def act(random: Random) -> None:
        if not hasattr(local, "wire"):
            local.wire = engine.wire()
        key = random.choice(keys)
        if local.wire.ask("EXPIRE", key, 5000) == b":1\r\n":  # it was there, and has a TTL from now on
            with lock:
                kept.add(key)

    with writers(act):
        eventually(lambda: len(kept) > 100)
        found = purged(url, Wanted(b"k*", without_ttl=True), share=0.5)
    remaining = left(engine)
    assert kept <= remaining, f"deleted after it had changed: {kept - remaining}"
    assert {b"other%d" % each for each in range(500)} <= remaining
    assert found.outcomes[Outcome.DONE] == len(keys) - len(kept)
    assert remaining == kept | {b"other%d" % each for each in range(500)}


@pytest.mark.parametrize("engine_name", ["redis-7.0", "valkey-9.1"])
def test_a_cluster_whose_slots_move(engine_name: str) -> None:
    cluster = RealCluster(kind_named(engine_name))
    try:
        first = cluster.primaries()[0]
        keys = [b"k%d" % each for each in range(1500)]
        for node in cluster.primaries():
            mine = of_slots(keys, cluster.slots_of(node))
            fill(node, mine)
            fill(node, [b"stays{%b}" % key for key in mine])
        slots = iter(sorted({slot_of(key) for key in of_slots(keys, cluster.slots_of(first))})[:40])

        class Moving(Notes):
            def will(self, *told: Any) -> int:
                for slot in [*zip(range(4), slots, strict=False)]:
                    cluster.move_slots([slot[1]], first, cluster.primaries()[1 + slot[0] % 2])
                return super().will(*told)

        found = purged(f"redis+cluster://127.0.0.1:{first.port}", Wanted(b"k*"), Moving())
        remaining = set[bytes]().union(*(left(node) for node in cluster.primaries()))
    finally:
        cluster.close()
    assert remaining == {b"stays{%b}" % key for key in keys}
    assert found.outcomes == {Outcome.DONE: len(keys)}
    assert found.unknown == 0


def run_killed(engine: Engine, words: list[str], when: Callable[[], bool]) -> None:
    """Run Keyrail until something is so, and kill it."""
    process = subprocess.Popen([sys.executable, "-m", "proxy", *words])
    try:
        eventually(when)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    eventually(lambda: engine.info("clients")["connected_clients"] == "1")  # what was sent has run


def told(journal: Path, word: str) -> set[bytes]:
    """The keys that the whole lines of a journal name there."""
    lines = [json.loads(line) for line in journal.read_bytes().split(b"\n")[1:-1]]
    return {key.encode() for line in lines for key in line.get(word, ())}


@pytest.mark.parametrize("scripts", [True, False])
def test_killed_in_the_middle_the_journal_says_what_was_done(
    new_engine: NewEngine, tmp_path: Path, scripts: bool
) -> None:
    engine = new_engine("valkey-9.1")
    keys = [b"k%d" % each for each in range(20_000)]
    fill(engine, keys)
    url = engine.url
    if not scripts:
        engine.do("ACL", "SETUSER", "cleaner", "on", ">secret", "~*", "+@all", "-eval")
        url = url.replace("redis://", "redis://cleaner:secret@")
    policy, journal = tmp_path / "policy.yaml", tmp_path / "journal"
    policy.write_text("keyrail: 1\nrules: {}\n")
    words = ["purge", "--upstream", url, "--policy", str(policy), "--pattern", "k*", "--yes", "--without-ttl"]
    words += ["--share", "20%", "--journal", str(journal)]
    run_killed(engine, words, lambda: cast("int", engine.do("DBSIZE")) < (15_000 if scripts else 19_700))
    remaining = left(engine)
    will, done, gone = told(journal, "will"), told(journal, "done"), {*keys} - remaining
    assert remaining
    assert done <= gone <= will
    assert len(will - done) <= (1000 if scripts else 1), "only the last batch is not known"


@pytest.mark.parametrize("engine_name", ["valkey-9.1", "redis-6.2"])
def test_killed_in_the_middle_all_ttls_can_be_taken_back(
    new_engine: NewEngine, tmp_path: Path, engine_name: str
) -> None:
    engine = new_engine(engine_name)
    fill(engine, [b"k%d" % each for each in range(20_000)])
    fill(engine, [b"own%d" % each for each in range(50)], "EX", "3000")
    policy, journal = tmp_path / "policy.yaml", tmp_path / "journal"
    policy.write_text("keyrail: 1\nrules: {ttl: {lifetime: {default: 1h, jitter: 20%}}}\n")

    def with_ttl() -> int:
        return int(engine.info("keyspace")["db0"].split("expires=")[1].split(",")[0])

    words = ["expire", "--upstream", engine.url, "--policy", str(policy), "--yes"]
    given = [*words, "--no-ttl", "--rule", "ttl", "--share", "20%", "--journal", str(journal)]
    run_killed(engine, given, lambda: with_ttl() > 4000)
    assert 50 + len(told(journal, "done")) <= with_ttl() <= 50 + len(told(journal, "will"))
    undone = [*words, "--undo", str(journal), "--share", "100%", "--journal", str(tmp_path / "undone")]
    subprocess.run([sys.executable, "-m", "proxy", *undone], check=True)
    assert with_ttl() == 50, "those that had one have it"


@pytest.mark.parametrize("scripts", [True, False])
def test_a_server_that_is_killed_while_it_deletes(new_engine: NewEngine, scripts: bool) -> None:
    """What was said to be done is, what is left is not known; and a key that came back as another one stays."""
    engine = new_engine("valkey-9.1", {"appendonly": "yes", "appendfsync": "always"})
    keys = [b"k%d" % each for each in range(6000)]
    fill(engine, keys)
    url, came_back = engine.url, [b"k%d" % each for each in range(0, 6000, 60)]
    if not scripts:
        engine.do("ACL", "SETUSER", "cleaner", "on", ">secret", "~*", "+@all", "-eval")
        url = url.replace("redis://", "redis://cleaner:secret@")
        engine.options["user"] = "cleaner on >secret ~* +@all -eval"  # also when it starts again

    def kill() -> None:
        eventually(lambda: cast("int", engine.do("DBSIZE")) < 4000)
        engine.kill()
        engine.start()
        fill(engine, came_back, "EX", "5000")

    notes = Notes()
    with ThreadPoolExecutor() as pool:
        killing = pool.submit(kill)
        found = purged(url, Wanted(b"k*", without_ttl=True), notes, share=0.5)
        killing.result()
    remaining, unknown = left(engine), notes.ended(Outcome.UNKNOWN)
    assert remaining <= {*came_back} | unknown
    assert {*came_back} <= remaining
    assert {*keys} - {*came_back} - unknown <= notes.ended(Outcome.DONE)
    assert found.unknown == len(unknown) <= 1000


def test_two_purges_at_once_delete_each_key_once(new_engine: NewEngine) -> None:
    engine = new_engine("redis-6.2")
    keys = [b"k%d" % each for each in range(5000)]
    fill(engine, keys)
    both = [Notes(), Notes()]
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda notes: purged(engine.url, Wanted(b"k*"), notes, share=0.5), both))
    assert not left(engine)
    first, second = (notes.ended(Outcome.DONE) for notes in both)
    assert first | second == {*keys}
    assert not first & second
    assert min(len(first), len(second)) > 0
    assert sum(each.outcomes[Outcome.DONE] for each in found) == len(keys)
    assert all(each.outcomes.keys() <= {Outcome.DONE, Outcome.GONE} for each in found)


@pytest.mark.parametrize("engine_name", EXPECTED)
def test_ttls_are_given_and_taken_back(new_engine: NewEngine, engine_name: str, tmp_path: Path) -> None:
    engine = new_engine(engine_name)
    keys = [b"k%d" % each for each in range(300)]
    fill(engine, keys)
    fill(engine, [b"other"], "EX", "9000")
    engine.do("RPUSH", "queue", "a")

    def ttl_of(_app: str, key: StoredKey, chance: float) -> int | None:
        return round(3_600_000 * (1 - 0.1 * chance)) if key.type == "string" else None

    file = tmp_path / "journal"
    found = changed(engine.url, Expire(0, ttl_of, Random(1).random), Journal(file, {}))
    assert found.outcomes == {Outcome.DONE: 300}
    ttls = [cast("int", engine.do("PTTL", key)) for key in keys]
    assert 0.89 * 3_600_000 < min(ttls) < max(ttls) <= 3_600_000
    assert len({*ttls}) > 100, "they do not expire all at once"
    assert engine.do("PTTL", "queue") == -1
    engine.do("PEXPIRE", "k1", cast("int", engine.do("PTTL", "k1")) + 1500)
    engine.do("PEXPIRE", "k2", cast("int", engine.do("PTTL", "k2")) - 1500)
    engine.do("PERSIST", "k3")
    engine.do("DEL", "k4")
    found = changed(engine.url, Undo(read_expiries(file)), Notes())
    assert found.outcomes == {Outcome.DONE: 296, Outcome.CHANGED: 2}
    assert {key for key in [*keys, b"other"] if cast("int", engine.do("PTTL", key)) > 0} == {b"k1", b"k2", b"other"}
