"""Inline commands are split by the rules of Redis's ``sdssplitargs``, written here a second time in another way."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from proxy.wire.inline import split_inline

SPLIT: dict[bytes, list[bytes]] = {
    b"": [],
    b" \t ": [],
    b"\r": [],
    b"PING": [b"PING"],
    b"PING\r": [b"PING"],
    b"  set   k\tv  ": [b"set", b"k", b"v"],
    b'set k "a b"': [b"set", b"k", b"a b"],
    b'""': [b""],
    b"''": [b""],
    b"\"\" '' x": [b"", b"", b"x"],
    b'"\\n\\r\\t\\b\\a"': [b"\n\r\t\b\a"],
    b'"\\x00\\xfF"': [b"\x00\xff"],
    b'"\\x0"': [b"x0"],
    b'"\\xzz"': [b"xzz"],
    b'"\\q\\"\\\\"': [b'q"\\'],
    b"'\\n\\'\\x41'": [b"\\n'\\x41"],
    b"\\n": [b"\\n"],
    b'a"b c"': [b"ab c"],
    b"a'b c'": [b"ab c"],
    b'"it\'s"': [b"it's"],
    b"'say \"x\"'": [b'say "x"'],
    b"\xff\xfe": [b"\xff\xfe"],
    b"a\x0bb": [b"a\x0bb"],
    b"\x0ba \x0cb": [b"a", b"b"],
    b'"a"\x0bb': [b"a", b"b"],
}
UNBALANCED = [
    b'"',
    b"'",
    b'"abc',
    b"'abc",
    b'x "a',
    b'"a\\"',
    b"'a\\'",
    b'"\\',
    b'"a"b',
    b"'a'b",
    b"'a'\"b\"",
    b'a"b"c',
]


@pytest.mark.parametrize("line", SPLIT)
def test_words(line: bytes) -> None:
    assert split_inline(line) == SPLIT[line]


@pytest.mark.parametrize("line", UNBALANCED)
def test_quotes_that_do_not_close_or_close_within_a_word(line: bytes) -> None:
    assert split_inline(line) is None


def test_valkey_9_lets_a_word_go_on_behind_a_quote() -> None:
    assert split_inline(b"a\"b c\"d'e'", mixed=True) == [b"ab cde"]
    assert split_inline(b'"a"b "c"', mixed=True) == [b"ab", b"c"]
    assert split_inline(b'"a"b "c', mixed=True) is None


def sdssplitargs(line: bytes) -> list[bytes] | None:
    """Redis's own, transcribed: one loop over the characters, a NUL at the end."""
    blank = b" \t\n\v\f\r"
    p = 0
    words: list[bytes] = []

    def at(i: int) -> int:
        return line[i] if i < len(line) else 0

    while True:
        while at(p) and at(p) in blank:
            p += 1
        if not at(p):
            return words
        double = single = done = False
        word = bytearray()
        while not done:
            c = at(p)
            if double:
                if c == 92 and at(p + 1) == 120 and all(chr(at(p + k)) in "0123456789abcdefABCDEF" for k in (2, 3)):
                    word.append(int(line[p + 2 : p + 4], 16))
                    p += 3
                elif c == 92 and at(p + 1):
                    p += 1
                    word.append({110: 10, 114: 13, 116: 9, 98: 8, 97: 7}.get(at(p), at(p)))
                elif c == 34:
                    if at(p + 1) and at(p + 1) not in blank:
                        return None
                    done = True
                elif not c:
                    return None
                else:
                    word.append(c)
            elif single:
                if c == 92 and at(p + 1) == 39:
                    p += 1
                    word.append(39)
                elif c == 39:
                    if at(p + 1) and at(p + 1) not in blank:
                        return None
                    done = True
                elif not c:
                    return None
                else:
                    word.append(c)
            elif c in b" \n\r\t\0":
                done = True
            elif c == 34:
                double = True
            elif c == 39:
                single = True
            else:
                word.append(c)
            if at(p):
                p += 1
        words.append(bytes(word))


@settings(max_examples=400)
@example(b"a\x0b'b'")
@given(st.text("\"'\\xnr4Fg \t\v", max_size=14).map(str.encode))
def test_any_line_is_split_as_redis_splits_it(line: bytes) -> None:
    assert split_inline(line) == sdssplitargs(line)
