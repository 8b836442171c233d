"""Looks at what is behind a route, at the start and for as long as the route lives, because nobody says all that
changes.

A look comes each second if there may be news, and at once where somebody has a reason for it: a connection was lost, or
a client met an error that says so. While something is not as it should be, or a change was a moment ago, the next look
comes after a tenth of a second, or after what ``unsettled_seconds`` says; while there is a problem, it never comes
sooner, whatever the reasons.
"""

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Container

from proxy.net.connection.tls import FollowedContext
from proxy.net.topology.links import Links

POLL_SECONDS = 1.0
_UNSETTLED_SECONDS = 0.1
_LEAST_SECONDS = 0.02
_CALM_SECONDS = 2.0
_TROUBLE_SECONDS = 15.0
"""How long after a change the looks come more often; the second one while there is a problem."""

_MOST_LINES = 3
_LINES_SECONDS = 600.0
"""The log has the same line so often at most in that time."""

_log = logging.getLogger("keyrail.route")


class Looking:
    """The rhythm of the looks at one upstream, and what is told about them.

    ``look`` may fail in any way: the next one may go well. ``has_news`` is asked in calm times before a look.
    ``wanted`` makes the next look come at once. Problems are logged as those of the route ``log_as``, if that is not
    empty, and ``well`` is the line behind the last one.
    """

    def __init__(
        self,
        name: str,
        loop: asyncio.AbstractEventLoop,
        wanted: asyncio.Event,
        count: Callable[[str], None],
        *,
        log_as: str,
        well: str,
        unsettled_seconds: float = _UNSETTLED_SECONDS,
    ) -> None:
        self.attempted = asyncio.Event()
        self.problem = f"connecting to {name}"
        self.looked_at = loop.time()
        self._name = name
        self._loop = loop
        self._wanted = wanted
        self._count = count
        self._log_as = log_as
        self._well = well
        self._unsettled_seconds = unsettled_seconds
        self._seen: set[str] = set()
        self._logged: set[str] = set()
        self._logged_at: dict[str, deque[float]] = {}
        self._is_unwell = False
        self._changed_at = loop.time()

    async def go_on(self, look: Callable[[], Awaitable[None]], has_news: Callable[[], Awaitable[bool]]) -> None:
        """Look until cancelled."""
        while True:
            self._wanted.clear()
            self.looked_at = self._loop.time()
            try:
                await look()
            except Exception as error:  # noqa: BLE001 - told, and no reason to look no more
                self._count("periodic_failures")
                if self._may_log(repr(error)):
                    _log.exception("%s: looking at the servers failed", self._name)
            self.attempted.set()
            await self._until_due(has_news)
            least = self._unsettled_seconds if self.problem else _LEAST_SECONDS
            await asyncio.sleep(self.looked_at + least - self._loop.time())

    async def _until_due(self, has_news: Callable[[], Awaitable[bool]]) -> None:
        while True:
            age = self._loop.time() - self._changed_at
            unsettled = age < (_TROUBLE_SECONDS if self.problem else _CALM_SECONDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._unsettled_seconds if unsettled else POLL_SECONDS):
                    await self._wanted.wait()
                return
            if self.problem or unsettled or await has_news():
                return

    def changed(self) -> None:
        """Something is other than before: look more often for a while."""
        self._changed_at = self._loop.time()

    def report(self, problems: set[str], logged_elsewhere: Container[str] = ()) -> None:
        """These are all problems now: one line for each that is new."""
        if problems - self._seen:
            self.changed()
        self._seen = problems
        self.problem = "; ".join(f"{self._name}: {problem}" for problem in sorted(problems))
        if self._log_as:
            self._log({problem for problem in problems if problem not in logged_elsewhere})

    def _log(self, problems: set[str]) -> None:
        self._logged &= self._seen
        for problem in sorted(problems - self._logged):
            if self._may_log(problem):
                self._logged.add(problem)
                self._is_unwell = True
                _log.warning("route %s: %s", self._log_as, problem)
        if self._is_unwell and not self._seen:
            self._is_unwell = False
            _log.info("route %s: %s", self._log_as, self._well)

    def _may_log(self, line: str) -> bool:
        # A problem that comes and goes is told a few times. If it stays, it is told when it may be told again.
        now = self._loop.time()
        known = self._logged_at.items()
        self._logged_at = {each: at for each, at in known if now - at[-1] < _LINES_SECONDS}
        logged_at = self._logged_at.setdefault(line, deque(maxlen=_MOST_LINES))
        if len(logged_at) == _MOST_LINES and now - logged_at[0] < _LINES_SECONDS:
            return False
        logged_at.append(now)
        return True


class Watch(ABC):
    """What finds out about the servers of a route, by ``links`` to them. ``attempted`` is set after the first look."""

    def __init__(self, loop: asyncio.AbstractEventLoop, looking: Looking, links: Links) -> None:
        self.attempted = looking.attempted
        self._loop = loop
        self._looking = looking
        self._links = links
        self._task: asyncio.Task[None] | None = None

    @property
    def problem(self) -> str:
        """What is not as it should be, one text of all problems; empty where all is well."""
        return self._looking.problem

    @property
    @abstractmethod
    def settled(self) -> bool:
        """Whether it is known where commands go: what was found lets them through."""

    def begin(self, tls: FollowedContext | None) -> None:
        """Begin to look."""
        self._links.tls = tls
        self._task = self._loop.create_task(self._looking.go_on(self._look, self._has_news))

    def close(self) -> None:
        """End it."""
        if self._task is not None:
            self._task.cancel()
        self._links.close()

    @abstractmethod
    async def _look(self) -> None: ...

    async def _has_news(self) -> bool:
        return False
