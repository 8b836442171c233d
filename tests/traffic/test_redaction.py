"""A key as operators see it: redacted, and a tenant's with both of its names."""

import pytest

from proxy.traffic.redaction import Redact, Redaction
from tests.policy.given import policy


def shown(prefix: str, kind: Redact = Redact.NONE) -> Redaction:
    tenants = f"tenants: {{prefix: '{prefix}', apps: [acme, globex]}}"
    apps = "apps: {acme: {match: {user: 'a*'}}, globex: {match: {user: globex}}}"
    return Redaction(kind, b"secret", policy(f"{apps}\n{tenants}\nrules: {{}}").own_names)


@pytest.mark.parametrize(
    ("prefix", "key", "tenant", "words"),
    [
        ("{app}:", b"acme:cart:1", {"app": "acme", "key": "cart:1"}, "acme:cart:1 (cart:1 of tenant acme)"),
        ("{app}:", b"acme:", {"app": "acme", "key": ""}, "acme: ( of tenant acme)"),
        ("{app}:", b"other:cart:1", None, "other:cart:1"),
        ("{user}:", b"alice:cart:1", {"app": None, "key": "cart:1"}, "alice:cart:1 (cart:1 of a tenant)"),
        ("{app}/{user}:", b"acme/al:\n", {"app": "acme", "key": r"\x0a"}, r"acme/al:\x0a (\x0a of tenant acme)"),
    ],
)
def test_a_tenants_key_has_both_names(prefix: str, key: bytes, tenant: object, words: str) -> None:
    names = shown(prefix)
    assert names.beside(key) == {"tenant": tenant}
    assert names.beside(key, "largest_tenant") == {"largest_tenant": tenant}
    assert names.in_words(key) == words


def test_both_are_redacted() -> None:
    assert shown("{app}:", Redact.SHAPE).in_words(b"acme:user:7") == "acme:user:{int} (user:{int} of tenant acme)"
    hashed = shown("{app}:", Redact.HASH)
    assert hashed.tenant_of(b"acme:user:7") == {"app": "acme", "key": hashed.of(b"user:7")}
    assert "7" not in hashed.of(b"user:7").partition("#")[0]
    assert shown("{app}:").at_least(Redact.SHAPE).in_words(b"acme:7") == "acme:{int} ({int} of tenant acme)"


def test_there_is_nothing_beside_it_without_tenants() -> None:
    assert policy("rules: {}").own_names is None
    plain = Redaction(Redact.NONE)
    assert (plain.beside(b"acme:cart:1"), plain.in_words(b"acme:cart:1")) == ({}, "acme:cart:1")
