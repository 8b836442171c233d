"""Regular expressions over bytes, as values.

It has the forms that key patterns need, and Glushkov's positions: each ``OneOf`` is a position, which reads one byte;
``follow`` says which positions may read the next byte. So an expression becomes an automaton without empty steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

ByteSet: TypeAlias = int
"""A set of bytes: bit n is set if byte n belongs to it."""

ANY_BYTE: ByteSet = (1 << 256) - 1


def byte_set(members: bytes) -> ByteSet:
    """The set of these bytes."""
    found = 0
    for byte in members:
        found |= 1 << byte
    return found


@dataclass(frozen=True, slots=True)
class OneOf:
    """One byte of a set."""

    bytes: ByteSet


@dataclass(frozen=True, slots=True)
class Chain:
    """Several parts, one behind the other."""

    parts: "tuple[Expression, ...]"


@dataclass(frozen=True, slots=True)
class Either:
    """Any one of several expressions."""

    options: "tuple[Expression, ...]"


@dataclass(frozen=True, slots=True)
class Repeated:
    """Once or more; with `or_not` also not at all."""

    body: "Expression"
    or_not: bool = False


Expression: TypeAlias = OneOf | Chain | Either | Repeated


def text(literal: bytes) -> Chain:
    """Exactly these bytes."""
    return Chain(tuple(OneOf(1 << byte) for byte in literal))


def times(body: Expression, count: int) -> Chain:
    """The body exactly `count` times."""
    return Chain((body,) * count)


@dataclass(frozen=True, slots=True)
class Ends:
    """The positions that may read an expression's first byte and its last, and whether it may be empty."""

    first: frozenset[int]
    last: frozenset[int]
    empty: bool


_NOTHING: frozenset[int] = frozenset()


class Positions:
    """The positions of all expressions added so far."""

    def __init__(self) -> None:
        self.reads: list[ByteSet] = []
        self.follow: list[set[int]] = []

    def add(self, expression: Expression) -> Ends:
        """Number the positions of one more expression."""
        match expression:
            case OneOf(bytes=read):
                self.reads.append(read)
                self.follow.append(set())
                position = frozenset((len(self.reads) - 1,))
                return Ends(position, position, empty=False)
            case Chain(parts=parts):
                return self._add_chain(parts)
            case Either(options=options):
                ends = [self.add(option) for option in options]
                return Ends(
                    _NOTHING.union(*(each.first for each in ends)),
                    _NOTHING.union(*(each.last for each in ends)),
                    any(each.empty for each in ends),
                )
            case Repeated(body=body, or_not=or_not):
                ends_of_body = self.add(body)
                self._link(ends_of_body.last, ends_of_body.first)
                return Ends(ends_of_body.first, ends_of_body.last, ends_of_body.empty or or_not)

    def _add_chain(self, parts: Sequence[Expression]) -> Ends:
        first, last, empty = _NOTHING, _NOTHING, True
        for part in parts:
            ends = self.add(part)
            self._link(last, ends.first)
            first = first | ends.first if empty else first
            last = last | ends.last if ends.empty else ends.last
            empty = empty and ends.empty
        return Ends(first, last, empty)

    def _link(self, behind: frozenset[int], first: frozenset[int]) -> None:
        for position in behind:
            self.follow[position] |= first
