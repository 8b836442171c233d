"""``schema: type``, with ``applies_to`` beside it, and ``schema: size``: rules about what the schema says of keys."""

from collections.abc import Callable, Mapping

from proxy.policy.fields import Fields, choice
from proxy.policy.guardrails.names import ACCESS
from proxy.policy.yaml_source import Value
from proxy.rules.rule import Settings
from proxy.rules.schema_size import SchemaSizeSettings
from proxy.rules.schema_type import SchemaTypeSettings


def read_schema_rule(value: Value, rule: Fields) -> Settings | None:
    """The word under ``schema``, and what belongs to it."""
    read = choice(_ABOUT)(value, rule.problems)
    return None if read is None else read(rule)


def _read_type(rule: Fields) -> SchemaTypeSettings:
    reads, writes = rule.read("applies_to", choice(ACCESS), (False, True))
    return SchemaTypeSettings(reads, writes)


def _read_size(_rule: Fields) -> SchemaSizeSettings:
    return SchemaSizeSettings()


_ABOUT: Mapping[str, Callable[[Fields], Settings]] = {"type": _read_type, "size": _read_size}
"""By the word: reads from the rule what belongs to it."""
