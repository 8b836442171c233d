"""A compressed value: a header of five bytes, and what the codec has made.

    00 01 02   MAGIC
    00         version: a string, in the form that valkey-GLIDE writes and reads
    01         codec: 01 zstd, a frame; 02 lz4, the plain size in four bytes, little-endian, and a block

Version ``01`` is a field of a hash; it is Keyrail's own, since GLIDE compresses no fields and shows such a value as it
is. Version ``00`` in a hash, and ``01`` in a string, is somebody's own value.

Versions ``02``, a string, and ``03``, a field, are Keyrail's own, too: between header and frame they have the name of a
zstd dictionary, eight bytes. Without that dictionary nobody can tell the plain value, and it is an error to read it.

A plain value that begins with MAGIC is always stored compressed, so that nobody takes it for a header. What begins with
a header and cannot be decompressed is a plain value that somebody has written to Redis directly, as for GLIDE.

A small value can decompress to a very large one. Not more than ``MOST_PLAIN`` bytes are made of one value, and beyond
``FREE`` not more than ``RATIO`` times its size. (lz4 cannot make more than 255 times its size.) Each zstd frame costs
something even if it is empty, so a value has at most ``MOST_FRAMES``; GLIDE and Keyrail write one.
"""

from collections.abc import Callable
from enum import IntEnum
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

from proxy.compression.dictionaries import (
    NAME_BYTES,
    NO_DICTIONARIES,
    Dictionaries,
    Dictionary,
    UnknownDictionaryError,
    zstd,
)

MAGIC = b"\x00\x01\x02"
STRING = 0
"""The version of strings."""
FIELD = 1
"""The version of fields of hashes."""
WITH_DICTIONARY = 2
"""What a dictionary adds to the version."""
HEADER = 5
"""The size of a header in bytes."""
HEAD = HEADER + NAME_BYTES + 18
"""So many bytes of a value tell its plain size: no header of a zstd frame is longer."""
MOST_PLAIN = 16 << 20
"""The most bytes that are made of one value."""
FREE = 1 << 20
"""Up to so many bytes a value may have any ratio."""
RATIO = 1000
MOST_FRAMES = 16
"""The most zstd frames of one value; what has more is a plain value."""
_LZ4_RATIO = 255
_LZ4_SIZE = 4
_NAMED_HEADER = HEADER + NAME_BYTES
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_PAYS = 0.9
"""A value is stored compressed if that has at most this share of its size."""
EXTRA = "keyrail[compress]"


class Codec(IntEnum):
    """The codec in a header."""

    ZSTD = 1
    LZ4 = 2


class TooLargeError(Exception):
    """The plain value would have more bytes than Keyrail decompresses."""


class _Undecodable(Exception):
    """No codec has made these bytes."""


def missing() -> str:
    """What has to be installed before values can be compressed; empty if nothing is missing."""
    try:
        zstd()
        _lz4()
    except ImportError as error:
        return error.name or "a codec"
    return ""


def pack(
    value: bytes, version: int, codec: Codec, level: int, above: int, dictionary: Dictionary | None = None
) -> bytes:
    """The form in which a value is stored: as it is, if it is not larger than `above` bytes or compressing it saves
    less than a tenth. A value that begins with MAGIC is compressed all the same. A `dictionary` is for zstd."""
    wraps = value.startswith(MAGIC)
    if len(value) <= above and not wraps:
        return value
    if dictionary is None:
        made = b"%b%c%c%b" % (MAGIC, version, codec, _COMPRESS[codec](value, level))
    else:
        frame = dictionary.compress(value, level)
        made = b"%b%c%c%b%b" % (MAGIC, version + WITH_DICTIONARY, Codec.ZSTD, dictionary.name, frame)
    return made if wraps or len(made) <= len(value) * _PAYS else value


def unpack(stored: bytes, version: int, dictionaries: Dictionaries = NO_DICTIONARIES) -> bytes:
    """The plain value. Raises TooLargeError, and UnknownDictionaryError if its dictionary is none of these."""
    if not stored.startswith(MAGIC) or len(stored) <= HEADER:
        return stored
    if stored[3] == version + WITH_DICTIONARY:
        return _unpack_with_dictionary(stored, dictionaries)
    if stored[3] != version:
        return stored
    decompress = _DECOMPRESS.get(stored[4])
    if decompress is None:
        return stored
    try:
        return decompress(stored[HEADER:])
    except _Undecodable:
        return stored


