"""The fields of hashes that the schema knows: a write of another field, or of a value of another type, is refused.

The fields that a command writes are in its arguments. What is stored already, what RENAME, COPY and RESTORE write, and
the fields that HIMPORT has prepared on its connection are not judged.
"""

import re
from dataclasses import dataclass

from proxy.commands.command import Command
from proxy.commands.rows import ROWS
from proxy.commands.table import Spec
from proxy.commands.values import FIELD_WRITES, fields_of, whole_number
from proxy.rules.context import Context
from proxy.rules.judged_by import JudgedBy
from proxy.rules.lowering import Lowering
from proxy.rules.plan_checks import EntryCheck
from proxy.rules.refusals import Refusals
from proxy.rules.rule import Binding, Rule, RuleSettings, Wording
from proxy.rules.verdict import PASS, Verdict
from proxy.schema.entries import KeyEntry, Owner
from proxy.schema.hash_fields import FieldType

_DECIMAL = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LONGEST_NUMBER = 64
"""No longer text is taken for a number."""
_LONGEST_NAME = 1024
"""Of a longer name only the beginning may be known, so it names no field."""
_MAY_ADD = {"int": frozenset({FieldType.INT, FieldType.FLOAT}), "float": frozenset({FieldType.FLOAT})}
_ADDS = {row.name: _MAY_ADD[row.adds_to_field] for row in ROWS.values() if row.adds_to_field is not None}
"""Commands that add a number, which Redis checks, and the types of the fields that they may add to."""
_MOST_NAMED = 12
"""Fields that an error names."""


@dataclass(frozen=True, slots=True)
class SchemaFieldsSettings(RuleSettings):
    """The schema's entries have the fields."""

    @property
    def is_about_schema(self) -> bool:
        return True

    @property
    def beyond_acl(self) -> str:
        return "an ACL knows no fields"

    def bind(self, name: str, wording: Wording, binding: Binding) -> "SchemaFields":
        return SchemaFields(name, wording, binding)


class SchemaFields(Rule):
    """The fields that the schema gives to hashes."""

    def __init__(self, name: str, wording: Wording, binding: Binding) -> None:
        self.name = name
        self._refusals = Refusals(name, wording, binding)
        self._schema = binding.schema
        self._check = EntryCheck.judging(binding.schema, lambda _: False, _has_fields)

    def touches(self, spec: Spec) -> bool:
        """Commands that write fields."""
        return spec.name in FIELD_WRITES

    def judge(self, command: Command, _context: Context) -> Verdict:
        """Refuse for the first field that the key's entry does not have, or that has another type."""
        return self._judge(command, called=False)

    def judge_call(self, command: Command, _context: Context) -> Verdict:
        """An argument that the script's text does not tell is empty."""
        return self._judge(command, called=True)

    def _judge(self, command: Command, *, called: bool) -> Verdict:
        owner = self._schema.owners_of(command.keys)[0] if command.keys else None
        if owner is None or owner.fields is None:
            return PASS
        for index in fields_of(command):
            if called and not command.argv[index]:
                continue
            kind = owner.fields.type_of(command.argv[index]) if command.length(index) <= _LONGEST_NAME else None
            if kind is None:
                named = [f"{name} ({its})" for name, its in owner.fields.types]
                more = ["…"] if len(named) > _MOST_NAMED else []
                why = f"argument {index} of {command.name} is no field of {owner.described}, which has "
                why += ", ".join(named[:_MOST_NAMED] + more)
                return self._refusals.of(why, "write fields that the schema has", command, owner=owner)
            if not _takes(command, index + 1, kind) and not (called and not command.argv[index + 1]):
                return self._refuse_value(command, index, kind, owner)
        return PASS

    def _refuse_value(self, command: Command, index: int, kind: FieldType, owner: KeyEntry) -> Verdict:
        if command.name in _ADDS:
            why = f"{command.name} is not for fields of type {kind}, such as argument {index} for {owner.described}"
        else:
            why = f"argument {index + 1} of {command.name} is no {kind}, as this field of {owner.described} has"
        return self._refusals.of(why, f"write a value of type {kind}", command, owner=owner)

    def judged_by(self, _spec: Spec) -> JudgedBy:
        return JudgedBy.DATA

    def lower(self, _spec: Spec, lowering: Lowering) -> None:
        """Writes to keys of entries with fields are judged."""
        lowering.check_entries(self._check)


def _has_fields(owner: Owner) -> bool:
    return owner is not None and owner.fields is not None


def _takes(command: Command, index: int, kind: FieldType) -> bool:
    """Whether a field of this type takes the argument."""
    adds = _ADDS.get(command.name)
    if adds is not None:
        return kind in adds
    value = command.argv[index]
    if kind is FieldType.STRING:
        return True
    if command.length(index) > _LONGEST_NUMBER:
        return False
    return whole_number(value) is not None if kind is FieldType.INT else _DECIMAL.fullmatch(value) is not None
