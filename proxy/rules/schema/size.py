"""The sizes of the schema: the bytes of a value, and the members of one write, by the key's entry.

As in ``sizes``, the rule judges the arguments, before anything is sent. They do not tell the present size of a
collection: that is the rule's later part (``members``), which may ask Redis.
"""

from dataclasses import dataclass

from proxy.commands.command import Command
from proxy.commands.table import Spec
from proxy.commands.values import brings_values, members_of, values_of, writes_far
from proxy.rules.context import Context
from proxy.rules.judged_by import JudgedBy
from proxy.rules.lowering import Lowering
from proxy.rules.plan_checks import UNLIMITED, EntryCheck
from proxy.rules.refusals import Refusals
from proxy.rules.rule import Binding, Rule, RuleSettings, Wording
from proxy.rules.sizes.rule import SMALLER, oversize, too_many_members
from proxy.rules.stored import Fault, StoredFault, StoredKey
from proxy.rules.stored_sizes import ONE_WRITE, STRING, may_have_over, size_fault
from proxy.rules.verdict import PASS, Verdict
from proxy.schema.entries import KeyEntry, KeySize, Owner

_NO_LIMIT = KeySize()
_BEFORE_MEMBERS = 2
"""The least number of arguments before the first member: the command's name and a key."""


@dataclass(frozen=True, slots=True)
class SchemaSizeSettings(RuleSettings):
    """The schema's entries have the sizes. `later` are the settings of its part about the sizes of collections."""

    later: RuleSettings | None = None

    @property
    def is_about_schema(self) -> bool:
        return True

    @property
    def beyond_acl(self) -> str:
        return "an ACL knows no sizes"

    def bind(self, name: str, wording: Wording, binding: Binding) -> "SchemaSize":
        return SchemaSize(name, wording, binding)


class SchemaSize(Rule):
    """The sizes that the schema gives to keys."""

    def __init__(self, name: str, wording: Wording, binding: Binding) -> None:
        self.name = name
        self._refusals = Refusals(name, wording, binding)
        self._schema = binding.schema
        self._check, self._check_at_offsets = (self._lowered(at_offsets=each) for each in (False, True))

    def _lowered(self, *, at_offsets: bool) -> EntryCheck:
        """The check. A value is no larger than its request, except for a write at an offset; members are arguments."""
        sizes = [_size_of(owner) for owner in (None, *self._schema.entries)]
        return EntryCheck(
            self._schema.automaton,
            (UNLIMITED,) * len(sizes),
            tuple(_bound(0 if at_offsets and size != _NO_LIMIT else size.most_bytes) for size in sizes),
            tuple(
                UNLIMITED if size.members_per_write is None else size.members_per_write + _BEFORE_MEMBERS
                for size in sizes
            ),
        )

    def touches(self, spec: Spec) -> bool:
        """Commands that bring values."""
        return brings_values(spec.name)

    def judge(self, command: Command, _context: Context) -> Verdict:
        """Refuse for the first value over its key's limit, or for too many members; else PASS."""
        owners = self._schema.owners_of(command.keys)
        limited = {
            key.index: owner
            for key, owner in zip(command.keys, owners, strict=True)
            if owner is not None and owner.size is not None
        }
        if not limited:
            return PASS
        for value in values_of(command):
            owner = limited.get(value.key)
            most = _size_of(owner).most_bytes
            if owner is not None and most is not None and value.length > most:
                return self._refuse(command, owner, oversize(command, value, most, self._refusals), SMALLER)
        members = members_of(command)
        for owner in limited.values():
            most = _size_of(owner).members_per_write
            if most is not None and members > most:
                fault = too_many_members(command, members, most, self._refusals)
                return self._refuse(command, owner, fault, f"write them in batches of at most {most}")
        return PASS

    def _refuse(self, command: Command, owner: KeyEntry, fault: str, instead: str) -> Verdict:
        return self._refusals.of(f"{fault} for {owner.described}", instead, command, owner=owner)

    def judge_stored(self, key: StoredKey) -> StoredFault | None:
        """The value of a string; the rule's later part judges the members of a collection."""
        owner, most = self._stored_limit(key)
        return None if owner is None or most is None else size_fault(key, most, f" for {owner.described}{ONE_WRITE}")

    @property
    def stored_faults(self) -> frozenset[Fault]:
        has_limit = any(_size_of(owner).most_bytes is not None for owner in self._schema.entries)
        return frozenset({Fault.TOO_LARGE} if has_limit else ())

    def members_wanted(self, key: StoredKey) -> bool:
        """The bytes of a string that takes more memory than its value may have bytes."""
        most = self._stored_limit(key)[1]
        return most is not None and may_have_over(key, most)

    def _stored_limit(self, key: StoredKey) -> tuple[Owner, int | None]:
        owner = self._schema.owner_of(key.name) if key.type == STRING else None
        return owner, _size_of(owner).most_bytes

    def judged_by(self, spec: Spec) -> JudgedBy:
        return JudgedBy.DATA if writes_far(spec.name) else JudgedBy.NAMES

    def lower(self, spec: Spec, lowering: Lowering) -> None:
        """Requests within the limits of their key's entry pass."""
        lowering.check_entries(self._check_at_offsets if writes_far(spec.name) else self._check)


def _size_of(owner: Owner) -> KeySize:
    return _NO_LIMIT if owner is None or owner.size is None else owner.size


def _bound(most: int | None) -> int:
    return UNLIMITED if most is None else most
