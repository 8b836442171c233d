"""Which keys a rule about lifetimes speaks of, and what it says of each."""

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import translate
from re import compile as compile_pattern
from typing import TypeAlias

from proxy.commands.creation import UNKNOWN_TYPE
from proxy.schema.bounds import Bounds
from proxy.schema.entries import Schema

Matches: TypeAlias = Callable[[bytes], bool]
"""Whether a key is one of those that are meant."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The bounds by the schema's entry that owns a key: place 0 is for keys that no entry owns, n + 1 for entry n.

    None is for keys that the rule does not speak of; so are those that do not match, where there is a `matches`. The
    rule gives lifetimes to keys of these `types`.
    """

    schema: Schema
    places: tuple[Bounds | None, ...]
    types: frozenset[str]
    matches: Matches | None = None

    def bounds_of(self, key: bytes) -> Bounds | None:
        """The bounds for a key."""
        if self.matches is not None and not self.matches(key):
            return None
        return self.places[0] if len(self.places) == 1 else self.places[self.schema.automaton.owner(key) + 1]

    def means(self, key_type: str) -> bool:
        """Whether keys of this type may be meant."""
        return key_type == UNKNOWN_TYPE or key_type in self.types

    @property
    def gives(self) -> bool:
        """Whether any key that is created without a lifetime is this rule's business."""
        return any(bounds is not None and bounds.gives for bounds in self.places)

    @property
    def weighs(self) -> bool:
        """Whether any lifetime that an application states may be changed or refused."""
        return any(bounds is not None and bounds.weighs for bounds in self.places)

    @property
    def slides(self) -> bool:
        """Whether the uses of any key renew its lifetime."""
        return any(bounds is not None and bounds.sliding for bounds in self.places)


def matcher(globs: tuple[str, ...]) -> Matches | None:
    """Whether one of the globs matches a key; None for no globs, which is every key."""
    if not globs:
        return None
    patterns = (translate(glob.encode().decode("latin-1")) for glob in globs)
    matches = compile_pattern("|".join(patterns)).match
    return lambda key: matches(key.decode("latin-1")) is not None
