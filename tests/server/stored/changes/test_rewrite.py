"""Stored values are compressed, and made plain again, beside clients that write them."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from proxy.cli import main
from proxy.compression.frames import FIELD, MAGIC, STRING, Codec, pack, unpack
from tests.compression.histories import json_of
from tests.engines import EXPECTED, NEWEST_REDIS, Engine

POLICY = """keyrail: 1
defaults: {mode: enforce}
apps: {acme: {match: {user: acme}}, shop: {match: {user: shop}}}
tenants: {prefix: "{app}:", apps: [acme]}
rules:
  docs: {compress: {keys: ["doc:*"], above: 64B, codec: zstd}}
  quiet: {compress: {keys: ["quiet:*"], above: 64B}, mode: audit}
  owners: {names: {prefixes: {shop: ["doc:shop:"], default: ["*"]}}}
exceptions:
  - {rule: docs, app: shop, until: 2099-01-01, because: tries it}
"""
TEXT = json_of(random.Random(1), 3000)
LARGE = b'{"a": 1}' * 300_000
WRAPPED = MAGIC + b"text " * 50
TWICE = pack(TEXT, STRING, Codec.ZSTD, 3, 64)
Verb = Callable[..., tuple[int, str, str]]
NewEngine = Callable[..., Engine]


@pytest.fixture
def verb(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Verb:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)

    def run(url: str, *arguments: str, typed: str = "", policy: str = POLICY) -> tuple[int, str, str]:
        file.write_text(policy)
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        share = () if "--share" in arguments else ("--share", "100%")
        status = main(["transform", "--upstream", url, "--policy", str(file), *share, *arguments])
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return run


def fill(engine: Engine) -> dict[bytes, bytes]:
    """Strings and what clients of Keyrail read of them."""
    values = {
        b"doc:text": TEXT,
        b"doc:small": b"x",
        b"doc:number": b"1" * 100,
        b"doc:noise": random.Random(2).randbytes(3000),
        b"doc:large": LARGE,
        b"doc:magic": WRAPPED,
        b"doc:bent": TWICE[:-1],
        b"acme:doc:1": TEXT,
        b"other": TEXT,
        b"quiet:1": TEXT,
        b"doc:shop:1": TEXT,
    }
    for key, each in values.items():
        engine.do("SET", key, each)
    engine.do("SET", "doc:lz4", pack(TEXT, STRING, Codec.LZ4, 0, 64))
    engine.do("SET", "doc:done", TWICE)
    engine.do("SET", "doc:twice", pack(TWICE, STRING, Codec.LZ4, 0, 0))
    engine.do("SET", "doc:ttl", TEXT, "EX", 9000)
    engine.do("RPUSH", "doc:list", TEXT)
    return values | {b"doc:lz4": TEXT, b"doc:done": TEXT, b"doc:ttl": TEXT}


def stored(engine: Engine, key: bytes) -> bytes:
    return cast("bytes", engine.do("GET", key))


@pytest.mark.parametrize("engine_name", [*EXPECTED, NEWEST_REDIS])
def test_there_and_back(new_engine: NewEngine, engine_name: str, verb: Verb) -> None:
    engine = new_engine(engine_name)
    values = fill(engine)
    before = {key: stored(engine, key) for key in [*values, b"doc:twice"]}
    status, shown, _ = verb(engine.url, "--dry-run")
    assert (status, {key: stored(engine, key) for key in before}) == (0, before)
    rewritten = {b"doc:text", b"doc:magic", b"acme:doc:1", b"doc:lz4", b"doc:ttl", b"doc:twice"}
    size, after = sum(len(before[key]) for key in rewritten), shown.split(" to ", 1)[1].split(":", 1)[0]
    assert shown.startswith(f"6 values of 6 keys, {size / 1024:.1f} KiB to {after}: would be rewritten\n")
    assert "left alone: 1 values of more than 1 MB, which stay plain\n" in shown
    assert "left alone: 2 keys for whose owners the rule compresses nothing" in shown
    assert verb(engine.url, typed="5\n")[::2] == (1, "keyrail: not confirmed: nothing was done\n")
    assert {key: stored(engine, key) for key in before} == before
    status, shown, _ = verb(engine.url, typed="6\n")
    assert (status, f"{after}: rewritten\n" in shown) == (0, True)
    now = {key: stored(engine, key) for key in before}
    assert {key for key in before if now[key] != before[key]} == rewritten
    assert {key: unpack(each, STRING) for key, each in now.items() if key != b"doc:twice"} == values
    assert unpack(now[b"doc:twice"], STRING) == TWICE
    assert all(now[key][:5] == MAGIC + b"\x00\x01" for key in rewritten)
    assert 8900 < cast("int", engine.do("TTL", "doc:ttl")) <= 9000
    status, shown, _ = verb(engine.url, "--dry-run")
    assert (status, shown.split(":")[0]) == (0, "0 values of 0 keys, 0 bytes to 0 bytes")
    status, shown, told = verb(engine.url, "--back", "--yes")
    assert (status, shown.split(",")[0]) == (1, "6 values of 6 keys")
    assert told.splitlines() == [
        "keyrail: still compressed: 1 values",
        "keyrail: docs compresses what clients write: say above: 512MB there first",
        "keyrail: quiet compresses what clients write: say above: 512MB there first",
    ]
    assert "left alone: 1 compressed values whose plain bytes look compressed themselves" in shown
    assert {key: stored(engine, key) for key in values} == values
    assert unpack(stored(engine, b"doc:twice"), STRING) == TWICE
    assert 8900 < cast("int", engine.do("TTL", "doc:ttl")) <= 9000
    status, shown, told = verb(engine.url, "--back")
    assert (status, shown.split(",")[0]) == (1, "0 values of 0 keys")
    assert told.startswith("keyrail: still compressed: 1 values\n")
    engine.do("DEL", "doc:twice")
    assert verb(engine.url, "--back", "--yes")[::2] == verb(engine.url, "--back")[::2] == (0, "")


@pytest.mark.parametrize("engine_name", [*EXPECTED, NEWEST_REDIS])
def test_fields_of_hashes_keep_their_ttls(new_engine: NewEngine, engine_name: str, verb: Verb) -> None:
    engine = new_engine(engine_name)
    fields = {b"f%d" % each: json_of(random.Random(each), 40 + 10 * each) for each in range(300)}
    fields |= {b"large": LARGE, b"magic": WRAPPED, b"number": b"7" * 90}
    engine.do("HSET", "doc:h", *(word for pair in fields.items() for word in pair))
    engine.do("EXPIRE", "doc:h", 9000)
    engine.do("HSET", "doc:glide", "f", TWICE, "g", TEXT)
    has_ttls = "redis-6.2" != engine_name != "redis-7.0"
    if has_ttls:
        engine.do("HPEXPIRE", "doc:h", 5_000_000, "FIELDS", 2, "f99", "magic")
    status, shown, _ = verb(engine.url, "--yes")
    now = dict(zip(*[iter(cast("list[bytes]", engine.do("HGETALL", "doc:h")))] * 2, strict=True))
    assert {field: unpack(each, FIELD) for field, each in now.items()} == fields
    left = {field for field, each in now.items() if not each.startswith(MAGIC)}
    assert {b"large", b"number", b"f0"} <= left
    assert {field for field in fields if len(fields[field]) > 1000} - {b"large"} <= now.keys() - left
    assert b"magic" not in left
    assert unpack(cast("bytes", engine.do("HGET", "doc:glide", "f")), FIELD) == TWICE, "GLIDE compresses no fields"
    assert (status, shown.split(" ")[0]) == (0, str(len(now.keys() - left) + 2))

    def ttls() -> list[int]:
        assert 8900 < cast("int", engine.do("TTL", "doc:h")) <= 9000
        return cast("list[int]", engine.do("HPTTL", "doc:h", "FIELDS", 3, "f99", "magic", "f98")) if has_ttls else []

    assert all(4_900_000 < each <= 5_000_000 for each in ttls()[:2])
    assert ttls()[2:] in ([], [-1])
    assert verb(engine.url, "--dry-run")[1].startswith("0 values of 0 keys")
    status, _, told = verb(engine.url, "--back", "--yes")
    back = dict(zip(*[iter(cast("list[bytes]", engine.do("HGETALL", "doc:h")))] * 2, strict=True))
    assert (status, told, back) == (0, "", fields)
    assert engine.do("HGET", "doc:glide", "f") == TWICE
    assert all(4_900_000 < each <= 5_000_000 for each in ttls()[:2])


def test_fields_with_a_ttl_are_left_where_no_write_keeps_it(
    new_engine: NewEngine, verb: Verb, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = new_engine("valkey-9.1", {"rename-command": "HSETEX other"})
    engine.do("HSET", "doc:h", "f", TEXT, "g", TEXT)
    engine.do("HPEXPIRE", "doc:h", 5_000_000, "FIELDS", 1, "f")
    status, shown, _ = verb(engine.url, "--yes")
    assert (status, shown.split(",")[0]) == (0, "1 values of 1 keys")
    assert "left alone: 1 fields with a TTL, which this Redis cannot keep in a write (no HSETEX)" in shown
    assert engine.do("HGET", "doc:h", "f") == TEXT != engine.do("HGET", "doc:h", "g")
    assert cast("list[int]", engine.do("HPTTL", "doc:h", "FIELDS", 1, "f"))[0] > 4_900_000


@pytest.mark.parametrize("engine_name", ["valkey-9.1", NEWEST_REDIS])
def test_fields_keep_their_ttls_where_nobody_tells_these(new_engine: NewEngine, engine_name: str, verb: Verb) -> None:
    engine = new_engine(engine_name, {"rename-command": "HPTTL other"})
    engine.do("HSET", "doc:h", "f", TEXT, "g", TEXT)
    engine.do("HPEXPIRE", "doc:h", 5_000_000, "FIELDS", 1, "f")
    status, shown, _ = verb(engine.url, "--yes")
    assert (status, shown.split(",")[0]) == (0, "2 values of 1 keys")
    assert cast("list[int]", engine.do("other", "doc:h", "FIELDS", 2, "f", "g"))[0] > 4_900_000
    assert TEXT not in cast("list[bytes]", engine.do("HMGET", "doc:h", "f", "g"))


@pytest.mark.parametrize("lacks", ["watch", "multi", "exec", "set", "getrange", "strlen"])
def test_what_the_user_may_not_do_is_named_and_nothing_is_written(
    new_engine: NewEngine, verb: Verb, lacks: str
) -> None:
    engine = new_engine("valkey-9.1")
    engine.do("MSET", "doc:1", TEXT, "doc:2", TEXT)
    engine.do("ACL", "SETUSER", "some", "on", ">secret", "~*", "+@all", f"-{lacks}")
    url = engine.url.replace("redis://", "redis://some:secret@")
    status, shown, _ = verb(url, "--yes")
    assert (status, shown.split(",")[0]) == (1, "0 values of 0 keys")
    assert "refused: 2 keys: " in shown
    assert f"NOPERM User some has no permissions to run the '{lacks}' command" in shown
    assert engine.do("MGET", "doc:1", "doc:2") == [TEXT, TEXT]
    engine.do("ACL", "SETUSER", "some", f"+{lacks}", "resetkeys", "~doc:1")
    status, shown, _ = verb(url, "--yes")
    assert (status, shown.split(",")[0]) == (1, "1 values of 1 keys")
    assert "refused: 1 keys: the user may not ask for their type and TTL\n" in shown
    assert engine.do("GET", "doc:2") == TEXT != engine.do("GET", "doc:1")


@pytest.mark.parametrize("lacks", [["discard"], ["discard", "exec"]])
def test_who_may_not_end_a_transaction_does_nothing_in_it(new_engine: NewEngine, verb: Verb, lacks: list[str]) -> None:
    engine = new_engine("valkey-9.1")
    noise = random.Random(1).randbytes(3000)
    engine.do("MSET", "doc:1", noise, "doc:2", noise if len(lacks) == 1 else TEXT)
    engine.do("HSET", "doc:h", "f", noise)
    engine.do("ACL", "SETUSER", "some", "on", ">secret", "~*", "+@all", *(f"-{each}" for each in lacks))
    status, _, told = verb(engine.url.replace("redis://", "redis://some:secret@"), "--yes")
    assert (status, "DISCARD: NOPERM User some has no permissions to run the 'discard' command" in told) == (1, True)


def test_no_key_stays_watched(new_engine: NewEngine, verb: Verb) -> None:
    engine = new_engine("valkey-9.1", {"rename-command": "MULTI other"})
    engine.do("MSET", *(word for each in range(50) for word in (f"doc:{each}", TEXT)))
    engine.do("CONFIG", "SET", "slowlog-log-slower-than", 0, "slowlog-max-len", 10_000)
    assert verb(engine.url, "--yes")[0] == 1
    words = [entry[3][0] for entry in cast("list[list[list[bytes]]]", engine.do("SLOWLOG", "GET", "-1"))]
    assert words.count(b"WATCH") == words.count(b"UNWATCH") == 50


@pytest.mark.parametrize("lacks", ["watch", "hlen", "hscan", "hmget", "hpttl", "hset", "hsetex"])
def test_what_the_user_may_not_do_with_hashes_is_named(new_engine: NewEngine, verb: Verb, lacks: str) -> None:
    engine = new_engine("valkey-9.1")
    engine.do("HSET", "doc:h", "f", TEXT)
    if lacks == "hsetex":
        engine.do("HEXPIRE", "doc:h", 5000, "FIELDS", 1, "f")
    engine.do("ACL", "SETUSER", "some", "on", ">secret", "~*", "+@all", f"-{lacks}")
    status, shown, _ = verb(engine.url.replace("redis://", "redis://some:secret@"), "--yes")
    assert (status, shown.split(",")[0]) == (1, "0 values of 0 keys")
    assert f"NOPERM User some has no permissions to run the '{lacks}' command" in shown
    assert engine.do("HGET", "doc:h", "f") == TEXT


def test_options_say_which_keys(new_engine: NewEngine, verb: Verb) -> None:
    engine = new_engine("valkey-9.1")
    for each in range(30):
        engine.do("MSET", f"doc:{each}", TEXT, f"acme:doc:{each}", TEXT, f"other:{each}", TEXT)
    enforced = (
        POLICY.replace(", mode: audit", "")
        .replace("exceptions:", "tests: []")
        .replace("  - {rule: docs, app: shop, until: 2099-01-01, because: tries it}\n", "")
    )

    def counted(*arguments: str) -> int:
        status, shown, _ = verb(engine.url, "--json", *arguments, policy=enforced)
        assert status == 0
        told = json.loads(shown)
        assert told["keys"] == told["values"] == sum(row["keys"] for row in told["patterns"])
        return int(told["keys"])

    assert counted("--dry-run") == 60
    assert counted("--dry-run", "--owner", "acme") == 30
    assert counted("--dry-run", "--pattern", "*doc:1") == 2
    assert counted("--dry-run", "--rule", "quiet") == 0
    assert counted("--yes", "--limit", "7", "--rule", "docs") == 7
    assert counted("--yes", "--limit", "7") == 7
    status, shown, told = verb(engine.url, "--yes", "--back", "--limit", "5", policy=enforced)
    assert (status, shown.split(",")[0]) == (1, "5 values of 5 keys")
    assert told == "keyrail: still compressed: the values beyond the limit\n"
    assert counted("--dry-run") == 51
    assert counted("--yes") == 51
    for words in (["--rule", "no"], ["--owner", "no"], ["--json"]):
        assert verb(engine.url, *words)[0] == 2
    status, _, told = verb(engine.url, "--yes", policy="keyrail: 1\nrules: {}\n")
    assert (status, told) == (
        2,
        "keyrail: --policy: expected a policy with a rule that compresses; this one has none\n",
    )
