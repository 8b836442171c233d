"""Which keys a rule about lifetimes speaks of, and what it says of each."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from proxy.commands.row import UNKNOWN_TYPE
from proxy.schema.bounds import Bounds
from proxy.schema.entries import Schema
from proxy.schema.globs import key_glob_of

Matches: TypeAlias = Callable[[bytes], bool]
"""Whether a key is one of those that are meant."""


@dataclass(frozen=True, slots=True)
class LifetimeScope:
    """The bounds by the schema's entry that owns a key: place 0 is for keys that no entry owns, n + 1 for entry n.

    None is for keys that the rule does not speak of; so are those that do not match, where there is a `matches`. The
    rule gives lifetimes to keys of these `types`.

    Of any place: `gives` says whether keys that are created without a lifetime are this rule's business, `weighs`
    whether lifetimes that an application states may be changed or refused, `slides` whether uses renew a lifetime.
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

    def means(self, key_type: str) -> bool:
        """Whether keys of this type may be meant."""
        return key_type == UNKNOWN_TYPE or key_type in self.types


def matcher(patterns: tuple[str, ...]) -> Matches | None:
    """Whether one of the patterns fits a key; None for no patterns, which is every key."""
    if not patterns:
        return None
    fits = tuple(key_glob_of(pattern).fits for pattern in patterns)
    return fits[0] if len(fits) == 1 else lambda key: any(each(key) for each in fits)
