"""The entry that owns a key limits the sizes of its writes: the limit itself passes, one more does not."""

import pytest

from proxy.commands.table import STANDARD
from proxy.hotpath.plan.plan import JUDGE, PASS
from proxy.rules.rule import Binding, Wording
from proxy.rules.schema.size import SchemaSize, SchemaSizeSettings
from proxy.rules.verdict import PASS as PASSED
from proxy.rules.verdict import Refuse
from proxy.schema.entries import KeyEntry, KeySize, Schema
from proxy.schema.patterns import parse_pattern
from tests.policy.given import compiled
from tests.policy.test_plan_agrees import assert_agreement, planned
from tests.rules.given import NO_WORDS, command, context, spec, streamed

SCHEMA = Schema(
    (
        KeyEntry("small", parse_pattern("small:{id}"), size=KeySize(3)),
        KeyEntry("large", parse_pattern("large:{id}"), size=KeySize(1 << 20), app="shop"),
        KeyEntry("few", parse_pattern("few:{id}"), size=KeySize(members_per_write=2)),
        KeyEntry("free", parse_pattern("free:{id}")),
    )
)


def rule(wording: Wording = NO_WORDS) -> SchemaSize:
    return SchemaSizeSettings().bind("sizes", wording, Binding(STANDARD, schema=SCHEMA))


def said(text: str, wording: Wording = NO_WORDS) -> str:
    verdict = rule(wording).judge(command(text), context())
    if verdict == PASSED:
        return ""
    assert isinstance(verdict, Refuse)
    return verdict.error.decode().removeprefix("-DENIED keyrail/sizes: ").removesuffix("\r\n")


def test_the_error_says_what_is_too_large_and_for_what() -> None:
    keep_small = "keep it small: compress it, or split it over several keys"
    assert said("SET small:1 abcd") == (
        "the value in argument 2, for the key 'small:1' (argument 1 of SET), has 4 bytes, 1 more than the limit of 3 "
        f"for small (small:{{id}}); {keep_small}"
    )
    assert said("SETBIT small:1 80 1").startswith("the write at an offset makes 11 bytes of the key 'small:1'")
    batches = "write them in batches of at most 2"
    assert said("SADD few:1 a b c").endswith(f"1 more than the limit of 2 for few (few:{{id}}); {batches}")
    own = Wording("it hurts", "do less")
    assert said("SET small:1 abcd", own).endswith("for small (small:{id}), and it hurts; do less")


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("SET small:1 abc", True),
        ("SET large:1 abcd", True),
        ("SET free:1 abcd", True),
        ("SET nobodys abcd", True),
        ("MSET large:1 abcd small:1 abc free:1 abcd", True),
        ("MSET large:1 abcd small:1 abcd", False),
        ("MSET small:1 a small:2 abcd", False),
        ("HSET small:1 f abcd", False),
        ("HSET few:1 abcd abcd g h", True),
        ("HSET few:1 a a b b c c", False),
        ("SADD free:1 a b c", True),
        ("SETRANGE small:1 2 a", True),
        ("SETRANGE small:1 2 ab", False),
        ("GETSET small:1 abcd", False),
        ("COPY large:1 small:1", True),
        ("SET small:1", True),
    ],
)
def test_each_value_is_held_against_its_own_key(text: str, passes: bool) -> None:
    assert (said(text) == "") is passes


def test_a_streamed_value_is_judged_by_its_announced_length() -> None:
    verdict = rule().judge(streamed([b"SET", b"large:1", b""], 2, (1 << 20) + 1), context())
    assert isinstance(verdict, Refuse)
    assert b"has 1048577 bytes, 1 more than the limit of 1048576 for shop/large (" in verdict.error
    assert rule().judge(streamed([b"SET", b"free:1", b""], 2, 1 << 30), context()) == PASSED


def test_only_writes_that_bring_something_are_touched() -> None:
    assert [rule().touches(spec(name)) for name in ("SET", "SETBIT", "HSET")] == [True] * 3
    assert [rule().touches(spec(name)) for name in ("GET", "DEL", "INCR", "EVAL")] == [False] * 4


def test_small_writes_take_no_judging() -> None:
    bound = compiled("""
        schema:
          page: {key: "page:{id}", size: 100B}
          tags: {key: "tags:{id}", size: {members_per_write: 2}}
        rules: {sizes: {schema: size, mode: enforce}}
        """)
    for text, outcome in (
        ("SET page:1 small", PASS),
        (f"SET page:1 {'x' * 100}", JUDGE),
        (f"SET other {'x' * 100}", PASS),
        ("SETRANGE page:1 5 x", JUDGE),
        ("SETRANGE other 5 x", PASS),
        ("SADD tags:1 a b", PASS),
        ("SADD tags:1 a b c", JUDGE),
        ("SADD page:1 a b c", PASS),
    ):
        argv = text.encode().split()
        assert planned(bound, argv) == outcome, text
        assert_agreement(bound, argv)
