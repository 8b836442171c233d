"""Replies with compressed values: each value is decompressed where the command has one, and nothing else changes."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from proxy.commands.compressed_values import ReplyValues
from proxy.compression.budget import MOST_AT_ONCE, PlainBudget
from proxy.compression.frames import FIELD, MAGIC, STRING, Codec, pack
from proxy.compression.making import MOST_IN_REPLY
from proxy.compression.replies import TOO_LARGE, TOO_MUCH, OfPlain, PlainReply
from tests.compression.dictionaries import json_dictionary
from tests.compression.histories import json_of

PLAIN = b"plain text " * 50
LZ4 = b"other text " * 60


def stored(version: int) -> tuple[bytes, bytes]:
    return pack(PLAIN, version, Codec.ZSTD, 3, 64), pack(LZ4, version, Codec.LZ4, 1, 64)


S1, S2 = stored(STRING)
F1, F2 = stored(FIELD)


def frame(value: Any, kind: bytes = b"*") -> bytes:
    """A reply; a tuple is of this kind: array, map or set."""
    if value is None:
        return b"$-1\r\n"
    if isinstance(value, int):
        return b":%d\r\n" % value
    if isinstance(value, bytes):
        return b"$%d\r\n%b\r\n" % (len(value), value)
    count = len(value) // 2 if kind == b"%" else len(value)
    return b"%b%d\r\n" % (kind, count) + b"".join(map(frame, value))


@pytest.mark.parametrize(
    "reply", [b"+OK\r\n", b"_\r\n", b"$-1\r\n", b":1\r\n", b"-ERR \x00\x01\x02\r\n", frame(F1), frame(b"x")]
)
def test_others_stay_as_they_are(reply: bytes) -> None:
    assert PlainReply(ReplyValues.ONE, STRING)(reply) == reply


def test_one_value() -> None:
    assert PlainReply(ReplyValues.ONE, STRING)(frame(S1)) == frame(PLAIN)
    assert PlainReply(ReplyValues.ONE, FIELD)(frame(F2)) == frame(LZ4)
    assert PlainReply(ReplyValues.ONE, STRING)(frame(MAGIC + b"\x00\x01xyz")) == frame(MAGIC + b"\x00\x01xyz")


def test_all_values_of_the_keys() -> None:
    reply = [S1, None, b"x", S2, S1]
    assert PlainReply(ReplyValues.ALL, STRING)(frame(reply)) == frame([PLAIN, None, b"x", LZ4, PLAIN])
    mask = (False, True, True, True, False)
    assert PlainReply(ReplyValues.ALL, STRING, mask)(frame(reply)) == frame([S1, None, b"x", LZ4, S1])
    assert PlainReply(ReplyValues.ALL, STRING, (True, False))(frame(reply)) == frame([PLAIN, None, b"x", S2, PLAIN])
    assert PlainReply(ReplyValues.ALL, STRING)(b"*2\r\n_\r\n" + frame(S1)) == b"*2\r\n_\r\n" + frame(PLAIN)


def test_the_second_of_each_pair() -> None:
    edit = PlainReply(ReplyValues.PAIRS, FIELD)
    assert edit(frame([F1, F1, b"b", b"x"])) == frame([F1, PLAIN, b"b", b"x"])
    assert edit(frame([F1, F2], b"%")) == frame([F1, LZ4], b"%")
    assert edit(frame([[F1, F2], [b"b", F1]])) == frame([[F1, LZ4], [b"b", PLAIN]])


def test_a_page() -> None:
    edit = PlainReply(ReplyValues.PAGE, FIELD)
    assert edit(frame([b"0", [F1, F1, b"b", b"x"]])) == frame([b"0", [F1, PLAIN, b"b", b"x"]])
    assert edit(frame([b"17", []])) == frame([b"17", []])


def test_a_bomb_is_an_error() -> None:
    bomb = pack(bytes(MOST_IN_REPLY), STRING, Codec.ZSTD, 1, 64)
    assert PlainReply(ReplyValues.ONE, STRING)(frame(bomb)) == TOO_LARGE
    assert PlainReply(ReplyValues.ALL, STRING)(frame([S1, bomb])) == TOO_LARGE
    assert OfPlain(STRING, frame)(frame(bomb)) == TOO_LARGE
    most = pack(bytes(1 << 20), STRING, Codec.ZSTD, 1, 64)
    assert PlainReply(ReplyValues.ALL, STRING)(frame([most] * 65)) == TOO_LARGE
    assert len(PlainReply(ReplyValues.ALL, STRING)(frame([most] * 63))) > 63 << 20
    assert PlainReply(ReplyValues.ALL, STRING, takes=True)(frame([most] * 65)) == frame([most] * 65)


def test_all_replies_of_a_worker_have_one_budget() -> None:
    most = frame([pack(bytes(1 << 20), STRING, Codec.ZSTD, 3, 64)] * 32)
    times = [0.0]
    budget = PlainBudget(lambda: times[-1])
    edit = PlainReply(ReplyValues.ALL, STRING, (True,), budget)
    told = [edit(most) for _ in range(12)]
    assert [len(each) > 32 << 20 for each in told] == [True] * 8 + [False] * 4
    assert told[-1] == TOO_MUCH
    assert PlainReply(ReplyValues.ALL, STRING, (True,), budget, takes=True)(most) == most
    assert OfPlain(STRING, lambda _: b":1\r\n", budget)(frame(S1)) == TOO_MUCH
    assert edit(frame([b"plain"])) == frame([b"plain"])
    times.append(1000.0)
    assert len(edit(most)) > 32 << 20
    left = budget.left
    times.append(999.0)  # the clock was set back
    assert budget.left == left
    times.append(999.1)
    assert budget.left == MOST_AT_ONCE


def test_what_only_looks_compressed_counts() -> None:
    budget = PlainBudget()
    junk = frame([MAGIC + b"\x00\x01xyz"] * 100)
    assert PlainReply(ReplyValues.ALL, STRING, (True,), budget)(junk) == junk
    assert budget.left <= MOST_AT_ONCE - (100 << 14)


def test_a_long_plain_value_need_not_be_collected() -> None:
    edit = PlainReply(ReplyValues.ONE, STRING)
    assert edit.passes(b"$9\r\nabc") == 1
    assert edit.passes(b"$9\r\n" + MAGIC) == 0
    assert edit.passes(b"$9\r\n" + MAGIC[:2]) == -1
    assert edit.passes(b"$2\r\n") == 1
    assert edit.passes(b"$-1\r\n") == 1
    for wrong in (b"$\r\nabc", b"$?\r\nabc", b"$5\nabc", b"$" + b"9" * 5000 + b"\r\nabc"):
        assert edit.passes(wrong) == 1
    assert edit.passes(b"_\r\n") == 0
    assert PlainReply(ReplyValues.ALL, STRING).passes(b"*1\r\n$9") == 0


def test_an_answer_is_made_from_the_plain_value() -> None:
    edit = OfPlain(STRING, lambda value: frame(None if value is None else len(value)))
    assert edit(frame(S1)) == frame(len(PLAIN))
    assert edit(frame(b"x")) == frame(1)
    assert edit(b"_\r\n") == edit(b"$-1\r\n") == frame(None)
    assert edit(b"-WRONGTYPE x\r\n") == b"-WRONGTYPE x\r\n"
    assert edit(b"+QUEUED\r\n") == b"+QUEUED\r\n"


def test_values_with_a_dictionary() -> None:
    one, other = json_dictionary(), json_dictionary(2)
    known = {one.name: one, other.name: other}
    value = json_of(Random(1), 600)
    first, second = (pack(value, STRING, Codec.ZSTD, 3, 64, each) for each in (one, other))
    assert first != second
    edit = PlainReply(ReplyValues.ALL, STRING, dictionaries=known)
    assert edit(frame([first, second, S1])) == frame([value, value, PLAIN])
    field = pack(value, FIELD, Codec.ZSTD, 3, 64, one)
    edit = PlainReply(ReplyValues.PAIRS, FIELD, dictionaries=known)
    assert edit(frame([b"f", field, b"g", first])) == frame([b"f", value, b"g", first])
    answer = OfPlain(STRING, lambda plain: b":%d\r\n" % len(plain or b""), dictionaries=known)
    assert answer(frame(first)) == b":%d\r\n" % len(value)


def test_without_its_dictionary_a_value_is_an_error_unless_it_is_taken_out() -> None:
    stored = frame(pack(json_of(Random(1), 600), STRING, Codec.ZSTD, 3, 64, json_dictionary()))
    name, known = json_dictionary().name.hex(), {json_dictionary(2).name: json_dictionary(2)}
    expected = b"-ERR keyrail: a value in this reply is compressed with the dictionary " + name.encode()
    assert PlainReply(ReplyValues.ONE, STRING, dictionaries=known)(stored).startswith(expected)
    assert PlainReply(ReplyValues.ALL, STRING)(b"*2\r\n" + frame(b"x") + stored).startswith(expected)
    assert OfPlain(STRING, lambda _: b"", dictionaries=known)(stored).startswith(expected)
    assert PlainReply(ReplyValues.ONE, STRING, dictionaries=known, takes=True)(stored) == stored
