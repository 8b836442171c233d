"""The stored form of a value: what is packed is unpacked, what nobody has packed stays, and a bomb is not unpacked."""

import pickle
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.compression.dictionaries import (
    LARGEST,
    Dictionary,
    DictionaryError,
    UnknownDictionaryError,
    checked,
    trained,
)
from proxy.compression.frames import (
    FIELD,
    FREE,
    HEADER,
    MAGIC,
    MOST_FRAMES,
    MOST_PLAIN,
    STRING,
    WITH_DICTIONARY,
    Codec,
    TooLargeError,
    missing,
    pack,
    unpack,
)
from tests.compression.dictionaries import json_dictionary
from tests.compression.histories import json_of

lz4 = pytest.importorskip("lz4.block")
zstd = pytest.importorskip("compression.zstd" if __import__("sys").version_info >= (3, 14) else "backports.zstd")
TEXT = b'{"name": "Ada Lovelace", "tags": ["new", "sale"]}' * 100
BYTES = st.one_of(st.binary(max_size=200), st.binary(max_size=20).map(lambda tail: MAGIC + tail))


@given(BYTES.flatmap(lambda part: st.integers(1, 60).map(lambda times: part * times)), st.sampled_from(Codec))
def test_what_is_packed_is_unpacked(value: bytes, codec: Codec) -> None:
    for version in (STRING, FIELD):
        stored = pack(value, version, codec, 3, 64)
        assert unpack(stored, version) == value
        assert len(stored) <= len(value) or value.startswith(MAGIC)


@pytest.mark.parametrize("version", [STRING, FIELD])
@pytest.mark.parametrize("codec", Codec)
def test_the_form(codec: Codec, version: int) -> None:
    stored = pack(TEXT, version, codec, 3, 64)
    assert stored[:HEADER] == bytes((0, 1, 2, version, codec))
    body = stored[HEADER:]
    if codec is Codec.ZSTD:
        assert zstd.decompress(body) == TEXT
    else:
        assert body[:4] == len(TEXT).to_bytes(4, "little")
        assert lz4.decompress(body[4:], uncompressed_size=len(TEXT)) == TEXT


@pytest.mark.parametrize("codec", Codec)
def test_a_value_that_is_small_or_does_not_pay_stays(codec: Codec) -> None:
    noise = random.Random(1).randbytes(5000)
    assert pack(TEXT, STRING, codec, 3, len(TEXT)) is TEXT
    assert pack(TEXT, STRING, codec, 3, len(TEXT) - 1) is not TEXT
    assert pack(noise, STRING, codec, 3, 64) is noise
    assert unpack(noise, STRING) is noise


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("tail", [b"", b"\x00", b"\x00\x01", b"\x00\x01xyz", b"\x00\x02\x05\x00\x00\x00x"])
def test_a_value_that_begins_as_a_header_is_wrapped(codec: Codec, tail: bytes) -> None:
    stored = pack(MAGIC + tail, STRING, codec, 3, 4096)
    assert stored != MAGIC + tail
    assert unpack(stored, STRING) == MAGIC + tail
    twice = pack(stored, STRING, codec, 3, 4096)
    assert unpack(twice, STRING) == stored


@pytest.mark.parametrize(
    "value",
    [
        MAGIC,
        MAGIC + b"\x00\x01",
        MAGIC + b"\x00\x00abc",
        MAGIC + b"\x00\x03abc",
        MAGIC + b"\x00\x01xyz",
        MAGIC + b"\x00\x02xyz",
        MAGIC + b"\x00\x02\xff\xff\xff\xffxyz",
        MAGIC + b"\x00\x02\x05\x00\x00\x00xyz",
        MAGIC + b"\x00\x01" + zstd.compress(TEXT)[:-1],
        MAGIC + b"\x00\x01" + zstd.compress(TEXT) + b"more",
        MAGIC + b"\x01\x01" + zstd.compress(TEXT),
        MAGIC + b"\x02\x01" + zstd.compress(TEXT),
    ],
)
def test_what_is_no_frame_is_a_plain_value(value: bytes) -> None:
    assert unpack(value, STRING) is value


