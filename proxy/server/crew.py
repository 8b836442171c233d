"""The worker processes as the supervisor sees them: started, heard, asked, replaced when they die, drained.

A worker that dies is replaced, at once the first time and more slowly when it keeps dying. A replacement starts with
the policies in force. Only the first start of the whole crew can fail: nobody is being served then, and the operator is
there to read why.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, assert_never

from proxy.net.settings import Settings
from proxy.net.verdicts import Seen
from proxy.policy.model import Policy
from proxy.rules.shared_state import Fact, FactKey
from proxy.server.control import (
    Commit,
    Cover,
    Drain,
    FindScript,
    GroupInfo,
    ListenerSocket,
    News,
    Prepare,
    RecallScript,
    Report,
    Serving,
    ShareLimits,
    Start,
    SupervisorNotification,
    SupervisorRequest,
    Switch,
    Unfit,
    Watched,
)
from proxy.server.covering import covered_by
from proxy.server.figures import RouteFigures, add_numbers, counters_of, merge_snapshots
from proxy.server.hung_workers import SILENT_SECONDS, TURN_SECONDS, HungWorkers, silence
from proxy.server.leases import Leases, deal_out
from proxy.server.listeners import Listeners
from proxy.server.member import Member, launch
from proxy.server.notices import notice
from proxy.server.process_figures import ProcessFigures
from proxy.server.requests import (
    Packed,
    PeerLost,
    Reply,
    Request,
    RequestError,
    RequestTimeout,
    TypedReply,
    first_known,
    outcomes,
)
from proxy.server.violations import Violations
from proxy.session.topic import Topic
from proxy.traffic.digest import Digest
from proxy.traffic.evidence import Records, merge_records
from proxy.traffic.redaction import Redaction
from proxy.traffic.rings import Rings

FIRST_PAUSE, LONGEST_PAUSE, STEADY_SECONDS = 0.1, 5.0, 10.0
"""Seconds before a replacement: the first pause doubles up to the longest, until a worker has lived steadily."""


class CrewError(Exception):
    """The crew cannot start; the text is one line."""


class Crew:
    """All workers of the process group.

    ``group_info`` returns what a worker's client is told about a route and a topic. ``on_change`` is called when a
    worker has reported, started to serve, or ended.
    """

    def __init__(
        self,
        settings: Settings,
        listeners: Listeners,
        policies: tuple[Policy, ...],
        violations: Violations,
        *,
        paused: bool,
        group_info: Callable[[int, Topic], dict[str, Any]],
        on_change: Callable[[], None],
    ) -> None:
        self.policies = policies
        self.generation = 1
        self.paused = paused
        """The kill switch is on."""
        self.restarts = 0
        self._group_info = group_info
        self._on_change = on_change
        self.rings = tuple(Rings() for _ in settings.routes)
        """What each route did lately, over all workers, those that have ended included."""
        self._settings = settings
        self._listeners = listeners
        self._violations = violations
        self._members: dict[int, Member] = {}
        self._departed: list[dict[str, Any]] = [{} for _ in settings.routes]
        self._departed_evidence: list[Records] = [{} for _ in settings.routes]
        self._tasks: list[asyncio.Task[None]] = []
        self._orders = 0
        self._stopping = asyncio.Event()
        self._started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Gets the exception if keeping the workers fails by a mistake of this program."""

    async def start(self) -> None:
        """Start every worker and wait until all serve and have reported. Raises CrewError, and what should never be."""
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
        return len(self._members) == self._settings.workers and all(
            member.serving and member.report is not None for member in self._members.values()
        )

    @property
    def living(self) -> int:
        """Workers that serve."""
        return sum(member.serving for member in self._members.values())

    def silent(self) -> list[tuple[int, float]]:
        """Return the workers that serve but have not reported for long, with the seconds since they did."""
        now = time.monotonic()
        ages = [(member.number, silence(member, now)) for member in self._members.values() if member.serving]
        return [(number, age) for number, age in ages if age > SILENT_SECONDS]

    def figures(self) -> list[RouteFigures]:
        """Return each route's figures over all workers."""
        reports = [member.report for member in self._members.values() if member.report is not None]
        return [
            merge_snapshots(route.name, [report.routes[index] for report in reports], self._departed[index])
            for index, route in enumerate(self._settings.routes)
        ]

    def processes(self) -> dict[int, ProcessFigures]:
        """How busy each worker is, by its number."""
        return {number: each.report.process for number, each in self._members.items() if each.report is not None}

    def age(self) -> float:
        """Return how old the oldest worker's figures are, in seconds."""
        now = time.monotonic()
        return max((now - member.heard for member in self._members.values() if member.report is not None), default=0.0)

    def redaction(self, route: int) -> Redaction:
        """Return how the route's keys are shown to whoever asks what goes through it."""
        return Redaction(self.policies[route].redact, self._settings.secret)

    def evidence(self, route: int) -> Records:
        """Return what speaks for and against the rules of a route, over all workers."""
        parts = [member.evidence[route] for member in self._members.values() if member.evidence]
        return merge_records([self._departed_evidence[route], *parts])

    async def replace_policies(self, policies: tuple[Policy, ...]) -> str | None:
        """Put new policies in force in every worker, or in none; return what is wrong with them, or None.

        What a client sends after that is judged by them.
        """
        prepare = Prepare(Packed.of(policies), self.generation + 1)
        preparing = [member for member in self._members.values() if member.serving]
        told = await self._order(preparing, prepare)
        for member, problem in zip(preparing, told, strict=True):
            # A worker that has ended needs no preparation: its replacement starts with the policies in force.
            if problem is not None and not isinstance(problem, PeerLost):
                return f"worker {member.number}: {problem}"
        self.policies, self.generation = policies, prepare.generation
        for member in self._members.values():
            if member not in preparing:
                member.channel.request(prepare)
        await self._have_all(Commit(prepare.generation))
        return None

    async def pause(self, paused: bool) -> None:
        """Let every worker enforce locked rules alone, or end that. What a client sends after that is judged so."""
        self.paused = paused
        await self._have_all(Switch(paused))

    async def _order(self, members: Sequence[Member], order: Request[Reply]) -> list[Reply | RequestError]:
        self._orders += 1
        try:
            return await outcomes([member.channel.request(order) for member in members])
        finally:
            self._orders -= 1

    async def _have_all(self, order: Commit | Switch) -> None:
        """Give an order to every worker, and wait until all have followed; say who does not."""
        told = list(self._members.values())
        outcome_of_each = await self._order(told, order)
        for member, followed in zip(told, outcome_of_each, strict=True):
            if isinstance(followed, RequestTimeout):
                notice(f"worker {member.number} has not confirmed in {order.seconds:g} s: {order}")

    async def drain(self, seconds: float) -> None:
        """Let every worker finish and end; kill those that take much longer than they were given."""
        self._stopping.set()
        for member in self._members.values():
            member.channel.notify(Drain(seconds))
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds + 3.0)
        self.kill()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def kill(self) -> None:
        """End every worker at once."""
        self._stopping.set()
        for member in self._members.values():
            with contextlib.suppress(ProcessLookupError):
                member.process.kill()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._check)
        self._tasks.append(task)

    def _check(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None and not self.broken.done():
            self.broken.set_exception(error)

    async def _keep(self, number: int) -> None:
        """Keep worker ``number`` running until the crew stops."""
        pause = FIRST_PAUSE
        while True:
            began = time.monotonic()
            end = await self._live(number)
            if self._stopping.is_set() or (self._started.done() and self._started.exception() is not None):
                return
            if not self._started.done():
                self._started.set_exception(CrewError(f"worker {number} {end} at its start"))
                return
            if time.monotonic() - began > STEADY_SECONDS:
                pause = FIRST_PAUSE
            notice(f"worker {number} {end}; replacing it")
            self.restarts += 1
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)
                return
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _live(self, number: int) -> str:
        """Accompany one worker process through its life; return how it ended."""
        try:
            member = await launch(number, self._listeners, self._start_of)
        except OSError as error:
            return f"could not be started ({error.strerror})"
        self._members[number] = member
        if self._stopping.is_set():
            member.channel.notify(Drain(0.0))
        await self._hear(member)
        status = await member.process.wait()
        self._bury(member)
        return f"(pid {member.process.pid}) ended by signal {-status}" if status < 0 else f"ended with status {status}"

    def _start_of(self, number: int, sockets: tuple[ListenerSocket, ...]) -> Start:
        return Start(self._settings, self.policies, self.generation, number, sockets, self.paused)

    def _cover(self) -> None:
        """Let the workers that serve accept connections for those that are missing."""
        if not self._started.done() or self._stopping.is_set():
            return
        serving = {number: member for number, member in self._members.items() if member.serving}
        for number, covers in covered_by(self._settings.workers, serving).items():
            if serving[number].covers != covers:
                serving[number].covers = covers
                serving[number].channel.notify(Cover(covers))

    async def _replace_hung(self) -> None:
        """Kill a worker that hangs, so that it is replaced; not one that is busy with a new policy."""
        hung = HungWorkers(self._settings.workers, time.monotonic())
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), TURN_SECONDS)
                return
            member = hung.look(self._members.values(), time.monotonic())
            if member is not None and not self._orders:
                age = silence(member, time.monotonic())
                notice(
                    f"worker {member.number} (pid {member.process.pid}) has not reported for {age:.0f} s: killing it"
                )
                with contextlib.suppress(ProcessLookupError):
                    member.process.kill()

    async def _hear(self, member: Member) -> None:
        await member.channel.serve(partial(self._answer, member), partial(self._take, member))
        await member.channel.close()

    async def _answer(self, member: Member, request: SupervisorRequest) -> TypedReply:
        match request:
            case GroupInfo(route, topic):
                return request.answer(self._group_info(route, topic))
            case FindScript(route, key):
                return request.answer(await self._find_script(member, route, key))
            case ShareLimits(routes):
                member.wanted = routes
                return request.answer(self._shares(member))
            case _:
                assert_never(request)

    def _take(self, member: Member, notification: SupervisorNotification) -> None:
        match notification:
            case Serving():
                member.serving = True
                self._cover()
                self._on_change()
            case Report():
                member.report = notification
                member.heard, member.forgiven = time.monotonic(), 0.0
                self._on_change()
            case News(routes):
                self._note(member, routes)
            case Watched(routes):
                self._watch(routes)
            case Unfit(route, reason):
                self._fail(f"route {self._settings.routes[route].name}: {reason}")
            case _:
                assert_never(notification)
        if self.complete and not self._started.done():
            self._started.set_result(None)

    async def _find_script(self, member: Member, route: int, key: FactKey) -> Fact | None:
        """Ask all other workers what a script calls."""
        others = [each for each in self._members.values() if each is not member and each.serving]
        return await first_known([each.channel.request(RecallScript(route, key)) for each in others])

    def _shares(self, member: Member) -> tuple[Leases, ...]:
        members = list(self._members.values())
        worker = members.index(member)
        wanted = ([each.wanted[i] if each.wanted else {} for each in members] for i in range(len(member.wanted)))
        return tuple(deal_out(demands, worker) for demands in wanted)

    def _watch(self, routes: tuple[list[Digest], ...]) -> None:
        for rings, digests in zip(self.rings, routes, strict=True):
            for digest in digests:
                rings.add(digest)

    def _note(self, member: Member, routes: Sequence[Seen]) -> None:
        if not member.evidence:
            member.evidence = [{} for _ in routes]
        for route, (known, seen) in enumerate(zip(member.evidence, routes, strict=True)):
            known.update(seen.records)
            self._violations.take(route, seen.lines)

    def _fail(self, reason: str) -> None:
        """Fail the crew's start; a replacement that finds the same is only reported, and will be tried again."""
        if self._started.done():
            notice(reason)
        else:
            self._started.set_exception(CrewError(reason))

    def _bury(self, member: Member) -> None:
        """Keep what an ended worker has counted."""
        del self._members[member.number]
        if member.report is not None:
            for departed, snapshot in zip(self._departed, member.report.routes, strict=True):
                add_numbers(departed, counters_of(snapshot))
        for route, records in enumerate(member.evidence):
            self._departed_evidence[route] = merge_records([self._departed_evidence[route], records])
        self._cover()
        self._on_change()
