"""The client and the moment of a judgement. Time and random numbers are values, so a verdict can be repeated."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

NO_SLOT = -1
"""The slot of a transaction without keys so far."""


@dataclass(slots=True)
class Context:
    """The client and the moment that a command is judged in.

    `now` is in seconds since the epoch; `random` returns a number in [0, 1). `app` is the policy's name for the
    client's application; empty if unknown. `slot` is the hash slot of the first watched or queued key since the last
    transaction. `address` is the client's host, without the port. `surplus` are the limits of connections that the
    client exceeds. `no_wait` says why the command cannot wait for a procedure (it is inside MULTI, or already on its
    way); empty if it can. `prepaid` is how many bytes of a streamed command are already paid for, by the limit's name.
    `at_primary`: no replica answers a command of this client now. `tenant` is the prefix behind which its keys are.
    """

    user: str
    client_name: str
    database: int
    in_transaction: bool
    now: float
    random: Callable[[], float]
    app: str = ""
    slot: int = NO_SLOT
    address: str = ""
    surplus: frozenset[str] = frozenset()
    no_wait: str = ""
    prepaid: Mapping[str, int] | None = None
    at_primary: bool = False
    tenant: bytes = b""

    @property
    def keyspace(self) -> Hashable:
        """Where its keys are: those of another database or another tenant are other keys."""
        return self.database, self.tenant
