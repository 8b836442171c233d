"""The types of the schema: a command for another type than that of the key's entry is refused.

Redis answers WRONGTYPE only if the key exists, and not if the command overwrites it: ``SET`` replaces a hash by a
string, as does every STORE. ``proxy.commands.key_types`` has the types of each command. A key without an entry, an
entry without a type, and a command for any type pass. The arguments of RENAME, COPY, RESTORE and scripts do not tell a
type.
"""

from dataclasses import dataclass

from proxy.commands.command import Command
from proxy.commands.key_types import KeyTypes, key_types_of, stored_types
from proxy.commands.table import Spec
from proxy.rules.context import Context
from proxy.rules.judged_by import JudgedBy
from proxy.rules.lowering import Lowering
from proxy.rules.plan_checks import EntryCheck
from proxy.rules.refusals import Refusals
from proxy.rules.rule import Binding, Rule, RuleSettings, Wording
from proxy.rules.stored import Fault, StoredFault, StoredKey
from proxy.rules.verdict import PASS, Verdict
from proxy.schema.entries import KeyEntry, Owner


@dataclass(frozen=True, slots=True)
class SchemaTypeSettings(RuleSettings):
    """Whether the rule is about keys that a command only reads, and about keys that it may write."""

    reads: bool = False
    writes: bool = True

    @property
    def is_about_schema(self) -> bool:
        return True

    @property
    def beyond_acl(self) -> str:
        return "an ACL knows no types of keys"

    def bind(self, name: str, wording: Wording, binding: Binding) -> "SchemaType":
        return SchemaType(name, self, wording, binding)


class SchemaType(Rule):
    """The types that the schema gives to keys."""

    def __init__(self, name: str, settings: SchemaTypeSettings, wording: Wording, binding: Binding) -> None:
        self.name = name
        self._settings = settings
        self._refusals = Refusals(name, wording, binding)
        self._schema = binding.schema
        self._types = [self._types_of(spec) for spec in binding.table.specs]
        self._checks: dict[KeyTypes, EntryCheck] = {}
        self._distinct: dict[EntryCheck, EntryCheck] = {}

    def _types_of(self, spec: Spec) -> KeyTypes:
        types, nothing = key_types_of(spec), frozenset[str]()
        return KeyTypes(
            types.read if self._settings.reads else nothing, types.written if self._settings.writes else nothing
        )

    def touches(self, spec: Spec) -> bool:
        """Commands that are for certain types."""
        return any(self._types[spec.id]) and spec.may_have_keys

    def judge(self, command: Command, _context: Context) -> Verdict:
        """Refuse for the first key of another type, else PASS."""
        types = self._types[command.spec.id]
        for key, owner in zip(command.keys, self._schema.owners_of(command.keys), strict=True):
            wanted = types.written if key.write else types.read
            if owner is not None and _differs(owner, wanted):
                return self._refuse(command, key.index, owner, wanted)
        return PASS

    def _refuse(self, command: Command, index: int, owner: KeyEntry, wanted: frozenset[str]) -> Verdict:
        meant = " or ".join(sorted(wanted))
        key = self._refusals.key(command, index)
        why = f"{command.name} is for a {meant}, and {key} belongs to {owner.described}, of type {owner.type}"
        return self._refusals.of(why, f"use a command for a {owner.type}", command, owner=owner)

    def judge_stored(self, key: StoredKey) -> StoredFault | None:
        """The type of the key, as if it were written now."""
        owner = self._schema.owner_of(key.name) if self._settings.writes else None
        if owner is None or not _differs(owner, stored_types(key.type)):
            return None
        text = f"is a {key.type}, and belongs to {owner.described}, of type {owner.type}"
        return StoredFault(Fault.WRONG_TYPE, text)

    @property
    def stored_faults(self) -> frozenset[Fault]:
        has_type = self._settings.writes and any(owner.type for owner in self._schema.entries)
        return frozenset({Fault.WRONG_TYPE} if has_type else ())

    def judged_by(self, _spec: Spec) -> JudgedBy:
        return JudgedBy.NAMES

    def lower(self, spec: Spec, lowering: Lowering) -> None:
        """Keys of entries of another type are judged."""
        types = self._types[spec.id]
        check = self._checks.get(types)
        if check is None:
            made = EntryCheck.judging(
                self._schema,
                lambda owner: _differs(owner, types.read),
                lambda owner: _differs(owner, types.written),
            )
            # One object for equal checks, since comparing them takes long: a schema may have hundreds of entries.
            check = self._checks[types] = self._distinct.setdefault(made, made)
        lowering.check_entries(check)


def _differs(owner: Owner, wanted: frozenset[str]) -> bool:
    return owner is not None and owner.type is not None and bool(wanted) and owner.type not in wanted
