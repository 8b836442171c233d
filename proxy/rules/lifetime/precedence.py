"""Which of several rules about lifetimes a key falls under: the one whose pattern is the most specific.

From the most specific on:

1. an entry of the schema that has a ``ttl``: ``schema: ttl`` acts on its keys
2. a lifetime with ``keys``, of which one glob lies wholly within another's: the inner one
3. a lifetime without ``keys``, which is ``*``

A glob lies within another if every key that it matches is matched by the other one too. Two globs that overlap without
one lying within the other are an error of the policy, as are equal ones: nobody could tell which of them is meant.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from proxy.rules.lifetime.scope import Matches, matcher
from proxy.schema.automaton import find_regions
from proxy.schema.bounds import Bounds
from proxy.schema.globs import glob_expression

Globs: TypeAlias = tuple[str, ...]

EVERY_KEY: Globs = ("*",)
"""The keys of a lifetime that names none."""
_MOST_STATES = 5_000
"""With more, globs are too intricate to be compared."""


@dataclass(frozen=True, slots=True)
class OtherLifetimes:
    """The rules that are in force beside a lifetime, in no weaker mode, and may take keys from it.

    `by_schema` says that a rule acts on the ``ttl`` of the schema's entries; `globs` are the keys of each other one.
    """

    by_schema: bool = False
    globs: tuple[Globs, ...] = ()


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


@dataclass(frozen=True, slots=True)
class Comparison:
    """The globs of one rule beside those of another."""

    takings: tuple[Taking, ...]
    conflicts: tuple[Conflict, ...]


@lru_cache(maxsize=1024)  # a policy is bound for each application and user
def compare(mine: Globs, other: Globs) -> Comparison:
    """Which of the other rule's globs take keys from this one. Raises SchemaError for globs too intricate to tell."""
    globs = (*mine, *other)
    regions = find_regions([glob_expression(glob) for glob in globs], _MOST_STATES)
    within: dict[int, frozenset[int]] = {}
    for region in regions:
        for number in region:
            within[number] = within.get(number, region) & region
    takings: list[Taking] = []
    conflicts: dict[tuple[int, int], Conflict] = {}
    for theirs in range(len(mine), len(globs)):
        outer = [i for i in range(len(mine)) if i in within.get(theirs, ()) and theirs not in within[i]]
        if outer:
            inner = (globs[i] for i in range(len(mine)) if theirs in within.get(i, ()) and i not in within[theirs])
            takings.append(Taking(globs[theirs], tuple(inner)))
    for region, example in regions.items():
        for i in (number for number in region if number < len(mine)):
            for j in (number for number in region if number >= len(mine)):
                if (j in within[i]) == (i in within[j]):
                    conflicts.setdefault((i, j), Conflict(globs[i], globs[j], example))
    return Comparison(tuple(takings), tuple(conflicts.values()))


def leaves_entry(lifetime: Bounds | None, others: OtherLifetimes) -> bool:
    """Whether the keys of a schema's entry with this lifetime, if it has any, fall under a rule that is not its own."""
    return lifetime is None or not (lifetime.permanent or others.by_schema)


def left_keys(mine: Globs, others: Sequence[Globs]) -> Matches | None:
    """Whether a key falls under this rule as far as `others` leave it to it; None for every key."""
    matches = matcher(() if mine == EVERY_KEY else mine)
    takings = [taking for other in others for taking in compare(mine, other).takings]
    if not takings:
        return matches
    taken = matcher(tuple(taking.glob for taking in takings if not taking.inner)) or _no_key
    contested = [(_matching(taking.glob), _matching(*taking.inner)) for taking in takings if taking.inner]

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
