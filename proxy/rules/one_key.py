"""One key of Redis, as a rule of a remedy is about it.

Rules judge the names that clients know: those of a tenant know the key without its prefix, all others know it as Redis
has it. The prefix may name a user or a listener, so only a client's own prefix proves which key it means.
"""

from dataclasses import dataclass

from proxy.rules.key_globs import KeyGlob, key_glob


@dataclass(frozen=True, slots=True)
class OneKey:
    """A key by its `name` in Redis. `own` is the name by which clients of a tenant may know it, None if it is of no
    tenant."""

    name: bytes
    own: bytes | None = None

    @property
    def globs(self) -> tuple[KeyGlob, ...]:
        """All names by which clients may know it."""
        return tuple(key_glob((name,)) for name in (self.name, self.own) if name is not None)

    def is_meant(self, name: bytes, prefix: bytes) -> bool:
        """Whether clients whose keys are behind this prefix mean it with this name."""
        return len(prefix) + len(name) == len(self.name) and prefix + name == self.name
