"""One worker process: a gateway for each route, on the listening sockets that the supervisor handed down.

It does what the supervisor says (``control``), reports every second, and ends when it has drained. Signals are the
supervisor's business: Ctrl-C reaches every process of the terminal, so SIGINT and SIGHUP mean nothing here; a SIGTERM
makes this worker drain, and the supervisor replaces it. When the supervisor is gone, so that nobody would replace,
reload or stop this process any more, it drains as well.
"""

import asyncio
import gc
import logging
import signal
import socket
import ssl
import sys
import time
from collections.abc import Coroutine
from functools import partial
from typing import Any

import uvloop

from proxy.net.gateway import ClusterRefusedError, Gateway
from proxy.net.tls import TlsError, listener_context
from proxy.rules.script_memory import ScriptKey
from proxy.server.control import (
    Ask,
    Channel,
    Commit,
    Committed,
    Drain,
    Found,
    Informed,
    Inquire,
    Leased,
    ListenerSocket,
    News,
    Prepare,
    Prepared,
    Recall,
    Recalled,
    Report,
    Seek,
    Serving,
    Start,
    Switch,
    Switched,
    Told,
    Unfit,
    Wanted,
    Watched,
)
from proxy.server.leases import LEASE_SECONDS, LOST_SECONDS
from proxy.session.topic import Topic

_log = logging.getLogger("keyrail.worker")

REPORT_SECONDS = 0.8
"""Between reports; with their way to the supervisor, figures are never older than a second.

A second of traffic is told as soon as it is over: it would be nearly two seconds old, if it waited for the next report.
"""


