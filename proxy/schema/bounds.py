"""The TTL bounds of an entry of the schema or a rule."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """The lifetime of a key, in seconds. Without bounds, a key needs no TTL.

    A key that is created without a TTL gets the `default`. With `required`, a command that can state a TTL must state
    one; other commands get the `default`, or without a default the `most`. `jitter` is the share by which the default
    varies (0 <= jitter < 1), `jitter_stated` the share by which stated TTLs vary. `sliding`: each use renews the
    default.
    """

    default: int | None = None
    least: int | None = None
    most: int | None = None
    jitter: float = 0.0
    required: bool = False
    sliding: bool = False
    jitter_stated: float = 0.0

    def seconds(self, chance: float) -> int:
        """The lifetime for a random number in [0, 1), within the bounds."""
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
        """The TTL, in seconds and before jitter, for a key of a command that can't state one; None for no TTL."""
        return self.most if self.default is None and self.required else self.default

    @property
    def longest(self) -> int | None:
        """The longest lifetime that the bounds allow for certain, in seconds."""
        return self.default if self.most is None else self.most


_PERMANENT = Bounds()


def spread(lifetime: float, jitter: float, chance: float) -> float:
    """A lifetime, varied by up to the share `jitter` up or down; `chance` is a random number in [0, 1)."""
    return lifetime * (1 + jitter * (2 * chance - 1))
