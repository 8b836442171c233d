"""Writes of fields that the schema does not have, or has with another type, are refused, however large their values are
and in whatever order they arrive."""

from __future__ import annotations

import pytest

from proxy.commands.command import Command
from proxy.commands.table import STANDARD
from proxy.commands.words import LONGEST
from proxy.rules.rule import Binding
from proxy.rules.schema.fields import SchemaFields, SchemaFieldsSettings
from proxy.rules.verdict import PASS, Refuse
from proxy.schema.entries import KeyEntry, Schema
from proxy.schema.hash_fields import FieldType, HashFields
from proxy.schema.patterns import parse_pattern
from tests.policy.given import compiled, policy, problems
from tests.rules.given import NO_WORDS, command, context, spec

FIELDS = HashFields(
    (("name", FieldType.STRING), ("n*", FieldType.FLOAT), ("age", FieldType.INT), ("attr:*", FieldType.FLOAT))
)
SCHEMA = Schema(
    (
        KeyEntry("user", parse_pattern("user:{id}"), "hash", app="shop", fields=FIELDS),
        KeyEntry("other", parse_pattern("other:{id}"), "hash"),
    )
)
RULE: SchemaFields = SchemaFieldsSettings().bind("fields", NO_WORDS, Binding(STANDARD, schema=SCHEMA))


def said(given: Command, *, called: bool = False) -> str:
    """The error; empty if it passes."""
    verdict = (RULE.judge_call if called else RULE.judge)(given, context()) if RULE.touches(given.spec) else PASS
    return verdict.error.decode() if isinstance(verdict, Refuse) else ""


@pytest.mark.parametrize(
    "text",
    [
        "HSET user:1 name x age 42 attr:a 1.5e3 nice -.5",
        "HMSET user:1 age -9223372036854775808",
        "HSETNX user:1 attr: 7",
        "HSETEX user:1 EX 5 FIELDS 2 name x age 5",
        "HINCRBY user:1 age 5",
        "HINCRBY user:1 attr:a 5",
        "HINCRBYFLOAT user:1 attr:a 1.5",
        "HSET other:1 any x",
        "HSET nobody:1 any x",
        "HDEL user:1 any",
        "HGET user:1 any",
        "HSET user:1 name",
        "HSETEX user:1 FIELDS",
        "SET user:1 x",
    ],
)
def test_what_the_schema_has_passes(text: str) -> None:
    assert not said(command(text))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "HSET user:1 name x agee 5",
            "argument 4 of HSET is no field of shop/user (user:{id}), which has name (string),",
        ),
        ("HSET user:1 AGE 5", "argument 2 of HSET is no field"),
        (
            "HSET user:1 age x",
            "argument 3 of HSET is no int, as this field of shop/user (user:{id}) has; write a value of",
        ),
        ("HMSET user:1 age 1.5", "argument 3 of HMSET is no int"),
        ("HSETNX user:1 age 9223372036854775808", "argument 3 of HSETNX is no int"),
        ("HSET user:1 age 007", "argument 3 of HSET is no int"),
        ("HSET user:1 attr:a 1,5", "argument 3 of HSET is no float"),
        ("HSET user:1 attr:a nan", "argument 3 of HSET is no float"),
        ("HSETEX user:1 FNX EX 5 FIELDS 2 name x age y", "argument 10 of HSETEX is no int"),
        ("HINCRBY user:1 name 5", "HINCRBY is not for fields of type string, such as argument 2 for shop/user"),
        ("HINCRBYFLOAT user:1 age 5", "HINCRBYFLOAT is not for fields of type int"),
        ("HINCRBY user:1 x 5", "argument 2 of HINCRBY is no field"),
    ],
)
def test_anything_else_is_refused(text: str, why: str) -> None:
    assert why in said(command(text))


@pytest.mark.parametrize("length", [LONGEST, 65, 100_000_000])
def test_a_large_value_is_judged_as_it_is_when_it_has_arrived(length: int) -> None:
    whole = command("HSET user:1", b"age", b"1" * min(length, 1000))
    streamed = Command(STANDARD, [b"HSET", b"user:1", b"age", b"1" * LONGEST, b"name", b"x"], None, 3, length)
    assert said(whole)
    assert said(streamed)
    for field in (b"name", b"attr:a"):
        of_float = Command(STANDARD, [b"HSET", b"user:1", field, b"1" * LONGEST], None, 3, length)
        assert bool(said(of_float)) is (field != b"name" and length > LONGEST)
    long_name = Command(STANDARD, [b"HSET", b"user:1", b"attr:" + b"a" * 59, b"1"], None, 2, 1025)
    assert said(long_name)
    assert said(command("HSET user:1", b"attr:" + b"a" * 1020, b"1"))
    assert not said(command("HSET user:1", b"attr:" + b"a" * 1019, b"1"))


def test_what_a_script_does_not_tell_is_not_judged() -> None:
    assert not said(command("HSET user:1", b"", b"x", b"age", b""), called=True)
    assert said(command("HSET user:1", b"", b"x", b"age", b"y"), called=True)
    assert said(command("HSET user:1", b"", b"x"))


POLICY = """
defaults: {mode: enforce}
schema:
  user: {key: "user:{id}", type: hash, fields: {name: string, age: int, "attr:*": float}}
rules: {types: {schema: type, mode: off}, fields: {schema: fields}}
"""


def test_a_policy_has_them_and_its_plan_judges_their_keys() -> None:
    bound = compiled(POLICY)
    assert [
        isinstance(bound.judge(command(text), context()).verdict, Refuse)
        for text in ("HSET user:1 age x", "HSET user:1 age 5 attr:z .5", "HSET page:1 age x")
    ] == [True, False, False]
    assert not bound.has_opinion(spec("HGET"))


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("fields: {age: number}", "schema.user.fields.age: found 'number', expected one of string, int, float"),
        ("fields: {}", "expected fields such as {name: string, age: int}"),
        ("fields: [age]", "schema.user.fields: found "),
        ('fields: {"a?": int}', "expected a pattern of keys in which only * is special"),
        ("type: list, fields: {age: int}", "schema.user.fields: found fields of a list, expected type: hash"),
    ],
)
def test_what_makes_no_fields_is_told(body: str, problem: str) -> None:
    text = f'schema: {{user: {{key: "user:{{id}}", {body}}}}}\n'
    rules = "rules: {t: {schema: type, mode: off}, f: {schema: fields, mode: off}}"
    assert any(problem in each for each in problems(text + rules))


def test_fields_need_a_rule() -> None:
    text = 'schema: {user: {key: "user:{id}", fields: {age: int}}}\nrules: {%s}'
    assert any(
        "found fields that no rule acts on, expected a rule that acts on it" in each for each in problems(text % "")
    )
    assert policy(text % "f: {schema: fields, mode: off}").schema.entries[0].fields == HashFields(
        (("age", FieldType.INT),)
    )
