"""Plays interleavings of a model of the cache: random events, and then all keys are read in peace."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from tests.local_cache.model import Applications, Noticed


class Model(Protocol):
    """What is played."""

    applications: Applications

    def settle(self) -> None:
        """All that is under way ends."""

    def read(self, key: bytes) -> object:
        """An application reads."""


World = TypeVar("World", bound=Model)


def played(
    world: World, step: Callable[[World, random.Random], None], keys: Sequence[bytes], steps: int, seed: int
) -> int:
    """One interleaving; how many replies came from memory."""
    rng = random.Random(seed)
    for _ in range(steps):
        step(world, rng)
    world.settle()
    for key in keys:
        for _ in range(2):
            world.read(key)
            world.settle()
    return world.applications.served


def noticed(play: Callable[[int], int], most: int) -> bool:
    """Whether the model notices anything in one of so many interleavings."""
    for seed in range(most):
        try:
            play(seed)
        except Noticed:
            return True
    return False
