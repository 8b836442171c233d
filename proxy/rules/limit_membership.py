"""A client's membership in the limits of a policy: which tokens it spends, and which limits of connections it
exceeds.

Most clients of an application are alike: they have the same user, client name and address. So they share a membership,
which the first of them has made.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from proxy.hotpath.plan.leased_tokens import UNLIMITED, LeasedTokens, TokenSet
from proxy.hotpath.upstream.in_flight import ReplySink
from proxy.rules.context import Context

_NONE = TokenSet(LeasedTokens(0), LeasedTokens(0), LeasedTokens(0))
_KEPT = 1_000
"""Memberships that are kept for the next client: they are forgotten together when there are more."""
_LONGEST_KEPT = 256
"""Characters of a user or client name: a client with a longer one shares no membership. Clients choose their names."""


class Presence:
    """The place of a limit's subject: the tokens that its clients spend.

    `members` are the clients that count there; None where nobody is counted. More than `most` are surplus and do not
    count. `lasts` says that the subject's next client gets this presence, too.
    """

    __slots__ = ("lasts", "members", "most", "token_set")

    def __init__(self, token_set: TokenSet, members: set[ReplySink] | None = None, *, lasts: bool = True) -> None:
        self.token_set = token_set
        self.members = members
        self.most = UNLIMITED
        self.lasts = lasts

    @property
    def full(self) -> bool:
        """Whether one more client is surplus."""
        return self.members is not None and len(self.members) >= self.most


NO_LIMIT = Presence(TokenSet(LeasedTokens(UNLIMITED), LeasedTokens(UNLIMITED), LeasedTokens(UNLIMITED)))


class Limiting(Protocol):
    """A rule that counts clients: see ``Needs.place``."""

    @property
    def name(self) -> str:
        """The rule's name in the policy."""

    def enter(self, context: Context) -> Presence:
        """The presence of a client, by its user, name, address and app."""


class LimitMembership:
    """The membership in each of a policy's limits, and the token sets in the same order.

    Clients share it if they are alike and none of them exceeds a limit of connections (`surplus`).
    """

    __slots__ = ("_counted", "_limits", "_presences", "surplus", "token_sets")

    def __init__(self, limits: Sequence[Limiting], context: Context) -> None:
        self._limits = limits
        self._presences = [limit.enter(context) for limit in limits]
        self._counted = [each for each in self._presences if each.members is not None and not each.full]
        self.surplus: frozenset[str] = frozenset()
        self.token_sets: list[TokenSet] = []
        self._spread(frozenset(limit.name for limit, each in self._places() if each.full))

    def _places(self) -> Iterable[tuple[Limiting, Presence]]:
        return zip(self._limits, self._presences, strict=True)

    def _spread(self, surplus: frozenset[str]) -> None:
        self.surplus = surplus
        self.token_sets = [_NONE if limit.name in surplus else each.token_set for limit, each in self._places()]

    def takes(self, client: ReplySink) -> bool:
        """Count in another client that is alike; False if that one needs a membership of its own."""
        # This runs for each new client.
        for each in self._counted:
            if not each.lasts or each.full:
                return False
        self.enter(client)
        return True

    def enter(self, client: ReplySink) -> None:
        """Count the client in."""
        for each in self._counted:
            if each.members is not None:
                each.members.add(client)

    def told(self, limits: Iterable[str]) -> None:
        """These limits have judged the surplus client: if it is still connected, it counts like any other."""
        self._spread(self.surplus.difference(limits))

    def leave(self, client: ReplySink) -> None:
        """Remove the client: it has disconnected, or will be counted again."""
        for each in self._counted:
            if each.members is not None:
                each.members.discard(client)


class LimitMemberships:
    """The memberships of the clients of one app in a policy's limits."""

    def __init__(self, limits: Sequence[Limiting]) -> None:
        self._limits = limits
        self._kept: dict[tuple[str, bytes, str], LimitMembership] = {}

    def join(
        self, client: ReplySink, user: str, name: bytes, address: str, context: Callable[[], Context]
    ) -> LimitMembership:
        """Count a client in under each limit; `context` is asked only if no client alike has come before."""
        alike = user, name, address
        kept = self._kept.get(alike)
        if kept is not None and kept.takes(client):
            return kept
        made = LimitMembership(self._limits, context())
        made.enter(client)
        if not made.surplus and len(user) <= _LONGEST_KEPT and len(name) <= _LONGEST_KEPT:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            self._kept[alike] = made
        return made
