"""Whether a key is one that the schema knows: a part of the ``names`` guardrail.

A team may describe its keys as widely as ``{any...}``, and that must not make everybody's keys legal. So ``owned`` asks
more: an entry of another app's is no home for a client's key. Keys of an app that anyone can claim to be are
no app's own: else a client that says another name would get at keys that it must not have.
"""

from dataclasses import dataclass

from proxy.rules.lowering import EntryCheck
from proxy.schema.entries import Owner, Schema
from proxy.schema.nearest import nearest_entry


@dataclass(frozen=True, slots=True)
class Membership:
    """The entries that an app's keys must belong to; `app` is "" for clients of no app, `proven` are sure ones."""

    schema: Schema
    app: str
    owned: bool
    proven: frozenset[str]

    def fault(self, key: bytes, owner: Owner) -> str:
        """The fault of a key that has this owner."""
        if owner is None:
            nearest = nearest_entry(self.schema.entries, key)
            return f"is not in the schema{'' if nearest is None else f'; the nearest entry is {nearest.described}'}"
        if self._is_foreign(owner):
            return f"belongs to {owner.described}, and the client {f'is of {self.app}' if self.app else 'is of no app'}"
        return ""

    def _is_foreign(self, owner: Owner) -> bool:
        return self.owned and owner is not None and owner.app != self.app and owner.app in self.proven

    def check(self, *, reads: bool, writes: bool) -> EntryCheck:
        """Keys that have no such home are judged."""
        return EntryCheck.judging(
            self.schema,
            lambda owner: reads and (owner is None or self._is_foreign(owner)),
            lambda owner: writes and (owner is None or self._is_foreign(owner)),
        )
