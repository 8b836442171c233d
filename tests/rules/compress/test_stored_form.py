"""Stored values get another form, and whoever reads them through Keyrail gets what he has got before."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.compression.dictionaries import Dictionary, UnknownDictionaryError
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
from proxy.rules.compress.rule import is_number
from proxy.rules.compress.stored_form import (
    LARGE,
    LARGEST,
    LOOKS_COMPRESSED,
    UNREADABLE,
    AsRule,
    Left,
    Plain,
    StoredForm,
)
from proxy.rules.compress.terms import Terms
from tests.compression.dictionaries import json_dictionary
from tests.compression.histories import json_of

VERSIONS = [STRING, FIELD]
NOISE = random.Random(1).randbytes(2000)
FIRST, SECOND, LOST = map(json_dictionary, (1, 2, 3))
JSON = json_of(random.Random(9), 500)
DICTIONARIES: list[Dictionary | None] = [None, FIRST, SECOND, LOST]
PLAIN = st.one_of(
    st.binary(max_size=300),
    st.sampled_from([JSON, b"text " * 100, b"1" * 200, b"1.5e300", b"", NOISE, b"x" * 64, b"x" * 65]),
    st.builds(lambda rest: MAGIC + rest, st.binary(max_size=300)),
)


def packed(plain: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Values of any form."""
    above, dictionary = st.sampled_from([0, 64]), st.sampled_from(DICTIONARIES)
    return st.builds(pack, plain, st.sampled_from(VERSIONS), st.sampled_from(Codec), st.just(3), above, dictionary)


PACKED = packed(PLAIN)
TWICE = packed(PACKED)
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
    lambda codec, above, written, also_read: AsRule(
        Terms(("*",), above, codec, dictionary=written if codec is Codec.ZSTD else None, also_read=also_read)
    ),
    st.sampled_from(Codec),
    st.sampled_from([64, 200, 512 << 20]),
    st.sampled_from([None, FIRST, SECOND]),
    st.sampled_from([(), (FIRST,), (FIRST, SECOND)]),
)


def read(stored: bytes, version: int, terms: Terms) -> bytes | str:
    """What a client reads through Keyrail; a text for an error."""
    try:
        return unpack(stored, version, terms.dictionaries)
    except TooLargeError:
        return "too large"
    except UnknownDictionaryError as unknown:
        return str(unknown)


def rewritten(form: StoredForm, stored: bytes, version: int) -> bytes:
    """What is stored at last."""
    if form.wants(stored[:HEAD], len(stored), version) is not True or len(stored) > form.most:
        return stored
    made = form.made(stored, version)
    return stored if isinstance(made, Left) else made


@given(STORED, st.sampled_from(VERSIONS), RULES)
@example(MAGIC, STRING, AsRule(Terms(("*",))))
@example(pack(bytes(30 << 20), STRING, Codec.ZSTD, 1, 0), STRING, AsRule(Terms(("*",), 512 << 20)))
@example(pack(JSON, STRING, Codec.ZSTD, 3, 0, SECOND)[:14], STRING, AsRule(Terms(("*",), 64, dictionary=FIRST)))
def test_clients_of_keyrail_read_what_they_read_before(stored: bytes, version: int, rule: AsRule) -> None:
    terms, plain = rule.terms, Plain(rule.terms)
    before = read(stored, version, terms)
    there = rewritten(rule, stored, version)
    assert read(there, version, terms) == before
    assert rewritten(rule, there, version) == there, "once is enough"
    back = rewritten(plain, there, version)
    assert read(back, version, terms) == before
    assert rewritten(plain, back, version) == back
    assert rewritten(rule, back, version) == rewritten(rule, rewritten(plain, stored, version), version)


@given(STORED, st.sampled_from(VERSIONS), RULES)
def test_direct_clients_read_behind_back_what_clients_of_keyrail_have_read(
    stored: bytes, version: int, rule: AsRule
) -> None:
    """But what would be read as a compressed value is left and told."""
    plain, terms = Plain(rule.terms), rule.terms
    back = rewritten(plain, stored, version)
    before = read(stored, version, terms)
    left = isinstance(plain.made(stored, version), Left)
    assert back == before or (back == stored and left)
    if left:
        assert isinstance(before, str) or read(before, version, terms) != before


@given(STORED, st.sampled_from(VERSIONS), RULES)
def test_a_rule_leaves_dictionaries_behind(stored: bytes, version: int, rule: AsRule) -> None:
    """What it does not rewrite is told, so that nobody reads an error when the files are gone."""
    terms = rule.terms
    there, made = rewritten(rule, stored, version), rule.made(stored, version)
    before = read(stored, version, terms)
    if isinstance(before, str):
        assert isinstance(made, Left) == (before != "too large")
        assert there == stored
    else:
        assert read(there, version, replace(terms, also_read=())) == before


