"""The objects that an upstream pipeline calls, as far as it knows them."""

from typing import Protocol


class SubscriptionReader(Protocol):
    """The subscriptions of the client that has the connection for itself."""

    protocol: int

    def hears(self, head: bytes) -> int:
        """The kind of a frame, by its first line and first element: MESSAGE, CONFIRMATION or REPLY."""

    def confirms(self, frame: bytes, verb: bytes) -> bool:
        """Whether the frame answers the command ``verb``."""

    def confirm(self, frame: bytes) -> None:
        """Take over a confirmation of Redis."""
