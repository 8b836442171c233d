"""What is kept of a command never has a value, and equal forms are equal for rules."""

from __future__ import annotations

import shlex

import pytest

from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from proxy.traffic.command_form import exemplar, form_of, parts_of
from proxy.traffic.redaction import Redact, Redaction

SHOWN = Redaction(Redact.NONE)


def command(line: str) -> Command:
    return Command(STANDARD, [word.encode() for word in shlex.split(line)])


@pytest.mark.parametrize(
    ("line", "words", "form"),
    [
        ("SET a:1 hello EX 300 NX", "SET a:1 <5 bytes> EX 300 NX", "keys=1 data=1 largest=5 EX=500 NX"),
        ("set a:1 nx px 20", "SET a:1 <2 bytes> PX 20", "keys=1 data=1 largest=2 PX=20"),
        ("SETEX a:1 60 v", "SETEX a:1 60 <1 bytes>", "keys=1 data=1 largest=1 2:64"),
        ("LRANGE l 0 -1", "LRANGE l 0 -1", "keys=1 asks=all 2:0 3:-1"),
        ("INCRBY account 4111111111111111", "INCRBY account <16 bytes>", "keys=1 data=1 largest=16"),
        ("MSET a 1 b 22 c 333", "MSET a <1 bytes> b <2 bytes> c <3 bytes>", "keys=4 data=4 largest=4"),
        (
            "SCAN 0 MATCH u:* COUNT 1000",
            "SCAN 0 <5 bytes> <3 bytes> COUNT 1000",
            "data=2 largest=5 asks=1000 COUNT=1000",
        ),
        ("EVAL script 1 k secret", "EVAL <6 bytes> 1 k <6 bytes>", "keys=1 data=2 largest=8 2:1"),
        ("CONFIG SET maxmemory 1gb", "CONFIG SET <9 bytes> <3 bytes>", "data=2 largest=10"),
        ("HMGET h count 4111111111111111", "HMGET h <5 bytes> <16 bytes>", "keys=1 data=2 largest=16"),
        ("EVAL s 0 limit 4111111111", "EVAL <1 bytes> 0 <5 bytes> <10 bytes>", "data=4 largest=10 2:0"),
        ("PUBLISH channel text", "PUBLISH <7 bytes> <4 bytes>", "data=2 largest=8"),
        ("KEYS user:*", "KEYS <6 bytes>", "data=1 largest=8"),
        ("NONSENSE a b", "NONSENSE <1 bytes> <1 bytes>", "unknown data=2 largest=1"),
        ("LPUSH l EX 300", "LPUSH l <2 bytes> <3 bytes>", "keys=1 data=2 largest=4 members=2"),
        ("SET a:1", "SET a:1", "arity keys=1"),
        ("SET", "SET", "arity keys=?0"),
        ("EVAL s x k", "EVAL <1 bytes> <1 bytes> <1 bytes>", "keys=?4 data=4 largest=1"),
        (
            "ZRANGEBYSCORE z 1 2 LIMIT 0 99",
            "ZRANGEBYSCORE z <1 bytes> <1 bytes> LIMIT 0 99",
            "keys=1 data=2 largest=1 asks=100 LIMIT=0 6:100",
        ),
        ("SETRANGE k 5000 x", "SETRANGE k 5000 <1 bytes>", "keys=1 data=1 largest=1 value=8192 2:5000"),
        (
            "XADD s MAXLEN ~ 900 * f v",
            "XADD s MAXLEN ~ 900 <1 bytes> <1 bytes> <1 bytes>",
            "keys=1 data=4 largest=1 value=8 members=1 MAXLEN ~=1000",
        ),
        (
            "HSETEX h FNX FIELDS 1 f NX",
            "HSETEX h FNX FIELDS 1 <1 bytes> <2 bytes>",
            "keys=1 data=2 largest=2 value=8 members=1 FNX FIELDS=1",
        ),
    ],
)
def test_words_and_form(line: str, words: str, form: str) -> None:
    sent = command(line)
    assert " ".join(exemplar(sent, SHOWN, 1.0).words) == words
    assert form_of(sent) == form


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("SET a:1 hello EX 300 NX", {"keys": 1, "data": 1, "largest": 5, "EX": 500, "NX": None}),
        ("SETEX a:1 60 v", {"keys": 1, "data": 1, "largest": 1, "2": 64}),
        ("LRANGE l 0 -1", {"keys": 1, "asks": None, "2": 0, "3": -1}),
        ("EVAL s x k", {"keys": None, "data": 4, "largest": 1}),
        ("NONSENSE a", {"unknown": None, "data": 1, "largest": 1}),
        ("XADD s MAXLEN ~ 900 * f v", {"~": 1000, "MAXLEN": None}),
        ("PING", {}),
        (f"SINTER {' '.join('STORE' for _ in range(20))}", {"keys": 20}),
    ],
)
def test_a_form_is_read_as_it_was_written(line: str, parts: dict[str, int | None]) -> None:
    found = parts_of(form_of(command(line)))
    assert {name: number for name, number in found.items() if name in parts} == parts
    assert parts or not found


def test_a_long_command_is_cut_and_says_so() -> None:
    words = exemplar(command("MGET " + " ".join(f"k{n}" for n in range(100))), SHOWN, 1.0).words
    assert (len(words), words[-1]) == (25, "<77 more>")


def test_no_command_brings_a_value_into_its_words_or_its_form() -> None:
    """Every command of the table, with data at all places that are no keys."""
    secret = b"4111111111111111"
    for spec in STANDARD.specs[1:]:
        for more in range(5):
            names = [word.encode() for word in spec.name.split("|")]
            sent = Command(STANDARD, [*names, *[secret] * (max(0, abs(spec.arity) - len(names)) + more)])
            keys = {key.index for key in sent.known_keys}
            told = exemplar(sent, SHOWN, 1.0).words
            shown = [index for index, word in enumerate(told) if secret.decode() in word and index not in keys]
            assert len(shown) <= len(set(shown) & {1, 2, 3, len(told) - 1}), (spec.name, told)
            assert secret.decode() not in form_of(sent)
