"""Timers that do not fire early after a pause of this process.

After a pause of the process or of the machine, the event loop runs due timers before it reads (libuv's order). A reply
that arrived long ago would count as late. So an expired deadline gives the loop one more turn to read.

An exchange of several messages needs more than one turn. So ``unanswered`` counts only time in which the loop has run.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

_MOMENT = 0.1
"""Seconds of a deadline that one pause may use up at most."""
_LATE = 0.05
"""Seconds by which a timer may be late before this process counts as paused."""
_T = TypeVar("_T")

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


async def unanswered(
    questions: set[asyncio.Future[_T]],
    seconds: float,
    left_after: Callable[[set[asyncio.Future[_T]], float], float] = lambda _, left: left,
) -> set[asyncio.Future[_T]]:
    """Wait for all of them, so long at most, and return those that are not done.

    Pauses of this process do not count, but if it is paused all the time, it waits no more than a few times as long.
    ``left_after`` gets those that are done and the seconds that are left, and returns how many are left then.
    """
    left = seconds
    while questions and left > _ONE_TURN:
        done, questions, used = await _await_moment(questions, min(_MOMENT, left))
        left = left_after(done, left - used)
    if questions:
        await asyncio.sleep(_ONE_TURN)
    return {question for question in questions if not question.done()}


async def _await_moment(
    questions: set[asyncio.Future[_T]], moment: float
) -> tuple[set[asyncio.Future[_T]], set[asyncio.Future[_T]], float]:
    """Those that are done, the others, and the seconds that count."""
    clock = asyncio.get_running_loop().time
    began = clock()
    done, others = await asyncio.wait(questions, timeout=moment, return_when=asyncio.FIRST_COMPLETED)
    used = clock() - began
    if used > moment + _LATE:
        return done, others, moment / 2  # and not the whole, so that another moment comes, in which the loop reads
    return done, others, min(used, moment)
