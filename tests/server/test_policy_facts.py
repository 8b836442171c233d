"""What reports know of a rule: that it changed when its keys or apps did, and its commands, whoever it is on for."""

from proxy.server.evidence.policy_facts import facts_of
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
    assert fact("{refuse: [DEL], apps: shop}", "modes") == {"unknown": "off", "shop": "audit", "web": "off"}
