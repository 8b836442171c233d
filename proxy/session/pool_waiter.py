"""A session, as the network side sees it while the session waits for something."""

from typing import Protocol


class PoolWaiter(Protocol):
    """A session that waits for an upstream, or for an answer."""

    gone: bool

    def arrived(self) -> None:
        """The upstream or the answer may be there: try again."""

    def close(self, cause: str) -> None:
        """Nothing will come: the client is closed."""
