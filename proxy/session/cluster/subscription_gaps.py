"""The times in which a client with a cluster upstream misses messages: counted, and bounded by ``HELD_SECONDS``."""

from collections.abc import Mapping

from proxy.session.cluster.subscription_link import SHARD_CHANNELS, Subscribed, SubscriptionLink
from proxy.session.cluster.subscription_places import SubscriptionPlaces
from proxy.session.commands.switching import HELD_SECONDS
from proxy.session.guarded import guarded
from proxy.session.ports.pool_key import Node
from proxy.session.session import Session

GAPS = "subscription_gaps"
"""The event that counts how often the subscriptions of a client were interrupted."""
CALM_SECONDS = 1.0
"""A link that is lost so soon after another one was is not replaced before the cluster has been looked at."""


class SubscriptionGaps:
    """The gaps of one client. ``names`` is what it has been told that it is subscribed to, ``links`` are its links."""

    def __init__(
        self,
        session: Session,
        names: Subscribed,
        links: Mapping[Node, SubscriptionLink],
        places: SubscriptionPlaces,
    ) -> None:
        self.ports = session.ports
        self._session: Session | None = session
        self._names = names
        self._links = links
        self._places = places
        self._began: float | None = None

    def close(self, cause: str) -> None:
        """Close the client."""
        if self._session is not None:
            self._session.close(cause)

    def end(self) -> None:
        """The client has left: nothing refers to it any more, which would be a cycle."""
        self._session = None

    def note(self) -> None:
        """Messages may be missed from now on, until all subscriptions are confirmed again."""
        if self._session is None or not any(self._names):
            return
        self.ports.route.count(GAPS)
        if self._began is None:
            self.ports.route.after(HELD_SECONDS, self._check)
        self._began = self.ports.route.now()

    def began_just_now(self) -> bool:
        """Whether the last one began a moment ago, and has not been seen to end."""
        return self._began is not None and self.ports.route.now() - self._began < CALM_SECONDS

    @guarded
    def _check(self) -> None:
        # Whether what was lost is subscribed to again.
        if self._session is None or self._session.gone or self._began is None:
            return
        missing = next(self._places.missing(self._names, self._links.values()), None)
        left = self._began + HELD_SECONDS - self.ports.route.now()
        if missing is None:
            self._began = None
        elif left > 0:
            self.ports.route.after(left, self._check)
        else:
            self.close("slot_moved" if missing == SHARD_CHANNELS else "upstream_lost")
