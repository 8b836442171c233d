"""One worker process: a ``Route`` for each route, on the listening sockets of the supervisor.

It follows the supervisor's messages (``control``), reports every second (``worker_reports.py``), and ends when it has
drained. It ignores SIGINT and SIGHUP, since Ctrl-C reaches every process of the terminal, and the supervisor handles
it. SIGTERM makes this worker drain, and the supervisor replaces it. If the supervisor ends, nobody can replace, reload
or stop this process, so it drains, too.
"""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import ssl
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, assert_never

import uvloop

from proxy.net.config.address import UpstreamAddress
from proxy.net.config.cluster_address import EXPECTED as CLUSTER_EXPECTED
from proxy.net.config.settings import LogFormat
from proxy.net.connection.tls import TlsError, listener_context
from proxy.net.downstream.admission import Admission
from proxy.net.downstream.attention import Attention
from proxy.net.downstream.buffers import enforce
from proxy.net.follow.topologies import topology_of
from proxy.net.logins.password_file import PasswordFileError
from proxy.net.policy.capabilities import ClusterFoundError
from proxy.net.policy.garbage_collector import uncollected
from proxy.net.policy.plan_compiler import PlanUnavailableError, WantedPlans
from proxy.net.policy.policies import SWITCH_SECONDS
from proxy.net.route.route import Route
from proxy.net.topology.topology import Single
from proxy.policy.model import Policy
from proxy.policy.plan_tables import NewParts
from proxy.rules.shared_state import Fact, FactKey
from proxy.server.control import (
    Commit,
    Drain,
    EndHold,
    FindPlans,
    FindScript,
    GroupInfo,
    HoldTenant,
    HoldWrites,
    ListenerSocket,
    LogFrom,
    NameNodes,
    Prepare,
    RecallScript,
    SeenScripts,
    Serving,
    Start,
    Switch,
    Unfit,
    WorkerNotification,
    WorkerOrder,
    WorkerRequest,
    WritesHeld,
)
from proxy.server.notices import log_as, log_from, never_wait
from proxy.server.open_files import allow_many_files
from proxy.server.requests import Channel, Packed, RequestError, TypedReply
from proxy.server.worker_leases import WorkerLeases
from proxy.server.worker_reports import WorkerReports
from proxy.server.worker_sharing import loads_in, shared_counts
from proxy.session.ports.info_query import InfoQuery

_log = logging.getLogger("keyrail.worker")

_NEEDS_CLUSTER = "this is one server, and no cluster: start Keyrail with --present single"
_NEEDS_POOLING = "a client uses a connection to each node of a cluster: start Keyrail with --pooling on"


class _UnfitRouteError(Exception):
    """A route cannot serve its upstream with these options."""


