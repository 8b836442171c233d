"""Timers that do not fire early after a pause of this process.

After a pause of the process or of the machine, the event loop runs due timers before it reads (libuv's order). A reply
that arrived long ago would count as late. So an expired deadline gives the loop one more turn to read.
"""

import asyncio
from collections.abc import Callable

_ONE_TURN = 0.001
"""Seconds: due in the next turn of the loop, not in this one."""


class Deadline:
    """Calls ``act`` after ``seconds``, unless it is cancelled before."""

    __slots__ = ("_act", "_handle", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, act: Callable[[], object]) -> None:
        self._loop = loop
        self._act: Callable[[], object] | None = act
        self._handle: asyncio.TimerHandle | None = loop.call_later(seconds, self._over)

    def _over(self) -> None:
        self._handle = self._loop.call_later(_ONE_TURN, self._end)

    def _end(self) -> None:
        act, self._act, self._handle = self._act, None, None
        if act is not None:
            act()

    def cancel(self) -> None:
        """Do not call ``act``. As after it was called, nothing refers to who set the deadline: often that one keeps it,
        and both would be a cycle."""
        handle, self._act, self._handle = self._handle, None, None
        if handle is not None:
            handle.cancel()
