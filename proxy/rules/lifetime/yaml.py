"""``lifetime: {default: 5m, min: 10s, max: 1d, jitter: 10%}``."""

from proxy.commands.creation import TYPES
from proxy.policy_yaml.bounds import GIVEN_BESIDE_REQUIRED, REQUIRED_ALONE, read_bounds
from proxy.policy_yaml.fields import Fields, choice, read_fields, read_list
from proxy.policy_yaml.globs import read_key_patterns
from proxy.policy_yaml.json_schema_recorder import note
from proxy.policy_yaml.yaml_source import Problems, Scalar, Value
from proxy.rules.lifetime.settings import USUAL_TYPES, LifetimeSettings
from proxy.rules.lifetime.ttl_options import Existing, Outside, Persist, TtlOptions, Unproven


def read_lifetime(value: Value, rule: Fields) -> LifetimeSettings | None:
    fields = read_fields(value, rule.problems)
    if fields is None:
        return None
    bounds = read_bounds(fields)
    ttl_options = read_ttl_options(fields)
    everywhere: tuple[str, ...] = ()
    keys = fields.read("keys", read_key_patterns, everywhere)
    types = fields.read("types", _read_types, USUAL_TYPES)
    fields.finish()
    if bounds.permanent and ttl_options.persist in {None, Persist.ALLOW} and fields.lacks("default"):
        rule.problems.add(fields.where, fields.path_of("default"), "nothing", "a time such as 5m")
    if bounds.required and bounds.given is None and ttl_options.without_proof is not Unproven.REFUSE:
        where, path = fields.line_of("required"), fields.path_of("required")
        rule.problems.add(where, path, REQUIRED_ALONE, GIVEN_BESIDE_REQUIRED)
    if ttl_options.persist is Persist.CLAMP and bounds.longest is None:
        expected = "refuse, or a max (or a default) to give to the key"
        rule.problems.add(fields.line_of("persist"), fields.path_of("persist"), "'clamp'", expected)
    return LifetimeSettings(bounds, ttl_options, keys, types)


def read_ttl_options(fields: Fields) -> TtlOptions:
    """``outside``, ``persist``, ``existing_keys`` and ``without_proof`` of these fields."""
    return TtlOptions(
        outside=fields.read("outside", choice({each.value: each for each in Outside}), Outside.CLAMP),
        persist=fields.read("persist", choice({each.value: each for each in Persist}), None),
        existing_keys=fields.read("existing_keys", choice({each.value: each for each in Existing}), Existing.LEAVE),
        without_proof=fields.read(
            "without_proof", choice({each.value: each for each in Unproven}), Unproven.LET_THROUGH
        ),
    )


def _read_types(value: Value, problems: Problems) -> frozenset[str] | None:
    """``all``, or a list of types."""
    if not note(value, enum=["all"]) and isinstance(value, Scalar):
        if value.text == "all":
            return frozenset(TYPES)
        problems.unexpected(value, "all, or a list such as [string, hash]")
        return None
    read = choice({each: each for each in TYPES})
    found = [read(scalar, problems) for scalar in read_list(value, problems) or ()]
    return frozenset(each for each in found if each is not None) or None
