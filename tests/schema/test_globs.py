"""The matcher for patterns with ``*``: its matches, and that it never compares more than name times pattern."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.schema.automaton import find_regions
from proxy.schema.globs import (
    LONGEST,
    Glob,
    GlobIndex,
    glob_expression,
    glob_of,
    is_narrower,
    key_glob_of,
    lies_within,
    overlap,
)

PARTS = st.lists(st.text("ab:", max_size=3), min_size=1, max_size=5)
NAMES = st.text("ab:\n", max_size=12)


@settings(max_examples=500, derandomize=True, deadline=None)
@given(PARTS, NAMES)
def test_it_finds_what_an_expression_finds(parts: list[str], name: str) -> None:
    expected = re.fullmatch(".*".join(map(re.escape, parts)), name, re.DOTALL) is not None
    assert Glob(parts).fits(name) is expected
    assert Glob([part.encode() for part in parts]).fits(name.encode()) is expected


def test_only_the_star_is_special() -> None:
    assert glob_of("a.c?[b]\\*").fits("a.c?[b]\\")
    assert not glob_of("a.c").fits("abc")
    assert glob_of("**").fits("")
    assert key_glob_of("müller:*").fits("müller:1".encode())
    assert not glob_of("ab*ba").fits("aba"), "the two ends do not share a character"


class Counted(bytes):
    """A name that counts what matching it compares: each searched character with the whole part, at worst."""

    compared = 0

    def find(self, part: Any, start: Any = 0, end: Any = None, /) -> int:
        place = super().find(part, start, end)
        last = len(self) if end is None else end
        self.compared += ((last if place < 0 else place + len(part)) - start) * len(part)
        return place


def worst_patterns() -> list[bytes]:
    """The longest that policies may have: many stars, parts that repeat themselves, parts that come one short."""
    short = [b"a:*:b:*:c", b"*-a-*-b-*", b"*a*a*a*b", b"*ab*ab*ba*", b"***a***b"]
    units = (b"*a", b"*ab", b"*aab", b"*aaaaaaab", b"*-a-*-b-")
    tails = (b"", b"*", b"c", b"*c")
    long = [(unit * LONGEST)[: LONGEST - len(tail)] + tail for unit in units for tail in tails]
    return [*short, *long, b"*" + b"a" * (LONGEST - 2) + b"b", b"*" + b"a" * (LONGEST - 3) + b"b*"]


def worst_names(pattern: bytes, size: int) -> list[bytes]:
    """Names that match a pattern up to its end, or nearly, in as many ways as there are."""
    parts = [part for part in pattern.split(b"*") if part]
    first, last = parts[0], parts[-1]
    units = {b"a", b"ab", b"".join(parts), b"".join(parts[:-1]) or b"a", *(part[:-1] or part for part in parts), *parts}
    names = [(unit * size)[:size] for unit in sorted(units)]
    return [each for name in names for each in (name, first + name, first + name + last, first + name + last[:-1])]


@pytest.mark.parametrize("pattern", worst_patterns(), ids=lambda pattern: pattern.decode()[:24])
def test_it_never_goes_back(pattern: bytes) -> None:
    glob = Glob(pattern.split(b"*"))
    assert len(pattern) <= LONGEST
    for name in map(Counted, worst_names(pattern, 5000)):
        glob.fits(name)
        assert name.compared <= len(name) * len(pattern)


PATTERNS = st.lists(st.text("ab:*é", min_size=1, max_size=6), min_size=3, max_size=3)
KEYS = st.lists(st.text("ab:é", min_size=1, max_size=6), max_size=30)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(PATTERNS, KEYS)
def test_each_key_is_in_the_region_of_the_patterns_that_it_fits(patterns: list[str], keys: list[str]) -> None:
    regions = find_regions([glob_expression(each) for each in patterns])
    globs = [key_glob_of(each) for each in patterns]
    for region, example in regions.items():
        assert region == {i for i, each in enumerate(globs) if each.fits(example)}
    for key in keys:
        fitting = frozenset(i for i, each in enumerate(globs) if each.fits(key.encode()))
        assert not fitting or fitting in regions


@settings(max_examples=500, derandomize=True, deadline=None)
@given(st.lists(st.text("ab*é", min_size=1, max_size=6), min_size=2, max_size=2))
def test_two_patterns_are_compared_as_their_languages_are(patterns: list[str]) -> None:
    one, other = patterns
    regions = find_regions([glob_expression(each) for each in patterns])
    assert overlap(one, other) == any({0, 1} <= region for region in regions)
    assert lies_within(one, other) == all(1 in region for region in regions if 0 in region)
    assert is_narrower(one, other) == (lies_within(one, other) and any(0 not in region for region in regions))


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.lists(st.text("ab*é", min_size=1, max_size=6), max_size=20), st.text("ab*é", min_size=1, max_size=6))
def test_an_index_finds_all_patterns_that_overlap(patterns: list[str], pattern: str) -> None:
    found = GlobIndex(patterns).overlapping(pattern)
    assert sorted(found) == sorted(each for each in set(patterns) if overlap(each, pattern))


def test_an_index_looks_only_at_patterns_that_begin_alike() -> None:
    index = GlobIndex(f"team{team}:thing{i}:*" for team in range(20) for i in range(20))
    assert index.overlapping("team3:thing7:a*") == ["team3:thing7:*"]
    assert len(index.overlapping("team3:*")) == 20
    assert index.compared == 21
