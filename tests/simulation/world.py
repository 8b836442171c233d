"""A world by one seed: the network, what runs in it, Keyrail's routes and their clients.

A run ends when ``play`` does. What is under way is closed then.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from proxy.net.cache.tracked_database import TrackedDatabase
from proxy.net.cache.tracking import TrackedServer
from proxy.net.config.address import parse_listen, parse_upstream
from proxy.net.config.settings import ListenerSettings
from proxy.net.follow.topologies import topology_of
from proxy.net.route.route import Route
from proxy.policy.model import TRANSPARENT, Policy
from tests.net.routes import new_route
from tests.resp import FrameReader, pack
from tests.simulation.cluster import Cluster
from tests.simulation.engine import Server
from tests.simulation.loop import VirtualLoop, until
from tests.simulation.network import Address, Network, Weather
from tests.simulation.sentinel import Group

MOST_SECONDS = 600.0
"""Of virtual time: what takes longer hangs."""
SLOW, LOST = (0.0003, 0.001, 0.01), (0.0, 0.0, 0.005)
"""The most seconds that a piece takes, and how often one is lost."""
Words = Sequence[bytes | str | int]


class ClosedError(Exception):
    """The connection was closed before the reply."""


class Client(asyncio.Protocol):
    """A client: a future for each command, and the pushes that came between replies."""

    def __init__(self, world: World, address: Address) -> None:
        self.pushes: list[bytes] = []
        self.closed = True
        self.transport: Any = None
        self._world, self._address = world, address
        self._frames = FrameReader()
        self._pending: deque[asyncio.Future[bytes]] = deque()

    async def connect(self) -> None:
        """Raises ConnectionRefusedError."""
        self._frames = FrameReader()
        await self._world.network.connect("app", self._address, self)
        self.closed = False

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._frames.feed(data)
        while (frame := self._frames.frame()) is not None:
            if frame[:1] == b">" or not self._pending:
                self.pushes.append(frame)
            elif not (reply := self._pending.popleft()).done():
                reply.set_result(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        while self._pending:
            if not (reply := self._pending.popleft()).done():
                reply.set_exception(ClosedError())
                reply.exception()  # nobody need wait for it

    def send(self, *commands: Words, cut: int = 0) -> list[asyncio.Future[bytes]]:
        """In one piece, or cut in two."""
        replies = [self._world.loop.create_future() for _ in commands]
        if self.closed:
            for each in replies:
                each.set_exception(ClosedError())
                each.exception()
            return replies
        self._pending += replies
        data = b"".join(pack(*words) for words in commands)
        for piece in (data[:cut], data[cut:]):
            self.transport.write(piece)
        return replies

    async def ask(self, *words: bytes | str | int) -> bytes:
        """The reply's frame. Raises ClosedError."""
        return await self.send(words)[0]

    async def pipe(self, *commands: Words) -> list[bytes]:
        """The replies' frames. Raises ClosedError."""
        return [await reply for reply in self.send(*commands)]

    def close(self) -> None:
        self.transport.close()


class Door:
    """One listener of a route."""

    def __init__(self, world: World, address: Address) -> None:
        self.world, self.address = world, address

    async def client(self, *first: bytes | str | int) -> Client:
        """A client that is connected, and has sent this first."""
        client = Client(self.world, self.address)
        await client.connect()
        if first:
            reply = await client.ask(*first)
            assert not reply.startswith(b"-"), reply
        return client


class Keyrail(Door):
    """A route, as one worker has it."""

    def __init__(self, world: World, url: str, policy: Policy, settings: dict[str, Any]) -> None:
        upstream = parse_upstream(url)
        super().__init__(world, ("keyrail", next(world.ports)))
        self.route = new_route(upstream, topology_of(upstream), policy, kind=_Route, **settings)

    async def start(self) -> None:
        """Start, and wait until commands reach what is behind it."""
        await self.route.start()
        await until(lambda: self.route.snapshot()["ready"])
        self._listen(1, self.address)

    def door(self, port: int) -> Door:
        """A further listener, of this port in policies; port 1 is that of the route itself."""
        door = Door(self.world, ("keyrail", next(self.world.ports)))
        self._listen(port, door.address)
        return door

    def _listen(self, port: int, address: Address) -> None:
        listener = ListenerSettings(parse_listen(f"redis://127.0.0.1:{port}"))
        self.world.network.listen(address, self.route.listeners.new_client(listener))


class World:
    """What a seed leads to. ``loop.now`` is its time."""

    def __init__(self, loop: VirtualLoop, seed: int) -> None:
        self.loop, self.chance = loop, random.Random(seed)
        self.network = Network(loop, random.Random(seed + 1))
        self.network.weather = Weather(most=self.chance.choice(SLOW), lost=self.chance.choice(LOST))
        self.ports = iter(range(7000, 8000))
        self.keyrails: list[Keyrail] = []
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._failures: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, context: self._failures.append(context))

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Something that goes on beside the rest; its failure is the run's."""
        task = self.loop.create_task(work)
        self._tasks[task] = None
        return task

    def server(self, number: int = 1, **options: Any) -> Server:
        """A server by itself."""
        return Server(self.network, (f"10.0.3.{number}", 6379), **options)

    def cluster(self, primaries: int = 3, replicas: int = 1) -> Cluster:
        """A cluster that lives."""
        cluster = Cluster(self.network, primaries, replicas)
        valkey = self.chance.random() < 0.5
        for node in cluster.nodes:
            node.server.valkey = valkey
        self.start(cluster.watch())
        return cluster

    def group(self, replicas: int = 2) -> Group:
        """A primary, its replicas and Sentinels."""
        group = Group(self.network, replicas)
        self.start(group.watch())
        return group

    async def keyrail(self, url: str, policy: Policy = TRANSPARENT, **settings: Any) -> Keyrail:
        """A route to this upstream that serves."""
        keyrail = Keyrail(self, url, policy, settings)
        self.keyrails.append(keyrail)
        await keyrail.start()
        return keyrail

    async def until(self, holds: Callable[[], object], seconds: float = 60.0) -> None:
        """Wait. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            await until(holds)

    async def end(self) -> None:
        for each in self.keyrails:
            each.route.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)

    def check(self) -> None:
        """Raises what a task or a callback has failed with."""
        for context in self._failures:
            raise AssertionError(context["message"]) from context.get("exception")
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()


class _Route(Route):
    """A route whose clocks are the loop's."""

    def __init__(self, *arguments: Any) -> None:
        loop: VirtualLoop = arguments[4]
        self.now = lambda: 1_700_000_000 + loop.now
        self.clock = loop.time
        super().__init__(*arguments)


def run(play: Callable[[World], Awaitable[Any]], seed: int = 0) -> Any:
    """Play in a world of this seed; what ``play`` returns."""

    async def played() -> Any:
        world = World(loop, seed)
        stack.enter_context(patch.object(TrackedDatabase, "readable", world.network.poll))
        stack.enter_context(patch.object(TrackedServer, "read", staticmethod(world.network.read)))
        # Else a slow machine would have its say about how many clients are gone through in one turn.
        stack.enter_context(patch("proxy.net.policy.policies._SLICE_SECONDS", math.inf))
        try:
            async with asyncio.timeout(MOST_SECONDS):
                result = await play(world)
            world.check()
            return result
        finally:
            await world.end()

    loop, before = VirtualLoop(), random.getstate()
    random.seed(seed)
    try:
        with ExitStack() as stack, asyncio.Runner(loop_factory=lambda: loop) as runner:
            return runner.run(played())
    finally:
        random.setstate(before)
