"""The state that rules keep from one command to the next.

A policy is bound again for each user and at each reload, but a limit must not start again. So the state of a rule is
kept here, under the rule's name, while its settings do not change.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import TypeVar

T = TypeVar("T")


class Memory:
    """The state of the rules of one route in one worker. ``workers`` is the number of workers of the route.

    In a ``rehearsal`` commands are only tried on the policy: each is judged as if it were the first, and costs no
    token.
    """

    def __init__(self, workers: int = 1, *, rehearsal: bool = False) -> None:
        self.workers = workers
        self.rehearsal = rehearsal
        self._kept: dict[str, tuple[object, object]] = {}
        self._shared: dict[type, object] = {}

    def of(self, name: str, settings: object, kind: Callable[[], T]) -> T:
        """The state of the rule with this name and these settings; ``kind`` makes it if there is none."""
        known = self._kept.get(name)
        if known is None:
            # Another thread may have bound the rule meanwhile: there is one state, and both get it.
            known = self._kept.setdefault(name, (settings, kind()))
        if known[0] != settings:
            known = self._kept[name] = settings, kind()
        return known[1]  # type: ignore[return-value]  # equal settings have remembered the same kind of thing

    def shared(self, kind: type[T]) -> T:
        """The state of this kind that all rules share: what they know about the keys, whatever their settings."""
        known = self._shared.setdefault(kind, kind())
        assert isinstance(known, kind)
        return known

    def each_shared(self, kind: type[T]) -> list[T]:
        """All state of one kind that rules share."""
        return [state for state in list(self._shared.values()) if isinstance(state, kind)]

    def fork(self) -> "Memory":
        """A copy for a policy that may come into force: new state of that policy is not added here."""
        fork = Memory(self.workers, rehearsal=self.rehearsal)
        fork._kept = dict(self._kept)
        fork._shared = self._shared
        return fork

    def join(self, fork: "Memory") -> None:
        """Take over the fork's state; it replaces state that both have. From then on, both share all state."""
        self._kept |= fork._kept
        fork._kept = self._kept

    def each(self, kind: type[T]) -> dict[str, T]:
        """All state of one kind, by the rule's name."""
        # A copy, since a thread may bind rules meanwhile.
        return {name: kept for name, (_, kept) in list(self._kept.items()) if isinstance(kept, kind)}

    def retain(self, names: AbstractSet[str]) -> None:
        """Forget all rules but these."""
        for name in self._kept.keys() - names:
            del self._kept[name]