class Worker:
    """The life of one worker process."""

    def __init__(self, channel: Channel, start: Start) -> None:
        self._channel = channel
        self._start = start
        self._stop = asyncio.Event()
        self._drain_seconds = start.settings.drain
        self._prepared: int | None = None
        self._leased = 0.0
        self._wanted = False
        loop = asyncio.get_running_loop()
        self._gateways = [
            Gateway(
                route,
                start.settings,
                policy,
                loop,
                start.generation,
                partial(self._inquire, index),
                start.paused,
                partial(self._seek, index) if start.settings.workers > 1 else None,
            )
            for index, (route, policy) in enumerate(zip(start.settings.routes, start.policies, strict=True))
        ]

    async def run(self) -> None:
        """Serve until told to stop, then drain."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._stop.set)
        if not await self._open():
            return
        # What lives until the end need not be looked at by every collection.
        gc.collect()
        gc.freeze()
        self._channel.send(Serving())
        for gateway in self._gateways:
            gateway.when_second_is_over = self._tell_watched
        tasks = [self._spawn(self._obey()), self._spawn(self._report())]
        if self._start.settings.workers > 1:
            tasks.append(self._spawn(self._share_limits()))
        await self._stop.wait()
        await self._drain()
        for task in tasks:
            task.cancel()
        self._tell()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task whose failure ends the process, with its traceback: the supervisor makes a new one."""
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._check)
        return task

    def _check(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._drain_seconds = 0.0
            self._stop.set()

    async def _open(self) -> bool:
        """Start the gateways and accept connections; False if a route turns out to be unfit."""
        outcomes = await asyncio.gather(*(gateway.start() for gateway in self._gateways), return_exceptions=True)
        for index, outcome in enumerate(outcomes):
            if isinstance(outcome, ClusterRefusedError | TlsError):
                self._channel.send(Unfit(index, str(outcome)))
                return False
            if isinstance(outcome, BaseException):
                raise outcome
        for handed in self._start.sockets:
            try:
                await self._serve(handed)
            except TlsError as error:
                self._channel.send(Unfit(handed.route, str(error)))
                return False
        return True

    async def _serve(self, handed: ListenerSocket) -> None:
        listener = self._start.settings.routes[handed.route].listeners[handed.listener]
        context: ssl.SSLContext | None = None
        if listener.address.tls is not None:
            context = listener_context(listener.address.tls, _log.warning)
        await self._gateways[handed.route].serve(socket.socket(fileno=handed.fd), listener, context)

    async def _obey(self) -> None:
        while (message := await self._channel.receive()) is not None:
            match message:
                case Prepare(policies, generation):
                    problem = await self._prepare(policies, generation)
                    self._prepared = generation if problem is None else None
                    self._channel.send(Prepared(generation, problem))
                case Commit(generation):
                    self._commit(generation)
                    self._channel.send(Committed(generation))
                case Switch(paused):
                    for gateway in self._gateways:
                        await gateway.pause(paused)
                    self._channel.send(Switched(paused))
                case Ask(question, route, window):
                    self._channel.send(Told(question, self._gateways[route].busiest(window)))
                case Informed(route, topic, answer):
                    self._gateways[route].told(topic, answer)
                case Recall(question, route, key):
                    self._channel.send(Recalled(question, self._gateways[route].recall_script(key)))
                case Found(route, key, calls):
                    self._gateways[route].script_found(key, calls)
                case Leased(routes):
                    self._leased = time.monotonic()
                    for gateway, leases in zip(self._gateways, routes, strict=True):
                        gateway.lease(leases)
                case Drain(seconds):
                    self._drain_seconds = seconds
                    self._stop.set()
                case _:
                    raise AssertionError(f"the supervisor never sends {message!r} now")
        self._stop.set()

    async def _prepare(self, policies: tuple[Any, ...], generation: int) -> str | None:
        for gateway, policy in zip(self._gateways, policies, strict=True):
            try:
                await gateway.prepare(policy, generation)
            except Exception as error:  # noqa: BLE001  whatever it is, the old policy stays and the operator reads it
                return f"{type(error).__name__}: {error}"
        return None

    def _commit(self, generation: int) -> None:
        if generation != self._prepared:
            # The others are using it already. A new process starts with it, so end this one.
            raise RuntimeError(f"cannot follow to policy generation {generation}")
        for gateway in self._gateways:
            gateway.commit()

    async def _share_limits(self) -> None:
        asked = time.monotonic()
        while True:
            await asyncio.sleep(LEASE_SECONDS)
            now = time.monotonic()
            wanted = tuple(gateway.demand(now - asked) for gateway in self._gateways)
            asked = now
            if now - self._leased > LOST_SECONDS:
                for gateway in self._gateways:
                    gateway.lease({})
            if any(wanted) or self._wanted:
                self._channel.send(Wanted(wanted))
            self._wanted = any(wanted)

    async def _report(self) -> None:
        while True:
            self._tell()
            await asyncio.sleep(REPORT_SECONDS)

    def _inquire(self, route: int, topic: Topic) -> None:
        # The client that asks finds in the answer what it has just done.
        self._tell()
        self._channel.send(Inquire(route, topic))

    def _seek(self, route: int, key: ScriptKey) -> None:
        self._channel.send(Seek(route, key))

    def _tell(self) -> None:
        self._channel.send(Report(tuple(gateway.snapshot() for gateway in self._gateways)))
        self._channel.send(News(tuple(gateway.seen() for gateway in self._gateways)))
        self._tell_watched()

    def _tell_watched(self) -> None:
        watched = tuple(gateway.digests() for gateway in self._gateways)
        if any(watched):
            self._channel.send(Watched(watched))

    async def _drain(self) -> None:
        for gateway in self._gateways:
            gateway.stop_accepting()
        await asyncio.gather(*(gateway.drain(self._drain_seconds) for gateway in self._gateways))
        for gateway in self._gateways:
            gateway.close()


async def work(control: socket.socket) -> None:
    """Run the worker that the supervisor describes over ``control``."""
    channel = await Channel.over(control)
    start = await channel.receive()
    if isinstance(start, Start):
        await Worker(channel, start).run()
    await channel.close()


def main() -> None:
    """Enter the worker process; its argument is the control socket's file descriptor."""
    for ignored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    logging.basicConfig(level=logging.WARNING, format="keyrail: %(message)s")
    uvloop.run(work(socket.socket(fileno=int(sys.argv[1]))))


if __name__ == "__main__":
    main()
