"""What a stored value has to become: what a rule would make of it if a client wrote it again, or what it is without the
rule.

Whoever reads the new value through Keyrail gets what he has got of the old one. A plain value that would be read as a
compressed one is never made: ``Plain`` leaves a value whose plain bytes look compressed themselves.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias

from proxy.compression.frames import MAGIC, MOST_PLAIN, Codec, TooLargeError, pack, read_head, unpack
from proxy.rules.compress.rule import is_number
from proxy.rules.compress.terms import Terms

LARGEST = 1 << 20
"""Bytes; larger plain values pass in pieces, and stay plain."""


class Left(StrEnum):
    """Why a value stays as it is, although it is not what it should be."""

    LARGE = "values of more than 1 MB, which stay plain"
    UNREADABLE = "compressed values that are larger than Keyrail decompresses"
    LOOKS_COMPRESSED = "compressed values whose plain bytes look compressed themselves"


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
        found = read_head(head, version)
        if found is None:
            if size <= self.terms.above and not head.startswith(MAGIC):
                return False
            return Left.LARGE if size > LARGEST else True
        is_done = found.codec is self.terms.codec and (found.plain or 0) > self.terms.above
        return not is_done and size <= LARGEST

    def made(self, stored: bytes, version: int) -> Made:
        terms = self.terms
        try:
            plain = unpack(stored, version)
        except TooLargeError:
            return stored
        if plain is stored and len(stored) > LARGEST:
            return Left.LARGE
        if plain is not stored and (len(plain) > LARGEST or self._is_done(plain, stored)):
            return stored
        return plain if is_number(plain) else pack(plain, version, terms.codec, terms.level, terms.above)

    def _is_done(self, plain: bytes, stored: bytes) -> bool:
        return stored[4] == self.terms.codec and len(plain) > self.terms.above and not is_number(plain)


@dataclass(frozen=True, slots=True)
class Plain:
    """The form without the rule, in which clients without Keyrail read it."""

    @property
    def most(self) -> int:
        return MOST_PLAIN

    def wants(self, head: bytes, size: int, version: int) -> bool | Left:
        if not head.startswith(b"%b%c" % (MAGIC, version)) or head[4:5] not in _CODECS:
            return False
        return True if size <= MOST_PLAIN else Left.UNREADABLE

    def made(self, stored: bytes, version: int) -> Made:
        try:
            plain = unpack(stored, version)
        except TooLargeError:
            return Left.UNREADABLE
        return plain if plain is stored or _is_read_as_it_is(plain, version) else Left.LOOKS_COMPRESSED


_CODECS = tuple(bytes((codec,)) for codec in Codec)


def _is_read_as_it_is(value: bytes, version: int) -> bool:
    try:
        return unpack(value, version) is value
    except TooLargeError:
        return False
