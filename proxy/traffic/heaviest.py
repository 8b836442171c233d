"""Figures by name, of a bounded number of names: the ones with the most weight are kept, the others become one sum."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, Self, TypeVar


class Addable(Protocol):
    """Figures that have a weight and can be added up."""

    @property
    def weight(self) -> int:
        """The number of commands that the figures stand for."""

    def add(self, more: Self, /) -> None:
        """Add the other's figures."""

    def clone(self) -> Self:
        """A copy of the figures."""


A = TypeVar("A", bound=Addable)
K = TypeVar("K", str, bytes, tuple[str, ...])


@dataclass(slots=True)
class Heaviest(Generic[K, A]):
    """Figures by name. If there are more than `most` names, the lightest are folded into `other` (weight) and
    `other_names` (count)."""

    most: int
    found: dict[K, A] = field(default_factory=dict)
    other_names: int = 0
    other: int = 0

    def put(self, name: K, figures: A) -> None:
        """Add a copy of the figures to those of the name."""
        known = self.found.get(name)
        if known is not None:
            known.add(figures)
        else:
            self.of(name, figures.clone)

    def of(self, name: K, new: Callable[[], A]) -> A:
        """The figures of the name, to be added to; `new` makes those of a name without any."""
        known = self.found.get(name)
        if known is None:
            if len(self.found) >= self.most * 2:
                self.fold(self.most)
            known = self.found[name] = new()
        return known

    def add(self, more: "Heaviest[K, A]") -> None:
        """Add the other's figures, name by name."""
        self.other += more.other
        # Two workers may have folded the same names: the larger count is certain, the sum is not.
        self.other_names = max(self.other_names, more.other_names)
        for name, figures in more.found.items():
            self.put(name, figures)

    def fold(self, most: int) -> None:
        """Keep the `most` heaviest names."""
        ranked = self.ranked()
        self.other_names += len(ranked[most:])
        self.other += sum(figures.weight for _, figures in ranked[most:])
        self.found = dict(ranked[:most])

    def ranked(self) -> list[tuple[K, A]]:
        """The heaviest first."""
        return sorted(self.found.items(), key=lambda item: -item[1].weight)
