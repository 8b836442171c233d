"""Values are compressed on their way to real engines, and every client reads what it would read without that."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from proxy.compression.frames import FIELD, MAGIC, STRING, Codec, pack, unpack
from proxy.traffic.figures import in_bytes
from tests.compression.dictionaries import json_dictionary
from tests.compression.histories import REFUSED, Argv, History, json_of, value_of
from tests.conftest import Fleet, seeds
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Wire, decode, eventually
from tests.resp import pack as request

pytestmark = pytest.mark.skipif(DIRECT, reason="guardrails are Keyrail's own")

POLICY = """
keyrail: 1
defaults: {{mode: {mode}}}
apps: {{other: {{match: {{client_name: other}}}}}}
rules:
  docs: {{compress: {{keys: ["doc:*"], above: 64B, {codec}}}}}
"""
CODECS = {
    "zstd": "codec: zstd",
    "lz4": "codec: lz4",
    "dictionary": "dictionary: first.zdict, also_read: second.zdict",
    "second": "dictionary: second.zdict",
    "only read": "also_read: [first.zdict, second.zdict]",
}
DICTIONARIES = {name: json_dictionary(seed) for seed, name in enumerate(("first", "second"), 1)}
KNOWN = {each.name: each for each in DICTIONARIES.values()}
REPOSITORY = Path(__file__).parents[2]
LARGE = b'{"a": 1}' * 300_000


def served(fleet: Fleet, engine: Engine, tmp_path: Path, *, codec: str = "zstd", mode: str = "enforce") -> Keyrail:
    file = tmp_path / f"{codec}-{mode}.yaml"
    file.write_text(POLICY.format(codec=CODECS[codec], mode=mode))
    for name, dictionary in DICTIONARIES.items():
        (tmp_path / f"{name}.zdict").write_bytes(dictionary.content)
    return fleet.keyrail(engine.name, policy=file)


@pytest.fixture
def engine(fleet: Fleet, engine_name: str) -> Engine:
    engine = fleet.engine(engine_name)
    engine.do("FLUSHALL")
    return engine


@pytest.fixture
def reference(fleet: Fleet, engine_name: str) -> Engine:
    engine = fleet.engine(engine_name, "reference")
    engine.do("FLUSHALL")
    return engine


def same(argv: Argv, told: bytes, expected: bytes) -> bool:
    """Fields of a hash have an order of the server's own."""
    if argv[0] in (b"HGETALL", b"HVALS", b"HSCAN", b"HKEYS"):
        return len(told) == len(expected) and sorted(told.split(b"\r\n")) == sorted(expected.split(b"\r\n"))
    return told == expected


@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.parametrize("codec", ["zstd", "lz4", "dictionary"])
def test_nobody_sees_a_difference(
    fleet: Fleet, engine: Engine, reference: Engine, protocol: int, tmp_path: Path, codec: str, seed: int
) -> None:
    keyrail, history, r = served(fleet, engine, tmp_path, codec=codec), History(seed), random.Random(seed)
    with keyrail.wire(protocol) as wire, reference.wire(protocol) as direct:
        unit: list[Argv] = []
        for argv in history.commands(400):
            if r.random() < 0.2 and argv[0].decode() not in REFUSED | {"SORT"} and argv != [b"GET"]:
                unit.append(argv)
                if len(unit) < 4:
                    continue
                sent = request("MULTI") + b"".join(request(*each) for each in unit) + request("EXEC")
                wire.send(sent)
                direct.send(sent)
                count = len(unit) + 2
                assert sorted(wire.frames(count)[-1].split(b"\r\n")) == sorted(direct.frames(count)[-1].split(b"\r\n"))
                unit = []
                continue
            told = wire.ask(*argv)
            if told.startswith(b"-DENIED keyrail/docs: "):
                assert argv[0].decode() in REFUSED, argv
                continue
            assert same(argv, told, direct.ask(*argv)), argv
        for key in history.strings:
            found = wire.value("GET", key)
            if isinstance(found, bytes) and key.startswith(b"doc:"):
                stored = engine.do("GET", key)
                assert isinstance(stored, bytes)
                assert unpack(stored, STRING, KNOWN) == found


