"""What a rule may know besides the command. Time and chance come in as values: a verdict can be repeated."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

NO_SLOT = -1
"""Stands for the slot of keys that have not come yet."""


@dataclass(slots=True)
class Context:
    """The client and the moment that a command is judged in.

    `now` is in seconds since the epoch; `random` returns a number in [0, 1). `app` is the policy's name for the
    application that the client belongs to, empty where it is unknown. `slot` is the hash slot of the first key that
    has been watched or queued since the last transaction. `address` is the host that the client comes from, without the
    port. `surplus` are the limits under which it is one client too many. `no_wait` says in words why the command can't
    wait for a procedure (it is inside MULTI, or on its way already), and is empty where it can. `prepaid` is how
    many bytes of a streamed command have been paid for already, by the limit's name.
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
