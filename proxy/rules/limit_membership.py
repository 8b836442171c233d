"""A client's membership in the limits of a policy: which tokens it spends, and which limits of connections it
exceeds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from proxy.hotpath.in_flight import ReplySink
from proxy.hotpath.leased_tokens import UNLIMITED, LeasedTokens, TokenSet
from proxy.rules.context import Context

_NONE = TokenSet(LeasedTokens(0), LeasedTokens(0), LeasedTokens(0))


@dataclass(frozen=True, slots=True)
class Presence:
    """A client's membership in one limit: the tokens that it spends.

    `members` are the clients that count there, this one included. A `surplus` client is no member.
    """

    token_set: TokenSet
    members: set[ReplySink] | None = None
    surplus: bool = False


NO_LIMIT = Presence(TokenSet(LeasedTokens(UNLIMITED), LeasedTokens(UNLIMITED), LeasedTokens(UNLIMITED)))


class Limiting(Protocol):
    """A rule that counts clients: see ``Needs.place``."""

    @property
    def name(self) -> str:
        """The rule's name in the policy."""

    def enter(self, context: Context) -> Presence:
        """Count a client in."""


class LimitMembership:
    """One client's membership in each of a policy's limits, and its token sets in the same order."""

    def __init__(self, limits: Sequence[Limiting], context: Context, client: ReplySink) -> None:
        # This runs for each new client.
        self._client = client
        self._limits = limits
        self._presences = presences = [limit.enter(context) for limit in limits]
        self.surplus: frozenset[str] = frozenset()
        self.token_sets: list[TokenSet] = [presence.token_set for presence in presences]
        for presence in presences:
            if presence.members is not None:
                presence.members.add(client)
            elif presence.surplus:
                self._spread(frozenset(limit.name for limit, each in self._places() if each.surplus))

    def _places(self) -> Iterable[tuple[Limiting, Presence]]:
        return zip(self._limits, self._presences, strict=True)

    def _spread(self, surplus: frozenset[str]) -> None:
        self.surplus = surplus
        self.token_sets = [_NONE if limit.name in surplus else each.token_set for limit, each in self._places()]

    def told(self, limits: Iterable[str]) -> None:
        """These limits have judged the surplus client: if it is still connected, it counts like any other."""
        self._spread(self.surplus.difference(limits))

    def leave(self) -> None:
        """Remove the client: it has disconnected, or will be counted again."""
        for presence in self._presences:
            if presence.members is not None:
                presence.members.discard(self._client)
        self._presences = []
        self._limits = ()
