"""One pass over a key finds its owner: the most specific of the patterns that match as regular expressions. A tie is an
error with an example."""

import pickle
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.hotpath.plan.automaton import NOBODY, Automaton
from proxy.schema.automaton import SchemaError, Tie, TooLarge, Unreachable, compile_patterns
from proxy.schema.entries import KeyEntry, Schema
from proxy.schema.patterns import Part, Pattern, Placeholder, parse_pattern

ORACLE = {
    "date": rb"[0-9]{4}(?:-(?:0[1-9]|1[0-2])-|0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])",
    "uuid": rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
    "int": rb"[0-9]+",
    "hex": rb"[0-9a-fA-F]+",
    "slug": rb"[a-z0-9]+(?:-[a-z0-9]+)*",
    "word": rb"[A-Za-z0-9_.-]+",
}


def compiled(*texts: str) -> Automaton:
    return compile_patterns([parse_pattern(text) for text in texts])


def owner(key: bytes, *texts: str) -> str | None:
    number = compiled(*texts).owner(key)
    return None if number == NOBODY else texts[number]


def flaws(*texts: str) -> tuple[object, ...]:
    with pytest.raises(SchemaError) as caught:
        compiled(*texts)
    return caught.value.flaws


@pytest.mark.parametrize(
    ("key", "specific", "general"),
    [
        (b"user:me", "user:me", "user:{id}"),
        (b"user:me", "user:me", "user:{id:word}"),
        (b"user:7", "user:{id:int}", "user:{id}"),
        (b"user:7", "user:{id:int}", "user:{id:hex}"),
        (b"user:7", "user:{id:int}", "user:{id:int|uuid}"),
        (b"user:20260115", "user:{day:date}", "user:{id:int}"),
        (b"user:a-b", "user:{id:slug}", "user:{id:word}"),
        (b"user:ab", "user:{id:hex}", "user:{id:date|slug}"),
        (b"user:prod", "user:{env:prod|staging}", "user:{id:slug}"),
        (b"user:prod", "user:prod", "user:{env:prod|staging}"),
        (b"user:abc", "user:{env:abc|X}", "user:{id:hex}"),
        (b"user:v1", "user:v{n:int}", "user:{id:slug}"),
        (b"user:v1", "user:v{n}", "user:{id}"),
        (b"user:1", "user:{id}", "user:{rest...}"),
        (b"user:1:cart", "user:{id}:cart", "user:{rest...}"),
        (b"user:1:cart", "user:{id}:{rest...}", "user:{rest...}"),
        (b"user:1:cart", "user:{rest...}", "{app}:{id}:cart"),
        (b"a:1:b", "a:{x:int}:{y}", "a:{x}:b"),
        (b"a:1:b", "a:{x}:b", "a:{x}:{y}"),
        (b"a:b", "a:{x}", "{x}:b"),
        (b"user:1", "user:{id}", "{any...}"),
    ],
)
def test_the_most_specific_pattern_owns_a_key_in_any_order(key: bytes, specific: str, general: str) -> None:
    assert owner(key, specific) == specific
    assert owner(key, general) == general
    assert owner(key, specific, general) == specific
    assert owner(key, general, specific) == specific


def test_a_key_that_no_pattern_matches_is_nobodys() -> None:
    assert [owner(key, "user:{id:int}", "page:{path...}") for key in (b"", b"user:x", b"page:", b"other")] == [None] * 4


def test_the_key_may_stand_anywhere_in_the_bytes() -> None:
    automaton = compiled("user:{id:int}")
    data = b"xxuser:12yy"
    assert automaton.find(data, 2, 9) == 0
    assert automaton.find(data, 2, 10) == NOBODY
    assert automaton.find(data, 2, 2) == NOBODY


