"""The regular expression of a pattern matches what its automaton matches, in Python and in other engines alike."""

import re

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from proxy.schema.automaton import SchemaError, compile_patterns
from proxy.schema.patterns import KINDS, parse_pattern
from proxy.schema.regular_expression import regular_expression

SEPARATORS = ":/.-_"
_TEXT = st.text("aé.$^|()[]\\*+?/-x1", min_size=1, max_size=3)
_KIND = st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=2, unique=True).map("|".join)
_WORDS = st.lists(st.text("ab.+é", min_size=1, max_size=3), min_size=2, max_size=3, unique=True).map("|".join)
_PART = _TEXT | st.just("\0") | _KIND.map("\0:{}".format) | _WORDS.map("\0:{}".format)
_SEGMENT = st.lists(_PART, min_size=1, max_size=3)
_KEYS = st.lists(
    st.sampled_from(["a", "é", "-", ".", ":", "/", "\n", "x1", "2026-01-15", "0", "ab", "F", "_", "+", "{", "$"]),
    max_size=6,
).map("".join)


@st.composite
def patterns(draw: st.DrawFn) -> tuple[str, str]:
    separator = draw(st.sampled_from(SEPARATORS))
    segments, number = [], 0
    for segment in draw(st.lists(_SEGMENT, min_size=1, max_size=3)):
        text = ""
        for part in segment:
            if part.startswith("\0"):
                number += 1
                text += f"{{p{number}{part[1:].replace(separator, '')}}}"
            else:
                text += part
        segments.append(text)
    if draw(st.booleans()):
        segments.append("{rest...}")
    return separator.join(segments), separator


@settings(max_examples=300, deadline=None)
@given(patterns(), st.lists(_KEYS, min_size=20, max_size=20))
@example(("{a}{b}", ":"), ["é", "ab", "a", "é:"])
@example(("{a:slug}", "-"), ["a", "a-b", "a\n", ""])
@example(("{a:uuid}.{b:date}", "."), ["0b9d7e3a-57e0-4bd1-8f6c-0d6d51f1c0aF.2026-01-15"])
def test_it_matches_the_same_keys(pattern: tuple[str, str], keys: list[str]) -> None:
    try:
        parsed = parse_pattern(*pattern)
        automaton = compile_patterns([parsed])
    except (ValueError, SchemaError):
        assume(False)
    expression = re.compile(regular_expression(parsed))
    for key in keys:
        matches, owns = expression.search(key) is not None, automaton.owner(key.encode()) == 0
        # A placeholder takes at least a byte, so for Keyrail two without anything between can share a character.
        shares = "}{" in pattern[0] and not key.isascii()
        assert owns == matches or (shares and owns), (expression, key)


@pytest.mark.parametrize(
    ("pattern", "expression"),
    [
        ("cart:{user:int}", r"^cart:[0-9]+"),
        ("{env:prod|dev}.x:{path...}", r"^(?:prod|dev)\.x:[\s\S]+"),
        ("queue:{name}", "^queue:[^:]+"),
        ("order:{id:int|hex}", "^order:(?:[0-9]+|[0-9A-Fa-f]+)"),
        ("cart:{{{user:int}}}", r"^cart:\{[0-9]+\}"),
        ("t:{id:uuid}", "^t:[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"),
        ("w:{id:word}", "^w:[-.0-9A-Z_a-z]+"),
    ],
)
def test_it_can_be_read(pattern: str, expression: str) -> None:
    assert regular_expression(parse_pattern(pattern)).removesuffix(r"(?![\s\S])").replace("\\-", "-") == expression