def test_frames_of_others() -> None:
    """GLIDE writes the size into a frame; streams do not, and may consist of several frames."""
    streaming = zstd.ZstdCompressor()
    unsized = streaming.compress(TEXT) + streaming.flush()
    assert zstd.get_frame_info(unsized).decompressed_size is None
    assert unpack(MAGIC + b"\x00\x01" + unsized, STRING) == TEXT
    assert unpack(MAGIC + b"\x00\x01" + zstd.compress(TEXT) + unsized, STRING) == TEXT * 2


@pytest.mark.parametrize(
    "bomb",
    [
        MAGIC + b"\x00\x01" + zstd.compress(bytes(MOST_PLAIN + 1)),
        MAGIC + b"\x00\x02" + lz4.compress(bytes(MOST_PLAIN + 1)),
        MAGIC + b"\x00\x01" + zstd.compress(bytes(FREE)) + zstd.compress(bytes(FREE)),
    ],
    ids=["zstd", "lz4", "ratio"],
)
def test_a_bomb_is_not_unpacked(bomb: bytes) -> None:
    with pytest.raises(TooLargeError):
        unpack(bomb, STRING)


@pytest.mark.parametrize("frame", [b"\x50\x2a\x4d\x18" + bytes(4), zstd.compress(b"")], ids=["skippable", "empty"])
def test_frames_without_bytes_cost_little(frame: bytes) -> None:
    value = MAGIC + b"\x00\x01" + frame * (MOST_FRAMES - 1) + zstd.compress(TEXT)
    assert unpack(value, STRING) == TEXT
    more = MAGIC + b"\x00\x01" + frame * MOST_FRAMES + zstd.compress(TEXT)
    assert unpack(more, STRING) is more


JSON = json_of(random.Random(9), 500)


@given(BYTES.flatmap(lambda part: st.integers(1, 60).map(lambda times: part * times)), st.sampled_from((STRING, FIELD)))
def test_what_is_packed_with_a_dictionary_is_unpacked_with_it(value: bytes, version: int) -> None:
    one, other = json_dictionary(), json_dictionary(2)
    stored = pack(value, version, Codec.ZSTD, 3, 64, one)
    assert unpack(stored, version, {each.name: each for each in (one, other)}) == value
    assert unpack(stored, STRING + FIELD - version, {one.name: one}) is stored
    if stored is not value:
        with pytest.raises(UnknownDictionaryError, match=one.name.hex()):
            unpack(stored, version, {other.name: other})


@pytest.mark.parametrize("version", [STRING, FIELD])
def test_the_form_with_a_dictionary(version: int) -> None:
    """The frame behind the header is one that the zstd program reads with the file of the dictionary."""
    dictionary = json_dictionary()
    stored = pack(JSON, version, Codec.ZSTD, 3, 64, dictionary)
    assert stored[:13] == bytes((0, 1, 2, version + WITH_DICTIONARY, 1)) + dictionary.name
    assert zstd.get_frame_info(stored[13:]).dictionary_id == 0
    assert zstd.decompress(stored[13:], zstd.ZstdDict(dictionary.content)) == JSON


@pytest.mark.parametrize("change", [lambda s: s[:-1], lambda s: s + b"x", lambda s: s[:4] + b"" + s[5:]])
def test_what_is_no_frame_of_a_dictionary_is_a_plain_value(change: Callable[[bytes], bytes]) -> None:
    dictionary = json_dictionary()
    value = change(pack(JSON, STRING, Codec.ZSTD, 3, 64, dictionary))
    assert unpack(value, STRING, {dictionary.name: dictionary}) is value


def test_what_only_looks_like_a_frame_of_an_unknown_dictionary_is_a_plain_value() -> None:
    for value in (MAGIC + b"" + b"text" * 10, MAGIC + b"", MAGIC + b"" + bytes(12)):
        assert unpack(value, STRING) is value


