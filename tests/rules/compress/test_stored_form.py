"""Stored values get another form, and whoever reads them through Keyrail gets what he has got before."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.compression.frames import (
    FIELD,
    HEAD,
    MAGIC,
    MOST_PLAIN,
    STRING,
    Codec,
    Head,
    TooLargeError,
    pack,
    read_head,
    unpack,
)
from proxy.rules.compress.stored_form import LARGEST, AsRule, Left, Plain, StoredForm
from proxy.rules.compress.terms import Terms

VERSIONS = [STRING, FIELD]
NOISE = random.Random(1).randbytes(2000)
PLAIN = st.one_of(
    st.binary(max_size=300),
    st.sampled_from([b"text " * 100, b"1" * 200, b"1.5e300", b"", NOISE, b"x" * 64, b"x" * 65]),
    st.builds(lambda rest: MAGIC + rest, st.binary(max_size=300)),
)
PACKED = st.builds(pack, PLAIN, st.sampled_from(VERSIONS), st.sampled_from(Codec), st.just(3), st.sampled_from([0, 64]))
TWICE = st.builds(pack, PACKED, st.sampled_from(VERSIONS), st.sampled_from(Codec), st.just(3), st.just(0))
CUT = st.builds(lambda value, part: value[: int(len(value) * part)], PACKED, st.floats(0, 1))
BENT = st.builds(
    lambda value, at, byte: value[: at % (len(value) + 1)] + bytes([byte]) + value[at % (len(value) + 1) + 1 :],
    PACKED,
    st.integers(0, 400),
    st.integers(0, 255),
)
TWO_FRAMES = st.builds(
    lambda one, other: MAGIC + b"\x00\x01" + one[5:] + other[5:],
    st.builds(pack, PLAIN, st.just(0), st.just(Codec.ZSTD), st.just(3), st.just(0)).filter(
        lambda value: value.startswith(MAGIC)
    ),
    st.builds(lambda text: pack(MAGIC + text, 0, Codec.ZSTD, 3, 0), st.binary(max_size=50)),
)
STORED = st.one_of(PLAIN, PACKED, TWICE, CUT, BENT, TWO_FRAMES)
RULES = st.builds(
    lambda codec, above: AsRule(Terms(("*",), above, codec)),
    st.sampled_from(Codec),
    st.sampled_from([64, 200, 512 << 20]),
)


def read(stored: bytes, version: int) -> bytes | None:
    """What a client reads through Keyrail; None for an error."""
    try:
        return unpack(stored, version)
    except TooLargeError:
        return None


def rewritten(form: StoredForm, stored: bytes, version: int) -> bytes:
    """What is stored at last."""
    if form.wants(stored[:HEAD], len(stored), version) is not True or len(stored) > form.most:
        return stored
    made = form.made(stored, version)
    return stored if isinstance(made, Left) else made


@given(STORED, st.sampled_from(VERSIONS), RULES)
@example(MAGIC, STRING, AsRule(Terms(("*",))))
@example(pack(bytes(30 << 20), STRING, Codec.ZSTD, 1, 0), STRING, AsRule(Terms(("*",), 512 << 20)))
def test_clients_of_keyrail_read_what_they_read_before(stored: bytes, version: int, rule: AsRule) -> None:
    before = read(stored, version)
    there = rewritten(rule, stored, version)
    assert read(there, version) == before
    assert rewritten(rule, there, version) == there, "once is enough"
    back = rewritten(Plain(), there, version)
    assert read(back, version) == before
    assert rewritten(Plain(), back, version) == back
    assert rewritten(rule, back, version) == rewritten(rule, rewritten(Plain(), stored, version), version)


@given(STORED, st.sampled_from(VERSIONS))
def test_direct_clients_read_behind_back_what_clients_of_keyrail_have_read(stored: bytes, version: int) -> None:
    """But what would be read as a compressed value is left and told."""
    back = rewritten(Plain(), stored, version)
    before = read(stored, version)
    assert back == before or (back == stored and isinstance(Plain().made(stored, version), Left))
    if isinstance(Plain().made(stored, version), Left):
        assert before is None or read(before, version) != before


@given(PLAIN, st.sampled_from(VERSIONS), RULES)
def test_a_rule_makes_of_a_value_what_it_would_make_of_a_written_one(plain: bytes, version: int, rule: AsRule) -> None:
    terms = rule.terms
    expected = plain if plain.isdigit() else pack(plain, version, terms.codec, terms.level, terms.above)
    assert rewritten(rule, expected, version) == expected
    if read(plain, version) == plain:
        assert rewritten(rule, plain, version) == expected
    for codec in Codec:
        other = pack(plain, version, codec, 3, 0)
        if codec is not terms.codec and read(other, version) == plain:
            assert rewritten(rule, other, version) == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_large_values_stay(version: int) -> None:
    rule, text = AsRule(Terms(("*",))), b"text " * (LARGEST // 5 + 1)
    assert rule.wants(text[:HEAD], len(text), version) is rule.made(text, version) is Left.LARGE
    largest = text[:LARGEST]
    assert rule.wants(largest[:HEAD], LARGEST, version)
    assert read(rewritten(rule, largest, version), version) == largest != rewritten(rule, largest, version)
    compressed = pack(text, version, Codec.LZ4, 3, 0)
    assert rewritten(rule, compressed, version) == compressed
    assert rewritten(Plain(), compressed, version) == text
    bomb = pack(bytes(MOST_PLAIN + 1), version, Codec.ZSTD, 1, 0)
    assert Plain().made(bomb, version) is Left.UNREADABLE
    assert Plain().wants(bomb[:HEAD], MOST_PLAIN + 1, version) is Left.UNREADABLE


@given(PLAIN.filter(lambda value: len(value) > 5), st.sampled_from(VERSIONS), st.sampled_from(Codec))
def test_the_first_bytes_tell_the_plain_size(plain: bytes, version: int, codec: Codec) -> None:
    stored = pack(MAGIC + plain, version, codec, 3, 0)
    assert read_head(stored[:HEAD], version) == Head(codec, len(plain) + 3)
    assert read_head(stored[:HEAD], 1 - version) is None


@given(st.binary(max_size=40).map(lambda rest: MAGIC + rest))
def test_bytes_that_are_no_head(stored: bytes) -> None:
    for version in VERSIONS:
        if read_head(stored, version) is None:
            assert not (stored[3:5] in (b"\x00\x02", b"\x01\x02") and len(stored) > 9 and stored[3] == version)
