"""How a rule treats a key with a TTL out of bounds, or without one."""

from dataclasses import dataclass
from enum import StrEnum

from proxy.schema.bounds import Bounds


class Outside(StrEnum):
    """How a rule treats a lifetime that is shorter or longer than allowed."""

    CLAMP = "clamp"
    REFUSE = "refuse"


class Persist(StrEnum):
    """How a rule treats a command that removes a key's TTL."""

    ALLOW = "allow"
    CLAMP = "clamp"
    """PERSIST gives the longest lifetime that the key may have; GETEX PERSIST only reads."""
    REFUSE = "refuse"


class Existing(StrEnum):
    """How a rule treats a key without a TTL that existed before."""

    LEAVE = "leave"
    STAMP = "stamp"
    """The next write gives it one."""


class Unproven(StrEnum):
    """How a rule treats a command that may create a key without a TTL, if nothing proves it or no TTL can be added."""

    LET_THROUGH = "pass"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class TtlOptions:
    """The options of lifetimes, for all keys. Without a `persist`, the longest lifetime of the key decides."""

    outside: Outside = Outside.CLAMP
    persist: Persist | None = None
    existing_keys: Existing = Existing.LEAVE
    without_proof: Unproven = Unproven.LET_THROUGH

    def on_persist(self, bounds: Bounds) -> Persist:
        """How PERSIST is treated: by default, a key with a longest lifetime must not exceed it."""
        if self.persist is not None:
            return self.persist
        return Persist.ALLOW if bounds.most is None else Persist.CLAMP
