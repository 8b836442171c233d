"""Each command about keys of a rule that compresses, with each form in which its value may be stored: what Keyrail has
written, what another client has written to Redis directly, and what only looks compressed. Replies, values and TTLs are
those of a Redis without Keyrail, or the command is refused."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import cast

import pytest

from proxy.compression.frames import FIELD, MAGIC, STRING, unpack
from tests.compression.histories import Argv, json_of
from tests.conftest import Fleet
from tests.engines import Engine
from tests.guardrails.test_compression import engine, reference, same, served
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import pack as request

__all__ = ["engine", "reference"]

pytestmark = pytest.mark.skipif(DIRECT, reason="guardrails are Keyrail's own")

V, W = (json_of(Random(seed), 3000) for seed in (1, 2))
ALLOWED = """
SET doc:1 V
SET doc:1 W NX
SET doc:1 W XX GET
SET doc:1 W GET
SET doc:1 W KEEPTTL
SET doc:1 W EX 100
SETEX doc:1 100 W
PSETEX doc:1 100000 W
SETNX doc:1 W
GETSET doc:1 W
MSET doc:1 W doc:2 V x W
MSETNX doc:1 W doc:9 V
MSETNX doc:8 W doc:9 V
GET doc:1
GETEX doc:1
GETEX doc:1 EX 100
GETDEL doc:1
MGET doc:1 x doc:2 none doc:h
STRLEN doc:1
GETRANGE doc:1 0 10
GETRANGE doc:1 -10 -1
GETRANGE doc:1 5 100000
GETRANGE doc:1 a b
SUBSTR doc:1 0 10
INCR doc:1
INCRBY doc:1 5
DECR doc:1
DECRBY doc:1 5
INCRBYFLOAT doc:1 1.5
HSET doc:h f W g V
HSET doc:h f 1
HMSET doc:h f W g V
HSETNX doc:h f W
HSETNX doc:h z W
HGET doc:h f
HMGET doc:h f n none
HGETALL doc:h
HVALS doc:h
HKEYS doc:h
HLEN doc:h
HEXISTS doc:h f
HSTRLEN doc:h f
HSTRLEN doc:h none
HINCRBY doc:h n 5
HINCRBY doc:h f 5
HINCRBYFLOAT doc:h n 1.5
HSCAN doc:h 0
HSCAN doc:h 0 COUNT 100 MATCH f*
HSCAN doc:h 0 NOVALUES
HRANDFIELD doc:one
HRANDFIELD doc:one 1
HRANDFIELD doc:one 1 WITHVALUES
HRANDFIELD doc:one -3 WITHVALUES
HDEL doc:h f
HEXPIRE doc:h 100 FIELDS 1 f
HTTL doc:h FIELDS 1 f
HSETEX doc:h EX 100 FIELDS 1 f W
HSETEX doc:h FXX EX 100 FIELDS 2 f W g V
HGETEX doc:h EX 100 FIELDS 2 f none
HGETDEL doc:h FIELDS 2 f none
SORT list GET doc:*
SORT list GET doc:* GET #
SORT list GET doc:h*->f
SORT list BY nosort GET doc:*
SORT_RO list GET doc:*
RENAME doc:1 doc:3
RENAMENX doc:1 doc:3
COPY doc:1 doc:3
COPY doc:1 doc:3 REPLACE
EXISTS doc:1
TYPE doc:1
TTL doc:1
DEL doc:1
UNLINK doc:1
TOUCH doc:1
EXPIRE doc:1 100
PERSIST doc:1
MOVE doc:1 1
EVAL return 1 0
EVAL return(redis.call('GET',KEYS[1])) 1 x
GET doc:h
HGET doc:1 f
LPUSH doc:l V
LRANGE doc:l 0 -1
SADD doc:s V
SMEMBERS doc:s
MSETEX 2 doc:1 W doc:2 V EX 100
HIMPORT SET doc:1
GETEX doc:1 PERSIST
SET doc:1
GET
HSET doc:h f
XADD doc:x 1-1 f V
ZADD doc:z 1 V
OBJECT ENCODING doc:l
"""
REFUSED = """
APPEND doc:1 more
BITCOUNT doc:1
BITFIELD doc:1 GET u4 0
BITFIELD_RO doc:1 GET u4 0
BITOP AND x doc:1 doc:2
BITOP NOT doc:1 x
BITPOS doc:1 1
COPY doc:1 x2
DELEX doc:1
DELEX doc:1 IFEQ V
DELIFEQ doc:1 V
DIGEST doc:1
EVAL return(redis.call('GET',KEYS[1])) 1 doc:1
GETBIT doc:1 3
INCREX doc:1
LCS doc:1 doc:2
LCS x doc:2 LEN
PFADD doc:1 a
PFCOUNT doc:1
PFMERGE doc:1 doc:2
RENAME doc:1 x
RENAME x doc:1
RENAMENX doc:1 x2
SET doc:1 W IFEQ V
SETBIT doc:1 3 1
SETRANGE doc:1 3 more
SORT list BY doc:*
SORT list GET *
SORT list GET doc:* STORE dest
"""
FORMS = {
    "compressed": (V, V),
    "written directly": (V, V),
    "numbers": (b"12345", b"12345"),
    "look compressed": tuple(MAGIC + bytes((version, 1)) + b"no frame" * 20 for version in (STRING, FIELD)),
}
"""What is stored in strings, and in fields."""


def argv_of(line: str) -> Argv:
    return [{"V": V, "W": W}.get(word, word.encode()) for word in line.split()]


def fill(keyrail: Keyrail, engine: Engine, reference: Engine, form: str) -> None:
    """Keys in this form, behind Keyrail's back but for those that it shall compress; other keys plain."""
    for each in (engine, reference):
        each.do("FLUSHALL")
        each.do("SET", "x", V)
        each.do("RPUSH", "list", "1", "2")
    commands: list[Argv]
    if form == "lists":
        commands = [[b"RPUSH", key, b"a"] for key in (b"doc:1", b"doc:2", b"doc:h", b"doc:one")]
    elif form in FORMS:
        value, field = FORMS[form]
        commands = [[b"MSET", b"doc:1", value, b"doc:2", W], [b"HSET", b"doc:h", b"f", field, b"g", W, b"n", b"5"]]
        commands += [[b"HSET", key, b"f", field] for key in (b"doc:one", b"doc:h1", b"doc:h2")]
    else:
        commands = []
    with keyrail.wire() as wire, engine.wire() as direct, reference.wire() as other:
        for argv in commands:
            told = (wire if form == "compressed" else direct).ask(*argv)
            assert told == other.ask(*argv)
    if form == "compressed":
        assert cast("bytes", engine.do("GET", "doc:1")).startswith(MAGIC)
        assert cast("bytes", engine.do("HGET", "doc:h", "f")).startswith(MAGIC)


