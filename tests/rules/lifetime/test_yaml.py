"""The YAML under ``lifetime`` and beside ``schema: ttl``, and its errors."""

from __future__ import annotations

import pytest

from proxy.commands.creation import TYPES
from proxy.policy_yaml.errors import PolicyError
from proxy.rules.lifetime.settings import USUAL_TYPES, LifetimeSettings, SchemaTtlSettings
from proxy.rules.lifetime.ttl_options import Existing, Outside, Persist, TtlOptions, Unproven
from proxy.schema.bounds import Bounds
from tests.policy.given import policy


def test_everything_that_can_be_said() -> None:
    loaded = policy(
        """
        rules:
          all:
            lifetime:
              {default: 5m, min: 10s, max: 1d, jitter: 10%, jitter_stated: 5%, required: true, sliding: true,
               outside: refuse, persist: clamp, existing_keys: stamp, without_proof: refuse,
               types: [hash, string, set, zset, other], keys: ["a:*", b]}
          every-type: {lifetime: {default: 30m, max: 1h, types: all, keys: c}}
          short: {lifetime: {default: 30s}}
        """
    )
    ttl_options = TtlOptions(Outside.REFUSE, Persist.CLAMP, Existing.STAMP, Unproven.REFUSE)
    bounds = Bounds(300, 10, 86_400, 0.1, required=True, sliding=True, jitter_stated=0.05)
    assert [rule.settings for rule in loaded.rules] == [
        LifetimeSettings(bounds, ttl_options, ("a:*", "b"), USUAL_TYPES),
        LifetimeSettings(Bounds(1800, most=3600), TtlOptions(), ("c",), frozenset(TYPES)),
        LifetimeSettings(Bounds(30), TtlOptions(), (), USUAL_TYPES),
    ]


def test_the_schema_says_how_long_and_the_rule_what_is_done() -> None:
    loaded = policy("schema: {a: {key: a, ttl: 5m}}\nrules: {ttl: {schema: ttl, persist: refuse}}")
    assert loaded.rules[0].settings == SchemaTtlSettings(TtlOptions(persist=Persist.REFUSE))


def test_what_no_key_can_meet() -> None:
    for text, problem in (
        ("{}", "lifetime.default: found nothing, expected a time"),
        ("{min: 2h, max: 1h}", "lifetime.min: found 2h, expected at most max, which is 1h"),
        ("{default: 2h, max: 1h}", "lifetime.default: found 2h, expected a time from min to max"),
        ("{max: 1h, jitter: 5%}", "lifetime.jitter: found jitter without a default, expected a default beside it"),
        ("{max: 1h, sliding: true}", "lifetime.sliding: found sliding without a default"),
        ("{min: 5s, persist: clamp}", "lifetime.persist: found 'clamp', expected refuse, or a max"),
        ("{default: 5m, types: some}", "lifetime.types: found 'some', expected all, or a list such as"),
        ("{default: 5m, types: [blob]}", "lifetime.types[0]: found 'blob', expected one of string, "),
        ("{default: 5m, keys: []}", "lifetime.keys: found an empty list, expected a list such as"),
        ("{default: 5m, persist: never}", "lifetime.persist: found 'never', expected one of allow, clamp, refuse"),
    ):
        with pytest.raises(PolicyError) as caught:
            policy(f"rules: {{a: {{lifetime: {text}}}}}")
        assert f"rules.a.{problem}" in str(caught.value), text
