"""The pattern language: every kind, what may be combined, and errors with the place and the expected text."""

import pytest

from proxy.schema.automaton import compile_patterns
from proxy.schema.patterns import KINDS, Literal, PatternError, Placeholder, parse_pattern

UUID = "0b9d7e3a-57e0-4bd1-8f6c-0d6d51f1c0aF"

HOLDS = {
    "date": (["2026-01-15", "20261231", "2026-10-30"], ["2026-13-01", "2026-00-10", "2026-1-5", "202601-15"]),
    "uuid": ([UUID, UUID.upper()], [UUID[:-1], UUID + "0", UUID.replace("-", ""), UUID.replace("a", "g")]),
    "int": (["0", "007", "123456789012345678901"], ["", "-1", "1.5", "a"]),
    "hex": (["00ff", "DEADbeef", "12"], ["", "0x1f", "g"]),
    "slug": (["a", "summer-sale-2026", "7"], ["", "-a", "a-", "a--b", "Sale", "a_b"]),
    "word": (["reply.to", "Reply-To_2", "x"], ["", "a b", "é", "a/b"]),
}


def matches(pattern: str, key: str | bytes, separator: str = ":") -> bool:
    automaton = compile_patterns([parse_pattern(pattern, separator)])
    return automaton.owner(key if isinstance(key, bytes) else key.encode()) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_holds_what_it_says(kind: str) -> None:
    good, bad = HOLDS[kind]
    for value in good:
        assert matches(f"k:{{id:{kind}}}", f"k:{value}"), value
        assert not matches(f"k:{{id:{kind}}}", f"k:{value}:"), value
    for value in bad:
        assert not matches(f"k:{{id:{kind}}}", f"k:{value}"), value


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ("config", [b"config"], [b"", b"confi", b"configs", b"config:"]),
        ("user:{id}", [b"user:1", b"user:\xff\x00 }"], [b"user:", b"user:1:2", b"user"]),
        ("{app}:{id}:cart", [b"a:1:cart"], [b":1:cart", b"a::cart", b"a:1:2:cart"]),
        ("{env:prod|staging}:jobs", [b"prod:jobs", b"staging:jobs"], [b"dev:jobs", b":jobs"]),
        ("order:{id:int|uuid}", [b"order:12", f"order:{UUID}".encode()], [b"order:x"]),
        ("page:{path...}", [b"page:a", b"page:a:b::c", b"page::", b"page:\n"], [b"page:", b"page"]),
        ("{any...}", [b"a", b":", b"\x00"], [b""]),
        ("v{major:int}-{name}:x", [b"v1-a:x", b"v12--:x"], [b"v-a:x", b"v1-:x"]),
        ("cart:{{{user:int}}}:items", [b"cart:{42}:items"], [b"cart:42:items", b"cart:{}:items"]),
        ("{{global}}:{name}", [b"{global}:a"], [b"global:a"]),
        ("caf\u00e9:{id}", ["café:1".encode()], [b"cafe:1"]),
        ("a::b", [b"a::b"], [b"a:b"]),
    ],
)
def test_a_pattern_matches_whole_keys(pattern: str, good: list[bytes], bad: list[bytes]) -> None:
    assert [key for key in good if not matches(pattern, key)] == []
    assert [key for key in bad if matches(pattern, key)] == []


def test_the_parts_of_a_pattern() -> None:
    pattern = parse_pattern("cart:{{{user:int}}}:{env:a|b}:{rest...}")
    assert pattern.segments == (
        (Literal(b"cart"),),
        (Literal(b"{"), Placeholder("user", kinds=("int",)), Literal(b"}")),
        (Placeholder("env", words=(b"a", b"b")),),
        (Placeholder("rest", rest=True),),
    )


def test_another_separator() -> None:
    assert matches("user/{id}/{rest...}", "user/a:b/c/d", "/")
    assert not matches("user/{id}", "user/a/b", "/")
    assert matches("host.{name:word}", "host.a-b", ".")
    assert not matches("host.{name:word}", "host.a.b", ".")
    with pytest.raises(ValueError, match="cannot separate"):
        parse_pattern("a", "{")


@pytest.mark.parametrize(
    ("text", "offset", "expected"),
    [
        ("", 0, "1 to 512 characters"),
        ("x" * 513, 0, "1 to 512 characters"),
        ("a:{id", 2, "a } behind it, or {{ for a brace of the key itself"),
        ("a:id}", 4, "a { before it, or }} for a brace of the key itself"),
        ("a:{{id}", 6, "a { before it, or }} for a brace of the key itself"),
        ("a:{}", 3, "a name of letters"),
        ("a:{1st}", 3, "a name of letters"),
        ("a:{:int}", 3, "a name of letters"),
        ("a:{x y}", 3, "a name of letters"),
        ("a:{id}:{id}", 8, "each name once; 'id' is a second time"),
        ("a:{id:integer}", 6, "one of date, uuid, int, hex, slug, word, or words such as prod|staging"),
        ("a:{id:}", 6, "one of date, "),
        ("a:{id:int|prod}", 6, "only words or only kinds; int is a kind"),
        ("a:{env:prod|}", 7, "each word once, and none empty"),
        ("a:{env:prod|prod}", 7, "each word once, and none empty"),
        ("a:{env:int|int}", 7, "only words or only kinds"),
        ("a:{env:a:b|c}", 7, "words without the separator ':'"),
        ("a:{rest...}:b", 11, "nothing behind a rest"),
        ("a:{rest...}{b}", 11, "nothing behind a rest"),
        ("a:x{rest...}", 4, "a rest such as {name...} at the start of a segment"),
        ("cart:{{user:int}}:items", 5, "{{{user:int}}}, which is a placeholder in a hash tag"),
        ("cart:{{rest...}}", 5, "{{{rest...}}}, which is a placeholder in a hash tag"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(text: str, offset: int, expected: str) -> None:
    with pytest.raises(PatternError) as caught:
        parse_pattern(text)
    assert (caught.value.offset, caught.value.text) == (offset, text)
    assert caught.value.expected.startswith(expected)
    assert f"at offset {offset}: expected {expected}" in str(caught.value)
