"""The beginnings that names of keys must have, as patterns of an ACL.

They come from rules about names: prefixes of applications, and entries of the schema. An entry's pattern becomes a glob
with a star for each placeholder, which more names fit.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from proxy.policy.decision import Step
from proxy.rules.names.rule import NamesSettings
from proxy.schema.entries import Schema
from proxy.schema.patterns import Literal, Pattern

_SPECIAL = b"*?[\\"
_VISIBLE = bytes(range(0x21, 0x7F)).translate(None, b"\"'")


@dataclass(frozen=True, slots=True, order=True)
class KeyPattern:
    """A glob of Redis, and the bytes with which all its keys begin."""

    beginning: bytes
    glob: str

    @staticmethod
    def of_prefix(prefix: bytes) -> "KeyPattern":
        """All keys with this prefix."""
        return KeyPattern(prefix, _escaped(prefix) + "*")

    @property
    def is_prefix(self) -> bool:
        """Whether all keys that begin so match."""
        return self.glob == _escaped(self.beginning) + "*"

    def covers(self, other: "KeyPattern") -> bool:
        """Whether it matches all keys of the other one, as far as prefixes tell."""
        return self == other or (self.is_prefix and other.beginning.startswith(self.beginning))


Patterns: TypeAlias = tuple[KeyPattern, ...] | None
"""One of these must match; None: any key."""


@dataclass(frozen=True, slots=True)
class KeyRights:
    """The keys that may be written, and those that may only be read. Keys that may be written may be read."""

    written: Patterns = None
    read: Patterns = None

    @property
    def unlimited(self) -> bool:
        """Whether any key may be written and read."""
        return self.written is None and self.read is None

    def joined(self, other: "KeyRights") -> "KeyRights":
        """What either allows."""
        return KeyRights(union(self.written, other.written), union(self.read, other.read))

    def alike(self) -> "KeyRights":
        """What may be read may be written, too, and the other way round."""
        both = union(self.written, self.read)
        return KeyRights(both, both)


def key_rights(steps: Iterable[Step], schema: Schema, app: str, proven: frozenset[str]) -> KeyRights:
    """What these rules about names allow to an app, if all of them are enforced."""
    written: Patterns = None
    read: Patterns = None
    for step in steps:
        settings = step.source.settings
        if isinstance(settings, NamesSettings):
            allowed = _allowed(settings, schema, app, proven)
            written = _intersection(written, allowed) if settings.writes else written
            read = _intersection(read, allowed) if settings.reads else read
    return KeyRights(written, read)


def limits_names(step: Step) -> bool:
    """Whether the rule is about the names of keys."""
    return isinstance(step.source.settings, NamesSettings)


def finds_keys(step: Step) -> bool:
    """Whether a rule about names lets SORT find keys by a pattern."""
    settings = step.source.settings
    return not (isinstance(settings, NamesSettings) and settings.owned)


def says_all(step: Step, app: str) -> bool:
    """Whether patterns say all that a rule about names says."""
    settings = step.source.settings
    if not isinstance(settings, NamesSettings):
        return False
    prefixes, _ = settings.prefixes_of(app)
    plain = all(not each.encode().translate(None, _VISIBLE) for each in prefixes)
    return bool(prefixes) and plain and settings == NamesSettings(prefixes=settings.prefixes)


def _allowed(settings: NamesSettings, schema: Schema, app: str, proven: frozenset[str]) -> Patterns:
    prefixes, _ = settings.prefixes_of(app)
    found: Patterns = _reduced(KeyPattern.of_prefix(each.encode()) for each in prefixes) if prefixes else None
    if settings.in_schema:
        owned = (entry for entry in schema.entries if not (settings.owned and entry.app in proven - {app}))
        found = _intersection(found, _reduced(_glob_of(entry.pattern) for entry in owned))
    return found


def _intersection(these: Patterns, those: Patterns) -> Patterns:
    """Patterns of at least all keys that match one of these and one of those."""
    if these is None or those is None:
        return those if these is None else these
    pairs = ((this, that) for this in these for that in those)
    return _reduced(
        max(pair, key=lambda each: len(each.beginning))
        for pair in pairs
        if pair[0].beginning.startswith(pair[1].beginning) or pair[1].beginning.startswith(pair[0].beginning)
    )


def union(these: Patterns, those: Patterns) -> Patterns:
    """Patterns of what matches any of these."""
    return None if these is None or those is None else _reduced((*these, *those))


def _reduced(patterns: Iterable[KeyPattern]) -> tuple[KeyPattern, ...]:
    """The patterns without those that another one covers."""
    kept: list[KeyPattern] = []
    prefixes: set[bytes] = set()
    for each in sorted(set(patterns), key=lambda each: (len(each.beginning), not each.is_prefix, each.glob)):
        if not any(each.beginning[:end] in prefixes for end in range(len(each.beginning) + 1)):
            kept.append(each)
            if each.is_prefix:
                prefixes.add(each.beginning)
    return tuple(sorted(kept))


def _glob_of(pattern: Pattern) -> KeyPattern:
    pieces: list[bytes | None] = []
    for number, segment in enumerate(pattern.segments):
        pieces += [pattern.separator] if number else []
        pieces += [part.text if isinstance(part, Literal) else None for part in segment]
    return KeyPattern(_beginning(pieces), _glob(pieces))


def _beginning(pieces: Sequence[bytes | None]) -> bytes:
    found = b""
    for piece in pieces:
        if piece is None:
            break
        found += piece
    return found


def _glob(pieces: Sequence[bytes | None]) -> str:
    globs: list[str] = []
    for piece in pieces:
        if piece is not None:
            globs.append(_escaped(piece))
        elif globs[-1:] != ["*"]:
            globs.append("*")
    return "".join(globs)


def _escaped(text: bytes) -> str:
    """The text as a glob. An ACL takes no spaces, and quotes and other bytes depend on what reads the line: there, any
    byte matches."""
    return "".join("?" if byte not in _VISIBLE else f"\\{byte:c}" if byte in _SPECIAL else chr(byte) for byte in text)
