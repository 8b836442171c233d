"""Positions read the same texts as a regular expression of the same form."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.schema.expressions import Chain, Either, Expression, OneOf, Positions, Repeated, byte_set

EXPRESSIONS: st.SearchStrategy[Expression] = st.recursive(
    st.sampled_from((b"a", b"b", b"ab")).map(lambda members: OneOf(byte_set(members))),
    lambda inner: (
        st.builds(Chain, st.lists(inner, max_size=3).map(tuple))
        | st.builds(Either, st.lists(inner, min_size=1, max_size=3).map(tuple))
        | st.builds(Repeated, inner, st.booleans())
    ),
    max_leaves=6,
)


def oracle(expression: Expression) -> bytes:
    match expression:
        case OneOf(bytes=read):
            return b"[" + bytes(byte for byte in range(256) if read >> byte & 1) + b"]"
        case Chain(parts=parts):
            return b"(?:" + b"".join(map(oracle, parts)) + b")"
        case Either(options=options):
            return b"(?:" + b"|".join(map(oracle, options)) + b")"
        case Repeated(body=body, or_not=or_not):
            return b"(?:" + oracle(body) + (b")*" if or_not else b")+")


@settings(max_examples=200, deadline=None)
@given(EXPRESSIONS, st.lists(st.text("ab", max_size=6).map(str.encode), min_size=10, max_size=10))
def test_positions_read_what_the_expression_says(expression: Expression, texts: list[bytes]) -> None:
    positions = Positions()
    ends = positions.add(expression)
    pattern = re.compile(oracle(expression))
    for text in texts:
        pending, last = set(ends.first), set[int]()
        for byte in text:
            last = {position for position in pending if positions.reads[position] >> byte & 1}
            pending = {behind for position in last for behind in positions.follow[position]}
        matched = bool(last & ends.last) if text else ends.empty
        assert matched == bool(pattern.fullmatch(text))
