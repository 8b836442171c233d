"""Rules about the schema: ``schema: type``, with ``applies_to`` beside it, ``schema: size``, with ``sample`` and
``remember`` beside it, ``schema: fields``, and ``schema: ttl``, with the options of lifetimes beside it."""

from collections.abc import Callable, Mapping

from proxy.policy_yaml.fields import Fields, choice, read_duration, read_percent
from proxy.policy_yaml.json_schema_recorder import note
from proxy.policy_yaml.yaml_source import Value
from proxy.rules.lifetime.settings import SchemaTtlSettings
from proxy.rules.lifetime.yaml import read_ttl_options
from proxy.rules.names.yaml import ACCESS
from proxy.rules.rule import RuleSettings
from proxy.rules.schema.fields import SchemaFieldsSettings
from proxy.rules.schema.members import SchemaMembersSettings
from proxy.rules.schema.size import SchemaSizeSettings
from proxy.rules.schema.type import SchemaTypeSettings


def read_schema_rule(value: Value, rule: Fields) -> RuleSettings | None:
    """The word under ``schema``, and what belongs to it."""
    if note(value, enum=list(_ABOUT)):
        for each in _ABOUT.values():  # an editor is told of all that may stand beside one of the words
            each(rule)
    read = choice(_ABOUT)(value, rule.problems)
    return None if read is None else read(rule)


def _read_type(rule: Fields) -> SchemaTypeSettings:
    reads, writes = rule.read("applies_to", choice(ACCESS), (False, True))
    return SchemaTypeSettings(reads, writes)


def _read_size(rule: Fields) -> SchemaSizeSettings:
    default = SchemaMembersSettings()
    return SchemaSizeSettings(
        SchemaMembersSettings(
            rule.read("sample", read_percent, default.sample), rule.read("remember", read_duration, default.remember)
        )
    )


def _read_ttl(rule: Fields) -> SchemaTtlSettings:
    return SchemaTtlSettings(read_ttl_options(rule))


def _read_fields(_rule: Fields) -> SchemaFieldsSettings:
    return SchemaFieldsSettings()


_ABOUT: Mapping[str, Callable[[Fields], RuleSettings]] = {
    "type": _read_type,
    "size": _read_size,
    "fields": _read_fields,
    "ttl": _read_ttl,
}
"""By the word under ``schema``: the reader of the rule's other keys."""
