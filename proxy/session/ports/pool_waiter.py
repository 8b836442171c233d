"""A session, as the network side sees it while the session waits for something."""

from typing import Protocol

LOGIN_LOST = "login_lost"
"""The cause where only another login of the client would bring a connection."""


class Waiter(Protocol):
    """Who waits for something that comes in any case."""

    @property
    def gone(self) -> bool:
        """Whether its client has left."""

    def arrived(self) -> None:
        """The upstream or the answer may be there: try again."""


class PoolWaiter(Waiter, Protocol):
    """A session that waits for an upstream, or for an answer."""

    def close(self, cause: str) -> None:
        """Nothing will come: the client is closed."""

    def turn_away(self, error: bytes, cause: str) -> None:
        """The same, with the error that Redis gave."""


class UpstreamWait(Protocol):
    """A wait for an upstream: whoever waits no more must end it, or would be closed when none comes in time."""

    def end(self) -> None:
        """Nothing is called any more. To end it once more changes nothing."""
