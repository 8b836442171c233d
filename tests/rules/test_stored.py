"""What each guardrail finds wrong with stored keys, and when it needs to know the number of their members."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proxy.commands.creation import TYPES
from proxy.rules.collections.rule import CollectionsSettings
from proxy.rules.lifetime.settings import LifetimeSettings, SchemaTtlSettings
from proxy.rules.names.rule import NamesSettings
from proxy.rules.ranges.rule import RangesSettings
from proxy.rules.rule import RuleSettings
from proxy.rules.schema.members import SchemaMembersSettings
from proxy.rules.schema.size import SchemaSizeSettings
from proxy.rules.schema.type import SchemaTypeSettings
from proxy.rules.sizes.rule import SizesSettings
from proxy.rules.stored import StoredKey
from proxy.schema.bounds import Bounds
from proxy.schema.entries import KeyEntry, KeySize, Schema
from proxy.schema.patterns import parse_pattern
from tests.rules.given import BINDING, NO_WORDS

SCHEMA = Schema(
    (
        KeyEntry("cart", parse_pattern("cart:{id}"), "hash", Bounds(default=60, most=3600), KeySize(10, 5), app="shop"),
        KeyEntry("count", parse_pattern("count:{id}"), "string", Bounds(), KeySize(most_bytes=10)),
        KeyEntry("doc", parse_pattern("doc:{id}"), "json"),
        KeyEntry("any", parse_pattern("any:{id}"), lifetime=Bounds(most=60, required=True)),
    )
)
OF_CART = "for shop/cart (cart:{id})"


def key(name: str, key_type: str = "string", ttl: int | None = None, *sizes: int | None) -> StoredKey:
    return StoredKey(name.encode(), key_type, ttl, *sizes)


def found(settings: RuleSettings, stored: StoredKey, app: str = "") -> str:
    """The kind of the fault and its text; empty for none."""
    rule = settings.bind("r", NO_WORDS, replace(BINDING, schema=SCHEMA, app=app, proven=frozenset({"shop", "web"})))
    fault = rule.judge_stored(stored)
    return "" if fault is None else f"{fault.fault}{'' if fault.sure else '?'}: {fault.text}"


OWN = NamesSettings(prefixes=(("shop", ("cart:",)),))
LISTED = NamesSettings(prefixes=(("shop", ("cart:",)), ("default", ("misc:",))))
EVERYBODY = NamesSettings(prefixes=(("default", ("misc:",)),))


@pytest.mark.parametrize(
    ("settings", "name", "app", "fault"),
    [
        (NamesSettings(max_length=4), "abcd", "", ""),
        (NamesSettings(max_length=4), "abcde", "", "bad-name: is 5 bytes long, 1 more than the limit of 4"),
        (NamesSettings(max_length=4, writes=False), "abcde", "", ""),
        (
            NamesSettings(max_length=4, reads=False),
            "abcde",
            "",
            "bad-name: is 5 bytes long, 1 more than the limit of 4",
        ),
        (NamesSettings(banned_segments=("temp",)), "a:temp", "", "bad-name: has a banned word in segment 2"),
        (OWN, "cart:1", "shop", ""),
        (OWN, "user:1", "shop", "bad-name: does not begin with a prefix of this application"),
        (OWN, "cart:1", "web", "bad-name: begins with another application's prefix"),
        (OWN, "user:1", "", ""),
        (LISTED, "user:1", "", "nobodys: does not begin with a prefix of any application"),
        (LISTED, "misc:1", "", ""),
        (EVERYBODY, "user:1", "", "bad-name: does not begin with a prefix of this application"),
        (replace(LISTED, max_length=4), "user:1", "", "bad-name: is 6 bytes long, 2 more than the limit of 4"),
        (NamesSettings(in_schema=True), "cart:1", "", ""),
        (NamesSettings(in_schema=True), "x", "", "nobodys: is not in the schema"),
        (NamesSettings(in_schema=True), "card:1", "", "nobodys: is not in the schema"),
        (NamesSettings(in_schema=True, owned=True), "cart:1", "shop", ""),
        (NamesSettings(in_schema=True, owned=True), "count:1", "", ""),
    ],
)
def test_names(settings: NamesSettings, name: str, app: str, fault: str) -> None:
    assert found(settings, key(name), app) == fault


@pytest.mark.parametrize(
    ("name", "key_type", "fault"),
    [
        ("cart:1", "hash", ""),
        ("cart:1", "string", "wrong-type: is a string, and belongs to shop/cart (cart:{id}), of type hash"),
        ("cart:1", "sometype0", "wrong-type: is a sometype0, and belongs to shop/cart (cart:{id}), of type hash"),
        ("doc:1", "ReJSON-RL", ""),
        ("doc:1", "TSDB-TYPE", "wrong-type: is a TSDB-TYPE, and belongs to doc (doc:{id}), of type json"),
        ("doc:1", "sometype0", ""),  # a module that Keyrail does not know may have such documents
        ("doc:1", "vectorset", "wrong-type: is a vectorset, and belongs to doc (doc:{id}), of type json"),
        ("any:1", "stream", ""),
        ("other", "stream", ""),
    ],
)
def test_types(name: str, key_type: str, fault: str) -> None:
    assert found(SchemaTypeSettings(), key(name, key_type)) == fault
    assert found(SchemaTypeSettings(reads=True, writes=False), key(name, key_type)) == ""


REQUIRED = LifetimeSettings(Bounds(required=True, most=300), types=frozenset(TYPES))
GIVEN = LifetimeSettings(Bounds(default=60, least=30))


@pytest.mark.parametrize(
    ("settings", "stored", "fault"),
    [
        (SchemaTtlSettings(), key("cart:1", "hash"), "no-ttl: has no TTL, and the policy gives 1m and allows 1h"),
        (SchemaTtlSettings(), key("cart:1", "hash", 3_600_000), ""),
        (
            SchemaTtlSettings(),
            key("cart:1", "hash", 3_600_001),
            "ttl-too-long: has a TTL of 1h1ms, 1ms more than the limit of 1h",
        ),
        (SchemaTtlSettings(), key("cart:1", "hash", 1), ""),
        (SchemaTtlSettings(), key("count:1"), ""),
        (SchemaTtlSettings(), key("any:1", "list"), "no-ttl: has no TTL, and the policy allows 1m"),
        (SchemaTtlSettings(), key("doc:1"), ""),
        (SchemaTtlSettings(), key("other"), ""),
        (GIVEN, key("other"), "no-ttl: has no TTL, and the policy gives 1m"),
        (GIVEN, key("other", "list"), ""),
        (GIVEN, key("other", "string", 1), ""),
        (GIVEN, key("count:1"), ""),
        (GIVEN, key("other", "TSDB-TYPE"), "no-ttl: has no TTL, and the policy gives 1m"),
        (REQUIRED, key("other", "list"), "no-ttl: has no TTL, and the policy allows 5m"),
        (REQUIRED, key("other", "list", 300_001), "ttl-too-long: has a TTL of 5m1ms, 1ms more than the limit of 5m"),
        (LifetimeSettings(Bounds(most=60)), key("other"), "no-ttl: has no TTL, and the policy allows 1m"),
        (LifetimeSettings(Bounds(least=60)), key("other"), ""),
        (LifetimeSettings(Bounds(default=9, required=True)), key("x"), "no-ttl: has no TTL, and the policy gives 9s"),
        (LifetimeSettings(Bounds(default=60), keys=("a:*",)), key("b:1"), ""),
    ],
)
def test_lifetimes(settings: RuleSettings, stored: StoredKey, fault: str) -> None:
    assert found(settings, stored) == fault


SIZES, SIZE, MEMBERS = SizesSettings(value=10), SchemaSizeSettings(), SchemaMembersSettings()
CAPS = CollectionsSettings(members=100, streams=10)


@pytest.mark.parametrize(
    ("settings", "stored", "fault", "wanted"),
    [
        (SIZES, key("x", "string", None, 200, 10), "", True),
        (SIZES, key("x", "string", None, 200, 11), "too-large: has 11 bytes, 1 more than the limit of 10", True),
        (SIZES, key("x", "string", None, 200), "too-large?: may have over 10 bytes", True),
        (SIZES, key("x", "string", None, 345), "too-large?: may have over 10 bytes", True),
        (SIZES, key("x", "string", None, 350), "too-large: takes 350 bytes of memory, so it has over 10 bytes", True),
        (SIZES, key("x" * 50, "string", None, 400), "too-large?: may have over 10 bytes", True),
        (SIZES, key("x", "string", None, 10), "", False),
        (SIZES, key("x"), "too-large?: may have over 10 bytes", True),
        (SIZES, key("x", "hash", None, 10**6), "", False),
        (SizesSettings(members=1, command=1), key("x", "string", None, 200, 11), "", False),
        (
            SIZE,
            key("count:1", "string", None, 99, 12),
            "too-large: has 12 bytes, 2 more than the limit of 10 for",
            True,
        ),
        (SIZE, key("cart:1", "hash", None, 99, 12), "", False),
        (SIZE, key("doc:1", "string", None, 99, 12), "", False),
        (SIZE, key("other", "string", None, 99, 12), "", False),
        (MEMBERS, key("cart:1", "hash", None, 99, 5), "", True),
        (
            MEMBERS,
            key("cart:1", "hash", None, 99, 6),
            f"too-large: has 6 fields, 1 more than the limit of 5 {OF_CART}",
            True,
        ),
        (MEMBERS, key("cart:1", "hash", None, 99), f"too-large?: may have over 5 fields {OF_CART}", True),
        (MEMBERS, key("cart:1", "hash", None, 20), "", False),
        (MEMBERS, key("cart:1", "string", None, 999), "", False),
        (MEMBERS, key("count:1", "hash", None, 999), "", False),
        (CAPS, key("x", "list", None, 201), "", False),
        (CAPS, key("x" * 500, "list", None, 700), "", False),  # MEMORY USAGE has the name, too
        (CAPS, key("x", "list", None, 202), "too-large?: may have over 100 elements", True),
        (CAPS, key("x", "set", None, 202), "too-large?: may have over 100 members", True),
        (CAPS, key("x", "zset", None, 401), "", False),
        (CAPS, key("x", "zset", None, 402), "too-large?: may have over 100 members", True),
        (CAPS, key("x", "stream", None, 101), "", False),
        (CAPS, key("x", "stream", None, 102), "too-large?: may have over 10 entries", True),
        (CAPS, key("x", "stream", None, 999, 11), "too-large: has 11 entries, 1 more than the limit of 10", True),
        (CollectionsSettings(streams=1), key("x", "list", None, 999, 99), "", False),
        (CAPS, key("x", "vectorset", None, 10**6), "", False),
        (RangesSettings(max=1), key("x", "list", None, 10**6, 10**5), "", False),
    ],
)
def test_sizes(settings: RuleSettings, stored: StoredKey, fault: str, wanted: bool) -> None:
    said = found(settings, stored)
    assert said.startswith(fault) if fault else not said
    rule = settings.bind("r", NO_WORDS, replace(BINDING, schema=SCHEMA))
    assert rule.members_wanted(stored) is wanted
