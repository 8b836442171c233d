"""The values that commands store, each with its key and its length, and the number of members. A streamed value counts
with its announced length."""

import pytest

from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from proxy.commands.values import Value, members_of, values_of
from tests.rules.given import command


@pytest.mark.parametrize(
    ("text", "lengths"),
    [
        ("SET k abc EX 100", [3]),
        ("set k abc", [3]),
        ("GETSET k ab", [2]),
        ("SETEX k 100 abcd", [4]),
        ("APPEND k ab", [2]),
        ("MSET a 1 b 22 c 333", [1, 2, 3]),
        ("MSETEX 2 a 1 b 22 EX 12345", [1, 2]),
        ("HSET k field v", [5, 1]),
        ("LPUSH k a bb", [1, 2]),
        ("LSET k 0 abc", [3]),
        ("LINSERT k BEFORE a bcd", [3]),
        ("SMOVE a b member", [6]),
        ("RESTORE k 0 dump", [4 * 88]),
        ("SETRANGE k 100 abc", [103]),
        ("SETRANGE k -5 abc", [3]),
        ("SETBIT k 80 1", [11]),
        ("SETBIT k x 1", []),
        ("BITFIELD k GET u8 9999 SET u8 8 1 OVERFLOW SAT INCRBY i5 #3 1", [2, 3]),
        ("GET k", []),
        ("DEL k", []),
        ("SET k", []),
        ("NOSUCH k v", []),
    ],
)
def test_values(text: str, lengths: list[int]) -> None:
    assert [value.length for value in values_of(command(text))] == lengths


@pytest.mark.parametrize(
    ("text", "members"),
    [
        ("HSET k a 1 b 2", 2),
        ("HMSET k a 1", 1),
        ("HSETNX k a 1", 1),
        ("HSETEX k FNX EX 10 FIELDS 2 a 1 b 2", 2),
        ("LPUSH k a b c", 3),
        ("SADD k a", 1),
        ("ZADD k NX CH 1 a 2 b 3 c", 3),
        ("zadd k 1 nx", 1),
        ("ZINCRBY k 1 a", 1),
        ("GEOADD k CH 1 2 a 3 4 b", 2),
        ("XADD k * a 1 b 2", 2),
        ("XADD k NOMKSTREAM MAXLEN ~ 1000 LIMIT 10 * a 1", 1),
        ("XADD k MINID 5 7-1 a 1 b 2 c 3", 3),
        ("PFADD k a b", 2),
        ("SET k v", 0),
        ("MSET a 1 b 2", 0),
        ("XADD k", 0),
    ],
)
def test_members(text: str, members: int) -> None:
    assert members_of(command(text)) == members


def test_each_value_has_its_key() -> None:
    assert values_of(command("MSET a 1 b 22")) == [Value(1, 2, 1), Value(3, 4, 2)]
    assert values_of(command("MSETEX 1 a 22")) == [Value(2, 3, 2)]
    assert values_of(command("HSET k f v")) == [Value(1, 2, 1), Value(1, 3, 1)]
    assert values_of(command("JSON.MSET a $ 1 b $ 22")) == [Value(1, 3, 1), Value(4, 6, 2)]


def test_values_that_are_streamed_count_as_announced() -> None:
    given = Command(STANDARD, [b"MSET", b"a", b"", b"b", b"22", b"c", b""], streamed=2, streamed_length=1 << 24)
    given.further = {6: 1 << 28}
    assert [value.length for value in values_of(given)] == [1 << 24, 2, 1 << 28]
