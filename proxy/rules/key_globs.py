"""Patterns of keys in which ``*`` stands for any characters, and every other byte for itself.

A plan passes the keys that match *no* pattern of any rule, with one automaton for all patterns (``none_fits``). A key
that matches a pattern is judged.
"""

from collections.abc import Hashable
from functools import lru_cache

from proxy.hotpath.plan.automaton import Automaton
from proxy.rules.name_language import MOST_CELLS, Machine
from proxy.schema.automaton import automaton_outside
from proxy.schema.expressions import Chain, Either, Expression
from proxy.schema.globs import Glob, parts_expression

LONGEST = 4096
"""The most bytes of a pattern in the automaton; with a longer pattern every command is judged."""
_NOTHING = Chain(())
_MOST_STEPS = 2_000_000
"""The most steps to build the automaton of all patterns: about a second of a worker's thread."""


class KeyGlob:
    """The keys that match ``parts`` with any bytes between them; one part is one key. Equal globs are the same
    object."""

    def __init__(self, parts: tuple[bytes, ...]) -> None:
        self.parts = parts
        self.fits = Glob(parts).fits
        """Whether a key does."""
        self.machine: Machine = _Places(parts)
        """Finds those names right that fit."""

    @property
    def size(self) -> int:
        """Its bytes, without stars."""
        return sum(map(len, self.parts))

    @staticmethod
    def of(text: str) -> "KeyGlob":
        """The pattern as a policy writes it."""
        return key_glob(tuple(text.encode().split(b"*")))


@lru_cache(maxsize=4096)  # a policy is bound for each application and user
def key_glob(parts: tuple[bytes, ...]) -> KeyGlob:
    """The pattern of these parts."""
    return KeyGlob(parts)


@lru_cache(maxsize=16)  # the same patterns concern most commands, whoever sends them
def none_fits(globs: frozenset[KeyGlob], prefixes: Expression | None = None) -> Automaton | None:
    """The automaton that owns the names that match none of these, nor behind one of the ``prefixes``; None if it would
    be too large.

    The work grows with the total length of the patterns.
    """
    languages = [parts_expression(glob.parts) for glob in globs]
    if prefixes is not None:
        languages = [Chain((Either((_NOTHING, prefixes)), each)) for each in languages]
    return automaton_outside(languages, MOST_CELLS, _MOST_STEPS)


class _Places:
    """Finds those names right that fit.

    The part behind a star can begin anywhere, so a state is the set of places in the pattern that a name may have
    reached; the last place is the end. Places before the last reached star do not matter, so there are about as many
    states as the pattern has bytes.
    """

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
        """Whether a name that ends here matches."""
        assert isinstance(state, frozenset)
        return len(self._wanted) in state
