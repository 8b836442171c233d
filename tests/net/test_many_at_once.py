"""What many clients cause at one moment costs each of them the same as it costs a few: no event of one client looks at
all the others.

Proves it with a route without a network, by the lines of Python that run (no clock is asked): each event happens to a
hundred clients, and then to four hundred.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from proxy.hotpath.counting.counters import Counters
from proxy.hotpath.counting.sampler import Sampler
from proxy.net.config.address import UpstreamAddress
from proxy.net.connection.asked_once import AskedOnce
from proxy.net.connection.engine import Engine
from proxy.net.policy.capabilities import Capabilities
from proxy.net.policy.plan_compiler import PlanCompiler
from proxy.net.policy.policies import Policies
from proxy.net.pool.pool import Pool
from proxy.net.pool.supply import AT_ONCE
from proxy.net.topology.known_scripts import KnownScripts
from proxy.net.topology.topology import Single
from proxy.session.ports.pool_key import SOLE_NODE, PoolKey
from tests.net.test_demotions import Client, World
from tests.policy.given import policy

FEW, MANY = 100, 400
HOME = PoolKey(None, 0, 2)


class Lines:
    """How many lines of the program have run."""

    def __init__(self) -> None:
        self.run = 0

    def _line(self, _frame: FrameType, event: str, _argument: object) -> Any:
        self.run += event == "line"
        return self._line

    def _call(self, frame: FrameType, _event: str, _argument: object) -> Any:
        return self._line if "/proxy/" in frame.f_code.co_filename else None

    @contextmanager
    def counted(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self._call)
        try:
            yield
        finally:
            sys.settrace(before)


async def _want(world: World) -> None:
    for client in world.clients:
        client.want()
    for _ in range(0, len(world.clients), AT_ONCE):
        await world.quiet()
    assert all(client.held is not None for client in world.clients)


async def _give_back(world: World) -> None:
    for client in world.clients:
        client.give_back()
    await world.quiet()


async def _lose(world: World) -> None:
    for upstream in [*world.connections.all.members.values()]:
        upstream.abort()
    await world.quiet()


async def _move(world: World) -> None:
    """The address leads to another server, which is the primary now, and all of them want a connection there."""
    world.demote(world.servers[0])
    world.promote(world.servers[1])
    world.reached = 1
    for client in world.clients:
        client.held = None
    await _want(world)


EVENTS: dict[str, tuple[Callable[[World], Any], ...]] = {
    "a connection of one's own": (_want,),
    "given back": (_want, _give_back),
    "lost": (_want, _lose),
    "another server behind the address": (_want, _move),
}


def _cost(clients: int, steps: tuple[Callable[[World], Any], ...], *, others: int = 0) -> float:
    """Lines for each client in the last step."""
    lines = Lines()

    async def play() -> None:
        with pytest.MonkeyPatch.context() as monkeypatch:
            world = World(monkeypatch, random.Random(1), tells=True)
            monkeypatch.setattr(
                "proxy.net.pool.demotions._ANSWER_SECONDS", 600.0
            )  # the lines are counted, not the time
            settings: Any = world.connections.settings
            settings.private_connections, settings.connect_timeout = 10 * clients, 600.0
            world.clients = [Client(world) for _ in range(clients)]
            world.connections.supply.begin()
            await world.quiet()
            for number in range(others):
                pool: Pool = world.connections.pools.of(HOME._replace(user=f"user-{number}"))
                pool.lanes[next(iter(pool.lanes))].append(SimpleNamespace())  # type: ignore[arg-type]  # nobody uses it
            for step in steps[:-1]:
                await step(world)
            with lines.counted():
                await steps[-1](world)
            for number in range(others):
                world.connections.pools.of(HOME._replace(user=f"user-{number}")).lanes.clear()
            world.connections.close()

    asyncio.run(play())
    return lines.run / clients


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_of_each_client_costs_the_same_however_many_they_are(event: str) -> None:
    few, many = (_cost(clients, EVENTS[event]) for clients in (FEW, MANY))
    assert many < 1.5 * few, f"{few:.0f} lines for each of {FEW} clients, {many:.0f} for each of {MANY}"


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_costs_the_same_however_many_users_have_pools(event: str) -> None:
    alone, among = _cost(FEW, EVENTS[event]), _cost(FEW, EVENTS[event], others=MANY)
    assert among < 1.5 * alone, f"{alone:.0f} lines for each client alone, {among:.0f} where {MANY} users have pools"


class Connection:
    """A new connection to a server that has just been promoted. It can be lost while it asks."""

    def __init__(self, asked: Counter[str], *, lost: bool = False) -> None:
        self.key = PoolKey(None, 0, 2, SOLE_NODE)
        self.run_id = b"abc"
        self.asked = asked
        self.lost = lost

    async def ask(self, argv: list[str]) -> bytes:
        self.asked[argv[0]] += 1
        await asyncio.sleep(0)
        if self.lost:
            raise ConnectionResetError("the connection was lost")
        return {"COMMAND": b"*0\r\n", "MULTI": b"+OK\r\n", "DISCARD": b"+OK\r\n"}.get(argv[0], b"+QUEUED\r\n")


@pytest.mark.parametrize("lost", [0, 3])
def test_what_new_connections_need_to_know_is_asked_by_one_of_them(lost: int) -> None:
    """The first of them are lost while they ask: the next one asks then."""
    asked = Counter[str]()
    rule = policy("defaults: {mode: enforce}\nrules: {lifetimes: {lifetime: {default: 5m}}}\n")

    async def play() -> None:
        loop = asyncio.get_running_loop()
        known = Capabilities(loop, Single(UpstreamAddress()))
        find = PlanCompiler(rule).find
        policies = Policies(
            rule, 1, find, known, Counters(1), Sampler(0), [], workers=1, paused=False, start=loop.create_task
        )
        scripts = KnownScripts()
        scripts.remember(b"return 1")

        async def meet(connection: Any) -> None:
            await policies.learn_user(connection, Engine(version=(7, 0)))
            await policies.settle(None)
            await scripts.load_on(connection)

        connections = [Connection(asked, lost=number < lost) for number in range(MANY)]
        replies = await asyncio.gather(*map(meet, connections), return_exceptions=True)
        assert [isinstance(reply, ConnectionResetError) for reply in replies] == [each.lost for each in connections]
        assert known.able[None] >= {"EXPIRE", "UNLINK"} & policies._current.needed
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            await task

    asyncio.run(play())
    assert asked["COMMAND"] == lost + 2, "the last one asks COMMAND INFO, too"
    assert asked["SCRIPT"] == 1
    assert sum(asked.values()) < 60


def test_who_waits_for_an_answer_asks_if_whoever_asked_gave_up() -> None:
    async def play() -> list[str]:
        once, asked, never = AskedOnce(), list[str](), asyncio.Event()

        async def question(name: str) -> None:
            asked.append(name)
            if name == "first":
                await never.wait()

        questions = [partial(question, name) for name in ("first", "second", "third")]
        tasks = [asyncio.create_task(once.ask("subject", each)) for each in questions]
        await asyncio.sleep(0)
        tasks[1].cancel()  # who waits and gives up takes nobody's answer away
        await asyncio.sleep(0)
        tasks[0].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert [task.cancelled() for task in tasks] == [True, True, False]
        return asked

    assert asyncio.run(play()) == ["first", "third"]
