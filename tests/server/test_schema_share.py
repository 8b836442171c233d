"""A rule about the schema that has found nothing says how much of what was seen it could not judge."""

from __future__ import annotations

import pytest

from proxy.server.evidence.model import Evidence
from proxy.server.evidence.policy_facts import facts_of
from proxy.server.evidence.report import Wanted, report
from proxy.traffic.evidence_rows import CommandKey, EvidenceRows, FormKey, FormRow, Identity
from tests.policy.given import policy
from tests.server.made_evidence import HOUR, NOON

POLICY = """
defaults: {mode: audit}
apps: {shop: {match: {user: shop}}, web: {match: {user: web}}}
schema:
  carts: {key: "cart:{user:int}", type: hash, ttl: 1h, size: 1KB}
  pages: {key: "page:{id:uuid|hex}", type: string}
rules:
  types: {schema: type}
  sizes: {schema: size}
  ttls: {schema: ttl}
  walks: {refuse: [KEYS, SET]}
"""


def proofs(forms: dict[tuple[str, str, str], int], app: str = "") -> dict[str, tuple[float | None, str]]:
    """What the report says of the rules, of so many commands of an app, by name and shape of the key."""
    rows = EvidenceRows()
    for (its_app, command, shape), count in forms.items():
        who = Identity(its_app, its_app)
        seen = CommandKey(who, command)
        rows.commands[seen] = rows.commands.get(seen, 0) + count
        rows.forms[FormKey(who, command, shape, "keys=1")] = FormRow(count, 1)
    evidence = Evidence([(NOON, NOON + HOUR)], {(NOON, "default"): rows})
    silent = report(evidence, {"default": facts_of(policy(POLICY))}, NOON + HOUR, Wanted(app))["silent"]
    return {each["rule"]: (each["of_no_entry"], each["proof"]) for each in silent}


def test_the_share_of_commands_on_keys_of_no_entry() -> None:
    forms = {("shop", "SET", "user:{int}"): 84, ("shop", "SET", "cart:{int}"): 10, ("web", "SET", "page:{hex}"): 6}
    found = proofs(forms)
    assert found["types"] == (0.84, "0 of 100; at least 84 % are on keys of no entry of the schema")
    assert found["ttls"] == found["sizes"] == found["types"]
    assert found["walks"] == (None, "0 of 100"), "it is about all keys"
    assert proofs(forms, "web")["types"] == (0.0, "0 of 6")


@pytest.mark.parametrize(
    ("shape", "is_outside"),
    [
        ("cart:{int}", False),
        ("cart:{uuid}", True),
        ("cart:{int}:items", True),
        ("page:{hex}", False),
        ("page:{opaque}", False),
        ("page:{email}", True),
        ("{bytes}", True),
        ("cart:" + "1" * 160 + "...", False),
    ],
)
def test_a_shape_is_of_no_entry_if_no_key_of_it_is(shape: str, is_outside: bool) -> None:
    assert proofs({("shop", "SET", shape): 1})["types"][0] == float(is_outside)


def test_without_any_key_of_an_entry_nothing_is_proved() -> None:
    said = "0 of 7, but no recorded key is of an entry of the schema, so this proves nothing"
    assert proofs({("shop", "SET", "user:{int}"): 7})["types"] == (1.0, said)


def test_commands_of_other_names_and_without_keys_do_not_count() -> None:
    found = proofs({("shop", "SET", "cart:{int}"): 5, ("shop", "PING", ""): 50, ("shop", "FLUSHALL", "a:{int}"): 50})
    assert found["types"] == (0.0, "0 of 5")
    assert proofs({("shop", "PING", ""): 50})["types"] == (
        None,
        "no command that it is about was seen, so this proves nothing",
    )
