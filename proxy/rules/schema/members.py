"""The caps of collections that the schema sets: ``size: {members: 5000}``, by the entry of the key that is written.

They are what ``collections`` sets for all keys, and are judged in the same way and at the same place in the order.
"""

from dataclasses import dataclass

from proxy.commands.command import Command
from proxy.commands.spec import Spec
from proxy.rules.collections.caps import Cap
from proxy.rules.collections.rule import Collections
from proxy.rules.context import Context
from proxy.rules.lowering import Lowering
from proxy.rules.plan_checks import EntryCheck
from proxy.rules.rule import Binding, RuleSettings, Wording
from proxy.rules.schema.size import SchemaSize
from proxy.rules.verdict import PASS, Refuse, Verdict
from proxy.schema.entries import Owner, Schema


@dataclass(frozen=True, slots=True)
class SchemaMembersSettings(RuleSettings):
    """The share of writes with a look-up, and the seconds for which a size is trusted. The schema has the caps."""

    sample: float = 0.1
    remember: int = 5

    @property
    def beyond_acl(self) -> str:
        return "an ACL does not know what is stored"

    def bind(self, name: str, wording: Wording, binding: Binding) -> "SchemaMembers":
        return SchemaMembers(name, self, wording, binding)


class SchemaMembers(Collections):
    """The caps that the schema gives to collections."""

    def __init__(self, name: str, settings: SchemaMembersSettings, wording: Wording, binding: Binding) -> None:
        caps = _EntryCaps(binding.schema)
        super().__init__(name, settings, caps, (settings.sample, settings.remember), wording, binding)
        self._of_one_write = SchemaSize(name, wording, binding)

    def judge(self, command: Command, context: Context) -> Verdict:
        """As ``Collections``. What the rule has refused for its arguments already is not counted again."""
        verdict = super().judge(command, context)
        if verdict is PASS or not self._of_one_write.touches(command.spec):
            return verdict
        return PASS if isinstance(self._of_one_write.judge(command, context), Refuse) else verdict


class _EntryCaps:
    """The caps of the entries of a schema."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._caps = {entry: cap for entry in schema.entries if (cap := _cap_of(entry)) is not None}
        self.trims = any(cap.trims for cap in self._caps.values())
        self._check = EntryCheck.judging(schema, lambda _: False, lambda owner: _cap_of(owner) is not None)

    def about(self, _stream: bool) -> bool:
        return bool(self._caps)

    def of(self, key: bytes, _stream: bool) -> Cap | None:
        owner = self._schema.owner_of(key)
        return None if owner is None else self._caps.get(owner)

    def lower(self, _spec: Spec, lowering: Lowering) -> None:
        """Writes to keys of entries with a cap are judged."""
        lowering.check_entries(self._check)


def _cap_of(owner: Owner) -> Cap | None:
    if owner is None or owner.size is None or owner.size.most_members is None:
        return None
    return Cap(owner.size.most_members, owner.size.trims, owner.size.unknown, owner)
