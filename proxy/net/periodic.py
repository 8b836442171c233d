"""What a route does again and again: one failure of it is logged and counted, and the next turn comes all the same."""

import asyncio
import logging
from collections.abc import Callable, Mapping

_log = logging.getLogger("keyrail.route")


class Periodic:
    """Runs its steps every so many seconds, each whatever becomes of the others.

    A failure is counted each time, and logged with its cause once for each step and kind of error.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        seconds: float,
        steps: Mapping[str, Callable[[], object]],
        count: Callable[[str], object],
    ) -> None:
        self._loop = loop
        self._seconds = seconds
        self._steps = steps
        self._count = count
        self._told: set[tuple[str, type[Exception]]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Take the first turn when the time is over."""
        self._timer = self._loop.call_later(self._seconds, self.turn)

    def end(self) -> None:
        """Take no more turns."""
        if self._timer is not None:
            self._timer.cancel()

    def turn(self) -> None:
        """Take a turn now, and the next one when the time is over."""
        self.begin()
        for name, step in self._steps.items():
            try:
                step()
            except Exception as error:  # noqa: BLE001 - whatever it is, the next turn may go well
                self._count("periodic_failures")
                if (name, type(error)) not in self._told:
                    self._told.add((name, type(error)))
                    _log.exception("%s failed, and is tried again every %g s; logged once", name, self._seconds)
