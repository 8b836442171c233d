"""The worker processes, in the supervisor: starts, asks, replaces and drains them.

If a worker dies, a new one replaces it: at once the first time, and more slowly if workers keep dying. A replacement
starts with the policies in force. Only the first start of all workers can fail: no client is served then, and the
operator reads the error.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, assert_never

from proxy.net.config.settings import LogLevel, Settings
from proxy.net.policy.verdicts import VerdictUpdate
from proxy.net.topology.known_scripts import KnownScripts
from proxy.net.topology.topology import KnownServer
from proxy.policy.model import Policy
from proxy.server.control import (
    Commit,
    Drain,
    FindPlans,
    FindScript,
    FindStored,
    ForOthers,
    GroupInfo,
    ListenerSocket,
    LogFrom,
    News,
    RecallScript,
    SeenScripts,
    SeenServers,
    Serving,
    ShareLimits,
    Start,
    SupervisorNotification,
    SupervisorRequest,
    Switch,
    TrafficReport,
    Unfit,
    WorkerReport,
    WritesHeld,
)
from proxy.server.evidence.group_evidence import GroupEvidence
from proxy.server.figures import RouteFigures, add_numbers, counters_of, merge_snapshots
from proxy.server.group_plans import GroupPlans
from proxy.server.hung_workers import SILENT_SECONDS, TURN_SECONDS, HungWorkers, silence
from proxy.server.leases import Leases, deal_out
from proxy.server.listeners import Listeners
from proxy.server.node_names import GroupNodeNames
from proxy.server.notices import Level, notice
from proxy.server.process_figures import ProcessFigures
from proxy.server.requests import PeerLost, TypedReply, first_known, outcomes
from proxy.server.stored_keys import StoredKeys
from proxy.server.violations import Violations
from proxy.server.worker_orders import WorkerOrders, first_problem
from proxy.server.worker_process import WorkerProcess, launch
from proxy.server.worker_sharing import WorkerSharing
from proxy.server.worker_start import next_process
from proxy.session.ports.info_query import InfoQuery
from proxy.traffic.interval_stats import IntervalStats
from proxy.traffic.redaction import Redaction
from proxy.traffic.time_series import TimeSeries

FIRST_PAUSE, LONGEST_PAUSE, STEADY_SECONDS = 0.1, 5.0, 10.0
"""Seconds before a replacement: the first pause doubles up to the longest, until a worker lives long enough."""


class WorkersError(Exception):
    """The workers cannot start; the text is one line."""


class Workers:
    """All workers of the process group.

    ``group_info`` returns the answer to a client's query about a route. ``on_change`` is called when a worker has
    reported, started to serve, or ended.
    """

    def __init__(
        self,
        settings: Settings,
        listeners: Listeners,
        policies: tuple[Policy, ...],
        violations: Violations,
        *,
        paused: bool,
        group_info: Callable[[int, InfoQuery], dict[str, Any]],
        on_change: Callable[[], None],
    ) -> None:
        self.policies = policies
        self.generation = 1
        self.paused = paused
        """The kill switch is on."""
        self.beside: set[str] = set()
        """Other processes that may serve clients of this Keyrail."""
        self.restarts = 0
        self.lag = 0.0
        """Seconds by which the supervisor's event loop was late, when it last looked at the workers."""
        self._group_info = group_info
        self._on_change = on_change
        self.time_series = tuple(TimeSeries(settings.traffic_memory) for _ in settings.routes)
        """The recent traffic of each route, over all workers, ended ones included."""
        self.policies_since = time.time()
        """When the policies came into force, in seconds since the epoch."""
        self.evidence = GroupEvidence([route.name for route in settings.routes])
        """What rules have found, and for whom."""
        self.stored_keys = StoredKeys([route.upstream for route in settings.routes], settings.state_dir)
        """What is known of the keys behind each route."""
        self._settings = settings
        self._listeners = listeners
        self._sharing = WorkerSharing(settings.workers)
        self._violations = violations
        self._plans = GroupPlans(policies)
        self._workers: dict[int, WorkerProcess] = {}
        self._scripts = [KnownScripts() for _ in settings.routes]
        self._servers: list[Sequence[KnownServer]] = [() for _ in settings.routes]
        """The servers of each route, as a worker has said last."""
        self._node_names = GroupNodeNames(len(settings.routes))
        self._departed: list[dict[str, Any]] = [{} for _ in settings.routes]
        self._tasks: list[asyncio.Task[None]] = []
        self._orders = WorkerOrders()
        self._stopping = asyncio.Event()
        self._started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Gets the exception if a bug ends the supervision of workers."""

    async def start(self) -> None:
        """Start every worker and wait until all serve and have reported. Raises WorkersError, or the exception of a
        bug."""
        for number in range(self._settings.workers):
            self._spawn(self._keep(number))
        await asyncio.wait((self._started, self.broken), return_when=asyncio.FIRST_COMPLETED)
        if self.broken.done():
            self.broken.result()
        self._started.result()
        self._spawn(self._replace_hung())

    @property
    def complete(self) -> bool:
        """Every worker serves and has reported."""
        return len(self._workers) == self._settings.workers and all(
            worker.serving and worker.report is not None for worker in self._workers.values()
        )

    @property
    def max_clients(self) -> int:
        """Clients that each worker accepts at most."""
        return self._settings.max_clients

    @property
    def living(self) -> int:
        """Workers that serve."""
        return sum(worker.serving for worker in self._workers.values())

    def silent(self) -> list[tuple[int, float]]:
        """Return the workers that serve but have not reported for long, with the seconds since their last report."""
        now = time.monotonic()
        ages = [(worker.number, silence(worker, now)) for worker in self._workers.values() if worker.serving]
        return [(number, age) for number, age in ages if age > SILENT_SECONDS]

    def figures(self) -> list[RouteFigures]:
        """Return each route's figures over all workers."""
        reports = [worker.report for worker in self._workers.values() if worker.report is not None]
        return [
            merge_snapshots(route.name, [report.routes[index] for report in reports], self._departed[index])
            for index, route in enumerate(self._settings.routes)
        ]

    def processes(self) -> dict[int, ProcessFigures]:
        """How busy each worker is, by its number."""
        return {number: each.report.process for number, each in self._workers.items() if each.report is not None}

    def age(self) -> float:
        """Return the age of the oldest worker's figures, in seconds."""
        now = time.monotonic()
        return max((now - worker.heard for worker in self._workers.values() if worker.report is not None), default=0.0)

    def redaction(self, route: int) -> Redaction:
        """Return how the route's keys are shown."""
        return Redaction(self.policies[route].redact, self._settings.secret, self.policies[route].own_names)

    async def replace_policies(self, policies: tuple[Policy, ...]) -> str | None:
        """Put new policies in force in every worker, or in none; return the problem, or None.

        After that, they judge all commands of clients.
        """
        prepare = await self._plans.prepare(policies, self.generation + 1)
        preparing = [worker for worker in self._workers.values() if worker.serving]
        told = await self._orders.send(preparing, prepare)
        for worker, problem in zip(preparing, told, strict=True):
            # A worker that has ended needs no preparation: its replacement starts with the policies in force.
            if problem is not None and not isinstance(problem, PeerLost):
                self._plans.forget_others()
                return f"worker {worker.number}: {problem}"
        self.policies, self.generation, self._plans.in_force = policies, prepare.generation, prepare.edition
        for worker in self._workers.values():
            if worker not in preparing:
                worker.channel.request(prepare)
        self.policies_since = time.time()
        await self._orders.have_all(self._workers.values(), Commit(prepare.generation))
        self._plans.forget_others()
        for route, policy in enumerate(policies):
            self.evidence.keep(route, policy.rule_names)
        return None

    async def pause(self, paused: bool) -> None:
        """Let every worker enforce locked rules only, or all rules again. This applies to all later commands."""
        self.paused = paused
        await self._orders.have_all(self._workers.values(), Switch(paused))

    def log_from(self, level: LogLevel) -> None:
        """Have every worker, and those that replace them, write only lines of this level or a more urgent one."""
        self._settings = replace(self._settings, log_level=level)
        for worker in self._workers.values():
            worker.channel.notify(LogFrom(level))

    async def drain(self, seconds: float) -> None:
        """Let every worker finish and end; kill those that take much longer than ``seconds``."""
        self._stopping.set()
        for worker in self._workers.values():
            worker.channel.notify(Drain(seconds))
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds + 3.0)
        self.kill()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._sharing.close()

    def kill(self) -> None:
        """End every worker at once."""
        self._stopping.set()
        for worker in self._workers.values():
            worker.process.kill()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._check)
        self._tasks.append(task)

    def _check(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None and not self.broken.done():
            self.broken.set_exception(error)

    async def _keep(self, number: int) -> None:
        """Keep worker ``number`` running until all workers stop."""
        pause = FIRST_PAUSE
        while True:
            began = time.monotonic()
            end = await self._live(number)
            if self._stopping.is_set() or (self._started.done() and self._started.exception() is not None):
                return
            if not self._started.done():
                self._started.set_exception(WorkersError(f"worker {number} {end} at its start"))
                return
            if time.monotonic() - began > STEADY_SECONDS:
                pause = FIRST_PAUSE
            notice(f"worker {number} {end}; replacing it", Level.ERROR)
            self.restarts += 1
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopping.wait()
                return
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _live(self, number: int) -> str:
        """Start one worker process and wait for its end; return how it ended."""
        try:
            worker = await launch(number, next_process(), self._listeners, self._sharing.descriptor, self._start_of)
        except OSError as error:
            return f"could not be started ({error.strerror})"
        self._workers[number] = worker
        if self._stopping.is_set():
            worker.channel.notify(Drain(0.0))
        await self._hear(worker)
        status = await worker.process.wait()
        self._bury(worker)
        return f"(pid {worker.process.pid}) ended by signal {-status}" if status < 0 else f"ended with status {status}"

    def _start_of(self, number: int, sockets: tuple[ListenerSocket, ...]) -> Start:
        policies = self.policies, self.generation, self._plans.in_force
        names, scripts = self._node_names.by_id(), tuple(known.all() for known in self._scripts)
        servers = tuple(self._servers)
        return Start(self._settings, *policies, number, sockets, self.paused, names, scripts, servers)

    async def _replace_hung(self) -> None:
        """Kill a worker that hangs, so that it is replaced, but no worker that is busy with a new policy."""
        hung = HungWorkers(self._settings.workers, time.monotonic())
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TURN_SECONDS):
                    await self._stopping.wait()
                return
            worker = hung.look(self._workers.values(), time.monotonic())
            self.lag = hung.late
            if worker is not None and not self._orders.under_way:
                age = silence(worker, time.monotonic())
                notice(
                    f"worker {worker.number} (pid {worker.process.pid}) has not reported for {age:.0f} s: killing it",
                    Level.ERROR,
                )
                worker.process.kill()

    async def _hear(self, worker: WorkerProcess) -> None:
        await worker.channel.serve(partial(self._answer, worker), partial(self._take, worker))
        await worker.channel.close()

    async def _answer(self, worker: WorkerProcess, request: SupervisorRequest) -> TypedReply:
        match request:
            case GroupInfo(route, query):
                return request.answer(self._group_info(route, query))
            case FindScript(route, key):
                asked = [each.channel.request(RecallScript(route, key)) for each in self._others(worker)]
                return request.answer(await first_known(asked))
            case ForOthers():
                told = await outcomes([other.channel.request(request) for other in self._others(worker)])
                return request.answer(first_problem(told, self._settings.workers - self.living, self.beside))
            case FindPlans():
                return request.answer(await self._plans.find(request))
            case FindStored(written):
                return request.answer(await self.stored_keys.exchange(written))
            case ShareLimits(routes):
                worker.wanted = routes
                return request.answer(self._shares(worker))
            case _:
                assert_never(request)

    def _take(self, worker: WorkerProcess, notification: SupervisorNotification) -> None:
        match notification:
            case Serving():
                worker.serving = True
                self._on_change()
            case WorkerReport():
                worker.report = notification
                reports = [each.report for each in self._workers.values() if each.report is not None]
                self._node_names.follow(notification, reports, worker.channel.notify)
                worker.heard, worker.forgiven = time.monotonic(), 0.0
                self._on_change()
            case News(routes):
                self._note(routes)
            case SeenScripts():
                self._pass_on(worker, notification)
            case SeenServers(routes):
                self._servers = [new or known for new, known in zip(routes, self._servers, strict=True)]
            case WritesHeld():
                for other in self._others(worker):
                    other.channel.notify(notification)
            case TrafficReport(routes):
                self._add_traffic(routes)
            case Unfit(route, reason):
                self._fail(f"route {self._settings.routes[route].name}: {reason}")
            case _:
                assert_never(notification)
        if self.complete and not self._started.done():
            self._started.set_result(None)

    def _pass_on(self, worker: WorkerProcess, seen: SeenScripts) -> None:
        for known, news in zip(self._scripts, seen.routes, strict=True):
            known.learn(news)
        for other in self._workers.values():
            if other is not worker:
                other.channel.notify(seen)

    def _others(self, worker: WorkerProcess) -> list[WorkerProcess]:
        return [each for each in self._workers.values() if each is not worker and each.serving]

    def _shares(self, worker: WorkerProcess) -> tuple[Leases, ...]:
        workers = list(self._workers.values())
        position = workers.index(worker)
        wanted = ([each.wanted[i] if each.wanted else {} for each in workers] for i in range(len(worker.wanted)))
        return tuple(deal_out(demands, position) for demands in wanted)

    def _add_traffic(self, routes: tuple[list[IntervalStats], ...]) -> None:
        for time_series, intervals in zip(self.time_series, routes, strict=True):
            for interval in intervals:
                time_series.add(interval)

    def _note(self, routes: Sequence[VerdictUpdate]) -> None:
        for route, seen in enumerate(routes):
            self.evidence.add(route, seen.rows, time.time())
            self._violations.take(route, seen.lines)

    def _fail(self, reason: str) -> None:
        """Fail the start of the workers. If a replacement fails in the same way, it is only reported, and started
        again."""
        if self._started.done():
            notice(reason, Level.ERROR)
        else:
            self._started.set_exception(WorkersError(reason))

    def _bury(self, worker: WorkerProcess) -> None:
        """Keep the counters of an ended worker."""
        del self._workers[worker.number]
        self._sharing.away(worker.number)
        if worker.report is not None:
            for departed, snapshot in zip(self._departed, worker.report.routes, strict=True):
                add_numbers(departed, counters_of(snapshot))
        self._on_change()
