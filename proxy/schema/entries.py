"""The entries of a schema, one for each pattern, and the schema that finds the entry of a key."""

from dataclasses import dataclass, field
from typing import TypeAlias

from proxy.commands.command import Key
from proxy.hotpath.plan.automaton import NOBODY
from proxy.schema.automaton import compile_patterns
from proxy.schema.bounds import Bounds
from proxy.schema.hash_fields import HashFields
from proxy.schema.patterns import Pattern


@dataclass(frozen=True, slots=True)
class KeySize:
    """The most bytes of one value, members of one write, and members of a collection; None is no limit.

    A push trims a list of too many members if it `trims`. `unknown` says whether a command that writes a whole
    collection passes if the sizes of its sources are unknown.
    """

    most_bytes: int | None = None
    most_members: int | None = None
    members_per_write: int | None = None
    trims: bool = False
    unknown: bool = True


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """One entry of a schema. `app` is the application that owns these keys; "" for shared keys.

    `type` is one of Redis's own words (string, hash, list, set, zset, stream …). `type`, `lifetime`, `size` and the
    `fields` of a hash are None if the entry does not say them; an empty `lifetime` means: no TTL, on purpose. `example`
    is one of its keys, "" if it has none; `relates_to` are the titles of entries whose keys belong to these. `place` is
    file and line.
    """

    name: str
    pattern: Pattern
    type: str | None = None
    lifetime: Bounds | None = None
    size: KeySize | None = None
    about: str = ""
    app: str = ""
    example: str = ""
    relates_to: tuple[str, ...] = ()
    fields: HashFields | None = None
    place: str = field(default="", compare=False)

    @property
    def title(self) -> str:
        """The name in errors, with the application."""
        return f"{self.app}/{self.name}" if self.app else self.name

    @property
    def described(self) -> str:
        """The title and the pattern."""
        return f"{self.title} ({self.pattern.text})"


Owner: TypeAlias = KeyEntry | None
"""The entry that owns a key; None if no entry does."""


class Schema:
    """All entries, and the automaton that finds the owner of a key: its number in `entries`.

    Schemas of equal entries are equal. Raises SchemaError if the patterns do not give every key one owner.
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
        """The owner of each key of a command; cached, since several rules ask in turn."""
        if keys is not self._asked:
            self._asked, self._owners = keys, tuple(self.owner_of(key.name) for key in keys)
        return self._owners


NO_SCHEMA = Schema(())
"""The schema of a policy without one."""
