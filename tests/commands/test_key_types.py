"""The types of keys that commands work on agree with the engines."""

import pytest

from proxy.commands.command import Command
from proxy.commands.key_types import KEY_TYPES, KeyTypes, key_types_of
from proxy.commands.table import STANDARD
from tests.commands.invocations import INVOCATIONS, split
from tests.conftest import Fleet
from tests.rules.given import spec

MAKING = {
    "string": "SET {} 1",
    "hash": "HSET {} f v",
    "list": "RPUSH {} 1",
    "set": "SADD {} 1",
    "zset": "ZADD {} 1 m",
    "stream": "XADD {} 1-1 f v",
}
SILENT = """
    SET MSET MSETNX MSETEX BITOP SORT GEORADIUS GEORADIUSBYMEMBER SUNIONSTORE ZUNIONSTORE ZINTERSTORE ZDIFFSTORE
    ZRANGESTORE GEOSEARCHSTORE RPOPLPUSH LMOVE SMOVE MGET"""
"""They overwrite what is there, or, in these invocations, do not look at it: no source to move from; MGET says nil."""


@pytest.mark.parametrize(
    ("name", "read", "written"),
    [
        ("GET", "string", "string"),
        ("PFADD", "string", "string"),
        ("SETBIT", "string", "string"),
        ("GEOADD", "zset", "zset"),
        ("XREADGROUP", "stream", "stream"),
        ("ZUNIONSTORE", "set zset", "zset"),
        ("SORT", "list set zset", "list"),
        ("JSON.SET", "json", "json"),
        ("VADD", "vectorset", "vectorset"),
        ("DEL", "", ""),
        ("RENAME", "", ""),
        ("EVAL", "", ""),
    ],
)
def test_types_of_a_command(name: str, read: str, written: str) -> None:
    assert key_types_of(spec(name)) == KeyTypes(frozenset(read.split()), frozenset(written.split()))
    assert key_types_of(spec(name)).read <= set(KEY_TYPES)


def test_an_unknown_command_is_for_any_type() -> None:
    assert not any(key_types_of(STANDARD.specs[0]))


def test_engines_agree(fleet: Fleet, engine_name: str) -> None:
    silent = set()
    with fleet.engine(engine_name).wire() as wire:
        for line, _ in INVOCATIONS:
            command = Command(STANDARD, split(line))
            types = key_types_of(command.spec)
            if not types.read or engine_name not in command.spec.engines or "blocking" in command.spec.flags:
                continue
            for key in command.keys:
                for key_type, making in MAKING.items():
                    wire.ask("FLUSHALL")
                    wire.ask(*making.format(key.name.decode()).split())
                    reply = wire.ask(*command.argv)
                    fits = key_type in (types.written if key.write else types.read)
                    if b"wrong kind of value" in reply:
                        assert not fits, (line, key, key_type)
                    elif not fits and not reply.startswith(b"-"):
                        silent.add(command.name)
    assert silent <= set(SILENT.split())
    assert len(silent) > 10