class Head(NamedTuple):
    """How a compressed value begins: its codec, and the size of the plain value in bytes. None: the frame does not tell
    it, as none does whose writer has not known it at the beginning, or tells more than Keyrail decompresses.
    `dictionary` is the name of the one that it needs, if any."""

    codec: Codec
    plain: int | None
    dictionary: bytes = b""


def read_head(head: bytes, size: int, version: int) -> Head | None:
    """What the first HEAD bytes of a value of `size` bytes say; None if it is plain, as far as they tell. What comes
    behind them may be no frame, or further ones."""
    if not has_header(head, version) or len(head) <= HEADER:
        return None
    codec, dictionary = Codec(head[4]), dictionary_of(head, version)
    made = head[HEADER + len(dictionary) :]
    plain: int | None
    if codec is Codec.LZ4:
        plain = int.from_bytes(made[:_LZ4_SIZE], "little")
        block = size - HEADER - _LZ4_SIZE
        if block <= 0 or plain > block * _LZ4_RATIO:
            return None
    else:
        try:
            plain = zstd().get_frame_info(made).decompressed_size
        except zstd().ZstdError:
            return None
    return Head(codec, None if plain is None or plain > MOST_PLAIN else plain, dictionary)


def has_header(stored: bytes, version: int) -> bool:
    """Whether a value begins as a compressed one. It may be a plain value all the same."""
    if not stored.startswith(MAGIC) or len(stored) < HEADER:
        return False
    if stored[3] == version + WITH_DICTIONARY:
        return stored[4] == Codec.ZSTD
    return stored[3] == version and stored[4] in tuple(Codec)


def dictionary_of(stored: bytes, version: int) -> bytes:
    """The name of the dictionary that a compressed value needs; empty if it needs none."""
    return stored[HEADER:_NAMED_HEADER] if stored[3] == version + WITH_DICTIONARY else b""


def _unpack_with_dictionary(stored: bytes, dictionaries: Dictionaries) -> bytes:
    if stored[4] != Codec.ZSTD or not stored.startswith(_ZSTD_MAGIC, _NAMED_HEADER):
        return stored
    name = stored[HEADER:_NAMED_HEADER]
    dictionary = dictionaries.get(name)
    if dictionary is None:
        raise UnknownDictionaryError(name.hex())
    try:
        return _decompress_zstd(stored[_NAMED_HEADER:], dictionary.loaded)
    except _Undecodable:
        return stored


@cache
def _lz4() -> ModuleType:
    return import_module("lz4.block")


@cache
def _compressor(level: int) -> Any:
    # To make one takes 0.01 ms, twice as long as to compress a small value.
    return zstd().ZstdCompressor(level)


def _compress_zstd(value: bytes, level: int) -> bytes:
    compressor = _compressor(level)
    made: bytes = compressor.compress(value, compressor.FLUSH_FRAME)
    return made


def _compress_lz4(value: bytes, level: int) -> bytes:
    mode = {"mode": "high_compression", "compression": level} if level else {}
    made: bytes = _lz4().compress(value, store_size=True, **mode)
    return made


def _decompress_zstd(made: bytes, dictionary: Any = None) -> bytes:
    most = min(MOST_PLAIN, max(FREE, len(made) * RATIO))
    parts: list[bytes] = []
    size = 0
    try:
        while made:
            if len(parts) == MOST_FRAMES:
                raise _Undecodable
            decompressor = zstd().ZstdDecompressor(zstd_dict=dictionary)
            part = decompressor.decompress(made, max_length=most - size + 1)
            size += len(part)
            if size > most:
                raise TooLargeError
            if not decompressor.eof:
                raise _Undecodable
            parts.append(part)
            made = decompressor.unused_data
    except zstd().ZstdError as error:
        raise _Undecodable from error
    return b"".join(parts)


def _decompress_lz4(made: bytes) -> bytes:
    block = made[_LZ4_SIZE:]
    size = int.from_bytes(made[:_LZ4_SIZE], "little")
    if not block or size > len(block) * _LZ4_RATIO:
        raise _Undecodable
    if size > MOST_PLAIN:
        raise TooLargeError
    try:
        plain: bytes = _lz4().decompress(block, uncompressed_size=size)
    except (_lz4().LZ4BlockError, ValueError) as error:
        raise _Undecodable from error
    if len(plain) != size:
        raise _Undecodable
    return plain


_COMPRESS: dict[Codec, Callable[[bytes, int], bytes]] = {Codec.ZSTD: _compress_zstd, Codec.LZ4: _compress_lz4}
_DECOMPRESS: dict[int, Callable[[bytes], bytes]] = {Codec.ZSTD: _decompress_zstd, Codec.LZ4: _decompress_lz4}
