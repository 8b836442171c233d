"""Whose a stored key is, and in which mode a rule finds something wrong with it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from proxy.rules.stored import Fault, StoredKey
from proxy.schema.entries import Owner
from proxy.server.stored.judging import Judged, StoredJudge
from tests.policy.given import policy

NOW = datetime(2026, 6, 1, tzinfo=UTC).timestamp()
APPS = """
        apps:
          shop: {team: team-shop, match: {user: shop}}
          web: {match: {user: web}}
"""


def judge(text: str) -> StoredJudge:
    return StoredJudge(policy(APPS + text), NOW)


def key(name: str, ttl: int | None = None) -> StoredKey:
    return StoredKey(name.encode(), "string", ttl, 100, 20)


OWNED = """
        schema:
          any-cart: {key: "cart:{id}"}
          job: {key: "job:{id}"}
        rules:
          own: {names: {prefixes: {shop: ["cart:", "s:"], web: ["s:web:", "w:"], default: ["job:", "x"]}}}
          old: {names: {prefixes: {web: ["old:"]}}, mode: "off"}
"""


@pytest.mark.parametrize(
    ("name", "whose"),
    [
        ("cart:1", ("any-cart", "any-cart", "shop", "team-shop")),
        ("job:7", ("job", "job", "", "")),
        ("s:1", ("s:{int}", "", "shop", "team-shop")),
        ("s:web:1", ("s:web:{int}", "", "web", "")),
        ("x:1", ("x:{int}", "", "", "")),
        ("old:1", ("old:{int}", "", "", "")),
    ],
)
def test_the_owner_is_the_entry_s_app_or_that_of_the_longest_prefix(
    name: str, whose: tuple[str, str, str, str]
) -> None:
    judged = judge(OWNED).judge(key(name))
    assert (judged.pattern, judged.entry, judged.app, judged.team) == whose


MODES = """
        defaults: {mode: warn}
        rules:
          own: {names: {prefixes: {shop: ["cart:"], web: ["w:"]}}}
          ttl: {lifetime: {default: 5m, max: 1d, keys: ["*"]}, except: "w:keep:*", mode: enforce}
          cart-ttl: {lifetime: {default: 1h, max: 2d, keys: ["cart:*"]}, mode: enforce}
          small: {sizes: {value: 10B}, apps: web, mode: audit}
        exceptions:
          - {rule: ttl, app: web, keys: "w:1*", because: b, until: 2026-07-01}
          - {rule: ttl, app: web, keys: "w:2*", because: b, until: 2026-05-01, then: audit}
          - {rule: small, keys: "w:3*", because: b, until: 2026-07-01}
"""


def said(judged: Judged) -> list[tuple[str, str, bool, Fault]]:
    return [(each.rule, each.mode, each.excepted, each.fault.fault) for each in judged.findings]


SMALL = ("small", "audit", False, Fault.TOO_LARGE)


@pytest.mark.parametrize(
    ("stored", "findings"),
    [
        (key("cart:1"), [("cart-ttl", "enforce", False, Fault.NO_TTL)]),
        (key("cart:1", 90_000_000), []),
        (key("cart:1", 180_000_000), [("cart-ttl", "enforce", False, Fault.TTL_TOO_LONG)]),
        (key("other"), [("ttl", "enforce", False, Fault.NO_TTL)]),
        (key("w:0"), [SMALL, ("ttl", "enforce", False, Fault.NO_TTL)]),
        (key("w:1"), [SMALL, ("ttl", "enforce", True, Fault.NO_TTL)]),
        (key("w:2"), [SMALL, ("ttl", "audit", False, Fault.NO_TTL)]),
        (key("w:3", 1), [("small", "audit", True, Fault.TOO_LARGE)]),
        (key("w:keep:1"), [SMALL]),
    ],
)
def test_the_mode_is_that_for_the_owner_and_the_key(
    stored: StoredKey, findings: list[tuple[str, str, bool, Fault]]
) -> None:
    assert said(judge(MODES).judge(stored)) == findings


def test_members_are_wanted_for_rules_that_are_on_for_the_key() -> None:
    judging = judge(MODES)
    wanted = [judging.wants_members(StoredKey(name, "string", 1, 100)) for name in (b"w:0", b"w:3", b"cart:1", b"x")]
    assert wanted == [True, True, False, False]


def test_the_owner_of_a_key_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    judging = judge(OWNED)
    find, asked = judging._owners.find, list[bytes]()

    def watched(name: bytes) -> tuple[Owner, str]:
        asked.append(name)
        return find(name)

    monkeypatch.setattr(judging._owners, "find", watched)
    for name in ("cart:1", "w:2", "cart:1"):
        judging.wants_members(key(name))
        judging.judge(key(name))
    assert asked == [b"cart:1", b"w:2", b"cart:1"]


TENANTS = """
        defaults: {mode: enforce}
        tenants: {prefix: "{app}/", apps: [shop]}
        schema:
          cart: {key: "cart:{id}", type: hash}
          own: {key: "own:{id}", app: web}
        rules:
          kinds: {schema: type}
          kept: {refuse: [UNLINK], keys: ["cart:kept*"]}
          ttl: {lifetime: {default: 5m, keys: "cart:*"}}
        exceptions: [{rule: kinds, keys: "cart:old*", because: known, until: 2027-01-01}]
"""


@pytest.mark.parametrize(
    ("name", "whose"),
    [
        ("shop/cart:1", ("cart", "cart", "shop", "team-shop")),
        ("cart:1", ("cart", "cart", "", "")),
        ("shop/own:1", ("web/own", "web/own", "shop", "team-shop")),
        ("own:1", ("web/own", "web/own", "web", "")),
        ("web/cart:1", ("web/cart:{int}", "", "", "")),
    ],
)
def test_a_key_of_a_tenant_is_judged_by_its_own_name(name: str, whose: tuple[str, str, str, str]) -> None:
    judged = judge(TENANTS).judge(key(name))
    assert (judged.pattern, judged.entry, judged.app, judged.team) == whose


def test_rules_have_the_tenants_own_names() -> None:
    judging = judge(TENANTS)
    found = {(each.rule, each.excepted) for each in judging.judge(key("shop/cart:old1")).findings}
    assert ("kinds", True) in found
    assert ("kinds", False) in {(each.rule, each.excepted) for each in judging.judge(key("shop/cart:1")).findings}
    assert judging.forbidden_by("shop", (b"UNLINK", b"shop/cart:kept1")) == "kept"
    assert judging.forbidden_by("shop", (b"UNLINK", b"shop/cart:1")) == ""
    assert judging.ttl_by("ttl", "shop", key("shop/cart:1"), 0.5) is not None
    assert judging.ttl_by("ttl", "shop", key("shop/x:1"), 0.5) is None
