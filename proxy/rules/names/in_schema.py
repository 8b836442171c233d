"""Whether a key is in the schema: a part of the ``names`` guardrail.

A team's entry may be as wide as ``{any...}``, and must not allow the keys of all clients. So ``owned`` requires that
the key's entry does not belong to another app. Keys of an app that is only claimed belong to no app: otherwise a client
could reach another app's keys by changing its name.
"""

from dataclasses import dataclass

from proxy.rules.plan_checks import EntryCheck
from proxy.schema.entries import Owner, Schema
from proxy.schema.nearest import nearest_entry

NOT_IN_SCHEMA = "is not in the schema"


@dataclass(frozen=True, slots=True)
class Membership:
    """The entries that an app's keys must belong to; `app` is "" for clients of no app, `proven` are the proven
    apps."""

    schema: Schema
    app: str
    owned: bool
    proven: frozenset[str]

    def fault(self, key: bytes, owner: Owner) -> str:
        """The fault of a key that has this owner."""
        if owner is None:
            nearest = nearest_entry(self.schema.entries, key)
            return f"{NOT_IN_SCHEMA}{'' if nearest is None else f'; the nearest entry is {nearest.described}'}"
        if self._is_foreign(owner):
            return f"belongs to {owner.described}, and the client {f'is of {self.app}' if self.app else 'is of no app'}"
        return ""

    def _is_foreign(self, owner: Owner) -> bool:
        return self.owned and owner is not None and owner.app != self.app and owner.app in self.proven

    def check(self, *, reads: bool, writes: bool) -> EntryCheck:
        """The check that judges keys without a right entry."""
        return EntryCheck.judging(
            self.schema,
            lambda owner: reads and (owner is None or self._is_foreign(owner)),
            lambda owner: writes and (owner is None or self._is_foreign(owner)),
        )
