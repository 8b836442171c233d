"""Values are rewritten beside clients that write them, and while slots of a cluster move: no write is lost."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from proxy.cli import main
from proxy.compression.frames import FIELD, STRING, unpack
from proxy.net.config.address import parse_upstream
from proxy.rules.compress.stored_form import AsRule, Made, Plain, StoredForm
from proxy.rules.compress.terms import Terms
from proxy.server.stored.changes.rewrite import Rewrites
from proxy.server.stored.changes.rewritten import Rewritten
from proxy.server.stored.scanner import Options, ScanError, Scanner, WallClock
from proxy.server.stored.seen import SeenKeys
from proxy.server.stored.totals import Judged
from tests.cluster.nodes import RealCluster
from tests.compression.dictionaries import json_dictionary
from tests.compression.histories import json_of
from tests.conftest import kind_named, rest_is_long
from tests.engines import EXPECTED, NEWEST_REDIS, Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Wire, eventually
from tests.server.stored.changes.test_engines import writers
from tests.server.stored.fake_servers import FakeJudge, of_slots, slot_of

POLICY = """keyrail: 1
defaults: {mode: enforce}
rules: {docs: {compress: {keys: ["doc:*"], above: 64B}}}
"""
RULE = AsRule(Terms(("*",), 64))
TEXT, OTHER = (json_of(random.Random(seed), 2000) for seed in (1, 2))


class Form:
    """A form that does something after each read."""

    def __init__(self, form: StoredForm, act: Callable[[], object]) -> None:
        self.form = form
        self.most = form.most
        self.wants = form.wants
        self.act = act

    def made(self, stored: bytes, version: int) -> Made:
        self.act()
        return self.form.made(stored, version)


class Everything:
    """All keys get a form."""

    def __init__(self, form: StoredForm) -> None:
        self.form = form

    def concerns(self, database: int, _name: bytes) -> bool:
        return database == 0

    def form_of(self, _name: bytes, _judged: Judged) -> StoredForm:
        return self.form


def rewritten(url: str, form: StoredForm, limit: int | None = None) -> Rewritten:
    rewrites = Rewrites(Everything(form), dry=False, limit=limit)
    options = Options(1.0, name="keyrail-transform")
    asyncio.run(Scanner(parse_upstream(url), None, FakeJudge(), str, options, WallClock(), rewrites).run())
    return rewrites.found


@pytest.mark.parametrize("written", ["SET doc:1 x", "DEL doc:1", "PERSIST doc:1", "APPEND doc:1 x", "PEXPIRE doc:1 1"])
@pytest.mark.parametrize("engine_name", EXPECTED)
def test_who_writes_between_the_read_and_the_write_wins(
    new_engine: Callable[..., Engine], engine_name: str, written: str
) -> None:
    engine = new_engine(engine_name)
    engine.do("SET", "doc:1", TEXT, "EX", 9000)
    words = written.split()
    once = iter([words])

    def act() -> None:
        engine.do(*next(once, ["PING"]))
        if words[0] == "PEXPIRE":
            eventually(lambda: engine.do("EXISTS", "doc:1") == 0)

    found = rewritten(engine.url, Form(RULE, act))
    value, ttl = cast("bytes | None", engine.do("GET", "doc:1")), cast("int", engine.do("PTTL", "doc:1"))
    match words[0]:
        case "SET":
            assert (value, ttl) == (b"x", -1)
        case "DEL":
            assert value is None
        case "PERSIST":
            assert value is not None
            assert (unpack(value, STRING), ttl, found.whole.values) == (TEXT, -1, 1)
        case "APPEND":
            assert value is not None
            assert unpack(value, STRING) == TEXT + b"x" != value
            assert ttl > 8_000_000
        case _:
            assert value is None, "a key that has expired does not come back"
    assert not found.has_failed


@pytest.mark.parametrize("engine_name", ["valkey-9.1", "redis-6.2"])
def test_a_key_that_is_always_written_is_told(new_engine: Callable[..., Engine], engine_name: str) -> None:
    engine = new_engine(engine_name)
    engine.do("SET", "doc:1", TEXT)
    engine.do("HSET", "doc:h", "f", TEXT, "counter", 0)
    found = rewritten(engine.url, Form(RULE, lambda: engine.do("SET", "doc:1", TEXT)))
    assert (found.unfinished, engine.do("GET", "doc:1")) == (1, TEXT)
    assert found.has_failed


def test_fields_that_others_write_meanwhile_stay(new_engine: Callable[..., Engine]) -> None:
    engine = new_engine("valkey-9.1")
    engine.do("HSET", "doc:h", "f", TEXT, "g", TEXT, "h", TEXT)
    acts = iter([["HSET", "doc:h", "f", "x"], ["HDEL", "doc:h", "g"]])
    found = rewritten(engine.url, Form(RULE, lambda: engine.do(*next(acts, ["PING"]))))
    assert engine.do("HMGET", "doc:h", "f", "g") == [b"x", None]
    assert unpack(cast("bytes", engine.do("HGET", "doc:h", "h")), FIELD) == TEXT
    assert found.whole.values == 1


@pytest.mark.parametrize("engine_name", [*EXPECTED, NEWEST_REDIS])
@pytest.mark.parametrize("then", ["DEL doc:h", "SET doc:h x"])
def test_a_hash_that_goes_meanwhile(new_engine: Callable[..., Engine], engine_name: str, then: str) -> None:
    engine = new_engine(engine_name)
    engine.do("HSET", "doc:h", "f", TEXT)
    found = rewritten(engine.url, Form(RULE, lambda: engine.do(*then.split())))
    assert (found.whole.values, found.has_failed) == (0, False)
    assert engine.do("GET", "doc:h") == (b"x" if "SET" in then else None)


def test_no_key_is_taken_for_a_repeated_one(new_engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind millions of keys a filter takes a few for repeated ones, which are harmless here, and missed ones are not:
    they would stay compressed."""
    monkeypatch.setattr(SeenKeys.__init__, "__defaults__", (5,))
    monkeypatch.setattr(SeenKeys, "_may_have", lambda self, _mark: not self.is_exact)
    engine = new_engine("valkey-9.1")
    packed = cast("bytes", RULE.made(TEXT, STRING))
    for each in range(1000):
        engine.do("SET", f"doc:{each}", packed)
    assert rewritten(engine.url, Plain(RULE.terms)).whole.values == 1000