@pytest.mark.parametrize(
    ("texts", "tie"),
    [
        (("a:{x}", "a:{y}"), Tie(0, 1, b"a:b")),
        (("{a}-x", "x-{b}"), Tie(0, 1, b"x-x")),
        (("{c}", "{a}-x", "x-{b}"), Tie(1, 2, b"x-x")),
        (("{e:a|b}:{f:int}", "{g:b|c}:{h:int}"), Tie(0, 1, b"b:0")),
        (("z", "{any...}", "{all...}"), Tie(1, 2, b"a")),
    ],
)
def test_a_tie_is_an_error_with_an_example(texts: tuple[str, ...], tie: Tie) -> None:
    assert flaws(*texts) == (tie,)
    for number in (tie.first, tie.second):
        assert owner(tie.example, texts[number]) == texts[number]


def test_a_third_pattern_that_owns_all_that_two_share_settles_it() -> None:
    assert len(flaws("{e:a|b}", "{f:b|c}")) == 1
    assert owner(b"b", "{e:a|b}", "{f:b|c}", "b") == "b"


@pytest.mark.parametrize(
    ("texts", "flaw"),
    [
        (("{env:a|b}:jobs", "a:jobs", "b:jobs", "{any...}"), Unreachable(0, (1, 2))),
        (("a:{x:slug}", "a:{x:int|hex}", "b", "a:{x:uuid}"), None),
        (("a-{id:uuid}",), None),
    ],
)
def test_a_pattern_that_owns_nothing_is_an_error(texts: tuple[str, ...], flaw: Unreachable | None) -> None:
    if flaw is None:
        compiled(*texts)
    else:
        assert flaws(*texts) == (flaw,)


def test_a_pattern_that_matches_nothing_is_an_error() -> None:
    with pytest.raises(SchemaError) as caught:
        compile_patterns([parse_pattern("a-{id:uuid}", "-")])
    assert caught.value.flaws == (Unreachable(0, ()),)


def test_all_flaws_are_told_at_once() -> None:
    found = flaws("a:{x}", "a:{y}", "{e:p|q}", "p", "q", "{m}-x", "x-{n}")
    assert [type(each) for each in found] == [Tie, Tie, Unreachable]


def test_the_number_of_states_and_of_steps_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    # Which of the letters have gone by is all that a state has to remember: 2 to the power of their number.
    patterns = [parse_pattern(f"{{a}}{letter}{{b}}:{letter}") for letter in "abcdefghijklmnop"]
    with pytest.raises(SchemaError) as caught:
        compile_patterns(patterns, most_states=2000)
    assert caught.value.flaws == (TooLarge(2000),)
    assert compile_patterns(patterns[:5], most_states=2000).states < 2000
    monkeypatch.setattr("proxy.schema.automaton.MOST_STEPS", 1000)
    with pytest.raises(SchemaError, match="TooLarge"):
        compile_patterns(patterns[:5])


def test_no_row_may_lead_out_of_the_automaton() -> None:
    classes = bytes(256)
    assert Automaton(classes, [0, -1, 0, 5], 2).owner(b"") == 5
    for rows, start in (([0, -1, 4, 5], 2), ([0, -1, -2, 5], 2), ([0, -1, 0], 0), ([0, -1], 2)):
        with pytest.raises(ValueError, match="leads out"):
            Automaton(classes, rows, start)
    with pytest.raises(ValueError, match="every byte"):
        Automaton(b"", [0, -1], 0)


def test_the_rest_of_a_key_is_not_looked_at_once_its_owner_is_certain() -> None:
    automaton = compile_patterns([parse_pattern("a:{b}"), parse_pattern("c:{d}:e"), parse_pattern("f:{g...}")])
    assert 0 < automaton.settled < len(automaton.rows)
    found = {
        key: automaton.owner(key) for key in (b"f:g", b"f:g" + bytes(range(256)), b"f:", b"a:b", b"c:d:e", b"c:d:ef")
    }
    assert list(found.values()) == [2, 2, -1, 0, 1, -1]


