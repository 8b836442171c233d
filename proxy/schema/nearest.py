"""The entry of a schema that a key without one may have been meant for."""

from collections.abc import Sequence
from difflib import SequenceMatcher

from proxy.schema.entries import KeyEntry
from proxy.schema.patterns import Literal

_ALIKE = 0.6
"""How much a segment must have in common with a pattern's text, of 1, to be taken for a misspelling of it."""
_MOST_ENTRIES = 100
_LONGEST = 128
"""Bytes of a key that are looked at. With the entries, and the length of what is compared byte by byte, this bounds the
work for one refusal."""
_LONGEST_WORD = 16
_MISSPELT = 3
"""A misspelling is no longer or shorter than its word by more bytes than this."""


def nearest_entry(entries: Sequence[KeyEntry], key: bytes) -> KeyEntry | None:
    """The entry whose pattern's texts the key shares most; None if it does not begin like any of them."""
    best, found = 0.0, None
    for entry in entries[:_MOST_ENTRIES]:
        alike = _likeness(entry, key[:_LONGEST].split(entry.pattern.separator))
        if alike > best:
            best, found = alike, entry
    return found


def _likeness(entry: KeyEntry, segments: Sequence[bytes]) -> float:
    """How well a key fits a pattern, 0 for not at all: what its segments share with the text in the pattern's."""
    first = entry.pattern.segments[0]
    if not (len(first) == 1 and isinstance(first[0], Literal)):
        return 0.0
    shared = 0.0
    for i, (parts, segment) in enumerate(zip(entry.pattern.segments, segments, strict=False)):
        if len(parts) == 1 and isinstance(parts[0], Literal):
            alike = _alike(parts[0].text, segment)
            if i == 0 and alike < _ALIKE:
                return 0.0
            shared += alike
    return shared - 0.1 * abs(len(entry.pattern.segments) - len(segments))


def _alike(text: bytes, segment: bytes) -> float:
    one, other = text.decode("latin-1").lower(), segment.decode("latin-1").lower()
    if one == other:
        return 1.0
    if len(other) > _LONGEST_WORD or abs(len(one) - len(other)) > _MISSPELT:
        return 0.0
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    return matcher.ratio() if matcher.quick_ratio() >= _ALIKE else 0.0
