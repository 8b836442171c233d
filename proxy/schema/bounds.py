"""TTL bounds, as an entry of the schema or a rule states them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """The lifetime of a key, in seconds. Without bounds, a key needs no TTL.

    `default` is given to a key that is created without one (the `most`, where `required` leaves that to commands that
    can't state any, and there is no `default`); `jitter` is the share by which it varies (0 <= jitter < 1),
    `jitter_stated` that by which those vary that applications state. `required`: whoever writes with a command that can
    state a lifetime has to. `sliding`: each use renews the default.
    """

    default: int | None = None
    least: int | None = None
    most: int | None = None
    jitter: float = 0.0
    required: bool = False
    sliding: bool = False
    jitter_stated: float = 0.0

    def seconds(self, chance: float) -> int:
        """The lifetime that belongs to a random number in [0, 1), within the bounds."""
        given = self.given
        assert given is not None
        drawn = max(1, round(spread(given, self.jitter, chance)))
        return -(-self.nearest(drawn * 1000) // 1000)

    def nearest(self, milliseconds: int) -> int:
        """The nearest allowed lifetime."""
        if self.least is not None:
            milliseconds = max(milliseconds, self.least * 1000)
        return milliseconds if self.most is None else min(milliseconds, self.most * 1000)

    @property
    def permanent(self) -> bool:
        """Whether there are no bounds."""
        return self == _PERMANENT

    @property
    def weighs(self) -> bool:
        """Whether a lifetime that an application states may be changed or refused."""
        return self.least is not None or self.most is not None or self.jitter_stated > 0

    @property
    def gives(self) -> bool:
        """Whether the rule acts on a key that is created without a lifetime."""
        return self.default is not None or self.required

    @property
    def given(self) -> int | None:
        """What a key gets, in seconds and before jitter, whose creator can't state a lifetime; None for nothing."""
        return self.most if self.default is None and self.required else self.default

    @property
    def longest(self) -> int | None:
        """The longest lifetime that is known to be right, in seconds."""
        return self.default if self.most is None else self.most


_PERMANENT = Bounds()


def spread(lifetime: float, jitter: float, chance: float) -> float:
    """A lifetime moved by up to the share `jitter` either way, as a random number in [0, 1) says."""
    return lifetime * (1 + jitter * (2 * chance - 1))
