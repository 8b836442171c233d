"""Repeated tasks of a route. A failure is logged and counted, and the task runs again."""

import asyncio
import logging
from collections.abc import Callable, Mapping

_log = logging.getLogger("keyrail.route")


class Periodic:
    """Runs its steps every ``seconds``. A failing step does not prevent the others.

    Each failure is counted. It is logged with its traceback once for each step and type of error.
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
        """Run the steps for the first time after ``seconds``."""
        self._timer = self._loop.call_later(self._seconds, self.turn)

    def end(self) -> None:
        """Stop."""
        if self._timer is not None:
            self._timer.cancel()

    def turn(self) -> None:
        """Run the steps now, and again after ``seconds``."""
        self.begin()
        for name, step in self._steps.items():
            try:
                step()
            except Exception as error:  # noqa: BLE001 - after any error the next run may succeed
                self._count("periodic_failures")
                if (name, type(error)) not in self._told:
                    self._told.add((name, type(error)))
                    _log.exception("%s failed; Keyrail tries again every %g s and logs this once", name, self._seconds)
