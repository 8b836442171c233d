"""``schema: type``: a rule about what the schema says of keys, with ``applies_to`` beside it."""

from proxy.policy.fields import Fields, choice
from proxy.policy.guardrails.names import ACCESS
from proxy.policy.yaml_source import Value
from proxy.rules.rule import Settings
from proxy.rules.schema_type import SchemaTypeSettings


def read_schema_rule(value: Value, rule: Fields) -> Settings | None:
    """The word under ``schema``, and what belongs to it."""
    read = choice({"type": _read_type})(value, rule.problems)
    return None if read is None else read(rule)


def _read_type(rule: Fields) -> SchemaTypeSettings:
    reads, writes = rule.read("applies_to", choice(ACCESS), (False, True))
    return SchemaTypeSettings(reads, writes)
