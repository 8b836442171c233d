"""Hash tags that put too many keys into one slot of a cluster: few tags for many keys, or one tag after the other.

Keys are told apart by their shape without the tag: ``log:{2026-11-30}:17`` is one of ``log:{tag}:{int}``. Of each shape
the tags are counted up to ``MOST_TAGS``, of which more are no reason to worry. Dates are one tag after the other. So
are numbers that grow, which only traffic can tell: a scan has no order in time, and the numbers of users are good tags.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from proxy.commands.slots import hashed_part
from proxy.traffic.shapes import shape

MOST_SHAPES = 200
"""Shapes that come later are left out."""
MOST_TAGS = 64
LEAST_KEYS = 1_000
"""Less keys of a shape say nothing, in a scan."""
_TAGS_OF_LEAST = 10
"""So many tags are few for ``LEAST_KEYS`` keys."""
LEAST_CHANGES = 20
_MOST = 0.9
"""So large a part of keys, or of changes, is as good as all of them."""
_LONGEST = 18


@dataclass(frozen=True, slots=True)
class UnusualTags:
    """Keys of a ``shape`` whose hash tags are unusual, and ``why``; of so many ``keys`` that were looked at."""

    shape: str
    keys: int
    why: str


@dataclass(slots=True)
class _Tags:
    keys: int = 0
    dates: int = 0
    tags: set[bytes] = field(default_factory=set)
    newest: int | None = None
    changes: int = 0
    rises: int = 0

    def why(self, least: int) -> str:
        if self.changes >= LEAST_CHANGES and self.rises >= _MOST * self.changes:
            return "their numbers grow, so what is used at a time is in one slot"
        if self.keys < least:
            return ""
        if self.dates >= _MOST * self.keys:
            return "they are dates, so what is used at a time is in one slot"
        few = len(self.tags) < MOST_TAGS and _TAGS_OF_LEAST * self.keys >= least * len(self.tags)
        which = "is 1 tag" if len(self.tags) == 1 else f"are {len(self.tags)} tags"
        return f"there {which} for all of them, and so many slots at most" if few else ""


class TagSpread:
    """The hash tags of keys, by the shapes of these; ``least`` keys of a shape say something."""

    def __init__(self, least: int = LEAST_KEYS) -> None:
        self._least = least
        self._shapes: dict[str, _Tags] = {}

    def add(self, key: bytes) -> None:
        """Look at a key, of which each comes once."""
        found = self._of(key)
        if found is not None:
            tags, tag = found
            tags.keys += 1
            tags.dates += _is_date(tag)
            if len(tags.tags) < MOST_TAGS:
                tags.tags.add(tag)

    def follow(self, keys: Iterable[bytes]) -> None:
        """Look at the keys that are used at a time, the busiest first; the oldest time comes first."""
        met = set[int]()
        for key in keys:
            found = self._of(key)
            if found is None or id(found[0]) in met or not found[1].isdigit() or len(found[1]) > _LONGEST:
                continue
            tags, number = found[0], int(found[1])
            met.add(id(tags))
            if tags.newest not in (None, number):
                tags.changes += 1
                tags.rises += number > (tags.newest or 0)
            tags.newest = number

    def unusual(self) -> list[UnusualTags]:
        """The shapes whose tags are unusual, the most keys first."""
        found = [
            UnusualTags(name, tags.keys, why) for name, tags in self._shapes.items() if (why := tags.why(self._least))
        ]
        return sorted(found, key=lambda each: (-each.keys, each.shape))

    def _of(self, key: bytes) -> tuple[_Tags, bytes] | None:
        tag = hashed_part(key)
        if len(tag) == len(key):
            return None
        begin = key.find(b"{")
        name = f"{shape(key[:begin])}{{tag}}{shape(key[begin + len(tag) + 2 :])}"
        if name not in self._shapes and len(self._shapes) >= MOST_SHAPES:
            return None
        return self._shapes.setdefault(name, _Tags()), tag


def _is_date(tag: bytes) -> bool:
    return b"{date}" in shape(tag).encode()
