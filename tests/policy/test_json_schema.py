"""The JSON Schema accepts everything that loading accepts, and refuses the errors that a schema can express."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from proxy.cli import main
from proxy.policy.json_schema import json_schema
from proxy.policy_yaml.shipped import packaged
from proxy.rules.guardrails import GUARDRAILS
from tests.policy.test_a_whole_policy import CHECKOUT, PLATFORM

SCHEMA = Draft202012Validator(json_schema())


class Loader(yaml.SafeLoader):
    """Reads as editors do: on, off and dates are text (YAML 1.2)."""


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag.rpartition(":")[2] in {"int", "null"}]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for first, words in (("t", "true"), ("f", "false")):
    Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(f"^{words}$"), [first])


def mistakes(text: str) -> list[str]:
    found: Any = yaml.load(text, Loader)
    return [error.message for error in SCHEMA.iter_errors(found)]


@pytest.mark.parametrize("path", sorted(packaged("default").parent.glob("*.yaml")), ids=lambda path: path.name)
def test_packaged_policies_are_valid(path: Path) -> None:
    assert mistakes(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("text", [PLATFORM, CHECKOUT])
def test_a_whole_policy_is_valid(text: str) -> None:
    assert mistakes(text) == []


def test_every_section_is_known() -> None:
    assert mistakes("""
        keyrail: 1
        include: [apps/*.yaml]
        defaults: {mode: audit, on_rule_error: pass}
        alerts: {hot_key: {share: 5%, rate: 100/s}, hot_slot: {share: 30%}, big_value: 10KB}
        apps: {checkout: {team: checkout, contact: "#checkout", match: {user: [checkout, c2], address: 10.0.0.0/8}}}
        rules: {no-flush: {refuse: [FLUSHALL], locked: true}, lazy: {replace: {DEL: UNLINK}, mode: off}}
        rollout: {no-flush: enforce, lazy: {default: off, checkout: enforce 10%}}
        exceptions: [{rule: lazy, app: checkout, keys: "a*", because: X, until: 2027-01-15, then: warn}]
        tests: [{send: "DEL a", becomes: "UNLINK a", jitter: 0}, {send: GET, unchanged: true, followed_by: [a, b]},
                {send: "KEYS *", warned_by: a}]
    """) == []  # fmt: skip
    assert mistakes("app: checkout\nrollout: {lazy: enforce}") == []


@pytest.mark.parametrize(
    "text",
    [
        "colour: blue",
        "rules: {a: {refuse: KEYS}}",
        "rules: {a: {refuse: [KEYS], mode: enforced}}",
        "rules: {a: {refuse: [KEYS], replace: {DEL: UNLINK}}}",
        "rules: {a: {because: x}}",
        "rules: {a: {names: {max_length: 0}}}",
        "rules: {a: {lifetime: {default: 5 minutes}}}",
        "rollout: {a: {default: sometimes}}",
        "tests: [{sent: x}]",
        "alerts: {hot_key: 10%}",
    ],
)
def test_mistakes_are_seen(text: str) -> None:
    assert mistakes(text) != []


def test_every_guardrail_says_what_it_takes() -> None:
    rule = json_schema()["properties"]["rules"]["additionalProperties"]
    assert {key for key in GUARDRAILS if not rule["properties"][key]} == set()


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json_schema()
