"""Dictionaries of zstd: what small values have in common, so that it is not in each of them again.

A value is read with the very dictionary with which it was written; another one would make other bytes of it. So its
name is a part of the value, and is made from its bytes: the same name is the same dictionary, wherever its file is.
"""

from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from hashlib import sha256
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import Any, TypeAlias

NAME_BYTES = 8
"""The size of a name: the first bytes of the SHA-256 of a dictionary."""
LARGEST = 256 << 10
"""The most bytes of a dictionary; zstd makes none over 110 KB unless it is told to."""
_TRAINED = 64 << 10
"""The most bytes of one that is trained here. Larger ones save hardly more of small values."""


class DictionaryError(ValueError):
    """Bytes that are no dictionary, or values of which none can be made; the text says why."""


class UnknownDictionaryError(Exception):
    """A value was compressed with a dictionary that is not there; the text is its name."""


@cache
def zstd() -> ModuleType:
    """The codec. Raises ImportError."""
    try:
        return import_module("compression.zstd")
    except ImportError:
        return import_module("backports.zstd")


class Dictionary:
    """One dictionary. Equal bytes are equal dictionaries; only they go to another process."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.name = sha256(content).digest()[:NAME_BYTES]
        self._compressors: dict[int, Any] = {}

    @cached_property
    def loaded(self) -> Any:
        """As the codec takes it."""
        return zstd().ZstdDict(self.content)

    def compress(self, value: bytes, level: int) -> bytes:
        """A frame. Which dictionary it needs is not in it: the header of the value says so."""
        compressor = self._compressors.get(level)
        if compressor is None:  # one for each value would take 0.01 ms more, and one not digested 0.1 ms
            names = zstd().CompressionParameter
            options = {names.compression_level: level, names.dict_id_flag: 0}
            compressor = zstd().ZstdCompressor(options=options, zstd_dict=self.loaded.as_digested_dict)
            self._compressors[level] = compressor
        made: bytes = compressor.compress(value, compressor.FLUSH_FRAME)
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dictionary) and self.content == other.content

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"Dictionary({self.name.hex()})"

    def __reduce__(self) -> tuple[type["Dictionary"], tuple[bytes]]:
        return Dictionary, (self.content,)


Dictionaries: TypeAlias = Mapping[bytes, Dictionary]
"""By name."""
NO_DICTIONARIES: Dictionaries = MappingProxyType({})


def checked(content: bytes) -> Dictionary:
    """The dictionary of these bytes. Raises DictionaryError if they are none."""
    dictionary = Dictionary(content)
    try:
        dictionary.compress(b"", 1)
        zstd().ZstdDecompressor(zstd_dict=dictionary.loaded)
    except (ValueError, zstd().ZstdError) as error:
        raise DictionaryError(str(error)) from None
    return dictionary


def trained(values: Sequence[bytes]) -> Dictionary:
    """A dictionary for values like these. Raises DictionaryError if they are too few, or have nothing in common."""
    try:
        return checked(zstd().train_dict(values, _TRAINED).dict_content)
    except (ValueError, zstd().ZstdError) as error:
        raise DictionaryError(str(error)) from None
