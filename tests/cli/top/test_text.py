"""Figures and names in the form of `keyrail top`."""

from __future__ import annotations

import pytest

from proxy.cli.top.text import bar, cells, clean, fit, levels, milliseconds, rate, share, size


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (rate(0.24), "0.2"),
        (rate(41_020.6), "41,021"),
        (rate(1_240_000), "1.2M"),
        (rate(None), "-"),
        (size(712), "712"),
        (size(1023), "1.0K"),
        (size(9318), "9.1K"),
        (size(391_118_848), "373M"),
        (size(5 * 1024**6), "5120P"),
        (share(0.3798), "38.0%"),
        (milliseconds(0.214), "0.21"),
        (milliseconds(14.2), "14.2"),
        (milliseconds(1204.4), "1,204"),
    ],
)
def test_figures(shown: str, text: str) -> None:
    assert shown == text


def test_text_fills_its_cells() -> None:
    assert fit("abc", 5) == "abc  "
    assert fit("abc", 5, right=True) == "  abc"
    assert fit("abcdef", 5) == "abcd~"
    assert fit("鍵鍵鍵", 5) == "鍵鍵~"
    assert fit("鍵鍵鍵", 4) == "鍵~ "
    assert fit("abc", 0) == ""
    assert fit("catalog:8841:stock", 9, whole_ends=True) == "cata~tock"
    assert fit("abcdef", 4, whole_ends=True) == "ab~f"
    assert fit("鍵鍵鍵鍵", 6, whole_ends=True) == "鍵~鍵 "
    assert [fit("abcdef", width, whole_ends=True) for width in (2, 1, 0)] == ["a~", "~", ""]
    assert cells("e\u0301") == 1, "a letter and its accent"


def test_what_a_terminal_would_obey_is_written_out() -> None:
    assert clean("a\x1b[2Jb\u202e") == "a\\x1b[2Jb\\u202e"
    assert clean("é鍵") == "é鍵"
    assert clean("é", ascii_only=True) == "\\xe9"


def test_bars() -> None:
    assert bar(0.5, 4, " #") == "##  "
    assert bar(0.4, 4, " ▏▎▍▌▋▊▉█") == "█▋  "
    assert bar(7.0, 4, " #") == "####"
    assert levels([0.0, 0.001, 1.0, 2.0], " .#") == " ..#"
    assert levels([], " #") == ""
    assert levels([0.0], " #") == " "
