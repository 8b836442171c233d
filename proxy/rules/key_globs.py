"""Patterns of keys in which ``*`` stands for any characters, and every other byte for itself.

For a plan the names that do *not* fit are a language: those pass, and what fits is judged. What may follow a star can
begin anywhere behind it, so a state is the set of places in the pattern that a name may have reached. Places before
the last star that was reached tell nothing more, so there are about as many states as the pattern has bytes.
"""

from collections.abc import Hashable
from functools import lru_cache

from proxy.hotpath.automaton import Automaton
from proxy.rules.lowering import UNLIMITED, NameCheck
from proxy.rules.name_language import Machine, automaton_of
from proxy.schema.globs import Glob

_ANY = bytes([1]) * 256
_LONGEST = 4096
"""Bytes; with a longer pattern every command is judged."""


class KeyGlob:
    """The keys that fit ``parts``, with anything in between: one part is one key."""

    def __init__(self, parts: tuple[bytes, ...]) -> None:
        self.fits = Glob(parts).fits
        """Whether a key does."""
        self._others = _others(parts)
        self.machine: Machine = _Like(parts)
        """Finds those names right that fit."""

    @classmethod
    def of(cls, text: str) -> "KeyGlob":
        """The pattern as a policy writes it."""
        return cls(tuple(text.encode().split(b"*")))

    def check(self) -> NameCheck | None:
        """A check that no key passes which fits; None where that would be too large."""
        if self._others is None:
            return None
        return NameCheck(_ANY, 0, UNLIMITED, None, 1, UNLIMITED, True, True, True, self._others)


@lru_cache(maxsize=256)  # a policy is bound for each application and user
def _others(parts: tuple[bytes, ...]) -> Automaton | None:
    return None if sum(map(len, parts)) > _LONGEST else automaton_of((_Unlike(parts),))


class _Unlike:
    """Finds those names right that do not fit. Its states are sets of places, the last of them the end."""

    def __init__(self, parts: tuple[bytes, ...]) -> None:
        wanted: list[int | None] = list(parts[0])
        for part in parts[1:]:
            wanted += [None, *part]
        self._wanted = wanted  # None is a star
        self._bytes = frozenset(byte for byte in wanted if byte is not None)
        self.start: Hashable = self._reached({0})

    def _reached(self, places: set[int]) -> frozenset[int]:
        stars = [place for place in places if place < len(self._wanted) and self._wanted[place] is None]
        if not stars:
            return frozenset(places)
        star = max(stars)
        return self._reached({star + 1, *(place for place in places if place > star)}) | {star}

    def tells(self, byte: int) -> Hashable:
        """The byte, if the pattern has it."""
        return byte if byte in self._bytes else None

    def step(self, state: Hashable, byte: int) -> Hashable | None:
        """The places behind one more byte."""
        assert isinstance(state, frozenset)
        behind: set[int] = set()
        for place in state:
            if place < len(self._wanted):
                wanted = self._wanted[place]
                if wanted is None:
                    behind.add(place)
                elif wanted == byte:
                    behind.add(place + 1)
        return self._reached(behind)

    def accepts(self, state: Hashable) -> bool:
        """Whether a name that ends here does not fit."""
        assert isinstance(state, frozenset)
        return len(self._wanted) not in state


class _Like(_Unlike):
    """The same, of those that do fit."""

    def accepts(self, state: Hashable) -> bool:
        """Whether a name that ends here fits."""
        return not super().accepts(state)
