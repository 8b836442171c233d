"""What reports know of a rule: that it changed when its keys or apps did, and its commands, whoever it is on for."""

import pytest

from proxy.server.evidence.policy_facts import facts_of, judges_by
from tests.policy.given import policy

APPS = "apps: {shop: {match: {user: shop}}, web: {match: {user: web}}}"


def fact(rule: str, name: str) -> object:
    (found,) = facts_of(policy(f"{APPS}\nrules: {{r: {rule}}}"))["rules"]
    return found[name]


def test_a_rule_for_other_keys_or_apps_is_another() -> None:
    scopes = ("", ", keys: 'a*'", ", keys: 'b*'", ", except: 'a*'", ", apps: shop", ", apps: [shop, web]")
    digests = [fact(f"{{refuse: [DEL]{scope}}}", "digest") for scope in scopes]
    assert len(set(digests)) == len(scopes)
    assert fact("{refuse: [DEL], mode: warn}", "digest") == digests[0]


def test_a_rule_for_one_app_has_its_commands_and_is_off_for_others() -> None:
    assert fact("{refuse: [DEL], apps: shop}", "about") == ["DEL"]
    assert fact("{refuse: [DEL], apps: [web, shop]}", "apps") == ["shop", "web"]
    assert fact("{refuse: [DEL], apps: shop}", "modes") == {"unknown": "off", "shop": "audit", "web": "off"}


_POLICY = """
schema:
  orders: {key: "order:{id:int}", type: string}
apps:
  shop: {match: {user: shop}}
  bi: {match: {user: bi}}
rules:
  names: {names: {separator: ":", segments: 2..4}, mode: MODE}
  types: {schema: type}
exceptions: EXCEPTIONS
"""


def _digests(mode: str = "audit", exceptions: str = "[]", segments: str = "2..4", before: str = "") -> dict[str, str]:
    text = before + _POLICY.replace("MODE", mode).replace("EXCEPTIONS", exceptions).replace("2..4", segments)
    return {rule["rule"]: rule["digest"] for rule in facts_of(policy(text))["rules"]}


@pytest.mark.parametrize(
    ("changed", "is_same", "judges_alike"),
    [
        (_digests(), True, True),
        (_digests("enforce"), True, True),
        (_digests(before="# The platform's own\n"), True, True),
        (_digests("off"), False, True),
        (_digests(exceptions="[{rule: names, app: bi, because: INC-7, until: 2030-01-01}]"), False, True),
        (_digests(segments="2..3"), False, False),
    ],
)
def test_a_digest_tells_what_is_judged_and_what_is_not(
    changed: dict[str, str], is_same: bool, judges_alike: bool
) -> None:
    before = _digests()
    assert (changed["names"] == before["names"]) is is_same
    assert (judges_by(changed["names"]) == judges_by(before["names"])) is judges_alike
    # Wherever the policy is, and whatever changes about other rules.
    assert changed["types"] == before["types"]
