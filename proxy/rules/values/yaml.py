"""``values: {refuse: [pickle, java, php]}``."""

from operator import eq

from proxy.policy_yaml.fields import Fields, choice, one_or_more, read_fields
from proxy.policy_yaml.yaml_source import Value
from proxy.rules.values.formats import FORMATS
from proxy.rules.values.rule import ValuesSettings

_read_formats = one_or_more(choice({each: each for each in FORMATS}), eq)


def read_values(value: Value, rule: Fields) -> ValuesSettings | None:
    fields = read_fields(value, rule.problems)
    if fields is None:
        return None
    nothing: tuple[str, ...] = ()
    refused = fields.require("refuse", _read_formats, nothing, f"formats such as [{', '.join(FORMATS)}]")
    fields.finish()
    return ValuesSettings(refused) if refused else None
