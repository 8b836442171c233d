"""Where a client stands under the limits of a policy: whose tokens it spends, and where it is one too many."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from proxy.commands.overlay import HANDSHAKE
from proxy.commands.table import Spec, State
from proxy.hotpath.allowance import Allowance, Purse
from proxy.hotpath.debts import Creditor
from proxy.rules.context import Context
from proxy.rules.limits.token_buckets import Account

_FREE = frozenset({"connection", "transaction"})
_FREE_STATES = frozenset({State.UNSUBSCRIBE, State.OWN})
_NONE = Purse(Allowance(0), Allowance(0), Allowance(0))


@dataclass(frozen=True, slots=True)
class Presence:
    """A client's place under one limit. `account` is where it is counted; a client that is `surplus` is in none."""

    purse: Purse
    account: Account | None = None
    surplus: bool = False


def is_free(spec: Spec) -> bool:
    """Whether a client needs the command to introduce itself, to stay alive, or to leave a state that it is in.

    Keyrail's own commands are free as well: they are what explains a refusal.
    """
    return not _FREE.isdisjoint(spec.categories) or spec.state in _FREE_STATES or spec.name in HANDSHAKE


@runtime_checkable
class Limiting(Protocol):
    """A rule that clients have a place under; its lowering may ``spend``."""

    @property
    def name(self) -> str:
        """The rule's name in the policy."""

    def enter(self, context: Context) -> Presence:
        """Count a client in."""


class Standing:
    """One client's place under each of a policy's limits, and its purses in the same order."""

    def __init__(self, limits: Sequence[Limiting], context: Context, client: Creditor) -> None:
        self._client = client
        self._names = [limit.name for limit in limits]
        self._presences = [limit.enter(context) for limit in limits]
        for presence in self._presences:
            if presence.account is not None:
                presence.account.members.add(client)
        self._spread(frozenset(limit for limit, each in self._named() if each.surplus))

    def _named(self) -> Iterable[tuple[str, Presence]]:
        return zip(self._names, self._presences, strict=True)

    def _spread(self, surplus: frozenset[str]) -> None:
        self.surplus = surplus
        self.purses: list[Purse] = [_NONE if name in surplus else each.purse for name, each in self._named()]

    def told(self, limits: Iterable[str]) -> None:
        """These limits have had their say of a client too many: if nothing came of it, it is one like any other."""
        self._spread(self.surplus.difference(limits))

    def leave(self) -> None:
        """The client has gone, or is to be counted anew."""
        for presence in self._presences:
            if presence.account is not None:
                presence.account.members.discard(self._client)
        self._presences = []
        self._names = []
