"""What is done about a key that would live longer or shorter than it may, or for ever."""

from dataclasses import dataclass
from enum import StrEnum

from proxy.schema.bounds import Bounds


class Outside(StrEnum):
    """What becomes of a lifetime that is shorter or longer than allowed."""

    CLAMP = "clamp"
    REFUSE = "refuse"


class Persist(StrEnum):
    """What becomes of a command that takes a key's lifetime away."""

    ALLOW = "allow"
    CLAMP = "clamp"
    """PERSIST gives the longest lifetime that the key may have; GETEX PERSIST only reads."""
    REFUSE = "refuse"


class Existing(StrEnum):
    """What becomes of a key that has no lifetime and was there before."""

    LEAVE = "leave"
    STAMP = "stamp"
    """The next write gives it one."""


class Unproven(StrEnum):
    """What becomes of a command that may create a key for ever where that can't be proved, or put right."""

    LET_THROUGH = "pass"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class TtlOptions:
    """What is done about lifetimes, whatever the key. Without a `persist`, the most that a key may live decides."""

    outside: Outside = Outside.CLAMP
    persist: Persist | None = None
    existing_keys: Existing = Existing.LEAVE
    without_proof: Unproven = Unproven.LET_THROUGH

    def on_persist(self, bounds: Bounds) -> Persist:
        """What becomes of PERSIST: unless the policy says it, a key that has a longest lifetime does not outlive it."""
        if self.persist is not None:
            return self.persist
        return Persist.ALLOW if bounds.most is None else Persist.CLAMP
