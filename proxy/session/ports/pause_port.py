"""What a session asks about times in which Redis holds writes back."""

from typing import Protocol

from proxy.hotpath.upstream.write_gate import WriteGate
from proxy.session.ports.pool_key import Node
from proxy.session.ports.pool_waiter import UpstreamWait, Waiter


class PausePort(Protocol):
    """CLIENT PAUSE … WRITE, as far as it is known. The ``gate`` is closed while any node holds writes back."""

    gate: WriteGate

    def holds(self, node: Node | None) -> bool:
        """Whether this node, or any if it is None, holds writes back."""

    def wait(self, waiter: Waiter) -> UpstreamWait:
        """Call ``arrived`` when a node holds none back any more."""

    def announces(self, user: str | None) -> bool:
        """Whether to ``announce`` a command of this user that makes Redis hold writes back: Redis may refuse it."""

    def announce(self, waiter: Waiter, user: str | None) -> None:
        """Such a command is about to be sent: let no worker send more writes on shared connections. Call ``arrived``
        when those that were sent have been answered."""

    def answered(self, user: str | None, announced: bool, reply: bytes) -> bytes:
        """The reply to such a command, which is passed on: find out how long Redis holds writes back."""
