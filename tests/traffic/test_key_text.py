"""Keys as text: readable, safe in any line, and different for different keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.traffic.key_text import printable, shown


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (b"user:1 name", "user:1 name"),
        ("café:價格".encode(), "café:價格"),
        (b"a\r\nb\x00", r"a\x0d\x0ab\x00"),
        (b"\xff\xfe", r"\xff\xfe"),
        (b"a\\x00", r"a\x5cx00"),
        ("\u202egnp".encode(), r"\xe2\x80\xaegnp"),
        (b"", ""),
    ],
)
def test_a_key_is_shown_as(key: bytes, text: str) -> None:
    assert shown(key) == text


BIDI = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Characters that move others (https://www.unicode.org/reports/tr9/#Directional_Formatting_Characters)."""


@pytest.mark.parametrize("char", [*range(32), 0x7F, 0x9B, 0x2028, 0x2029, 0xFEFF, 0xDCFF, *BIDI], ids=hex)
def test_what_moves_other_characters_is_escaped(char: int) -> None:
    text = printable(f"a{chr(char)}שלום")
    assert text.startswith(r"a\x")
    assert text.endswith("שלום")
    assert text.isprintable()


@given(st.binary(max_size=40))
def test_the_key_can_be_read_back(key: bytes) -> None:
    text = shown(key)
    assert text.isprintable()
    pieces = text.split("\\x")
    restored = pieces[0].encode() + b"".join(bytes([int(p[:2], 16)]) + p[2:].encode() for p in pieces[1:])
    assert restored == key
