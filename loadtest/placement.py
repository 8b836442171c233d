"""The processors of the load, and those of the measured programs.

By default the kernel places the load on the processor of Redis in one run and on that of the proxy in the next, and
keeps its choice while the programs run: throughput then differs by a third between runs. With ``apart``, the load has
its own processor, as if it came from another machine, and the measured programs have the others.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Placement:
    """The kernel's numbers of the processors, and the name of this placement."""

    name: str
    load: frozenset[int]
    measured: frozenset[int]

    def settle(self) -> None:
        """Keep this program, and all programs that it starts, on the processors of the measured ones."""
        os.sched_setaffinity(0, self.measured)

    @contextlib.contextmanager
    def loading(self) -> Iterator[None]:
        """Within the block, run this thread, and programs that it starts, on the load's processors."""
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
    """The load on its own processor, if there is more than one."""
    own = frozenset({max(available)})
    return Placement("apart", own, available - own) if len(available) > 1 else together(available)


def together(available: frozenset[int]) -> Placement:
    """Everything where the kernel places it."""
    return Placement("together", available, available)


PLACEMENTS = {"apart": apart, "together": together}
