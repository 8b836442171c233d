"""The entry of a schema that is most like a key without an entry."""

from collections.abc import Sequence
from difflib import SequenceMatcher

from proxy.schema.entries import KeyEntry
from proxy.schema.patterns import Literal

_ALIKE = 0.6
"""The likeness, from 0 to 1, from which a segment counts as a misspelling of a pattern's text."""
_MOST_ENTRIES = 100
_LONGEST = 128
"""The most bytes of a key that are compared. It bounds the work for one refusal, with the number of entries and the
length of a segment."""
_LONGEST_WORD = 16
_MISSPELT = 3
"""The most bytes by which a misspelling is longer or shorter than its word."""


def nearest_entry(entries: Sequence[KeyEntry], key: bytes) -> KeyEntry | None:
    """The entry with the most text in common with the key; None if the key begins like no pattern."""
    best, found = 0.0, None
    for entry in entries[:_MOST_ENTRIES]:
        alike = _likeness(entry, key[:_LONGEST].split(entry.pattern.separator))
        if alike > best:
            best, found = alike, entry
    return found


def _likeness(entry: KeyEntry, segments: Sequence[bytes]) -> float:
    """How much text the segments of a key have in common with a pattern; 0 for none."""
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