def contents(engine: Engine) -> dict[bytes, object]:
    """All keys: their plain values, and whether they have a TTL."""
    found: dict[bytes, object] = {}
    with engine.wire() as wire:
        for key in sorted(cast("list[bytes]", wire.value("KEYS", "*"))):
            kind, expires, value = wire.value("TYPE", key), cast("int", wire.value("TTL", key)) > 0, cast("object", b"")
            if kind == b"string":
                stored = cast("bytes", wire.value("GET", key))
                value = unpack(stored, STRING) if key.startswith(b"doc:") else stored
            elif kind == b"hash":
                flat = cast("list[bytes]", wire.value("HGETALL", key))
                value = {name: unpack(each, FIELD) for name, each in zip(flat[::2], flat[1::2], strict=True)}
            found[key] = kind, expires, value
    return found


@pytest.mark.parametrize("queued", [False, True], ids=["alone", "in MULTI"])
@pytest.mark.parametrize("form", [*FORMS, "none", "lists"])
def test_each_command_does_what_it_does_to_plain_values(
    fleet: Fleet, engine: Engine, reference: Engine, protocol: int, tmp_path: Path, form: str, queued: bool
) -> None:
    keyrail = served(fleet, engine, tmp_path)
    for line in ALLOWED.strip().splitlines():
        argv = argv_of(line)
        fill(keyrail, engine, reference, form)
        with keyrail.wire(protocol) as wire, reference.wire(protocol) as direct:
            sent = [request("MULTI"), request(*argv), request("EXEC")] if queued else [request(*argv)]
            for each in (wire, direct):
                each.send(b"".join(sent))
            told, expected = (b"".join(each.frames(len(sent))) for each in (wire, direct))
        if b"-ERR unknown command" in expected:
            assert b"-ERR unknown command" in told  # it quotes the arguments: compressed ones
        else:
            assert same(argv, told, expected), line
        assert contents(engine) == contents(reference), line


@pytest.mark.parametrize("form", [*FORMS, "none", "lists"])
def test_what_needs_the_plain_bytes_in_redis_is_refused_whatever_is_stored(
    fleet: Fleet, engine: Engine, reference: Engine, protocol: int, tmp_path: Path, form: str
) -> None:
    keyrail = served(fleet, engine, tmp_path)
    fill(keyrail, engine, reference, form)
    before = contents(engine)
    with keyrail.wire(protocol) as wire:
        for line in REFUSED.strip().splitlines():
            assert wire.ask(*argv_of(line)).startswith(b"-DENIED keyrail/docs: "), line
            wire.send(request("MULTI") + request(*argv_of(line)) + request("EXEC"))
            _, refused, ended = wire.frames(3)
            assert refused.startswith(b"-DENIED keyrail/docs: "), line
            assert ended.startswith(b"-EXECABORT"), line
    assert contents(engine) == before


def test_what_carries_the_stored_value_leaves_it_readable(
    fleet: Fleet, engine: Engine, protocol: int, tmp_path: Path
) -> None:
    with served(fleet, engine, tmp_path).wire(protocol) as wire:
        assert wire.ask("SET", "doc:1", V) == b"+OK\r\n"
        assert wire.ask("HSET", "doc:h", "f", V) == b":1\r\n"
        for key, read in (("doc:1", ["GET"]), ("doc:h", ["HGET"])):
            field = ["f"] if read == ["HGET"] else []
            dump = wire.value("DUMP", key)
            assert isinstance(dump, bytes)
            assert wire.ask("RESTORE", f"{key}:restored", "0", dump) == b"+OK\r\n"
            assert wire.ask("COPY", key, f"{key}:copy") == b":1\r\n"
            assert wire.ask("RENAME", key, f"{key}:renamed") == b"+OK\r\n"
            for suffix in ("restored", "copy", "renamed"):
                assert wire.value(*read, f"{key}:{suffix}", *field) == V
            assert wire.ask("MOVE", f"{key}:renamed", "1") == b":1\r\n"
            assert wire.ask("SELECT", "1") == b"+OK\r\n"
            assert wire.value(*read, f"{key}:renamed", *field) == V
            assert wire.ask("SELECT", "0") == b"+OK\r\n"
