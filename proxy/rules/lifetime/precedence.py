"""Which of several rules about lifetimes a key falls under: the one whose pattern is the most specific.

From the most specific on:

1. an entry of the schema that has a ``ttl``: ``schema: ttl`` acts on its keys
2. a lifetime with ``keys``, of which one glob lies wholly within another's: the inner one
3. a lifetime without ``keys``, which is ``*``

A glob lies within another if every key that it matches is matched by the other one too. Two globs that overlap without
one lying within the other are an error of the policy, as are equal ones: nobody could tell which of them is meant.
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
"""The keys of a lifetime that names none."""


@dataclass(frozen=True, slots=True)
class OtherLifetimes:
    """The rules that are in force beside a lifetime, in no weaker mode, and may take keys from it.

    `by_schema` says that a rule acts on the ``ttl`` of the schema's entries; `globs` are the keys of each other one.
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
    """A glob that takes keys from a rule, but for those that one of the rule's own `inner` globs keeps."""

    glob: str
    inner: Globs


def takings(mine: Globs, other: Globs) -> list[Taking]:
    """Which of the other rule's globs take keys from this one."""
    return [
        Taking(theirs, tuple(glob for glob in mine if is_narrower(glob, theirs)))
        for theirs in other
        if any(is_narrower(theirs, glob) for glob in mine)
    ]


def find_conflict(mine: Globs, other: Globs) -> Conflict | None:
    """The first two globs of two rules of which nobody could tell which one is meant."""
    for glob, theirs in product(mine, other):
        if overlap(glob, theirs) and lies_within(glob, theirs) == lies_within(theirs, glob):
            return Conflict(glob, theirs, _shared_key(glob, theirs))
    return None


def _shared_key(one: str, other: str) -> bytes:
    """A shortest key that fits two globs which overlap."""
    regions = find_regions([glob_expression(one), glob_expression(other)])
    return next(example for region, example in regions.items() if len(region) > 1)


def leaves_entry(lifetime: Bounds | None, others: OtherLifetimes) -> bool:
    """Whether the keys of a schema's entry with this lifetime, if it has any, fall under a rule that is not its own."""
    return lifetime is None or not (lifetime.permanent or others.by_schema)


def left_keys(mine: Globs, others: Sequence[Globs]) -> Matches | None:
    """Whether a key falls under this rule as far as `others` leave it to it; None for every key."""
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
