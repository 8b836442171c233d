"""Which processors the load may use, and which those that are measured.

Left to itself, the kernel puts the load on the processor of Redis in one run and on that of the proxy in the next, and
keeps its choice for as long as the programs run: throughput then differs by a third from start to start.
With ``apart``, the load has a processor of its own, as if it came from another machine, and the measured programs have
the others.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Placement:
    """Numbers of processors, as the kernel counts them, and what this way of sharing them out is called."""

    name: str
    load: frozenset[int]
    measured: frozenset[int]

    def settle(self) -> None:
        """Keep this program, and all that it starts from now on, where the measured ones belong."""
        os.sched_setaffinity(0, self.measured)

    @contextlib.contextmanager
    def loading(self) -> Iterator[None]:
        """Within the block this thread, and what it starts, runs where the load belongs."""
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, self.load)
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)

    def __str__(self) -> str:
        if self.load == self.measured:
            return "the kernel puts the load, the proxy and Redis where it likes"
        of_measured = "one other" if len(self.measured) == 1 else f"{len(self.measured)} others"
        return f"the load has a processor for itself; the proxy and Redis have {of_measured}"


def apart(available: frozenset[int]) -> Placement:
    """The load on a processor of its own, where there is more than one."""
    own = frozenset({max(available)})
    return Placement("apart", own, available - own) if len(available) > 1 else together(available)


def together(available: frozenset[int]) -> Placement:
    """Everything where the kernel puts it."""
    return Placement("together", available, available)


PLACEMENTS = {"apart": apart, "together": together}
