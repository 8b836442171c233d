"""Questions that one worker has for all others: answered by the first that knows, or when the last has said no."""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

Place = TypeVar("Place")
Answer = TypeVar("Answer")


@dataclass(slots=True)
class _Search(Generic[Place, Answer]):
    waiting: set[Place]
    told: Callable[[Answer | None], None]


class Searches(Generic[Place, Answer]):
    """The questions under way, by their numbers; workers are told apart by `Place`."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._open: dict[int, _Search[Place, Answer]] = {}

    def begin(
        self, others: Iterable[Place], ask: Callable[[Place, int], None], told: Callable[[Answer | None], None]
    ) -> None:
        """Ask each of the others, with the question's number; ``told`` gets the answer, once."""
        places = set(others)
        if not places:
            told(None)
            return
        number = next(self._numbers)
        self._open[number] = _Search(places, told)
        for place in places:
            ask(place, number)

    def hear(self, place: Place, number: int, answer: Answer | None) -> None:
        """One has answered."""
        search = self._open.get(number)
        if search is None:
            return
        search.waiting.discard(place)
        if answer is not None or not search.waiting:
            del self._open[number]
            search.told(answer)

    def forget(self, place: Place) -> None:
        """One is gone, and answers no more."""
        for number, search in list(self._open.items()):
            if place in search.waiting:
                self.hear(place, number, None)
