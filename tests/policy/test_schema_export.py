"""The schema as JSON Schema: valid, one definition for each entry, and it accepts the keys that an entry owns."""

import json
from pathlib import Path

import jsonschema
import pytest

from proxy.cli import main
from proxy.policy.schema_export import schema_export
from tests.policy.given import policy

POLICY = """
apps:
  checkout: {team: checkout, match: {user: checkout}}
schema:
  cart:
    key: "cart:{user:int}"
    type: hash
    ttl: {default: 2h, max: 7d, sliding: true}
    size: {max: 10KB, members: 500}
    app: checkout
    about: the cart of a customer
    example: cart:42
    relates_to: [user]
  user: {key: "user:{id:int}", ttl: none, fields: {name: string, "n:*": int}}
  page: {key: "page:{path...}", ttl: {required: true, max: 1h}, example: "page:a:b"}
defaults: {mode: off}
rules: {t: {schema: type}, l: {schema: ttl}, s: {schema: size}, f: {schema: fields}}
"""


def test_what_it_says_of_an_entry() -> None:
    exported = schema_export(policy(POLICY))
    assert exported["$defs"]["checkout.cart"] == {
        "title": "checkout/cart",
        "description": "the cart of a customer",
        "type": "string",
        "pattern": r"^cart:[0-9]+(?![\s\S])",
        "examples": ["cart:42"],
        "x-redis": {
            "app": "checkout",
            "key": "cart:{user:int}",
            "type": "hash",
            "ttl": {"default": 7200, "max": 604800, "sliding": True},
            "size": {"max": 10240, "members": 500},
            "relates_to": ["user"],
        },
    }
    assert exported["$defs"]["user"]["x-redis"] == {
        "key": "user:{id:int}",
        "ttl": "none",
        "fields": {"name": "string", "n:*": "int"},
    }
    assert exported["$defs"]["page"]["x-redis"]["ttl"] == {"max": 3600, "required": True}


@pytest.mark.parametrize(
    ("key", "known"), [("cart:42", True), ("cart:x", False), ("cart:42\n", False), ("page:a:b", True), ("", False)]
)
def test_it_accepts_the_known_keys(key: str, known: bool) -> None:
    validator = jsonschema.Draft202012Validator(schema_export(policy(POLICY)))
    validator.check_schema(validator.schema)
    assert validator.is_valid(key) == known
    cart = validator.evolve(schema={**schema_export(policy(POLICY)), "anyOf": [{"$ref": "#/$defs/checkout.cart"}]})
    assert cart.is_valid(key) == (key == "cart:42")


def test_without_a_schema_no_key_is_known() -> None:
    assert not jsonschema.Draft202012Validator(schema_export(policy("rules: {}"))).is_valid("a")


def test_the_verb_prints_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(f"keyrail: 1\n{POLICY}")
    assert main(["schema", "export", str(file)]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "Keys of policy.yaml"
