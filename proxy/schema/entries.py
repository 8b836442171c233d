"""The entries of a schema, one for each pattern, and the schema that finds the entry of a key."""

from dataclasses import dataclass, field
from typing import TypeAlias

from proxy.commands.command import Key
from proxy.hotpath.automaton import NOBODY
from proxy.schema.automaton import compile_patterns
from proxy.schema.bounds import Bounds
from proxy.schema.patterns import Pattern


@dataclass(frozen=True, slots=True)
class KeySize:
    """How large values may be: the bytes of one value, and the members of a collection; None is no limit."""

    most_bytes: int | None = None
    most_members: int | None = None


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """One entry of a schema. `app` is the application whose keys these are, "" if that is not said.

    `type` is one of Redis's own words (string, hash, list, set, zset, stream …), and None where anything goes, as
    `lifetime` and `size` are; an empty `lifetime` means: no TTL, on purpose. `place` is where it
    stands, file and line.
    """

    name: str
    pattern: Pattern
    type: str | None = None
    lifetime: Bounds | None = None
    size: KeySize | None = None
    about: str = ""
    app: str = ""
    place: str = field(default="", compare=False)

    @property
    def title(self) -> str:
        """Its name in errors, with its application."""
        return f"{self.app}/{self.name}" if self.app else self.name

    @property
    def described(self) -> str:
        """Its title with its pattern."""
        return f"{self.title} ({self.pattern.text})"


Owner: TypeAlias = KeyEntry | None
"""The entry that owns a key, if any does."""


class Schema:
    """All entries, and the automaton that finds the one that owns a key: its number in `entries`.

    Schemas of equal entries are equal. Raises SchemaError for patterns that do not tell whose each key is.
    """

    def __init__(self, entries: tuple[KeyEntry, ...]) -> None:
        self.entries = entries
        self.automaton = compile_patterns([entry.pattern for entry in entries])
        self._asked: tuple[Key, ...] = ()
        self._owners: tuple[Owner, ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.entries == other.entries

    def __hash__(self) -> int:
        return hash(self.entries)

    def owner_of(self, key: bytes) -> Owner:
        """The entry that owns the key."""
        owner = self.automaton.owner(key)
        return None if owner == NOBODY else self.entries[owner]

    def owners_of(self, keys: tuple[Key, ...]) -> tuple[Owner, ...]:
        """The owner of each of a command's keys; found once, however many rules ask about it in turn."""
        if keys is not self._asked:
            self._asked, self._owners = keys, tuple(self.owner_of(key.name) for key in keys)
        return self._owners


NO_SCHEMA = Schema(())
"""The schema of a policy without one."""
