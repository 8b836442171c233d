"""All patterns of a schema as one automaton, which finds the entry that owns a key in one pass over the key.

Every pattern is a regular language. The automaton runs all of them side by side (subset construction), so at the end of
a key it knows which patterns match. The most specific of them owns the key:

- if the language of one pattern lies within that of another, it is the more specific one;
- otherwise, the first segment with different specificity decides (``patterns`` has the order).

The order of the file never matters. Two patterns that match the same key are an error if neither is more specific. So
is a pattern that owns no key, because more specific patterns take all its keys.
"""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from proxy.hotpath.plan.automaton import NOBODY, Automaton
from proxy.schema.expressions import ANY_BYTE, ByteSet, Expression, OneOf, Positions, Repeated
from proxy.schema.patterns import Pattern

MOST_STATES = 50_000
MOST_STEPS = 15_000_000
"""The most classes of bytes that positions read, over all states: a few seconds. Only loading a policy builds it."""
_PLEASANT = b"abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_.-"
"""The preferred bytes of examples, the best first."""


@dataclass(frozen=True, slots=True)
class Tie:
    """The numbers of two patterns of which neither is more specific, and a key that both match."""

    first: int
    second: int
    example: bytes


@dataclass(frozen=True, slots=True)
class Unreachable:
    """A pattern that owns no key, and the patterns that take its keys; none if it matches no key at all."""

    pattern: int
    owners: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TooLarge:
    """Patterns that together need more than this number of states, or too many steps to find them."""

    states: int


Flaw: TypeAlias = Tie | Unreachable | TooLarge


class SchemaError(ValueError):
    """Patterns that do not give every key one owner; `flaws` are all their problems."""

    def __init__(self, flaws: Sequence[Flaw]) -> None:
        super().__init__("; ".join(map(str, flaws)))
        self.flaws = tuple(flaws)


def compile_patterns(patterns: Sequence[Pattern], most_states: int = MOST_STATES) -> Automaton:
    """The automaton that finds the owner of a key: its number in `patterns`. Raises SchemaError."""
    building = _constructed([pattern.expression for pattern in patterns], most_states)
    matches = _Matches(patterns, building.matches)
    flaws = matches.flaws(building.examples())
    if flaws:
        raise SchemaError(flaws)
    return building.automaton([matches.owner_of(found) for found in building.matches])


def find_regions(languages: Sequence[Expression], most_states: int = MOST_STATES) -> dict[frozenset[int], bytes]:
    """The regions: each set of languages (by their numbers) that share a key which is in no other; with a shortest key.

    So two languages overlap if a region has both, and one lies within the other if each of its regions has the other,
    too. The empty key is left out. Raises SchemaError.
    """
    return _constructed(languages, most_states).examples()