def test_replies_of_pipelines_are_in_their_order(
    fleet: Fleet, engine: Engine, reference: Engine, protocol: int, tmp_path: Path
) -> None:
    refused = {name.encode() for name in REFUSED} | {b"SORT"}
    sent = [argv for argv in History(7).commands(1500) if argv[0] not in refused and len(argv) > 1]
    with served(fleet, engine, tmp_path).wire(protocol) as wire, reference.wire(protocol) as direct:
        for at in range(0, len(sent), 100):
            part = sent[at : at + 100]
            data = b"".join(request(*argv) for argv in part)
            wire.send(data)
            direct.send(data)
            for argv, told, expected in zip(part, wire.frames(len(part)), direct.frames(len(part)), strict=True):
                assert same(argv, told, expected), argv


def test_what_others_write_to_redis_directly_is_read(
    fleet: Fleet, engine: Engine, protocol: int, tmp_path: Path
) -> None:
    with served(fleet, engine, tmp_path).wire(protocol) as wire:
        values = [pack(json_of(random.Random(n), 3000), STRING, codec, 3, 64) for n, codec in enumerate(Codec)]
        values += [b"plain", MAGIC + b"\x00\x01no frame", b"x" * 5000]
        for stored in values:
            engine.do("SET", "doc:1", stored)
            engine.do("SET", "other", stored)
            assert wire.value("GET", "doc:1") == unpack(stored, STRING)
            assert wire.value("MGET", "other", "doc:1") == [stored, unpack(stored, STRING)]
            assert wire.value("STRLEN", "doc:1") == len(unpack(stored, STRING))


def test_patterns_of_sort_are_read_as_redis_reads_them(
    fleet: Fleet, engine: Engine, reference: Engine, protocol: int, tmp_path: Path
) -> None:
    # Redis looks for the star and the arrow up to a NUL, and takes what is behind it all the same.
    fields = (b"f", b"f\0", b"f\0x", b"\0", b"\0->f", b">f")
    strings = (b"doc:1", b"doc:1\0", b"doc:1\0->f", b"doc:1->", b"doc:1->\0", b"doc:1->\0->f", b"doc:1->f", b"doc:*")
    patterns = [b"doc:*%b" % end for end in (b"", b"\0", b"\0->f", b"\0*->f", b"->", b"->\0", b"->\0->f", b"->f")]
    patterns += [b"doc:h*->%b" % field for field in fields] + [
        b"doc:\0*",
        b"doc:\0*->f",
        b"#\0",
        b"#\0doc:*",
        b"*->f\0",
    ]
    with served(fleet, engine, tmp_path).wire(protocol) as wire, reference.wire(protocol) as direct:
        sent: list[Argv] = [[b"RPUSH", b"list", b"1"]]
        sent += [[b"SET", name, json_of(random.Random(name), 500)] for name in strings]
        sent += [[b"HSET", b"doc:h1", field, json_of(random.Random(field), 500)] for field in fields]
        for pattern in patterns:
            sent += [[b"SORT", b"list", b"GET", pattern], [b"SORT", b"list", b"GET", b"#", b"GET", pattern]]
        for argv in sent:
            told, expected = wire.ask(*argv), direct.ask(*argv)
            assert told == expected or told.startswith(b"-DENIED keyrail/docs: "), argv
            assert told.startswith(b"-DENIED keyrail/docs: ") is argv[-1].startswith(b"*->"), argv


def test_rules_tell_what_is_saved(fleet: Fleet, engine: Engine, tmp_path: Path) -> None:
    running = served(fleet, engine, tmp_path)
    value = json_of(random.Random(1), 5000)

    def figures() -> dict[str, float]:
        (rule,) = json.loads(running.http("/rules")[1])["routes"][0]["rules"]
        return dict(rule.get("compressed", {}))

    before = figures()
    with running.wire() as wire:
        wire.ask("SET", "doc:1", value)
        wire.ask("GET", "doc:1")
    eventually(lambda: figures().get("decompressed_values", 0) > before.get("decompressed_values", 0))
    told = figures()
    assert told["saved_bytes"] == told["plain_bytes"] - told["stored_bytes"] > 0
    assert told["ratio"] > 2
    assert told["seconds"] > 0
    assert told["decompressed_seconds"] > 0


