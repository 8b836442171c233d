"""The keys that a lifetime rule is about, and the bounds for each."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from proxy.commands.creation import OTHER, TYPES
from proxy.commands.row import UNKNOWN_TYPE
from proxy.rules.stored import StoredKey
from proxy.schema.bounds import Bounds
from proxy.schema.entries import Schema
from proxy.schema.globs import key_glob_of

Matches: TypeAlias = Callable[[bytes], bool]
"""Whether the rule is about a key."""


@dataclass(frozen=True, slots=True)
class LifetimeScope:
    """The bounds by the schema entry that owns a key: place 0 is for keys that no entry owns, n + 1 for entry n.

    None is for keys that the rule is not about. With a `matches`, the rule is only about keys that match. It gives
    lifetimes to keys of these `types`.

    Whether any bounds have an effect: `gives` on keys that are created without a lifetime, `weighs` on lifetimes that
    an application states, `slides` on keys that are used.
    """

    schema: Schema
    places: tuple[Bounds | None, ...]
    types: frozenset[str]
    matches: Matches | None = None
    gives: bool = field(init=False)
    weighs: bool = field(init=False)
    slides: bool = field(init=False)

    def __post_init__(self) -> None:
        # Once for all commands: a schema may have hundreds of entries.
        spoken_of = {bounds for bounds in self.places if bounds is not None}
        object.__setattr__(self, "gives", any(bounds.gives for bounds in spoken_of))
        object.__setattr__(self, "weighs", any(bounds.weighs for bounds in spoken_of))
        object.__setattr__(self, "slides", any(bounds.sliding for bounds in spoken_of))

    def bounds_of(self, key: bytes) -> Bounds | None:
        """The bounds for a key."""
        if self.matches is not None and not self.matches(key):
            return None
        return self.places[0] if len(self.places) == 1 else self.places[self.schema.automaton.owner(key) + 1]

    def bounds_of_stored(self, key: StoredKey) -> Bounds | None:
        """The bounds for a key that is stored already, if the rule is about its type."""
        return self.bounds_of(key.name) if (key.type if key.type in TYPES else OTHER) in self.types else None

    def means(self, key_type: str) -> bool:
        """Whether the rule may be about keys of this type."""
        return key_type == UNKNOWN_TYPE or key_type in self.types


def matcher(patterns: tuple[str, ...]) -> Matches | None:
    """A function that tells whether one of the patterns matches a key; None for no patterns, which is every key."""
    if not patterns:
        return None
    fits = tuple(key_glob_of(pattern).fits for pattern in patterns)
    return fits[0] if len(fits) == 1 else lambda key: any(each(key) for each in fits)