@pytest.mark.parametrize("engine_name", ["valkey-9.1", "redis-6.2"])
def test_a_connection_that_is_lost_is_no_harm(new_engine: Callable[..., Engine], engine_name: str) -> None:
    engine = new_engine(engine_name)
    engine.do("SET", "doc:1", TEXT, "EX", 9000)
    engine.do("HSET", "doc:h", "f", TEXT)
    reads = iter(range(100))

    def act() -> None:
        if next(reads) % 2 == 0:
            engine.do("CLIENT", "KILL", "TYPE", "normal")

    found = rewritten(engine.url, Form(RULE, act))
    assert (found.whole.values, found.has_failed) == (2, False)
    assert unpack(cast("bytes", engine.do("GET", "doc:1")), STRING) == TEXT != engine.do("GET", "doc:1")
    assert unpack(cast("bytes", engine.do("HGET", "doc:h", "f")), FIELD) == TEXT
    assert cast("int", engine.do("TTL", "doc:1")) > 8900


def test_a_replica_takes_no_writes_and_is_named(new_engine: Callable[..., Engine]) -> None:
    primary, replica = new_engine("valkey-9.1"), new_engine("valkey-9.1")
    primary.do("SET", "doc:1", TEXT)
    replica.do("REPLICAOF", "127.0.0.1", primary.port)
    replica.await_info("replication", "master_link_status", "up")
    with pytest.raises(ScanError, match="it is a replica, and takes no writes"):
        rewritten(replica.url, RULE)
    assert replica.do("GET", "doc:1") == TEXT