def test_an_alert_about_a_compressed_value_tells_plain_and_stored_bytes(
    fleet: Fleet, engine: Engine, tmp_path: Path
) -> None:
    running = served(fleet, engine, tmp_path)
    plain = json_of(random.Random(1), 3 << 20)
    stored = pack(plain, STRING, Codec.ZSTD, 3, 64)
    engine.do("SET", "doc:large:1", stored)

    def found() -> list[str]:
        incidents = json.loads(running.http("/incidents")[1])["incidents"]
        return [str(each["lines"]) for each in incidents if each["kind"] == "big-value"]

    def reads() -> bool:
        with running.wire() as wire:
            assert wire.value("GET", "doc:large:1") == plain
        return bool(found())

    eventually(reads)
    size, at_redis = in_bytes(len(plain) + 12), in_bytes(len(stored) + 11)
    assert f"doc:large:1: {size} in one command or reply ({at_redis} at Redis, compressed)" in found()[0]
    labels = {"route": "default", "pattern": "doc:large:{int}"}
    assert running.metric("keyrail_pattern_largest_stored_bytes", **labels) < len(plain) / 2


def test_with_its_dictionary_each_keyrail_reads_what_another_has_written(
    fleet: Fleet, engine: Engine, protocol: int, tmp_path: Path
) -> None:
    values = [json_of(random.Random(n), 300 + 100 * n) for n in range(10)]
    first, second, reader = (
        served(fleet, engine, tmp_path, codec=each) for each in ("dictionary", "second", "only read")
    )
    with first.wire(protocol) as one, second.wire(protocol) as two, reader.wire(protocol) as three:
        for n, value in enumerate(values):
            writer = (one, two)[n % 2]
            assert writer.ask("SET", f"doc:{n}", value) == b"+OK\r\n"
            assert writer.ask("HSET", "doc:h", f"f{n}", value) == b":1\r\n"
            stored = engine.do("GET", f"doc:{n}"), engine.do("HGET", "doc:h", f"f{n}")
            name = DICTIONARIES[("first", "second")[n % 2]].name
            assert [isinstance(each, bytes) and (each[3], each[5:13]) for each in stored] == [(2, name), (3, name)]
        keys = [f"doc:{n}" for n in range(10)]
        for client in (one, three):
            assert client.value("MGET", *keys) == values
            assert client.value("HMGET", "doc:h", *(f"f{n}" for n in range(10))) == values
            client.send(
                request("MULTI") + request("GET", "doc:1") + request("GETRANGE", "doc:2", 0, 9) + request("EXEC")
            )
            *_, told = client.frames(4)
            assert told == b"*2\r\n$%d\r\n%b\r\n$10\r\n%b\r\n" % (len(values[1]), values[1], values[2][:10])
        assert three.ask("SET", "doc:1", values[1]) == b"+OK\r\n"
        stored_now = engine.do("GET", "doc:1")
        assert isinstance(stored_now, bytes)
        assert unpack(stored_now, STRING) == values[1]


def test_without_its_dictionary_a_value_is_an_error_and_is_not_lost(
    fleet: Fleet, engine: Engine, protocol: int, tmp_path: Path
) -> None:
    value, first = json_of(random.Random(1), 600), DICTIONARIES["first"]
    stored = pack(value, STRING, Codec.ZSTD, 3, 64, first)
    engine.do("SET", "doc:1", stored)
    engine.do("SET", "other", stored)
    expected = b"-ERR keyrail: a value in this reply is compressed with the dictionary " + first.name.hex().encode()
    with served(fleet, engine, tmp_path, codec="second").wire(protocol) as wire:
        for argv in (["GET", "doc:1"], ["MGET", "doc:2", "doc:1"], ["STRLEN", "doc:1"], ["GETRANGE", "doc:1", 0, 3]):
            assert wire.ask(*argv).startswith(expected)
        assert wire.value("GET", "other") == stored
        assert wire.value("GETDEL", "doc:1") == stored
        assert wire.ask("PING") == b"+PONG\r\n"