class Worker:
    """The life of one worker process."""

    def __init__(self, channel: Channel, start: Start, descriptors: Sequence[int]) -> None:
        self._channel = channel
        self._start = start
        memory, *sockets = descriptors
        self._sockets = list(zip(start.sockets, sockets, strict=True))
        """The listening sockets, with their file descriptors."""
        self._stop = asyncio.Event()
        self._drain_seconds = start.settings.drain
        self._failed = False
        self._preparing = asyncio.Lock()
        self._orders = asyncio.Lock()
        self._prepared: int | None = None
        loop = asyncio.get_running_loop()
        shared = memory, start.settings.workers, start.number
        self._loads = loads_in(*shared)
        self._counts = shared_counts(*shared)
        self._admission = Admission(start.settings.max_clients, self._loads)
        self._attention = Attention(
            loop, self._loads, self._unix_sockets(), start.settings.accept_patience, self._paused, self._count
        )
        self._routes: list[Route] = []
        checks = {"looking for clusters": self._look_for_clusters, "looking at limits": self._look_at_limits}
        self._reports = WorkerReports(channel, self._routes, start.servers, checks, self._count)
        self._leases = WorkerLeases(channel, self._routes, self._count)
        self._aliases = list(start.aliases)
        self._routes += [self._route(index, self._upstream(index)) for index in range(len(start.settings.routes))]

    def _upstream(self, index: int) -> UpstreamAddress:
        """What the settings say, or the seed of the cluster that another worker has found there."""
        upstream = self._start.settings.routes[index].upstream
        is_cluster = self._start.servers[index] and isinstance(topology_of(upstream), Single)
        return upstream.as_seed() if is_cluster else upstream

    def _route(self, index: int, upstream: UpstreamAddress) -> Route:
        start = self._start
        route = Route(
            start.settings.routes[index],
            start.settings,
            topology_of(upstream, start.servers[index]),
            start.policies[index],
            asyncio.get_running_loop(),
            start.generation,
            partial(self._find_plans, index, start.edition),
            partial(self._group_info, index),
            start.paused,
            partial(self._find_script, index) if start.settings.workers > 1 else None,
            self._reports.traffic,
            self._admission,
            self._counts,
            asks_replicas=start.number == 0,
        )
        if start.settings.workers > 1:
            route.pauses.hold_others = partial(self._channel.request, HoldWrites(index))
            route.pauses.tell_others = partial(self._channel.notify, WritesHeld(index))
        # Also where there are no others: the supervisor knows whether another Keyrail has taken over.
        route.pauses.tenants.hold_others = lambda *hold: self._channel.request(HoldTenant(index, *hold))
        route.pauses.tenants.end_others = lambda *hold: self._channel.request(EndHold(index, *hold))
        route.readiness.rename_nodes(self._aliases[index])
        route.scripts.learn(start.scripts[index])
        return route

    async def run(self) -> int:
        """Serve until the supervisor or a signal stops it, then drain; return the exit status."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._stop.set)
        obeying = asyncio.get_running_loop().create_task(self._obey())
        if not await self._open():
            await self._end_obeying(obeying)
            return 0
        # Garbage collections need not visit the objects that live until the end, but once what is garbage already.
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._channel.notify(Serving())
        self._reports.now()
        if self._start.settings.workers > 1:
            self._leases.begin()
        await self._stop.wait()
        await self._drain()
        self._leases.end()
        self._reports.now()
        self._reports.end()
        await self._end_obeying(obeying)
        return int(self._failed)

    async def _end_obeying(self, obeying: "asyncio.Task[None]") -> None:
        obeying.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await obeying

    def _end_now(self) -> None:
        self._drain_seconds = 0.0
        self._stop.set()

    async def _open(self) -> bool:
        """Start the routes and accept connections; False if a route turns out to be unfit."""
        starting = [self._start_route(index) for index in range(len(self._routes))]
        outcomes = await asyncio.gather(*starting, return_exceptions=True)
        for index, started in enumerate(outcomes):
            if isinstance(started, _UnfitRouteError | TlsError):
                self._channel.notify(Unfit(index, str(started)))
                return False
            if isinstance(started, BaseException):
                raise started
        self._loads.begin()
        self._attention.begin()
        for handed, descriptor in self._sockets:
            try:
                self._serve(handed, descriptor)
            except (PasswordFileError, TlsError) as error:
                self._channel.notify(Unfit(handed.route, str(error)))
                return False
        return True

    async def _start_route(self, index: int) -> None:
        upstream = self._start.settings.routes[index].upstream
        if upstream.seeds and not self._start.settings.pooling:
            raise _UnfitRouteError(f"{upstream}: {_NEEDS_POOLING}")
        try:
            await self._routes[index].start()
            if self._start.settings.routes[index].advertised and self._routes[index].readiness.is_one_server:
                raise _UnfitRouteError(f"{upstream}: {_NEEDS_CLUSTER}")
        except ClusterFoundError as found:
            if not self._start.settings.pooling:
                raise _UnfitRouteError(f"{found}: {_NEEDS_POOLING}") from None
            if upstream.path is not None or upstream.sentinels is not None:
                raise _UnfitRouteError(f"{found}: give the addresses of its nodes, {CLUSTER_EXPECTED}") from None
            self._routes[index].close()
            self._routes[index] = self._route(index, upstream.as_seed())
            await self._routes[index].start()

    def _serve(self, handed: ListenerSocket, descriptor: int) -> None:
        listener = self._start.settings.routes[handed.route].listeners[handed.listener]
        context: ssl.SSLContext | None = None
        if listener.address.tls is not None:
            context = listener_context(listener.address.tls, _log.warning)
        # A copy, since the acceptor closes it, and may have to begin again.
        sock = socket.socket(fileno=os.dup(descriptor))
        self._routes[handed.route].listeners.serve(sock, listener, context)

    def _unix_sockets(self) -> list[int]:
        routes = self._start.settings.routes
        return [
            descriptor
            for handed, descriptor in self._sockets
            if routes[handed.route].listeners[handed.listener].address.path is not None
        ]

    def _paused(self, seconds: float) -> None:
        for route in self._routes:
            route.late_writes.look(seconds)

    async def _obey(self) -> None:
        try:
            await self._channel.serve(self._answer, self._take)
        except Exception:
            self._end_now()
            raise
        self._stop.set()

    def _take(self, notification: WorkerNotification) -> None:
        match notification:
            case NameNodes(route, aliases):
                self._aliases[route] = aliases
                self._routes[route].readiness.rename_nodes(aliases)
            case LogFrom(level):
                log_from(level)
            case Drain(seconds):
                self._drain_seconds = seconds
                self._stop.set()
            case SeenScripts(routes):
                for learning, news in zip(self._routes, routes, strict=True):
                    learning.scripts.learn(news)
            case WritesHeld(route):
                self._routes[route].pauses.look()
            case _:
                assert_never(notification)

    async def _answer(self, request: WorkerRequest) -> TypedReply:
        match request:
            case Prepare():
                async with self._preparing:
                    return await self._follow_or_end(request)
            case Commit():
                async with self._preparing, self._orders:
                    return await self._follow_or_end(request)
            case Switch():
                async with self._orders:
                    return await self._follow_or_end(request)
            case RecallScript(route, key):
                return request.answer(self._routes[route].scripts.recall(key))
            case HoldWrites(route):
                await self._routes[route].pauses.hold()
                return request.answer("")
            case HoldTenant(route, token, prefix, seconds):
                return request.answer(await self._routes[route].pauses.tenants.hold(token, prefix, seconds))
            case EndHold(route, token, prefix):
                return request.answer(self._routes[route].pauses.tenants.end(token, prefix))
            case _:
                assert_never(request)

    async def _follow_or_end(self, order: WorkerOrder) -> TypedReply:
        try:
            return await self._follow(order)
        except Exception:
            # The other workers follow it already. A new process starts with the policies in force, so end this one.
            self._failed = True
            self._end_now()
            raise

    async def _follow(self, order: WorkerOrder) -> TypedReply:
        match order:
            case Prepare(policies, generation, edition):
                problem = await self._prepare(policies, generation, edition)
                self._prepared = generation if problem is None else None
                return order.answer(problem)
            case Commit(generation):
                await self._commit(generation)
                return order.answer(None)
            case Switch(paused):
                for route in self._routes:
                    await route.pause(paused)
                return order.answer(None)
            case _:
                assert_never(order)

    async def _prepare(self, packed: Packed[tuple[Policy, ...]], generation: int, edition: int) -> str | None:
        try:
            policies = await uncollected(packed.unpack)
            for index, (route, policy) in enumerate(zip(self._routes, policies, strict=True)):
                await route.prepare(policy, generation, partial(self._find_plans, index, edition))
        except Exception as error:  # noqa: BLE001  whatever it is, the old policy stays and the operator reads it
            return f"{type(error).__name__}: {error}"
        return None

    async def _commit(self, generation: int) -> None:
        if generation != self._prepared:
            raise RuntimeError(f"cannot follow to policy generation {generation}")
        for route in self._routes:
            await route.commit()

    async def _find_plans(self, route: int, edition: int, wanted: WantedPlans) -> NewParts:
        try:
            found = await self._channel.request(FindPlans(route, edition, wanted))
        except RequestError as error:
            raise PlanUnavailableError(str(error)) from None
        if found is None:
            raise PlanUnavailableError("other policies are in force")
        return await uncollected(found.unpack)

    def _count(self, event: str) -> None:
        """Count an event of the whole worker in each of its routes."""
        for route in self._routes:
            route.count(event)

    def _group_info(self, route: int, query: InfoQuery) -> "asyncio.Future[dict[str, Any]]":
        # Report first: where clients are few, the answer includes what this one has just done.
        self._reports.now()
        return self._channel.request(GroupInfo(route, query))

    def _find_script(self, route: int, key: FactKey) -> "asyncio.Future[Fact | None]":
        return self._channel.request(FindScript(route, key))

    def _look_for_clusters(self) -> None:
        # One that was down at the start is served by the worker that takes this one's place.
        if any(route.readiness.found_cluster for route in self._routes) and not self._stop.is_set():
            self._failed = True
            self._end_now()

    def _look_at_limits(self) -> None:
        self._admission.look()
        limit = self._start.settings.buffer_limit
        for route in self._routes:
            route.census.refresh()
        if sum(route.census.buffered() for route in self._routes) > limit:
            enforce(limit, [route.clients for route in self._routes])

    async def _drain(self) -> None:
        self._loads.end()
        self._attention.end()
        for route in self._routes:
            route.listeners.close()
        # While a copy is open in any process, the kernel accepts connections.
        for _, descriptor in self._sockets:
            os.close(descriptor)
        await asyncio.gather(*(route.drain(self._drain_seconds) for route in self._routes))
        for route in self._routes:
            route.close()


async def work(control: socket.socket, descriptors: Sequence[int]) -> int:
    """Run the worker that the supervisor describes over ``control``; return the exit status."""
    channel = await Channel.over(control)
    start = await channel.receive()
    status = 0
    if isinstance(start, Start):
        log_as(start.settings.log_format)
        log_from(start.settings.log_level)
        status = await Worker(channel, start, descriptors).run()
    await channel.close()
    return status


def main(control: socket.socket, descriptors: Sequence[int]) -> int:
    """Be the worker that the supervisor describes over ``control``; return the exit status."""
    for ignored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    allow_many_files(lambda _: None)  # the supervisor has warned
    log_as(LogFormat.TEXT)
    never_wait()
    sys.setswitchinterval(SWITCH_SECONDS)
    return uvloop.run(work(control, descriptors))
