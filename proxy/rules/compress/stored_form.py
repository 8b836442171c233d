"""What a stored value has to become: what a rule would make of it if a client wrote it again, or what it is without the
rule.

Whoever reads the new value through Keyrail gets what he has got of the old one. A plain value that would be read as a
compressed one is never made: ``Plain`` leaves a value whose plain bytes look compressed themselves.

A rule leaves a dictionary behind so: a value that was compressed with another one than the rule's is not what clients
write now. Each such value gets the present form, or is told; when none is told, the file may go.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from proxy.compression.dictionaries import UnknownDictionaryError
from proxy.compression.frames import (
    MAGIC,
    MOST_PLAIN,
    TooLargeError,
    dictionary_of,
    has_header,
    pack,
    read_head,
    unpack,
)
from proxy.rules.compress.rule import is_number
from proxy.rules.compress.terms import Terms

LARGEST = 1 << 20
"""Bytes; larger plain values pass in pieces, and stay plain."""


class Left(NamedTuple):
    """Why a value stays as it is, although it is not what it should be. `compressed`: where it should be
    plain, it is compressed still."""

    why: str
    compressed: bool = True


LARGE = Left("values of more than 1 MB, which stay plain", compressed=False)
UNREADABLE = Left("compressed values that are larger than Keyrail decompresses")
LOOKS_COMPRESSED = Left("compressed values whose plain bytes look compressed themselves")


def without_dictionary(name: str) -> Left:
    """It needs a dictionary of this name, which is not there."""
    return Left(f"values compressed with the dictionary {name}, which the rule does not name")


def large_with_dictionary(name: bytes) -> Left:
    """It is too large for another form than the one with this dictionary, which the rule leaves behind."""
    return Left(f"values of more than 1 MB compressed with the dictionary {name.hex()}")


Made: TypeAlias = bytes | Left
"""The new value, which may be equal to the old one."""


class StoredForm(Protocol):
    """A form of stored values. The `version` is that of strings, or of fields."""

    @property
    def most(self) -> int:
        """The most bytes of a stored value that is rewritten."""

    def wants(self, head: bytes, size: int, version: int) -> bool | Left:
        """Whether a value has to be read, so that it can be made, as far as its `size` in bytes and the first HEAD of
        them tell."""

    def made(self, stored: bytes, version: int) -> Made:
        """What is to be stored in place of this value."""


@dataclass(frozen=True, slots=True)
class AsRule:
    """The form of what clients write now, by the `terms` of their rule."""

    terms: Terms

    @property
    def most(self) -> int:
        return LARGEST

    def wants(self, head: bytes, size: int, version: int) -> bool | Left:
        found = read_head(head, size, version)
        if found is None:
            if size <= self.terms.above and not head.startswith(MAGIC):
                return False
            return LARGE if size > LARGEST else True
        is_present = found.codec is self.terms.codec and found.dictionary == self._dictionary
        if is_present and (found.plain or 0) > self.terms.above:
            return False
        return True if size <= LARGEST else self._stays(head, version) or False

    def made(self, stored: bytes, version: int) -> Made:
        terms = self.terms
        try:
            plain = unpack(stored, version, terms.dictionaries)
        except TooLargeError:
            return self._stays(stored, version) or stored
        except UnknownDictionaryError as unknown:
            return without_dictionary(str(unknown))
        if plain is stored and len(stored) > LARGEST:
            return LARGE
        if plain is not stored and len(plain) > LARGEST:
            return self._stays(stored, version) or stored
        if is_number(plain):
            return plain
        if plain is not stored and len(plain) > terms.above and self._is_present(stored, version):
            return stored
        return pack(plain, version, terms.codec, terms.level, terms.above, terms.dictionary)

    @property
    def _dictionary(self) -> bytes:
        return b"" if self.terms.dictionary is None else self.terms.dictionary.name

    def _is_present(self, stored: bytes, version: int) -> bool:
        return stored[4] == self.terms.codec and dictionary_of(stored, version) == self._dictionary

    def _stays(self, stored: bytes, version: int) -> Left | None:
        # Whether that has to be told of a large value.
        name = dictionary_of(stored, version)
        return large_with_dictionary(name) if name not in (b"", self._dictionary) else None


@dataclass(frozen=True, slots=True)
class Plain:
    """The form without the rule of these `terms`, in which clients without Keyrail read it."""

    terms: Terms

    @property
    def most(self) -> int:
        return MOST_PLAIN

    def wants(self, head: bytes, size: int, version: int) -> bool | Left:
        if not has_header(head, version):
            return False
        return True if size <= MOST_PLAIN else UNREADABLE

    def made(self, stored: bytes, version: int) -> Made:
        try:
            plain = unpack(stored, version, self.terms.dictionaries)
        except TooLargeError:
            return UNREADABLE
        except UnknownDictionaryError as unknown:
            return without_dictionary(str(unknown))
        return plain if plain is stored or self._is_read_as_it_is(plain, version) else LOOKS_COMPRESSED

    def _is_read_as_it_is(self, value: bytes, version: int) -> bool:
        try:
            return unpack(value, version, self.terms.dictionaries) is value
        except (TooLargeError, UnknownDictionaryError):
            return False