def test_large_values_pass_as_they_are(fleet: Fleet, engine: Engine, protocol: int, tmp_path: Path) -> None:
    with served(fleet, engine, tmp_path).wire(protocol) as wire:
        assert wire.ask("SET", "doc:1", LARGE) == b"+OK\r\n"
        assert engine.do("GET", "doc:1") == LARGE
        assert wire.value("GET", "doc:1") == LARGE
        assert wire.value("SET", "doc:1", LARGE + b"x", "GET") == LARGE
        assert wire.value("GETRANGE", "doc:1", "-3", "-1") == b"1}x"
        assert wire.value("STRLEN", "doc:1") == len(LARGE) + 1
        assert wire.ask("MSET", "doc:2", LARGE, "doc:1", "x") == b"+OK\r\n"
        assert wire.value("MGET", "doc:2", "doc:1") == [LARGE, b"x"]
        assert wire.value("SET", "doc:1", LARGE[:500_000], "GET") == b"x"
        assert 5 < int(str(engine.do("STRLEN", "doc:1"))) < 1000
        wire.send(request("MULTI") + request("GET", "doc:1") + request("GET", "doc:2") + request("EXEC"))
        *_, told = wire.frames(4)
        assert told == b"*2\r\n$500000\r\n%b\r\n$2400000\r\n%b\r\n" % (LARGE[:500_000], LARGE)
        assert wire.ask("SET", "doc:1", MAGIC + LARGE).startswith(b"-DENIED keyrail/docs: argument 2 of SET begins as")


def test_a_bomb_is_an_error_and_the_next_reply_is_right(
    fleet: Fleet, engine: Engine, protocol: int, tmp_path: Path
) -> None:
    engine.do("SET", "doc:bomb", pack(bytes(200 << 20), STRING, Codec.ZSTD, 1, 64))
    with served(fleet, engine, tmp_path).wire(protocol) as wire:
        wire.send(request("GET", "doc:bomb") + request("PING") + request("MGET", "doc:bomb") + request("PING"))
        bomb, pong, bombs, last = wire.frames(4)
        assert bomb == bombs
        assert bomb.startswith(b"-ERR keyrail: a value in this reply is compressed")
        assert pong == last == b"+PONG\r\n"


@pytest.mark.parametrize("mode", ["audit", "warn"])
def test_an_audited_rule_stores_plain_values_and_reads_what_is_compressed(
    fleet: Fleet, engine: Engine, protocol: int, tmp_path: Path, mode: str
) -> None:
    value = json_of(random.Random(1), 5000)
    with served(fleet, engine, tmp_path).wire(protocol) as wire:
        wire.ask("SET", "doc:1", value)
    assert engine.do("GET", "doc:1") != value
    with served(fleet, engine, tmp_path, mode=mode).wire(protocol) as wire:
        assert wire.value("GET", "doc:1") == value
        wire.ask("SET", "doc:2", value)
        assert wire.ask("APPEND", "doc:2", "x") == b":%d\r\n" % (len(value) + 1)
    assert engine.do("GET", "doc:2") == value + b"x"


WITH_OTHERS = """
keyrail: 1
defaults: {mode: enforce}
apps: {acme: {match: {user: acme}}}
tenants: {prefix: "{app}:", apps: [acme]}
rules:
  docs: {compress: {keys: ["doc:*"], above: 64B, codec: lz4}}
  small: {sizes: {value: 100KB}}
  usual: {lifetime: {default: 5m, keys: ["doc:*"]}}
  memory: {local_cache: {keys: ["doc:*"], when: always}}
  nearby: {replica_reads: {keys: ["doc:*"], max_lag: 1s}}
  scripts: {scripts: {commands: follow_rules, dynamic_calls: allow}}
"""


