"""A key's shape keeps the words and drops the ids, and no byte of a key can break a line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.traffic.redaction import Redact, Redaction
from proxy.traffic.shapes import shape

SECRET = b"only this process group's"


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"user:1042:cart", "user:{int}:cart"),
        (b"session:3f2c9a7e-0d1b-4c55-9c7e-1f2a3b4c5d6e", "session:{uuid}"),
        (b"mail:ada.l+x@example.org:2026-11-21", "mail:{email}:{date}"),
        (b"day:20261121:2026-11-21T20:12:03.5Z", "day:{date}:{date}"),
        (b"rate:10.0.255.1", "rate:{ip}"),
        (b"thumb:9f86d081884c7d65", "thumb:{hex}"),
        (b"token:aZ3kQ9xLw0", "token:{opaque}"),
        (b"user42_cart-v2", "user{int}_cart-v{int}"),
        (b"{user:1}:cart", "{user:{int}}:cart"),
        (b"jwt:" + b"aB" * 40, "jwt:{opaque}"),
        (b"john smith\r\n", "john{bytes}smith{bytes}"),
        ("straße:5".encode(), "stra{bytes}e:{int}"),
        (b"", ""),
        (b"k" * 10 + b":1" * 400, "kkkkkkkkkk" + ":{int}" * 75 + "..."),
    ],
)
def test_shapes(key: bytes, expected: str) -> None:
    assert shape(key) == expected


@given(st.binary(max_size=600))
def test_a_shape_is_printable_ascii_whatever_the_key(key: bytes) -> None:
    for kind in (Redact.SHAPE, Redact.HASH):
        shown = Redaction(kind, SECRET).of(key)
        assert shown.isascii()
        assert not any(char.isspace() or not char.isprintable() for char in shown)
    assert Redaction(Redact.NONE).of(key).isprintable()


def test_what_is_shown_of_a_key() -> None:
    assert Redaction(Redact.SHAPE, SECRET).of(b"user:7") == "user:{int}"
    hashed = Redaction(Redact.HASH, SECRET)
    assert hashed.of(b"user:7").startswith("user:{int}#")
    assert hashed.of(b"user:7") == hashed.of(b"user:7")
    assert hashed.of(b"user:7") != hashed.of(b"user:8")
    assert hashed.of(b"user:7") != Redaction(Redact.HASH, b"another's").of(b"user:7")
    assert Redaction(Redact.NONE).of(b"user:7\n") == "user:7\\x0a"
    assert len(Redaction(Redact.NONE).of(b"k" * 10_000)) < 150
