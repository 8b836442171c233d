"""``{default: 5m, min: 10s, max: 1d, jitter: 10%}``: how long keys live, in a rule or in an entry of the schema."""

from proxy.policy_yaml.fields import Fields, read_duration, read_percent, read_switch, write_duration
from proxy.schema.bounds import Bounds

REQUIRED_ALONE = "required without a default"
GIVEN_BESIDE_REQUIRED = (
    "a default (or a max) beside it, for keys of commands that can't state a TTL, such as INCR or HSET; or "
    "without_proof: refuse in the rule, which refuses those commands"
)
"""The fault of `required` alone, which leaves some keys without a TTL, and what to write instead."""


def read_bounds(fields: Fields) -> Bounds:
    """Read the bounds of lifetimes; note contradictions."""
    bounds = Bounds(
        default=_read_seconds(fields, "default"),
        least=_read_seconds(fields, "min"),
        most=_read_seconds(fields, "max"),
        jitter=fields.read("jitter", read_percent, 0.0),
        required=fields.read("required", read_switch, False),
        sliding=fields.read("sliding", read_switch, False),
        jitter_stated=fields.read("jitter_stated", read_percent, 0.0),
    )
    _check(bounds, fields)
    return bounds


def _read_seconds(fields: Fields, key: str) -> int | None:
    value = fields.take(key)
    return None if value is None else read_duration(value, fields.problems)


def _check(bounds: Bounds, fields: Fields) -> None:
    """Note bounds that no lifetime can meet, and fields about a missing default."""

    def tell(key: str, found: str, expected: str) -> None:
        fields.problems.add(fields.line_of(key), fields.path_of(key), found, expected)

    for key, said in (("jitter", bounds.jitter > 0), ("sliding", bounds.sliding)):
        if said and "default" not in fields:
            tell(key, f"{key} without a default", "a default beside it")
    least, most, default = bounds.least or 0, bounds.most, bounds.default
    asks_for_default = bounds.jitter > 0 or bounds.sliding
    if most is not None and not bounds.required and not asks_for_default and fields.lacks("default"):
        expected = (
            f"a default beside it, such as default: {write_duration(most)}, for keys that are written without a TTL; "
            "or required: true, which refuses these writes"
        )
        tell("max", f"max: {write_duration(most)} without a default", expected)
    if most is not None and least > most:
        tell("min", write_duration(least), f"at most max, which is {write_duration(most)}")
    elif default is not None:
        shortest, longest = default * (1 - bounds.jitter), default * (1 + bounds.jitter)
        if shortest < least or (most is not None and longest > most):
            found = write_duration(default)
            if bounds.jitter:
                found = f"{write_duration(round(shortest))} to {write_duration(round(longest))}"
            tell("default", found, "a time from min to max, jitter included")