def test_beside_other_rules(fleet: Fleet, engine: Engine, protocol: int, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(WITH_OTHERS)
    engine.do("ACL", "SETUSER", "acme", "on", ">secret", "~*", "&*", "+@all")
    keyrail = fleet.keyrail(engine.name, policy=file)
    value = json_of(random.Random(1), 5000)
    with keyrail.wire(protocol) as wire, keyrail.wire(protocol) as tenant:
        assert tenant.ask("AUTH", "acme", "secret") == b"+OK\r\n"
        for client, prefix in ((wire, ""), (tenant, "acme:")):
            assert client.ask("SET", "doc:1", value) == b"+OK\r\n"
            stored = engine.do("GET", f"{prefix}doc:1")
            assert isinstance(stored, bytes)
            assert unpack(stored, STRING) == value != stored
            assert 0 < int(str(engine.do("TTL", f"{prefix}doc:1"))) <= 300
            assert client.ask("HSET", "doc:h", "f", value) == b":1\r\n"
            for _ in range(3):
                assert client.value("GET", "doc:1") == value
                assert client.value("MGET", "doc:1", "x") == [value, None]
                assert client.value("STRLEN", "doc:1") == len(value)
                assert client.value("GETRANGE", "doc:1", "0", "9") == value[:10]
                assert client.value("HGETALL", "doc:h") == [b"f", value]
            large = client.ask("SET", "doc:1", json_of(random.Random(1), 150_000))
            assert large.startswith(b"-DENIED keyrail/small: ")
            assert client.ask("APPEND", "doc:1", "x").startswith(b"-DENIED keyrail/docs: ")
        assert wire.ask("EVAL", "return redis.call('GET', 'doc:1')", "0").startswith(b"-DENIED keyrail/docs: ")
    engine.do("ACL", "DELUSER", "acme")


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_glide_and_keyrail_read_what_the_other_writes(fleet: Fleet, tmp_path: Path, codec: str) -> None:
    if find_spec("glide") is None:
        pytest.skip("valkey-glide is not installed")
    engine, count = fleet.engine("valkey-9.1"), 10_000
    keyrail = served(fleet, engine, tmp_path, codec=codec)

    def glide(verb: str) -> int:
        program = [sys.executable, "-m", "tests.compression.glide_client", str(engine.address.port), verb, str(count)]
        return subprocess.run(program, check=False, cwd=REPOSITORY).returncode

    def asked(wire: Wire, requests: list[bytes]) -> Iterator[bytes]:
        for start in range(0, count, 100):
            some = requests[start : start + 100]
            wire.send(b"".join(some))
            yield from wire.frames(len(some))

    values = [value_of(number) for number in range(count)]
    reads = [request("GET", f"doc:{number}") for number in range(count)]
    writes = [request("SET", f"doc:{number}", value) for number, value in enumerate(values)]
    with keyrail.wire() as wire, engine.wire() as direct:
        engine.do("FLUSHALL")
        assert glide("write") == 0
        compressed = sum(reply.partition(b"\r\n")[2].startswith(MAGIC) for reply in asked(direct, reads))
        assert compressed > count * 0.9
        assert [decode(reply) for reply in asked(wire, reads)] == values
        engine.do("FLUSHALL")
        assert set(asked(wire, writes)) == {b"+OK\r\n"}
        assert glide("read") == 0


def test_newer_commands_of_fields_and_several_keys(fleet: Fleet, protocol: int, tmp_path: Path) -> None:
    engine, value = fleet.engine("valkey-9.1"), json_of(random.Random(1), 3000)
    engine.do("FLUSHALL")
    with served(fleet, engine, tmp_path).wire(protocol) as wire:
        assert wire.value("HSETEX", "doc:h", "EX", 100, "FIELDS", 2, "f", value, "g", "x") == 1
        stored = engine.do("HGET", "doc:h", "f")
        assert isinstance(stored, bytes)
        assert unpack(stored, FIELD) == value != stored
        assert wire.value("HGETEX", "doc:h", "EX", 10, "FIELDS", 2, "f", "none") == [value, None]
        assert wire.value("HRANDFIELD", "doc:h", -1, "WITHVALUES") in (
            *([b"f", value], [b"g", b"x"]),
            *([[b"f", value]], [[b"g", b"x"]]),
        )
        assert wire.value("HSCAN", "doc:h", 0, "NOVALUES") in ([b"0", [b"f", b"g"]], [b"0", [b"g", b"f"]])
        wire.ask("HSET", "doc:h", "novalues", value)
        assert wire.value("HSCAN", "doc:h", 0, "MATCH", "novalues", "COUNT", 100) == [b"0", [b"novalues", value]]
        assert wire.value("HGETDEL", "doc:h", "FIELDS", 2, "f", "g") == [value, b"x"]
        assert wire.value("MSETEX", 2, "doc:1", value, "plain", value, "EX", 100) == 1
        assert wire.value("MGET", "plain", "doc:1") == [value, value]
        assert engine.do("GET", "doc:1") != value == engine.do("GET", "plain")
        assert wire.ask("SET", "doc:1", value, "IFEQ", value).startswith(b"-DENIED keyrail/docs: ")