@given(PLAIN, st.sampled_from(VERSIONS), RULES)
def test_a_rule_makes_of_a_value_what_it_would_make_of_a_written_one(plain: bytes, version: int, rule: AsRule) -> None:
    terms = rule.terms
    usual = pack(plain, version, terms.codec, terms.level, terms.above, terms.dictionary)
    expected = plain if is_number(plain) else usual
    assert rewritten(rule, expected, version) == expected
    if read(plain, version, terms) == plain:
        assert rewritten(rule, plain, version) == expected
    forms = [*((codec, None) for codec in Codec), *((Codec.ZSTD, each) for each in terms.dictionaries.values())]
    for codec, dictionary in forms:
        other = pack(plain, version, codec, 3, 0, dictionary)
        if (codec, dictionary) != (terms.codec, terms.dictionary) and read(other, version, terms) == plain:
            assert rewritten(rule, other, version) == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_large_values_stay(version: int) -> None:
    rule, text = AsRule(Terms(("*",))), b"text " * (LARGEST // 5 + 1)
    assert rule.wants(text[:HEAD], len(text), version) is rule.made(text, version) is LARGE
    largest = text[:LARGEST]
    assert rule.wants(largest[:HEAD], LARGEST, version)
    made = rewritten(rule, largest, version)
    assert read(made, version, rule.terms) == largest != made
    compressed = pack(text, version, Codec.LZ4, 3, 0)
    assert rewritten(rule, compressed, version) == compressed
    plain = Plain(rule.terms)
    assert rewritten(plain, compressed, version) == text
    bomb = pack(bytes(MOST_PLAIN + 1), version, Codec.ZSTD, 1, 0)
    assert plain.made(bomb, version) is UNREADABLE
    assert plain.wants(bomb[:HEAD], MOST_PLAIN + 1, version) is UNREADABLE


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [LARGEST + 1, MOST_PLAIN + 1])
def test_large_values_that_keep_a_dictionary_are_told(version: int, size: int) -> None:
    stored = pack(bytes(size), version, Codec.ZSTD, 1, 0, FIRST)
    larger = pack(random.Random(1).randbytes(LARGEST) + bytes(size), version, Codec.ZSTD, 1, 0, FIRST)
    left = Left(f"values of more than 1 MB compressed with the dictionary {FIRST.name.hex()}")
    for written, expected in ((SECOND, left), (None, left), (FIRST, None)):
        rule = AsRule(Terms(("*",), dictionary=written, also_read=(FIRST,)))
        assert rule.made(stored, version) == (expected or stored)
        assert rule.wants(larger[:HEAD], len(larger), version) == (expected or False)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_missing_dictionary_is_named(version: int) -> None:
    stored = pack(JSON, version, Codec.ZSTD, 3, 0, LOST)
    terms = Terms(("*",), dictionary=FIRST, also_read=(SECOND,))
    left = Left(f"values compressed with the dictionary {LOST.name.hex()}, which the rule does not name")
    for form in (AsRule(terms), Plain(terms)):
        assert form.wants(stored[:HEAD], len(stored), version) is True
        assert form.made(stored, version) == left
    inner = pack(JSON, version, Codec.ZSTD, 3, 0, LOST)
    twice = pack(inner, version, Codec.ZSTD, 3, 0, FIRST)
    assert Plain(terms).made(twice, version) is LOOKS_COMPRESSED


@given(
    PLAIN.filter(lambda value: len(value) > 5),
    st.sampled_from(VERSIONS),
    st.sampled_from(Codec),
    st.sampled_from(DICTIONARIES),
)
def test_the_first_bytes_tell_the_plain_size(
    plain: bytes, version: int, codec: Codec, dictionary: Dictionary | None
) -> None:
    stored = pack(MAGIC + plain, version, codec, 3, 0, dictionary)
    told = Head(codec, len(plain) + 3) if dictionary is None else Head(Codec.ZSTD, len(plain) + 3, dictionary.name)
    assert read_head(stored[:HEAD], len(stored), version) == told
    assert read_head(stored[:HEAD], len(stored), 1 - version) is None


@given(st.binary(max_size=40).map(lambda rest: MAGIC + rest))
def test_bytes_that_are_no_head(stored: bytes) -> None:
    for version in VERSIONS:
        found = read_head(stored, len(stored), version)
        if found is not None and found.codec is Codec.LZ4:
            assert (found.plain or 0) <= 255 * (len(stored) - 9), "no lz4 block makes more"
        elif found is not None:
            assert found.plain is None or found.plain <= MOST_PLAIN


@pytest.mark.parametrize("version", VERSIONS)
def test_a_size_that_nobody_can_make_is_not_told(version: int) -> None:
    rule = AsRule(Terms(("*",), 64))
    begins = MAGIC + bytes((version,))
    bogus = begins + b"\x02\xff\xff\xff\x7f" + b"no block of lz4"
    assert read_head(bogus[:HEAD], len(bogus), version) is None
    assert rule.wants(bogus[:HEAD], len(bogus), version)
    assert read(rewritten(rule, bogus, version), version, rule.terms) == bogus
    large = begins + b"\x01\x28\xb5\x2f\xfd\xe0" + b"\xff" * 7 + b"\0no frame of zstd"
    assert read_head(large[:HEAD], len(large), version) == Head(Codec.ZSTD, None)
    assert read(rewritten(rule, large, version), version, rule.terms) == large
