"""Faults of a name beyond its characters, its length and the number of its segments.

Each part describes the fault of one name, in words that never repeat the name. It is also a small state machine over
the name's bytes (``proxy.rules.name_language``), with which the plan tells right names. The machine accepts exactly the
names without a fault.

A hash tag is the part of a name that Redis Cluster hashes: the text between the first ``{`` and the next ``}``, unless
it is empty. A segment that is one tag has the content of the tag: ``cart:{42}`` has an integer behind ``cart``.
"""

from collections.abc import Hashable, Iterable
from functools import lru_cache

from proxy.hotpath.plan.automaton import NOBODY, Automaton
from proxy.schema.automaton import compile_patterns
from proxy.schema.patterns import parse_pattern

_OPENING, _CLOSING = b"{}"
_KINDS = {
    "date": "a date such as 2026-01-15",
    "uuid": "a UUID",
    "int": "an integer",
    "hex": "hexadecimal digits",
    "slug": 'lower-case letters, digits and "-"',
    "word": 'letters, digits, "_", "-" and "."',
}
"""The content of a segment of each kind, in words."""


@lru_cache(maxsize=256)
def kind_automaton(kind: str, separator: str) -> Automaton | None:
    """The automaton for segments of this kind; None if any segment is.

    Raises PatternError for an unknown kind, ValueError for a separator that patterns cannot have.
    """
    return None if kind == "any" else compile_patterns([parse_pattern(f"{{x:{kind}}}", separator)])


class SegmentKinds:
    """The kinds of the first segments, in order; further segments may be of any kind."""

    def __init__(self, kinds: tuple[str, ...], separator: str) -> None:
        self._kinds = kinds
        self._separator = separator.encode()
        self._byte = self._separator[0]
        self._automata = [kind_automaton(kind, separator) for kind in kinds]
        self.start: Hashable = self._begin(0)

    def fault(self, name: bytes) -> str:
        """The fault of the name; empty if it is right."""
        for i, (segment, automaton) in enumerate(zip(name.split(self._separator), self._automata, strict=False)):
            if automaton is not None and automaton.owner(_unbraced(segment)) == NOBODY:
                return f"must have {_described(self._kinds[i])} as segment {i + 1}"
        return ""

    # The machine: (segment, where in it, row of its automaton).

    def _begin(self, segment: int) -> Hashable:
        if segment >= len(self._automata):
            return "free"
        automaton = self._automata[segment]
        return (segment, "any", 0) if automaton is None else (segment, "begin", automaton.start)

    def tells(self, byte: int) -> Hashable:
        """A mark of the byte; bytes with equal marks are equivalent."""
        automata = tuple(None if each is None else each.classes[byte] for each in self._automata)
        return automata, byte if byte in (self._byte, _OPENING, _CLOSING) else None

    def step(self, state: Hashable, byte: int) -> Hashable | None:
        """The state behind one more byte; None if the name is already wrong."""
        if not isinstance(state, tuple):
            return state
        segment, place, row = state
        if byte == self._byte:
            return self._begin(segment + 1) if self.accepts(state) else None
        automaton = self._automata[segment]
        if automaton is None:
            return state
        if place == "begin" and byte == _OPENING:
            return segment, "tag", automaton.start
        if place == "tag" and byte == _CLOSING:
            return (segment, "closed", 0) if self._ends(automaton, row) else None
        if place == "closed":
            return None
        target = automaton.rows[row + automaton.classes[byte]]
        return (segment, "tag" if place == "tag" else "inside", target) if target else None

    def accepts(self, state: Hashable) -> bool:
        """Whether a name that ends here is right."""
        if not isinstance(state, tuple):
            return True
        segment, place, row = state
        automaton = self._automata[segment]
        if automaton is None or place == "closed":
            return True
        return place != "tag" and self._ends(automaton, row)

    def _ends(self, automaton: Automaton, row: int) -> bool:
        return automaton.rows[row + automaton.width - 1] != NOBODY


class Banned:
    """Words that no name may equal, or with a `separator` no segment, in any letter case."""

    def __init__(self, words: Iterable[str], separator: str = "") -> None:
        self._words = frozenset(word.lower().encode() for word in words)
        self._separator = separator.encode()
        self._byte = self._separator[0] if separator else -1
        self._beginnings = _beginnings_of(self._words)
        self._letters = frozenset(b"".join(self._words))
        self.start: Hashable = b""

    def fault(self, name: bytes) -> str:
        """The fault of the name; empty if it is right."""
        if not self._separator:
            return "is a banned name" if name.lower() in self._words else ""
        for i, segment in enumerate(name.split(self._separator)):
            if segment.lower() in self._words:
                return f"has a banned word in segment {i + 1}"
        return ""

    # The machine: the beginning of the segment, while a banned word begins with it; else "other".

    def tells(self, byte: int) -> Hashable:
        """A mark of the byte; bytes with equal marks are equivalent."""
        lower = _lower(byte)
        return -1 if byte == self._byte else lower if lower in self._letters else None

    def step(self, state: Hashable, byte: int) -> Hashable | None:
        """The state behind one more byte; None if the name is already wrong."""
        if byte == self._byte:
            return b"" if self.accepts(state) else None
        return _longer(state, byte, self._beginnings)

    def accepts(self, state: Hashable) -> bool:
        """Whether a name that ends here is right."""
        return state not in self._words


