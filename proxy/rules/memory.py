"""The state that rules keep from one command to the next.

A policy is bound anew for each user and at each reload, and a limit must not start afresh every time: so what a rule
remembers is kept here, under its name, for as long as its settings stay what they are.
"""

from collections.abc import Callable, Collection
from typing import TypeVar

T = TypeVar("T")


class Memory:
    """The state of the rules of one route in one worker. ``workers`` is how many serve the route together.

    In a ``rehearsal`` commands are only tried on the policy: each is judged as if it were the first, and costs nothing.
    """

    def __init__(self, workers: int = 1, *, rehearsal: bool = False) -> None:
        self.workers = workers
        self.rehearsal = rehearsal
        self._kept: dict[str, tuple[object, object]] = {}

    def of(self, name: str, settings: object, kind: Callable[[], T]) -> T:
        """The state of the rule of this name and with these settings; ``kind`` makes it if there is none."""
        known = self._kept.get(name)
        if known is None or known[0] != settings:
            made = kind()
            self._kept[name] = settings, made
            return made
        return known[1]  # type: ignore[return-value]  # equal settings have remembered the same kind of thing

    def fork(self) -> "Memory":
        """The same for a policy that may come into force: what that one begins to remember is not known here."""
        fork = Memory(self.workers, rehearsal=self.rehearsal)
        fork.join(self)
        return fork

    def join(self, other: "Memory") -> None:
        """Know all that the other one does; of what both have, the other's holds."""
        self._kept |= other._kept

    def each(self, kind: type[T]) -> dict[str, T]:
        """All that is of one kind, by the rule's name."""
        return {name: kept for name, (_, kept) in self._kept.items() if isinstance(kept, kind)}

    def retain(self, names: Collection[str]) -> None:
        """Forget the rules of all other names."""
        self._kept = {name: kept for name, kept in self._kept.items() if name in names}
