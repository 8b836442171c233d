"""How long a key may live, and what is done about a key that would live longer, or for ever."""

from dataclasses import dataclass
from enum import StrEnum


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
class Bounds:
    """The lifetime of a key, in seconds.

    `default` is given to a key that is created without one; `jitter` is the share by which it varies (0 <= jitter < 1).
    `required`: whoever writes with a command that can state a lifetime has to. `sliding`: each use renews the default.
    """

    default: int | None = None
    least: int | None = None
    most: int | None = None
    jitter: float = 0.0
    required: bool = False
    sliding: bool = False

    def seconds(self, chance: float) -> int:
        """The lifetime that belongs to a random number in [0, 1), within the bounds."""
        assert self.default is not None
        drawn = max(1, round(self.default * (1 + self.jitter * (2 * chance - 1))))
        return -(-self.nearest(drawn * 1000) // 1000)

    def nearest(self, milliseconds: int) -> int:
        """The allowed lifetime that is nearest."""
        if self.least is not None:
            milliseconds = max(milliseconds, self.least * 1000)
        return milliseconds if self.most is None else min(milliseconds, self.most * 1000)

    @property
    def bounded(self) -> bool:
        """Whether there is a least or a most."""
        return self.least is not None or self.most is not None

    @property
    def gives(self) -> bool:
        """Whether a key that is created without a lifetime is this rule's business."""
        return self.default is not None or self.required

    @property
    def longest(self) -> int | None:
        """The longest lifetime that is known to be right, in seconds."""
        return self.default if self.most is None else self.most


@dataclass(frozen=True, slots=True)
class Conduct:
    """What is done about lifetimes, whatever the key."""

    outside: Outside = Outside.CLAMP
    persist: Persist = Persist.ALLOW
    existing_keys: Existing = Existing.LEAVE
    without_proof: Unproven = Unproven.LET_THROUGH
