"""What a session asks about times in which Redis holds writes back, or Keyrail those of a tenant."""

from typing import Protocol

from proxy.hotpath.upstream.write_gate import WriteGate
from proxy.session.ports.pool_key import Node
from proxy.session.ports.pool_waiter import UpstreamWait, Waiter


class TenantHold(Protocol):
    """One time in which all workers hold a tenant's writes back: why they do not, or have not until the end; empty if
    they do, None while that is not known."""

    begun: str | None
    ended: str | None

    def end(self, waiter: Waiter | None = None) -> None:
        """Hold them no more. Call ``arrived`` when it is known whether they were held all the time."""


class TenantHoldPort(Protocol):
    """Writes of tenants that Keyrail holds back."""

    def holds(self, prefix: bytes) -> bool:
        """Whether those of this tenant's clients are."""

    def has_left(self, prefix: bytes) -> None:
        """A client of this tenant has left its connection. What it has sent there may run still."""

    def begin(self, waiter: Waiter, prefix: bytes, seconds: float) -> TenantHold:
        """Hold them back, in all workers, for so many seconds at most. Call ``arrived`` when those under way have been
        answered, or it has failed."""


class PausePort(Protocol):
    """CLIENT PAUSE … WRITE, as far as it is known. The ``gate`` is closed while any node holds writes back, and while
    those of a tenant are."""

    gate: WriteGate
    tenants: TenantHoldPort

    def holds(self, node: Node | None) -> bool:
        """Whether this node, or any if it is None, holds writes back."""

    def wait(self, waiter: Waiter) -> UpstreamWait:
        """Call ``arrived`` when a node holds none back any more, or those of a tenant are held no more."""

    def announces(self, user: str | None) -> bool:
        """Whether to ``announce`` a command of this user that makes Redis hold writes back: Redis may refuse it."""

    def announce(self, waiter: Waiter, user: str | None) -> None:
        """Such a command is about to be sent: let no worker send more writes on shared connections. Call ``arrived``
        when those that were sent have been answered."""

    def answered(self, user: str | None, announced: bool, reply: bytes) -> bytes:
        """The reply to such a command, which is passed on: find out how long Redis holds writes back."""