def test_a_schema_finds_the_entry() -> None:
    cart, page = (KeyEntry(text, parse_pattern(text)) for text in ("cart:{user:int}", "cart:{path...}"))
    schema = Schema((page, cart))
    assert schema.owner_of(b"cart:1") is cart
    assert schema.owner_of(b"cart:x") is page
    assert schema.owner_of(b"x") is None
    assert Schema(()).owner_of(b"x") is None


def oracle(pattern: Pattern) -> re.Pattern[bytes]:
    """The same pattern as a regular expression, by an independent way."""

    def part(each: Part) -> bytes:
        if not isinstance(each, Placeholder):
            return re.escape(each.text)
        if each.rest:
            return rb"(?s:.+)"
        options = [ORACLE[kind] for kind in each.kinds] or [re.escape(word) for word in each.words] or [rb"[^:]+"]
        return b"(?:" + b"|".join(options) + b")"

    return re.compile(b":".join(b"".join(map(part, parts)) for parts in pattern.segments))


BODIES = ("", ":int", ":hex", ":word", ":slug", ":date", ":a|b1", ":int|uuid")
LITERALS = ("a", "b", "1", "-", "{{", "}}", "a1")


@st.composite
def patterns(draw: st.DrawFn) -> str:
    names = iter("abcdefghijklmnop")
    part = st.sampled_from(LITERALS) | st.sampled_from(BODIES).map(lambda body: f"{{{next(names)}{body}}}")
    segments = ["".join(draw(st.lists(part, min_size=1, max_size=2))) for _ in range(draw(st.integers(1, 3)))]
    if draw(st.booleans()):
        segments.append("{rest...}")
    return ":".join(segments)


UUID = "0b9d7e3a-57e0-4bd1-8f6c-0d6d51f1c0aF"
PIECES = ("a", "b", "a1", "1", "b1", "-", "{", "}", "F", ".", " ", "20260115", "2026-01-15", "é", UUID)
KEYS = st.lists(st.lists(st.sampled_from(PIECES), max_size=3).map("".join), min_size=1, max_size=5).map(
    lambda segments: ":".join(segments).encode()
)


@settings(max_examples=80, deadline=None)
@given(st.lists(patterns(), min_size=1, max_size=5, unique=True), st.lists(KEYS, min_size=20, max_size=20))
def test_the_owner_is_the_most_specific_of_those_that_match(texts: list[str], keys: list[bytes]) -> None:
    parsed = [parse_pattern(text) for text in texts]
    expressions = [oracle(pattern) for pattern in parsed]
    try:
        automaton = compile_patterns(parsed, most_states=3000)
    except SchemaError as error:
        for flaw in error.flaws:
            if isinstance(flaw, Tie):
                assert expressions[flaw.first].fullmatch(flaw.example)
                assert expressions[flaw.second].fullmatch(flaw.example)
        return
    for key in keys:
        matching = [i for i, expression in enumerate(expressions) if expression.fullmatch(key)]
        found = automaton.owner(key)
        assert (found == NOBODY) == (not matching)
        for other in matching:
            # Either more specific by the order, or, as far as these keys tell, within the other's language.
            assert parsed[found].specificity < parsed[other].specificity or not any(
                expressions[found].fullmatch(each) and not expressions[other].fullmatch(each) for each in keys
            )


@settings(max_examples=60, deadline=None)
@given(patterns(), st.lists(KEYS, min_size=15, max_size=15))
def test_one_pattern_matches_what_its_regular_expression_does(text: str, keys: list[bytes]) -> None:
    automaton, expression = compiled(text), oracle(parse_pattern(text))
    for key in keys:
        assert (automaton.owner(key) == 0) == bool(expression.fullmatch(key))


def test_it_is_handed_to_workers_whole() -> None:
    texts = ("user:{id:int}", "cache:{path...}")
    handed = pickle.loads(pickle.dumps(compiled(*texts)))
    assert [handed.owner(key) for key in (b"user:1", b"cache:a:b", b"other")] == [0, 1, NOBODY]
