"""What a ``compress`` rule says."""

from dataclasses import dataclass

from proxy.compression.dictionaries import Dictionaries, Dictionary
from proxy.compression.frames import Codec
from proxy.rules.key_globs import KeyGlob

USUAL_LEVELS = {Codec.ZSTD: 3, Codec.LZ4: 0}
"""As of valkey-GLIDE; lz4's 0 is its fast mode, and its other levels are of its high compression."""

LARGEST_ABOVE = 512 << 20
"""Bytes, as no value of Redis has more: with it, a rule compresses nothing."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Values of keys that match one of `keys` are compressed if they have more than `above` bytes.

    `trusts_scripts`: scripts may touch these keys, and get values as they are stored. They are compressed with the
    `dictionary`, if there is one, and read with those of `also_read` as well; `files` are those of the dictionaries.
    """

    keys: tuple[str, ...] = ()
    above: int = 4096
    codec: Codec = Codec.ZSTD
    level: int = USUAL_LEVELS[Codec.ZSTD]
    trusts_scripts: bool = False
    dictionary: Dictionary | None = None
    also_read: tuple[Dictionary, ...] = ()
    files: tuple[str, ...] = ()

    @property
    def globs(self) -> tuple[KeyGlob, ...]:
        """The patterns of its keys."""
        return tuple(map(KeyGlob.of, self.keys))

    @property
    def dictionaries(self) -> Dictionaries:
        """All that values may have been compressed with."""
        written = () if self.dictionary is None else (self.dictionary,)
        return {each.name: each for each in (*written, *self.also_read)}
