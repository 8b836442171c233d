"""Machines over the bytes of a name, run side by side and turned into one automaton for the plan."""

from array import array
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Protocol

from proxy.hotpath.automaton import NOBODY, Automaton

MOST_STATES = 20_000
_RIGHT = 0


class Machine(Protocol):
    """Says of a name, byte by byte, whether it is right."""

    @property
    def start(self) -> Hashable:
        """The state before the first byte."""

    def tells(self, byte: int, /) -> Hashable:
        """What the machine can tell of a byte: bytes with equal answers lead everywhere to the same states."""

    def step(self, state: Hashable, byte: int, /) -> Hashable | None:
        """The state behind one more byte; None where no such name is right."""

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
        right = all(machine.accepts(each) for machine, each in zip(machines, state, strict=True))
        rows.append(_RIGHT if right else NOBODY)
        if len(states) > most_states:
            return None
    return Automaton(classes, rows, width)


@lru_cache(maxsize=64)
def joined(one: Automaton, other: Automaton) -> Automaton | None:
    """The automaton that owns the names that both own; None if it would be too large."""
    return automaton_of((_Walked(one), _Walked(other)))


class _Walked:
    """An automaton as a machine: its states are its rows."""

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        self._rows = list(automaton.rows)
        self.start: Hashable = automaton.start

    def tells(self, byte: int) -> Hashable:
        """Its class."""
        return self._automaton.classes[byte]

    def step(self, state: Hashable, byte: int) -> Hashable | None:
        """The row behind one more byte; None for the one that no name leaves."""
        assert isinstance(state, int)
        return self._rows[state + self._automaton.classes[byte]] or None

    def accepts(self, state: Hashable) -> bool:
        """Whether a name that ends here is owned."""
        assert isinstance(state, int)
        return self._rows[state + self._automaton.width - 1] != NOBODY


def _step(machines: Sequence[Machine], state: tuple[Hashable, ...], byte: int) -> tuple[Hashable, ...] | None:
    target = []
    for machine, each in zip(machines, state, strict=True):
        behind = machine.step(each, byte)
        if behind is None:
            return None
        target.append(behind)
    return tuple(target)
