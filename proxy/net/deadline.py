"""Deadlines that a pause of this process does not make too early.

After a pause, of the process or of the whole machine, the event loop runs the timers that are due before it reads
anything (libuv's order). A reply that has been there for long would count as late. So a deadline that is over gives the
loop one turn to take what has arrived.
"""

import asyncio
from collections.abc import Callable

_ONE_TURN = 0.001
"""Seconds: due in the next turn of the loop, and not in this one."""


class Deadline:
    """Calls ``act`` when so many seconds are over, unless it is cancelled before."""

    __slots__ = ("_act", "_handle", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, act: Callable[[], object]) -> None:
        self._loop = loop
        self._act = act
        self._handle = loop.call_later(seconds, self._over)

    def _over(self) -> None:
        self._handle = self._loop.call_later(_ONE_TURN, self._act)

    def cancel(self) -> None:
        """Call nothing."""
        self._handle.cancel()