class HashTags:
    """Where a hash tag may be, and which tags are banned. Without `anywhere` only the given segments, counted from 1,
    may have one."""

    def __init__(self, anywhere: bool, segments: tuple[int, ...], banned: Iterable[str], separator: str) -> None:
        self._anywhere = anywhere
        self._segments = segments
        self._banned = frozenset(word.lower().encode() for word in banned)
        self._beginnings = _beginnings_of(self._banned)
        self._letters = frozenset(b"".join(self._banned))
        self._separator = separator.encode()
        self._byte = self._separator[0]
        self.start: Hashable = 1

    def fault(self, name: bytes) -> str:
        """The fault of the name; empty if it is right."""
        start = name.find(b"{") + 1
        end = name.find(b"}", start) if start else -1
        if end <= start:
            return ""
        if name[start:end].lower() in self._banned:
            return "has a banned hash tag, which would put too many keys into one slot"
        segment = name.count(self._separator, 0, start) + 1
        if self._anywhere or segment in self._segments:
            return ""
        return f"has a hash tag in segment {segment}, where the policy allows none"

    # The machine: the segment before a tag; its beginning, or "opened" and "stray" if none may be here; "behind" it.

    def tells(self, byte: int) -> Hashable:
        """A mark of the byte; bytes with equal marks are equivalent."""
        lower = _lower(byte)
        return byte if byte in (self._byte, _OPENING, _CLOSING) else lower if lower in self._letters else None

    def step(self, state: Hashable, byte: int) -> Hashable | None:
        """The state behind one more byte; None if the name is already wrong."""
        if isinstance(state, int):
            if byte == self._byte:
                return min(state + 1, max(self._segments, default=0) + 1)
            if byte != _OPENING:
                return state
            return b"" if self._anywhere or state in self._segments else "opened"
        if state == "behind":
            return state
        if state in ("opened", "stray"):  # an unclosed brace is no tag, and {} is none either
            return "stray" if byte != _CLOSING else "behind" if state == "opened" else None
        if byte == _CLOSING:
            return None if state in self._banned else "behind"
        return _longer(state, byte, self._beginnings)

    def accepts(self, _state: Hashable) -> bool:
        """Whether a name that ends here is right."""
        return True


class Prefixes:
    """The prefixes of which a name must have one; if none is `required`, the prefixes that no name may have."""

    def __init__(self, required: tuple[str, ...], foreign: tuple[str, ...]) -> None:
        self._required = tuple(each.encode() for each in required)
        self._foreign = tuple(each.encode() for each in foreign)
        self._words = frozenset(self._required or self._foreign)
        self._beginnings = _beginnings_of(self._words)
        self._letters = frozenset(b"".join(self._words))
        self.start: Hashable = b""

    def fault(self, name: bytes) -> str:
        """The fault of the name; empty if it is right."""
        if self._required:
            return "" if name.startswith(self._required) else "does not begin with a prefix of this application"
        return "begins with another application's prefix" if name.startswith(self._foreign) else ""

    def fault_of_pattern(self, beginning: bytes) -> str:
        """The fault of a pattern, by the beginning that all its names have."""
        if self._required:
            own = beginning.startswith(self._required)
            return "" if own else "may lead to keys without a prefix of this application"
        foreign = beginning.startswith(self._foreign) or any(each.startswith(beginning) for each in self._foreign)
        return "may lead to keys with another application's prefix" if foreign else ""

    # The machine: the beginning, while a prefix begins with it; "known" behind one; else "other".

    def tells(self, byte: int) -> Hashable:
        """A mark of the byte; bytes with equal marks are equivalent."""
        return byte if byte in self._letters else None

    def step(self, state: Hashable, byte: int) -> Hashable | None:
        """The state behind one more byte; None if the name is already wrong."""
        if not isinstance(state, bytes):
            return state
        beginning = state + bytes((byte,))
        if beginning in self._words:
            return "known" if self._required else None
        if beginning in self._beginnings:
            return beginning
        return None if self._required else "other"

    def accepts(self, state: Hashable) -> bool:
        """Whether a name that ends here is right."""
        return state == "known" if self._required else True


def _described(kinds: str) -> str:
    return " or ".join(_KINDS.get(kind, kind) for kind in kinds.split("|"))


def _unbraced(segment: bytes) -> bytes:
    return segment[1:-1] if segment[:1] == b"{" and segment[-1:] == b"}" else segment


def _lower(byte: int) -> int:
    return byte + 32 if 0x41 <= byte <= 0x5A else byte


def _beginnings_of(words: frozenset[bytes]) -> frozenset[bytes]:
    """Every beginning of a word, for a look-up for each state and byte."""
    return frozenset(word[:end] for word in words for end in range(len(word) + 1))


def _longer(state: Hashable, byte: int, beginnings: frozenset[bytes]) -> Hashable:
    """The beginning of a word with one more byte, or "other" if no word has this beginning."""
    if not isinstance(state, bytes):
        return state
    longer = state + bytes((_lower(byte),))
    return longer if longer in beginnings else "other"
