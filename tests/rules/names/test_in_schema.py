"""Keys in the schema pass and others do not, and with ``owned`` only keys that belong to no other app."""

import pytest

from proxy.commands.table import STANDARD
from proxy.hotpath.plan.plan import JUDGE, PASS
from proxy.rules.names.rule import NamesSettings
from proxy.rules.rule import Binding
from proxy.rules.verdict import PASS as PASSED
from proxy.rules.verdict import Refuse
from proxy.schema.entries import KeyEntry, Schema
from proxy.schema.patterns import parse_pattern
from tests.policy.given import compiled
from tests.policy.test_plan_agrees import assert_agreement, planned
from tests.rules.given import NO_WORDS, command, context

SCHEMA = Schema(
    (
        KeyEntry("cart", parse_pattern("cart:{user:int}"), app="checkout"),
        KeyEntry("any", parse_pattern("x:{any...}"), app="reports"),
        KeyEntry("flag", parse_pattern("flag:{name}")),
        KeyEntry("job", parse_pattern("job:{name}"), app="spark"),
    )
)
PROVEN = frozenset({"checkout", "reports"})
KNOWN = NamesSettings(in_schema=True)
OWNED = NamesSettings(in_schema=True, owned=True)


def said(settings: NamesSettings, text: str, app: str = "checkout") -> str:
    rule = settings.bind("known-keys", NO_WORDS, Binding(STANDARD, app=app, schema=SCHEMA, proven=PROVEN))
    verdict = rule.judge(command(text), context())
    if verdict == PASSED:
        return ""
    assert isinstance(verdict, Refuse)
    return verdict.error.decode().removeprefix("-DENIED keyrail/known-keys: ").removesuffix("\r\n")


@pytest.mark.parametrize(
    ("text", "argument"),
    [
        ("SET cart:1 x", None),
        ("SET cart:x x", 1),
        ("GET nobodys", 1),
        ("MGET cart:1 nobodys", 2),
        ("MSET cart:1 x x: y", 3),
        ("MSET cart:1 x x:y:z y", None),
        ("EVAL return 1 flag:a nobodys", None),
        ("EVAL x 2 flag:a nobodys", 4),
        ("PING", None),
        ("PUBLISH nobodys x", None),
    ],
)
def test_every_key_must_be_in_the_schema(text: str, argument: int | None) -> None:
    found = said(KNOWN, text)
    assert (f" (argument {argument} of " in found) == bool(found) == (argument is not None)
    assert not found or (
        " is not in the schema; " in found and found.endswith("; name it with a pattern of the schema")
    )


def test_reads_and_writes_are_apart() -> None:
    writes = NamesSettings(reads=False, in_schema=True)
    assert said(writes, "GET nobodys") == ""
    assert said(writes, "SET nobodys x").startswith("the key 'nobodys' (argument 1 of SET) is not")
    assert said(writes, "COPY nobodys cart:1") == ""


def test_owned_leaves_other_apps_keys_alone() -> None:
    assert said(KNOWN, "SET x:y z") == ""
    why = "the key 'x:y' (argument 1 of SET) belongs to reports/any (x:{any...}), and the client is of"
    assert said(OWNED, "SET x:y z").startswith(f"{why} checkout; ")
    assert said(OWNED, "SET x:y z", app="").startswith(f"{why} no app; ")
    own = (("SET cart:1 x", "checkout"), ("SET flag:a x", "checkout"), ("SET flag:a x", ""), ("SET x:y z", "reports"))
    assert [said(OWNED, text, app) for text, app in own] == [""] * 4


def test_what_an_app_has_that_anyone_can_claim_to_be_is_nobodys_own() -> None:
    assert [said(OWNED, "SET job:1 x", app) for app in ("spark", "checkout", "")] == [""] * 3
    assert said(OWNED, "SET cart:1 x", "spark").startswith(
        "the key 'cart:1' (argument 1 of SET) belongs to checkout/cart"
    )


def test_the_standard_for_names_comes_first() -> None:
    both = NamesSettings(max_length=6, in_schema=True)
    assert said(both, "GET cart:11").startswith("the key 'cart:11' (argument 1 of GET) is 7 bytes long")
    assert said(both, "GET cart:x").startswith(
        "the key 'cart:x' (argument 1 of GET) is not in the schema; the nearest entry is "
    )


def test_what_the_schema_knows_takes_no_judging() -> None:
    bound = compiled("""
        schema: {cart: {key: "cart:{user:int}"}}
        rules:
          known-keys: {names: {in_schema: true}, applies_to: writes, mode: enforce}
        """)
    for text, outcome in (
        ("SET cart:1 x", PASS),
        ("SET cart:x x", JUDGE),
        ("GET cart:x", PASS),
        ("MSET cart:1 x cart:2 y", PASS),
        ("MSET cart:1 x cart:x y", JUDGE),
        ("DEL cart:1 other", JUDGE),
    ):
        argv = text.encode().split()
        assert planned(bound, argv) == outcome, text
        assert_agreement(bound, argv)
