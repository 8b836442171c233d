"""What a page shows, and what counts as the same."""

import pytest

from tests.readme.terminal import pattern

SHOWN = """\
keyrail …  route default, ready
…/s in   …/s out…
      …   0.0%   …      … 40
…
end"""


@pytest.mark.parametrize(
    ("seen", "same"),
    [
        ("keyrail 1.2  route default, ready\n3/s in 4/s out\n  7 0.0%  x y 40\nend\n", True),
        ("keyrail 1.2  route default, ready\n3/s in   4/s out 9\n 7 8 0.0% 0.0% x y 40 40 \none\ntwo\nend", True),
        ("keyrail 1.2  route default, ready\n3/s in 4/s out\n  7 0.0%  x y 41\nend\n", False),
        ("keyrail 1.2  route default, ready\n3/s in 4/s out\n  7 0.0%  x y 40\n", False),
        ("keyrail 1.2  route default\n, ready\n3/s in 4/s out\n  7 0.0%  x y 40\nend\n", False),
    ],
)
def test_an_ellipsis_stands_for_any_text_of_a_line_or_any_lines(seen: str, same: bool) -> None:
    assert bool(pattern(SHOWN).fullmatch(seen)) is same


def test_many_ellipses_do_not_take_longer_than_few() -> None:
    """It ends: with all places of each of them tried, it would not."""
    assert not pattern("… a " * 30 + "b").fullmatch("a " * 300)
