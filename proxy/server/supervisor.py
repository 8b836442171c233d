"""The supervisor: opens everything, starts the workers, announces them, watches them and stops.

    configuration -> policies -> sockets -> embedded engine -> workers -> ready line ... signal -> drain -> end

Problems are found in this order and end the start with one line: a mistake in the configuration with status 2, a
failure such as a port in use with status 1. An upstream that is down is no such problem: Keyrail starts, reports it, is
not ready, and becomes ready by itself.

SIGTERM and SIGINT stop it; a second one stops it at once. After SIGTERM it accepts clients for ``--shutdown-delay``,
while it is not ready. SIGHUP reloads the policies, and opens a new violations log if the old one was rotated. SIGUSR2
starts a successor, and ends this process when the successor serves.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from proxy.build_form import BUILD_FORM
from proxy.net.config.address import ListenAddress
from proxy.net.config.background_thread import BackgroundThread
from proxy.net.config.settings import PolicyTests, RouteSettings, Settings
from proxy.net.embedded.embedded import EmbeddedEngine, EmbeddedError
from proxy.policy.model import Policy
from proxy.server.admin.port import AdminError, AdminServer
from proxy.server.announcements import Announcements
from proxy.server.evidence.keeper import DAYS, MEMORY_BYTES, EvidenceKeeper
from proxy.server.evidence.memory_store import MemoryStore
from proxy.server.evidence.model import EvidenceStore
from proxy.server.evidence.store import SqliteStore
from proxy.server.files import read_files
from proxy.server.group_info import group_info
from proxy.server.hot_restart import SUCCESSOR, Inheritance, Successor
from proxy.server.incidents import Incidents, IncidentsError
from proxy.server.kill_switch import KillSwitch, standing_pause
from proxy.server.listeners import ListenError, Listeners
from proxy.server.notices import Level, notice
from proxy.server.open_files import allow_many_files, summary, within
from proxy.server.policy_file_watcher import PolicyFileWatcher
from proxy.server.policy_tests import failing
from proxy.server.readiness import Readiness
from proxy.server.reload import Reloader
from proxy.server.remedies import Remedies, StandingRemedies
from proxy.server.service_manager import ServiceManager
from proxy.server.state_file import StateError, StateFile
from proxy.server.state_folder import StateFolder
from proxy.server.violations import ViolationLog, Violations, ViolationsError
from proxy.server.workers import Workers, WorkersError
from proxy.session.ports.info_query import InfoQuery

if TYPE_CHECKING:
    from proxy.server.admin.state import AdminState

USAGE, FAILURE = 2, 1
_CIRCUMSTANCES = ListenError, AdminError, EmbeddedError, WorkersError, ViolationsError, IncidentsError, StateError


class StartError(Exception):
    """Keyrail cannot start; ``problems`` holds the lines to print, ``status`` the exit status."""

    def __init__(self, problems: Sequence[str], status: int) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)
        self.status = status


OnReady = Callable[[RouteSettings, Sequence[ListenAddress]], None]


async def run_supervisor(settings: Settings, on_ready: OnReady) -> int:
    """Serve until a signal ends it; return the exit status. Raises StartError.

    ``on_ready`` is called once for each route, after the ready line, with the addresses on which it listens.
    """
    return await Supervisor(settings, on_ready).run()


class Supervisor:
    """One run of Keyrail."""

    def __init__(self, settings: Settings, on_ready: OnReady) -> None:
        self._settings = settings
        self._on_ready = on_ready
        self._inherited = Inheritance(os.environ)
        self._successor: Successor | None = None
        self._folder: StateFolder | None = None
        self._listeners = Listeners()
        self._admin: AdminServer | None = None
        self._workers: Workers | None = None
        self._log: ViolationLog | None = None
        self._incidents: Incidents | None = None
        self._keeper: EvidenceKeeper | None = None
        self._switch: KillSwitch | None = None
        self._remedies: Remedies | None = None
        self._engines: list[EmbeddedEngine] = []
        self._stop = asyncio.Event()
        self._now = asyncio.Event()
        self._delay = 0.0
        self._replaced = False
        self._manager = ServiceManager()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._announcements = Announcements()
        self._limits = ""

    async def run(self) -> int:
        """Serve until a signal ends it; return the exit status. Raises StartError."""
        self._heed_signals()
        self._fit_into_limits()
        try:
            starting = self._spawn(self._start())
            await self._first(starting, self._spawn(self._stop.wait()))
            if not starting.done():
                starting.cancel()
                await asyncio.wait([starting])
                return 0
            reloader = starting.result()
            self._spawn(reloader.test_at_start())
            if self._settings.watch:
                self._spawn(PolicyFileWatcher(reloader).run())
            if self._folder is not None:
                self._folder.sign()
            self._inherited.tell_ready(self._settings.drain)
            self._manager.ready(f"{self._settings.workers} workers, {BUILD_FORM}")
            return await self._watch()
        finally:
            await self._shut()

    def readiness(self) -> Readiness:
        """The reasons why Keyrail is not ready; none if it is."""
        if self._stop.is_set():
            return Readiness(["stopping"])
        if self._workers is None:
            return Readiness(["starting"])
        reasons = []
        missing = self._settings.workers - self._workers.living
        if missing:
            reasons.append(f"{missing} of {self._settings.workers} workers are not serving")
        reasons += [f"worker {number} has not reported for {age:.0f} s" for number, age in self._workers.silent()]
        figures = self._workers.figures()
        unready = {each.name: f"route {each.name}: {each.reason or 'not ready'}" for each in figures if not each.ready}
        warnings = {each.name: f"route {each.name}: {each.warning}" for each in figures if each.warning}
        return Readiness(reasons, unready, frozenset(each.name for each in figures if each.ready), warnings)

    def _fit_into_limits(self) -> None:
        files = allow_many_files(partial(notice, level=Level.WARNING))
        given = within(self._settings, files)
        self._limits = summary(self._settings, given, files)
        self._settings = given

    async def _start(self) -> Reloader:
        policies, problems = read_files(self._settings)
        if not problems and self._settings.policy_tests is PolicyTests.REFUSE:
            problems = list(await self._failing_tests(policies))
        if problems:
            raise StartError(problems, USAGE)
        try:
            if self._settings.state_dir is not None:
                self._folder = StateFolder.open(self._settings.state_dir, self._inherited.take_lock())
            self._listeners.open(self._settings.routes, self._inherited, self._settings.client_keepalive)
            if self._settings.admin is not None:
                self._admin = AdminServer(self._settings.admin, self._settings.admin_token_file, self._inherited)
            self._inherited.close_rest()
            self._settings = replace(
                self._settings, routes=tuple([await self._embed(r) for r in self._settings.routes])
            )
            if self._settings.violations is not None:
                self._log = ViolationLog(self._settings.violations)
            violations = Violations(len(self._settings.routes), self._log)
            state_file = StateFile(None if self._folder is None else self._folder.state)
            pause = standing_pause(state_file)
            names = [route.name for route in self._settings.routes]
            standing = StandingRemedies(names, state_file)
            self._workers = Workers(
                self._settings,
                self._listeners,
                standing.join(policies),
                violations,
                paused=pause is not None,
                group_info=self._group_info,
                on_change=self._notice_changes,
            )
            self._inherited.serves_beside(self._workers.beside)
            self._switch = KillSwitch(self._workers, state_file, pause)
            self._keeper = keeper = EvidenceKeeper(self._workers, names, self._open_store, self._inherited.handed_on)
            reloader = Reloader(
                self._settings.routes,
                self._settings.zone,
                self._workers,
                policies,
                standing.join,
                self._settings.policy_tests,
            )
            self._remedies = remedies = Remedies(self._workers, reloader, standing)
            options = "" if self._admin is None else self._admin.options
            file = self._settings.incidents
            incidents = Incidents(self._workers, names, file, options, lambda: remedies.standing)
            self._incidents = incidents
            starting = self._spawn(self._workers.start())  # while the admin port is imported
            if self._admin is not None:
                await self._admin.start(partial(self._admin_state, reloader, violations))
            await starting
        except _CIRCUMSTANCES as error:
            raise StartError([str(error)], FAILURE) from None
        self._spawn(incidents.run())
        self._spawn(keeper.run())
        self._heed_orders(reloader)  # first: after the ready line an operator may send a signal at once
        self._announce(self._workers)
        for index, route in enumerate(self._settings.routes):
            self._on_ready(route, self._listeners.addresses(index))
        return reloader

    def _open_store(self) -> EvidenceStore:
        if self._folder is None:
            return MemoryStore(MEMORY_BYTES, DAYS)
        return SqliteStore(self._folder.evidence, self._settings.state_size, DAYS)

    async def _failing_tests(self, policies: tuple[Policy, ...]) -> tuple[str, ...]:
        return await BackgroundThread("tests policies").run(partial(failing, self._settings.routes, policies))

    async def _embed(self, route: RouteSettings) -> RouteSettings:
        """Start the route's private engine, if it has one."""
        if route.embedded is None:
            return route
        engine = await EmbeddedEngine.start(route.embedded)
        self._engines.append(engine)
        return replace(route, upstream=engine.upstream)

    def _admin_state(self, reloader: Reloader, violations: Violations) -> "AdminState":
        # Imports aiohttp and prometheus_client, which are not needed without an admin port.
        from proxy.server.admin.state import AdminState  # noqa: PLC0415  slow to import, see above
        from proxy.server.metrics import GroupCollector, registry_of  # noqa: PLC0415  slow to import, see above

        workers, switch, incidents = self._workers, self._switch, self._incidents
        remedies, keeper = self._remedies, self._keeper
        assert workers is not None, "it is made before"
        assert switch is not None, "it is made before"
        assert incidents is not None, "it is made before"
        assert remedies is not None, "it is made before"
        assert keeper is not None, "it is made before"
        return AdminState(
            settings=self._settings,
            workers=workers,
            registry=registry_of(GroupCollector(workers, reloader, switch, incidents, keeper)),
            readiness=self.readiness,
            reloader=reloader,
            switch=switch,
            incidents=incidents,
            remedies=remedies,
            violations=violations,
            keeper=keeper,
        )

    def _announce(self, workers: Workers) -> None:
        routes = [(route, self._listeners.addresses(index)) for index, route in enumerate(self._settings.routes)]
        self._announcements.ready(routes, workers, self._admin, self._limits)

    def _notice_changes(self) -> None:
        if self._workers is not None and not self._stop.is_set():
            self._announcements.changes(self._workers)

    def _group_info(self, route: int, query: InfoQuery) -> dict[str, Any]:
        assert self._workers is not None, "only workers ask"
        assert self._switch is not None, "it is made before they start"
        assert self._incidents is not None, "it is made before they start"
        return group_info(self._workers, self._switch, self._incidents, route, query)

    async def _watch(self) -> int:
        """Wait for a signal, or for the end of a task that should never end; then drain."""
        assert self._workers is not None, "started without workers"
        engines = [self._spawn(engine.wait()) for engine in self._engines]
        await self._first(self._spawn(self._stop.wait()), self._workers.broken, *engines)
        status = 0
        if self._workers.broken.done():
            self._workers.broken.result()
        if not self._stop.is_set():
            notice("the embedded Valkey has ended: stopping", Level.ERROR)
            status = FAILURE
            self._stop.set()
        if not self._replaced:
            self._manager.stopping()
        if self._delay:
            await self._first(self._spawn(asyncio.sleep(self._delay)), self._spawn(self._now.wait()), *engines)
        # The workers close their copies; while one copy is open, the kernel accepts connections.
        self._listeners.close()
        await self._first(self._spawn(self._workers.drain(self._settings.drain)), self._spawn(self._now.wait()))
        return status

    async def _hand_over(self) -> None:
        """Start a successor on the same sockets, and stop when it serves."""
        assert self._workers is not None, "started without workers"
        why_not = self._cannot_hand_over()
        if why_not:
            notice(f"no successor: {why_not}", Level.ERROR)
            return
        sockets = self._listeners.handed_on()
        if self._admin is not None:
            sockets.append(self._admin.handed_on())
        try:
            lock = None if self._folder is None else self._folder.descriptor
            self._successor = Successor(sockets, lock, os.environ)
        except OSError as error:
            notice(f"no successor: {error.strerror}", Level.ERROR)
            return
        self._workers.beside.add(SUCCESSOR)
        if await self._successor.serves():
            notice(f"process {self._successor.pid} has taken over: stopping")
            self._manager.replaced_by(self._successor.pid)
            self._replaced = True
            self._successor = None
            self._listeners.leave_files()
            if self._keeper is not None:
                await self._keeper.release()
            if self._admin is not None:
                # Questions about readiness now go to the process that serves.
                await self._admin.stop()
                self._admin = None
            self._stop.set()
        else:
            status = await self._successor.ended()
            self._successor = None
            self._workers.beside.discard(SUCCESSOR)
            notice(f"the successor has ended with status {status} before it was ready: going on", Level.ERROR)

    def _cannot_hand_over(self) -> str:
        if self._stop.is_set():
            return "stopping"
        if self._successor is not None:
            return "one is starting already"
        if self._engines:
            return "the embedded engine and its data end with this process"
        return "the first process of a container ends it" if os.getpid() == 1 else ""

    async def _shut(self) -> None:
        """Close everything that is open, in reverse order."""
        if self._successor is not None:
            self._successor.end()
        for heeded in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2):
            asyncio.get_running_loop().add_signal_handler(heeded, lambda: None)
        if self._workers is not None:
            self._workers.kill()
            await self._workers.drain(0.0)
        if self._keeper is not None:
            await self._keeper.release()
        if self._admin is not None:
            await self._admin.stop()
        for engine in self._engines:
            await engine.stop()
        for timed in (self._switch, self._remedies):
            if timed is not None:
                timed.close()
        for written in (self._log, self._incidents):
            if written is not None:
                written.close()
        self._listeners.close()
        if self._folder is not None:
            self._folder.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _heed_signals(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._told_to_stop, self._settings.shutdown_delay)
        loop.add_signal_handler(signal.SIGINT, self._told_to_stop)
        loop.add_signal_handler(signal.SIGHUP, lambda: notice("still starting: policies not reloaded", Level.ERROR))
        loop.add_signal_handler(signal.SIGUSR2, lambda: notice("no successor: still starting", Level.ERROR))

    def _heed_orders(self, reloader: Reloader) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, lambda: self._hang_up(reloader))
        loop.add_signal_handler(signal.SIGUSR2, lambda: self._spawn(self._hand_over()))

    def _told_to_stop(self, delay: float = 0.0) -> None:
        if self._stop.is_set():
            self._now.set()
        else:
            self._delay = delay
        self._stop.set()

    def _hang_up(self, reloader: Reloader) -> None:
        """Open the log again, which may have been rotated, and reload the policies."""
        if self._log is not None:
            self._log.write(())
        self._spawn(reloader.reload())

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    @staticmethod
    async def _first(*waited: asyncio.Future[Any]) -> None:
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