def test_a_bomb_with_a_dictionary_is_not_unpacked() -> None:
    dictionary = json_dictionary()
    bomb = pack(bytes(MOST_PLAIN + 1), STRING, Codec.ZSTD, 3, 64, dictionary)
    with pytest.raises(TooLargeError):
        unpack(bomb, STRING, {dictionary.name: dictionary})


def test_each_level_has_its_own_form_of_the_dictionary() -> None:
    dictionary = json_dictionary()
    sizes = {len(pack(json_of(random.Random(3), 8000), STRING, Codec.ZSTD, level, 64, dictionary)) for level in (1, 9)}
    assert len(sizes) == 2


@pytest.mark.parametrize("dictionary", [None, json_dictionary(1)])
def test_each_frame_is_as_if_it_were_the_first(dictionary: Dictionary | None) -> None:
    r = random.Random(1)
    values = [json_of(r, size) for size in (2000, 60_000, 3000, 1 << 20, 5000)] * 4

    def frame(value: bytes) -> bytes:
        options = {zstd.CompressionParameter.compression_level: 3, zstd.CompressionParameter.dict_id_flag: 0}
        loaded = None if dictionary is None else dictionary.loaded.as_digested_dict
        return bytes(zstd.compress(value, options=options, zstd_dict=loaded))

    with ThreadPoolExecutor(4) as threads:
        packed = list(threads.map(lambda value: pack(value, STRING, Codec.ZSTD, 3, 64, dictionary), values))
    for value, stored in zip(values, packed, strict=True):
        made = stored[stored.index(b"\x28\xb5\x2f\xfd") :]
        assert made == frame(value)
        assert zstd.get_frame_info(made).decompressed_size == len(value)


def test_a_dictionary_is_its_bytes() -> None:
    one, other = json_dictionary(), json_dictionary(2)
    again = pickle.loads(pickle.dumps(one))
    assert (again, again.name, hash(again)) == (one, one.name, hash(one))
    assert one != other
    assert one.name != other.name
    assert repr(one) == f"Dictionary({one.name.hex()})"
    assert len(one.content) <= LARGEST


@pytest.mark.parametrize("content", [b"", b"text " * 100, b"\x37\xa4\x30\xec" + b"text " * 100])
def test_what_is_no_dictionary(content: bytes) -> None:
    with pytest.raises(DictionaryError):
        checked(content)


@pytest.mark.parametrize("values", [[], [b""], [b"x"], [JSON]])
def test_values_of_which_no_dictionary_can_be_made(values: list[bytes]) -> None:
    with pytest.raises(DictionaryError):
        trained(values)


def test_small_json_gets_much_smaller_with_a_dictionary() -> None:
    r = random.Random(7)
    dictionary = trained([json_of(r, r.randrange(400, 8 << 10)) for _ in range(1000)])
    values = [json_of(r, r.randrange(400, 8 << 10)) for _ in range(300)]

    def saved(some: list[bytes], with_it: Dictionary | None) -> float:
        stored = sum(len(pack(value, STRING, Codec.ZSTD, 3, 256, with_it)) for value in some)
        return 1 - stored / sum(map(len, some))

    small = [value for value in values if len(value) < 1000]
    assert saved(values, None) < 0.82
    assert saved(values, dictionary) > 0.84
    assert saved(small, None) < 0.65
    assert saved(small, dictionary) > 0.78


@pytest.mark.parametrize(("codec", "least"), [(Codec.ZSTD, 0.6), (Codec.LZ4, 0.4)])
def test_json_gets_much_smaller(codec: Codec, least: float) -> None:
    r = random.Random(7)
    values = [json_of(r, r.randrange(4 << 10, 64 << 10)) for _ in range(100)]
    plain, stored = sum(map(len, values)), sum(len(pack(value, STRING, codec, 3, 4096)) for value in values)
    assert 1 - stored / plain >= least


def test_what_has_to_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing() == ""

    def absent() -> None:
        raise ModuleNotFoundError(name="lz4")

    monkeypatch.setattr("proxy.compression.frames._lz4", absent)
    assert missing() == "lz4"
