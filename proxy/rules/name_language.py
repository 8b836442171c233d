"""State machines over the bytes of a name, run side by side: joined to one automaton for the plan, or searched."""

from array import array
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Protocol

from proxy.hotpath.plan.automaton import NOBODY, Automaton

MOST_STATES = 20_000
MOST_CELLS = 500_000
"""The most states times classes of bytes. A worker builds automata while its clients wait: this takes about a
second."""
_RIGHT = 0


class Machine(Protocol):
    """Tells of a name, byte by byte, whether it is right."""

    @property
    def start(self) -> Hashable:
        """The state before the first byte."""

    def tells(self, byte: int, /) -> Hashable:
        """A mark of the byte: bytes with equal marks lead everywhere to the same states."""

    def step(self, state: Hashable, byte: int, /) -> Hashable | None:
        """The state behind one more byte; None if no name with this beginning is right."""

    def accepts(self, state: Hashable, /) -> bool:
        """Whether a name that ends in this state is right."""


def automaton_of(machines: Sequence[Machine], most_states: int = MOST_STATES) -> Automaton | None:
    """The automaton that owns the names that every machine finds right; None if it would be too large."""
    numbers: dict[Hashable, int] = {}
    classes = bytes(
        numbers.setdefault(tuple(machine.tells(byte) for machine in machines), len(numbers)) for byte in range(256)
    )
    examples = [classes.index(number) for number in range(len(numbers))]
    width = len(examples) + 1
    start = tuple(machine.start for machine in machines)
    states: dict[tuple[Hashable, ...], int] = {start: 1}
    rows = array("i", [0] * len(examples) + [NOBODY])
    waiting = [start]
    for state in waiting:  # grows while it is walked
        for byte in examples:
            target = _step(machines, state, byte)
            if target is None:
                rows.append(0)
                continue
            if target not in states:
                states[target] = len(states) + 1
                waiting.append(target)
            rows.append(states[target] * width)
        rows.append(_RIGHT if _right(machines, state) else NOBODY)
        if len(states) > most_states or len(rows) > MOST_CELLS:
            return None
    return Automaton(classes, rows, width)


@lru_cache(maxsize=256)
def joined(one: Automaton, other: Automaton) -> Automaton | None:
    """The automaton that owns the names that both own; None if it would be too large."""
    return automaton_of((Walked(one), Walked(other)))


class TooIntricateError(Exception):
    """A search for names would take too long."""


def endings(
    machines: Sequence[Machine], least: int, most: int, most_states: int = MOST_STATES
) -> Iterator[tuple[Hashable, ...]]:
    """The states in which right names of `least` to `most` bytes end, one state for each machine, shortest names first.
    Raises TooIntricateError after `most_states` states.
    """
    machines = machines or [Counted(bytes([1]) * 256, None, 1, None, True)]
    told = {tuple(machine.tells(byte) for machine in machines): byte for byte in range(256)}
    ways = [_Ways(machine, told.values()) for machine in machines]
    level = [tuple(machine.start for machine in machines)]
    seen: set[tuple[Hashable, ...]] = set()
    looked_at = 0
    for length in range(most + 1):
        if length >= least:  # for shorter names, a state that occurs again still leads to longer names
            seen.update(level)
            yield from (state for state in level if _right(machines, state))
        looked_at += len(level)
        if looked_at > most_states:
            raise TooIntricateError
        targets: dict[tuple[Hashable, ...], None] = {}
        for state in level:
            targets |= dict.fromkeys(zip(*(way[each] for way, each in zip(ways, state, strict=True)), strict=True))
        level = [target for target in targets if None not in target and target not in seen]
        if not level:
            return


class _Ways(dict[Hashable, tuple[Hashable, ...]]):
    """The states behind each state of a machine: one for each class of bytes, None for no state."""

    def __init__(self, machine: Machine, told: Iterable[int]) -> None:
        self._machine = machine
        self._told = tuple(told)

    def __missing__(self, state: Hashable) -> tuple[Hashable, ...]:
        self[state] = behind = tuple(self._machine.step(state, byte) for byte in self._told)
        return behind


def _right(machines: Sequence[Machine], state: tuple[Hashable, ...]) -> bool:
    return all(machine.accepts(each) for machine, each in zip(machines, state, strict=True))


class Counted:
    """A machine for the allowed bytes of a name and the number of its segments; a `most` of None is no limit."""

    def __init__(self, allowed: bytes, separator: int | None, least: int, most: int | None, empty: bool) -> None:
        self._allowed = allowed
        self._separator = separator
        self._least = least
        self._most = most
        self._empty = empty
        self.start: Hashable = (1, True)

    def tells(self, byte: int) -> Hashable:
        """Whether it is allowed, and whether it separates."""
        return self._allowed[byte], byte == self._separator

    def step(self, state: Hashable, byte: int) -> Hashable | None:
        """The number of segments, and whether the last is empty; None if the name is already wrong."""
        assert isinstance(state, tuple)
        segments, empty = state
        if not self._allowed[byte]:
            return None
        if byte != self._separator:
            return segments, False
        if empty and not self._empty:
            return None
        if self._most is None:  # without a limit, counting stops at the least number
            return min(segments + 1, self._least), True
        return (segments + 1, True) if segments < self._most else None

    def accepts(self, state: Hashable) -> bool:
        """Whether there are enough segments, and no segment is empty unless it may be."""
        assert isinstance(state, tuple)
        segments, empty = state
        return self._separator is None or (segments >= self._least and (self._empty or not empty))


class Walked:
    """An automaton as a machine: its states are its rows."""

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        self._rows = list(automaton.rows)
        self.start: Hashable = automaton.start

    def tells(self, byte: int) -> Hashable:
        """Its class."""
        return self._automaton.classes[byte]

    def step(self, state: Hashable, byte: int) -> Hashable | None:
        """The row behind one more byte; None for the dead state."""
        assert isinstance(state, int)
        return self._rows[state + self._automaton.classes[byte]] or None

    def accepts(self, state: Hashable) -> bool:
        """Whether a name that ends here is owned."""
        return self.owner(state) != NOBODY

    def owner(self, state: Hashable) -> int:
        """The owner of a name that ends here."""
        assert isinstance(state, int)
        return self._rows[state + self._automaton.width - 1]


def _step(machines: Sequence[Machine], state: tuple[Hashable, ...], byte: int) -> tuple[Hashable, ...] | None:
    target = []
    for machine, each in zip(machines, state, strict=True):
        behind = machine.step(each, byte)
        if behind is None:
            return None
        target.append(behind)
    return tuple(target)