def automaton_outside(languages: Sequence[Expression], most_cells: int, most_steps: int) -> Automaton | None:
    """The automaton that owns (as 0) each key that is in none of the languages, the empty key included.

    None if it would have more than `most_cells` (states times classes of bytes), or need more than `most_steps`.
    """
    building = _Construction([*languages, _EVERY_KEY])  # so that no key ends in the dead state
    if not building.run(most_cells // building.width, most_steps):
        return None
    owners = [NOBODY if any(each < len(languages) for each in found) else 0 for found in building.matches]
    if building.take_empty_key:
        owners[building.start] = NOBODY
    return building.automaton(owners)


def automaton_of_sets(
    languages: Sequence[Expression], owner: Callable[[frozenset[int]], int], most_cells: int, most_steps: int
) -> Automaton | None:
    """The automaton that finds the `owner` of the set of languages (by their numbers) that a key is in.

    None if it would have more than `most_cells` (states times classes of bytes), or need more than `most_steps`.
    """
    building = _Construction(languages)
    if not building.run(most_cells // building.width, most_steps):
        return None
    owners = [owner(found) for found in building.matches]
    if building.take_empty_key:
        owners[building.start] = owner(building.take_empty_key)
    return building.automaton(owners)


_EVERY_KEY = Repeated(OneOf(ANY_BYTE))


def _constructed(languages: Sequence[Expression], most_states: int) -> "_Construction":
    building = _Construction(languages)
    if not building.run(most_states, MOST_STEPS):
        raise SchemaError([TooLarge(most_states)])
    return building


_State: TypeAlias = tuple[frozenset[int], frozenset[int]]
"""The positions that may read the next byte, and the patterns that match a key which ends here."""


class _Construction:
    """The subset construction. State 0 is the dead state; without any pattern it is the start, too."""

    def __init__(self, languages: Sequence[Expression]) -> None:
        positions = Positions()
        self._pattern_of: dict[int, int] = {}
        starts: set[int] = set()
        empty: set[int] = set()
        for number, language in enumerate(languages):
            ends = positions.add(language)
            if ends.empty:
                empty.add(number)
            starts |= ends.first
            self._pattern_of |= dict.fromkeys(ends.last, number)
        self.take_empty_key = frozenset(empty)
        """The patterns that match the empty key."""
        self._follow = [frozenset(each) for each in positions.follow]
        self._classes = _byte_classes(set(positions.reads))
        self._width = max(self._classes) + 1
        members = {read: self._classes_in(read) for read in set(positions.reads)}
        self._reads = [members[read] for read in positions.reads]
        nothing: frozenset[int] = frozenset()
        self._numbers: dict[_State, int] = {(nothing, nothing): 0}
        self._states: list[_State] = [(nothing, nothing)]
        self.start = self._number_of((frozenset(starts), nothing))
        self._steps: list[list[int]] = []
        self._reached_by = [(0, 0)] * len(self._states)

    def _classes_in(self, read: ByteSet) -> tuple[int, ...]:
        return tuple(sorted({self._classes[byte] for byte in range(256) if read >> byte & 1}))

    def _number_of(self, state: _State) -> int:
        number = self._numbers.setdefault(state, len(self._states))
        if number == len(self._states):
            self._states.append(state)
        return number

    @property
    def width(self) -> int:
        """The length of a row: one number for each class of bytes, and the owner."""
        return self._width + 1

    def run(self, most_states: int, most_steps: int) -> bool:
        """Find all states; False if there are too many, or it takes too long."""
        steps_left = most_steps
        while len(self._steps) < len(self._states) <= most_states and steps_left > 0:
            number = len(self._steps)
            reading: dict[int, list[int]] = {}
            for position in sorted(self._states[number][0]):
                steps_left -= len(self._reads[position])
                for byte_class in self._reads[position]:
                    reading.setdefault(byte_class, []).append(position)
            targets: dict[tuple[int, ...], int] = {}
            step = [0] * self._width
            steps_left -= self._width
            for byte_class, read in sorted(reading.items()):
                together = tuple(read)
                if together not in targets:
                    targets[together] = self._number_of(self._behind(together))
                    if len(self._states) > len(self._reached_by):
                        self._reached_by.append((number, byte_class))
                step[byte_class] = targets[together]
            self._steps.append(step)
        return len(self._steps) == len(self._states)

    def _behind(self, read: tuple[int, ...]) -> _State:
        pending = frozenset().union(*(self._follow[position] for position in read))
        return pending, frozenset(self._pattern_of[position] for position in read if position in self._pattern_of)

    @property
    def matches(self) -> list[frozenset[int]]:
        """For each state, the patterns that match a key that ends there."""
        return [matched for _, matched in self._states]

    def examples(self) -> dict[frozenset[int], bytes]:
        """A shortest key for each set of patterns that match a key together."""
        found: dict[frozenset[int], bytes] = {}
        best = [min(self._bytes_of(each), key=_unpleasantness) for each in range(self._width)]
        for number, matched in enumerate(self.matches):  # in the order in which the states were reached
            if matched and matched not in found:
                key = bytearray()
                at = number
                while at != self.start:
                    at, byte_class = self._reached_by[at]
                    key.append(best[byte_class])
                found[matched] = bytes(reversed(key))
        return found

    def _bytes_of(self, byte_class: int) -> list[int]:
        return [byte for byte in range(256) if self._classes[byte] == byte_class]

    def automaton(self, owners: Sequence[int]) -> Automaton:
        """The automaton in the form that the walker reads."""
        order = sorted(range(len(self._steps)), key=self._is_settled)
        begins = {number: at * self.width for at, number in enumerate(order)}
        rows = array("i")
        for number in order:
            rows.extend([begins[target] for target in self._steps[number]])
            rows.append(owners[number])
        return Automaton(self._classes, rows, begins[self.start])

    def _is_settled(self, number: int) -> bool:
        # Whether no byte leads away from this state, which is not the dead one.
        return number > 0 and self._steps[number].count(number) == self._width


def _byte_classes(sets: set[ByteSet]) -> bytes:
    """The class of each byte: two bytes are in one class if every set has either both or neither."""
    ordered = sorted(sets)
    numbers: dict[tuple[int, ...], int] = {}
    return bytes(numbers.setdefault(tuple(each >> byte & 1 for each in ordered), len(numbers)) for byte in range(256))


def _unpleasantness(byte: int) -> tuple[int, bool]:
    place = _PLEASANT.find(byte)
    return (len(_PLEASANT) if place < 0 else place), not 0x21 <= byte < 0x7F


class _Matches:
    """The sets of patterns that match keys together, and the owner of those keys."""

    def __init__(self, patterns: Sequence[Pattern], matches: Sequence[frozenset[int]]) -> None:
        self._specificity = [pattern.specificity for pattern in patterns]
        self._together = dict.fromkeys(each for each in matches if each)
        # A pattern's language lies within another's if the other matches every key that it matches.
        within: dict[int, frozenset[int]] = {}
        for each in self._together:
            for number in each:
                within[number] = within.get(number, each) & each
        self._within = [within.get(number, frozenset()) for number in range(len(patterns))]
        self._owners = {each: self._winners(each) for each in self._together}

    def _beats(self, one: int, other: int) -> bool:
        within, around = other in self._within[one], one in self._within[other]
        if within or around:
            return within and not around
        return self._specificity[one] < self._specificity[other]

    def _winners(self, together: frozenset[int]) -> list[int]:
        """The patterns that no other beats: one, or it is a tie."""
        ordered = sorted(together)
        unbeaten = [one for one in ordered if not any(self._beats(other, one) for other in ordered)]
        return unbeaten or ordered

    def owner_of(self, matched: frozenset[int]) -> int:
        """The owner of the keys that these patterns match."""
        return self._owners[matched][0] if matched else NOBODY

    def flaws(self, examples: dict[frozenset[int], bytes]) -> list[Flaw]:
        """Every tie, and every pattern that owns no key although it is in no tie."""
        ties: dict[tuple[int, int], Tie] = {}
        for matched, winners in self._owners.items():
            for second in winners[1:]:
                pair = winners[0], second
                ties.setdefault(pair, Tie(*pair, examples[matched]))
        owning = {number for winners in self._owners.values() for number in winners}
        unreachable = [
            Unreachable(number, self._takers(number)) for number in range(len(self._within)) if number not in owning
        ]
        return [*ties.values(), *unreachable]

    def _takers(self, number: int) -> tuple[int, ...]:
        winners = [winners for matched, winners in self._owners.items() if number in matched]
        return tuple(sorted({each for found in winners for each in found}))
