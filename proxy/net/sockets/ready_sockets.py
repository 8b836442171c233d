# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""The plain sockets of one event loop: which of them are ready, and what is done when all of these have been read.

They are watched by an epoll descriptor of their own, and the event loop watches that one alone. When it wakes up, a
pass asks which sockets are ready, and lets each read once, so that none keeps the others waiting; then what the reads
have gathered for each connection is written. So many clients' commands become one piece for Redis, and an event of the
loop costs once for all of them. Before it reads, and before it writes, a pass looks whether this process has paused:
what clients have given up meanwhile must not leave.

Between two rounds, a socket can be closed, and another one get its descriptor. So an event is only a hint: what is
there is what the system call says then.
"""

import asyncio
import select
import weakref
from array import array
from collections.abc import Callable
from typing import Any

from proxy.net.sockets.system_calls import clock, wait

_AT_ONCE = 512
"""Events that are asked for at once."""
_ROUNDS = 16
"""Times that a pass asks at most, so that timers are not kept waiting: again, where there were as many events, or a
socket may hold more. What came during a pause of this process is read before the timers behind it run (``deadline``).
"""
FAULTS = (Exception, asyncio.CancelledError)
"""What ends a connection, and nothing else: a protocol has failed."""
_EVENTS = 0xFFFF_FFFF


class ReadySocket:
    """A socket that can be watched. ``watched`` are the events that it is watched for."""

    __slots__ = ("descriptor", "watched")

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.watched = 0

    def on_ready(self, events: int) -> None:
        """Read and write what can be. It raises nothing."""
        raise NotImplementedError


class ReadySockets:
    """Those of ``loop``, which they do not keep alive. While none is watched, the loop watches nothing for them.

    Somebody tells when this process last ``turned``, and is called (``on_pause``) if that is more than ``pause``
    seconds ago. Each of ``looks`` is asked before a protocol's socket is read: whether it may be. ``more``: a socket
    has given as much as is read at once, so it may hold more.
    """

    __slots__ = (
        "_awaited",
        "_count",
        "_descriptor",
        "_due",
        "_epoll",
        "_loop",
        "_ready",
        "_sockets",
        "_spare",
        "looks",
        "more",
        "on_pause",
        "pause",
        "turned",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._epoll: select.epoll | None = None
        self._descriptor = -1
        self._sockets: list[ReadySocket | None] = []
        self._count = 0
        self._ready = array("q", bytes(8 * _AT_ONCE))
        self._due: list[Callable[[], object]] = []
        self._spare: list[Callable[[], object]] = []
        self._awaited = False
        self.turned = 0.0
        self.pause = float("inf")
        self.on_pause: Callable[[], object] | None = None
        self.looks: dict[object, Callable[[object], bool]] = {}
        self.more = False

    def schedule(self, act: Callable[[], object]) -> None:
        """Call ``act`` when the sockets that are ready now have been read: in this pass, or in the loop's next turn."""
        self._due.append(act)
        if not self._awaited:
            self._awaited = True
            self.call_soon(self._run)

    def call_soon(self, act: Callable[..., object], *arguments: Any) -> None:
        """Call ``act`` in the next turn of the loop, unless the loop has gone."""
        loop = self._loop()
        if loop is not None and not loop.is_closed():
            loop.call_soon(act, *arguments)

    def report(self, message: str, error: BaseException) -> None:
        """An error that nobody else gets: the loop logs it."""
        loop = self._loop()
        if loop is not None:
            loop.call_exception_handler({"message": message, "exception": error})

    def watch(self, ready: ReadySocket, events: int) -> None:
        """Watch a socket for these events, or no more for any. Before it is closed, it is not watched any more.

        Raises OSError where the system has no room for it.
        """
        if events == ready.watched:
            return
        if ready.watched == 0:
            self._add(ready, events)
        elif events == 0:
            self._remove(ready)
        elif self._epoll is not None:
            self._epoll.modify(ready.descriptor, events)
        ready.watched = events

    def _add(self, ready: ReadySocket, events: int) -> None:
        missing = ready.descriptor + 1 - len(self._sockets)
        if missing > 0:
            self._sockets.extend([None] * missing)
        epoll = self._begin() if self._epoll is None else self._epoll
        try:
            epoll.register(ready.descriptor, events)
        except BaseException:
            if self._count == 0:
                self._end()
            raise
        self._sockets[ready.descriptor] = ready
        self._count += 1

    def _remove(self, ready: ReadySocket) -> None:
        self._sockets[ready.descriptor] = None
        self._count -= 1
        if self._epoll is not None:
            self._epoll.unregister(ready.descriptor)
            if self._count == 0:
                self._end()

    def _begin(self) -> select.epoll:
        loop = self._loop()
        assert loop is not None, "a loop that has gone has no new sockets"
        epoll = select.epoll()
        loop.add_reader(epoll.fileno(), self._pass)
        self._epoll = epoll
        self._descriptor = epoll.fileno()
        return epoll

    def _end(self) -> None:
        loop, epoll, self._epoll = self._loop(), self._epoll, None
        if loop is not None and not loop.is_closed():
            loop.remove_reader(self._descriptor)
        if epoll is not None:
            epoll.close()

    def may_read(self, protocol: object) -> bool:
        """Whether nobody objects to reading this protocol's socket."""
        for look in self.looks.values():  # noqa: SIM110 - compiled as a function of C, it can hold no generator
            if not look(protocol):
                return False
        return True

    def _pass(self) -> None:
        self._look_for_pause()
        awaited, self._awaited = self._awaited, True
        try:
            self._read_all()
            self._look_for_pause()
            self._run_due()
        finally:
            self._awaited = awaited
            if self._due and not awaited:
                self._awaited = True
                self.call_soon(self._run)

    def _look_for_pause(self) -> None:
        if self.on_pause is not None and clock() - self.turned > self.pause:
            self.on_pause()

    def _read_all(self) -> None:
        for _ in range(_ROUNDS):
            count = 0 if self._epoll is None else wait(self._epoll, self._descriptor, self._ready)
            self.more = False
            self._let_read(count)
            if count < _AT_ONCE and not self.more:
                break

    def _let_read(self, count: int) -> None:
        for index in range(count):
            event = self._ready[index]
            ready = self._sockets[event >> 32]
            if ready is not None:
                ready.on_ready(event & _EVENTS)

    def _run(self) -> None:
        # In a turn of the loop in which no pass has done it.
        self._awaited = False
        self._look_for_pause()
        self._run_due()

    def _run_due(self) -> None:
        # What these arrange is for the turn behind it: it may arrange more, and so on.
        due = self._due
        self._due = self._spare
        self._spare = due
        try:
            for act in due:
                try:
                    act()
                except FAULTS as error:  # the others' bytes have to leave all the same
                    self.report("what a connection has gathered could not be written", error)
        finally:
            due.clear()
