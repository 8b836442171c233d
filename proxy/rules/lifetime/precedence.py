"""Which of several lifetime rules a key falls under: the rule with the most specific pattern.

From the most specific on:

1. an entry of the schema that has a ``ttl``: ``schema: ttl`` acts on its keys
2. a lifetime with ``keys``, of which one glob lies wholly within another's: the inner one
3. a lifetime without ``keys``, which is ``*``

A glob lies within another if the other one matches every key that it matches. Two globs that overlap without one lying
within the other are an error of the policy, as are equal globs: neither is more specific.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from proxy.rules.key_claims import Globs, KeyClaim
from proxy.rules.lifetime.scope import Matches, matcher
from proxy.schema.automaton import find_regions
from proxy.schema.bounds import Bounds
from proxy.schema.globs import glob_expression, is_narrower, lies_within, overlap

EVERY_KEY: Globs = ("*",)
"""The keys of a lifetime rule without ``keys``."""


@dataclass(frozen=True, slots=True)
class OtherLifetimes:
    """The other rules in force, in the same or a stricter mode, that may take keys from a lifetime rule.

    `by_schema`: a rule acts on the ``ttl`` of the schema's entries; `globs` are the keys of each other lifetime rule.
    """

    by_schema: bool = False
    globs: tuple[Globs, ...] = ()

    @classmethod
    def of(cls, claims: Iterable[KeyClaim]) -> "OtherLifetimes":
        """The rules that have these claims."""
        found = tuple(claims)
        return cls(any(each.by_schema for each in found), tuple(each.globs for each in found if each.globs))


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two globs that overlap although neither lies within the other, or that are equal; and a key that both match."""

    mine: str
    other: str
    example: bytes


@dataclass(frozen=True, slots=True)
class Taking:
    """A glob that takes keys from a rule, except for keys that match one of the rule's own `inner` globs."""

    glob: str
    inner: Globs


def takings(mine: Globs, other: Globs) -> list[Taking]:
    """The other rule's globs that take keys from this rule."""
    return [
        Taking(theirs, tuple(glob for glob in mine if is_narrower(glob, theirs)))
        for theirs in other
        if any(is_narrower(theirs, glob) for glob in mine)
    ]


def find_conflict(mine: Globs, other: Globs) -> Conflict | None:
    """The first two globs of two rules that conflict; None if none do."""
    for glob, theirs in product(mine, other):
        if overlap(glob, theirs) and lies_within(glob, theirs) == lies_within(theirs, glob):
            return Conflict(glob, theirs, _shared_key(glob, theirs))
    return None


def _shared_key(one: str, other: str) -> bytes:
    """A shortest key that matches two overlapping globs."""
    regions = find_regions([glob_expression(one), glob_expression(other)])
    return next(example for region, example in regions.items() if len(region) > 1)


def leaves_entry(lifetime: Bounds | None, others: OtherLifetimes) -> bool:
    """Whether the keys of a schema entry with this lifetime (None: no lifetime) fall under another rule."""
    return lifetime is None or not (lifetime.permanent or others.by_schema)


def left_keys(mine: Globs, others: Sequence[Globs]) -> Matches | None:
    """A function that tells whether a key falls under this rule and not under `others`; None for every key."""
    matches = matcher(() if mine == EVERY_KEY else mine)
    found = [taking for other in others for taking in takings(mine, other)]
    if not found:
        return matches
    taken = matcher(tuple(taking.glob for taking in found if not taking.inner)) or _no_key
    contested = [(_matching(taking.glob), _matching(*taking.inner)) for taking in found if taking.inner]

    def is_left(key: bytes) -> bool:
        if (matches is not None and not matches(key)) or taken(key):
            return False
        return not any(takes(key) and not keeps(key) for takes, keeps in contested)

    return is_left


def _matching(*globs: str) -> Matches:
    matches = matcher(globs)
    assert matches is not None, "there is a glob"
    return matches


def _no_key(_key: bytes) -> bool:
    return False