@pytest.mark.skipif(DIRECT, reason="compression is Keyrail's own")
@pytest.mark.parametrize("mode", ["enforce", "audit"])
def test_keyrail_itself_is_refused_and_nothing_is_written(
    new_engine: Callable[..., Engine],
    new_keyrail: Callable[..., Keyrail],
    mode: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It would compress values twice, and after --back say that none is compressed."""
    engine, file = new_engine("valkey-9.1"), tmp_path / "policy.yaml"
    file.write_text(POLICY.replace("enforce", mode))
    keyrail = new_keyrail(engine.url, policy=file)
    packed = cast("bytes", RULE.made(TEXT, STRING))
    engine.do("MSET", "doc:1", TEXT, "doc:2", packed)
    for back in ([], ["--back"]):
        words = ["transform", "--upstream", keyrail.url, "--policy", str(file), "--share", "100%", *back]
        for how in ("--dry-run", "--yes"):
            assert main([*words, how]) == 1
            told = capsys.readouterr()
            assert "it is Keyrail, which compresses itself; --upstream has to name the Redis behind it" in told.err
    assert engine.do("MGET", "doc:1", "doc:2") == [TEXT, packed]


def write(wire: Wire, direct: Wire, r: random.Random, number: int, last: dict[bytes, bytes]) -> None:
    """One of a client's own keys gets a new value, and is read."""
    name = b"doc:%d:%d" % (number, r.randrange(12))
    value = json_of(r, r.choice((30, 300, 2000, 20_000)))
    what = r.randrange(5)
    if what == 0:
        assert wire.ask("HSET", b"doc:h", name, value)[:1] == b":"
        last[b"h" + name] = value
    elif what == 1:
        assert direct.ask("HSET", b"doc:h", name, value)[:1] == b":"
        last[b"h" + name] = value
    elif what == 2:
        assert direct.ask("SET", name, value) == b"+OK\r\n"
        last[name] = value
    else:
        assert wire.ask("SET", name, value, *r.choice(((), ("EX", "1000"), ("KEEPTTL",)))) == b"+OK\r\n"
        last[name] = value
    for key, expected in r.sample([*last.items()], min(len(last), 3)):
        read = ("HGET", b"doc:h", key[1:]) if key.startswith(b"h") else ("GET", key)
        assert wire.value(*read) == expected, f"{key!r} has another value than was written last"


@pytest.mark.skipif(DIRECT, reason="compression is Keyrail's own")
@pytest.mark.parametrize("with_dictionaries", [False, True])
@pytest.mark.parametrize("engine_name", EXPECTED)
def test_no_write_is_lost_and_no_value_damaged(
    new_engine: Callable[..., Engine],
    new_keyrail: Callable[..., Keyrail],
    engine_name: str,
    with_dictionaries: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Clients write through Keyrail and directly, each keys and fields of its own, while all values are compressed and
    made plain again, over and over; or get another dictionary."""
    engine, file, other = new_engine(engine_name), tmp_path / "policy.yaml", tmp_path / "other.yaml"
    for seed, name in enumerate(("first", "second"), 1):
        (tmp_path / f"{name}.zdict").write_bytes(json_dictionary(seed).content)
    for policy, names in ((file, ("first", "second")), (other, ("second", "first"))):
        more = ", dictionary: {}.zdict, also_read: {}.zdict".format(*names) if with_dictionaries else ""
        policy.write_text(POLICY.replace("64B", f"64B{more}"))
    keyrail, local = new_keyrail(engine.url, policy=file), threading.local()
    numbers, lasts = iter(range(2)), list[dict[bytes, bytes]]()

    def act(r: random.Random) -> None:
        if not hasattr(local, "number"):
            local.number, local.wire, local.direct = next(numbers), keyrail.wire(), engine.wire()
            local.last = {}
            lasts.append(local.last)
        write(local.wire, local.direct, r, local.number, local.last)

    with writers(act):
        count = 0
        for policy, back in ((file, []), (other, []), (other, ["--back"]), (file, ["--back"])) * 6:
            words = ["transform", "--upstream", engine.url, "--policy", str(policy), "--yes", "--share", "100%"]
            assert main([*words, *back]) in (0, 1), "some keys are written each time"
            count += int(capsys.readouterr().out.split()[0].replace(",", ""))
    assert count > 100
    with keyrail.wire() as wire:
        for key, expected in (pair for last in lasts for pair in last.items()):
            read = ("HGET", b"doc:h", key[1:]) if key.startswith(b"h") else ("GET", key)
            assert wire.value(*read) == expected


@pytest.mark.parametrize("engine_name", rest_is_long("valkey-9.1", "redis-7.0"))
def test_a_cluster_whose_slots_move(engine_name: str) -> None:
    cluster = RealCluster(kind_named(engine_name))
    try:
        first = cluster.primaries()[0]
        values = {b"doc:%d" % each: json_of(random.Random(each), 100 + each) for each in range(240)}
        for key, value in values.items():
            node = cluster.owner(slot_of(key))
            node.do(*(("SET", key, value) if len(value) % 2 else ("HSET", key, "f", value)))
        moving = iter(sorted({slot_of(key) for key in of_slots(values, cluster.slots_of(first))})[:20])
        reads = iter(range(10_000))

        def act() -> None:
            slot = next(moving, None) if next(reads) % 5 == 0 else None
            if slot is not None:
                cluster.move_slots([slot], first, cluster.primaries()[1 + slot % 2])

        for form in (Form(RULE, act), Form(Plain(RULE.terms), act)):
            found = rewritten(f"redis+cluster://127.0.0.1:{first.port}", form)
            now = {key: of_key(cluster.owner(slot_of(key)), key, value) for key, value in values.items()}
            assert not found.has_failed
            if form.form is RULE:
                assert all(now[key] != value for key, value in values.items() if len(value) > 300)
                assert {
                    key: unpack(each, STRING if len(values[key]) % 2 else FIELD) for key, each in now.items()
                } == values
            else:
                assert now == values
    finally:
        cluster.close()


def of_key(node: Engine, key: bytes, value: bytes) -> bytes:
    return cast("bytes", node.do(*(("GET", key) if len(value) % 2 else ("HGET", key, "f"))))


def test_keys_of_a_slot_that_is_on_its_way() -> None:
    cluster = RealCluster(kind_named("valkey-9.1"))
    try:
        source, target = cluster.primaries()[:2]
        tag = next(f"{{t{each}}}" for each in range(10_000) if cluster.owns(source, slot_of(b"t%d" % each)))
        keys = [f"doc:{each}{tag}".encode() for each in range(20)]
        for key in keys:
            source.do("SET", key, TEXT)
        slot = slot_of(keys[0])
        cluster.open_slot(slot, source, target)
        cluster.move_keys(slot, source, target, keys[:10])
        closed = iter([True])

        def act() -> None:
            if next(closed, False):
                cluster.move_keys(slot, source, target)
                cluster.close_slot(slot, target)

        found = rewritten(f"redis+cluster://127.0.0.1:{source.port}", Form(RULE, act))
        now = [cast("bytes", target.do("GET", key)) for key in keys]
    finally:
        cluster.close()
    assert [unpack(each, STRING) for each in now] == [TEXT] * len(keys)
    assert all(each != TEXT for each in now)
    assert (found.whole.values, found.has_failed) == (len(keys), False)


@pytest.mark.long
def test_a_slot_that_stays_on_its_way_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster, file = RealCluster(kind_named("valkey-9.1")), tmp_path / "policy.yaml"
    file.write_text(POLICY)
    try:
        source, target = cluster.primaries()[:2]
        tag = next(f"{{t{each}}}" for each in range(10_000) if cluster.owns(source, slot_of(b"t%d" % each)))
        keys = [f"doc:{each}{tag}".encode() for each in range(4)]
        for key in keys:
            source.do("SET", key, cast("bytes", RULE.made(TEXT, STRING)))
        cluster.open_slot(slot_of(keys[0]), source, target)
        cluster.move_keys(slot_of(keys[0]), source, target, keys[:2])
        url = f"redis+cluster://127.0.0.1:{source.port}"
        status = main(["transform", "--upstream", url, "--policy", str(file), "--share", "100%", "--back", "--yes"])
        told = capsys.readouterr().out
        assert [source.do("GET", key) for key in keys[2:]] == [TEXT, TEXT]
    finally:
        cluster.close()
    assert "slots were open all the time: of these, keys may be missing\n" in told
    assert status == 1, "two values are compressed still"
