"""Where a primary has been replaced behind one address, no connection stays with the old server: whether it was idle,
in use or being opened when a client's write found that out, or whether nobody wrote.

Proves, with servers that change roles while a generator lets connections open, clients come and go, and answers take
their time: once all is quiet, clients get connections to the primary alone; and connections stay where all servers are
replicas, on purpose or not.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from proxy.commands.table import Lane
from proxy.net.config.address import UpstreamAddress
from proxy.net.connection.failures import Failures
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.policy.capabilities import Capabilities
from proxy.net.pool.checkout import Checkout
from proxy.net.pool.connections import Connections
from proxy.net.topology.topology import Single
from proxy.session.ports.keyed_pipeline import PrivatePipeline
from proxy.session.ports.pool_key import PoolKey
from tests.conftest import seed_budget
from tests.net.test_supply import connect_to_nobody
from tests.net.waiters import Waiter
from tests.resp import until

HOME = PoolKey(None, 0, 2)
CALM = ("take", "take", "give back", "give back", "write", "lose", "move")
ACTIONS = (*CALM, "promote", "demote", "second")
REPLICA = ("take", "take", "give back", "give back", "write", "write", "second")
PLANNED = (*CALM, "fail over")

PLAYS = seed_budget.of(300)


class Server:
    """It tells its run_id, if it does, as ``process``."""

    def __init__(self, process: bytes | None) -> None:
        self.process = process
        self.replica = True
        self.hangs = False


class Client(Waiter):
    """It wants a connection of its own."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.waits = False
        self.held: PrivatePipeline | None = None

    def want(self) -> None:
        self.held = self.world.checkout.private(HOME)
        self.waits = self.held is None
        if self.waits:
            self.world.checkout.await_private(self, HOME)

    arrived = want

    def give_back(self) -> None:
        held, self.held = self.held, None
        if held is not None:
            self.world.checkout.release(held)


class World:
    """Servers behind one address, and a route without a network. Whatever takes time takes some turns of the loop."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, chance: random.Random, *, tells: bool, servers: int = 2
    ) -> None:
        self.chance = chance
        self.servers = [Server(b"%d" % number if tells else None) for number in range(servers)]
        self.servers[0].replica = False
        self.reached = 0
        self.answers = asyncio.Event()
        self.answers.set()
        self.leads_to: dict[UpstreamConnection, Server] = {}
        self.events = Counter[str]()
        self.retired_before = 0
        self.from_before: set[UpstreamConnection] = set()
        self.clients = [Client(self) for _ in range(4)]
        self.loop = asyncio.get_running_loop()
        topology = Single(UpstreamAddress(port=7000))
        settings: Any = SimpleNamespace(
            client_output_limit=1, upstream_connections=2, private_connections=4, connect_timeout=5.0, pooling=True
        )
        policies: Any = SimpleNamespace(learn=self._take_time, asks_about=lambda _user, _node: False)
        capabilities = Capabilities(self.loop, topology)
        self.connections = Connections(
            topology,
            settings,
            self.loop,
            capabilities,
            policies,
            (),
            self.events,
            Failures(lambda: 0.0),
            give_back=self._give_back,
            doubt=lambda _upstream, _line: None,
        )
        self.checkout = Checkout(self.connections, capabilities, policies, ())
        monkeypatch.setattr("proxy.net.pool.opening.open_upstream", self._open)
        monkeypatch.setattr("proxy.net.pool.opening.set_to", self._take_time)
        monkeypatch.setattr("proxy.net.pool.checkout._ATTEMPT_PATIENCE", 60.0)
        monkeypatch.setattr("proxy.net.pool.backoff.Backoff.failed", lambda _: 0.0)
        monkeypatch.setattr("proxy.net.pool.demotions.is_replica", self._is_replica)
        monkeypatch.setattr("proxy.net.pool.sole_replicas.is_replica", self._is_replica)
        monkeypatch.setattr(self.connections.demotions.staying, "asks_role", lambda: False)
        monkeypatch.setattr(self.connections.restarts, "identify", self._identify)

    def _give_back(self, upstream: UpstreamConnection) -> None:
        self.checkout.give_back(upstream)

    async def some_turns(self) -> None:
        """Let the event loop go on by chance, so that what happens next comes in the middle of something."""
        for _each in range(self.chance.randrange(4)):
            await asyncio.sleep(0)

    async def _take_time(self, *_: object) -> None:
        for _each in range(self.chance.randrange(5)):
            await asyncio.sleep(0)

    async def _open(self, _address: UpstreamAddress, _tls: object, keeper: Any, key: PoolKey, loop: Any) -> Any:
        await self._take_time()
        upstream = UpstreamConnection(keeper, key, loop)
        self.leads_to[upstream] = self.servers[self.reached]
        connect_to_nobody(upstream, self.loop.call_soon)
        await self._take_time()
        return SimpleNamespace(upstream=upstream, unauthenticated=False)

    async def _identify(self, upstream: UpstreamConnection) -> None:
        await self._take_time()
        upstream.run_id = self.leads_to[upstream].process
        upstream.identified = True
        if not upstream.closed:
            self.connections.all.processes.add(upstream)

    async def _is_replica(self, upstream: UpstreamConnection) -> bool:
        answer = upstream.ask(["ROLE"])
        await self._take_time()
        server = self.leads_to[upstream]
        replica = server.replica
        if not upstream.shared:
            await self.answers.wait()
        if not server.hangs:
            self.loop.create_task(self._answer(upstream))
        await answer
        return replica

    async def _answer(self, upstream: UpstreamConnection) -> None:
        await self._take_time()
        if not upstream.closed:
            upstream.data_received(b"+OK\r\n")

    @property
    def primaries(self) -> list[Server]:
        return [server for server in self.servers if not server.replica]

    def shared(self) -> list[UpstreamConnection]:
        return [upstream for pool in self.connections.pools for lane in Lane for upstream in pool.lanes[lane]]

    def pooled(self) -> list[UpstreamConnection]:
        return [upstream for pool in self.connections.pools for upstream in pool.connections()]

    def write(self) -> bool:
        """A client writes by each shared connection, and the servers answer. Whether one is known to be a replica."""
        found = False
        for upstream in self.shared():
            if self.leads_to[upstream].replica and not upstream.pipeline.read_only:
                upstream.pipeline.suspect_role()
                upstream.doubt_role()
                found = True
        return found

    def lose(self) -> None:
        """The network loses a connection."""
        if pooled := self.pooled():
            self.chance.choice(pooled).abort()

    def promote(self, server: Server) -> None:
        server.replica = False

    def demote(self, server: Server) -> None:
        server.replica = True
        self.retired_before = self.events["retired"]
        self.from_before = {*self.leads_to}

    def act(self, action: str) -> None:
        client = self.chance.choice(self.clients)
        if action == "take" and client.held is None and not client.waits:
            client.want()
        elif action == "give back":
            client.give_back()
        elif action == "write":
            self.write()
        elif action == "lose":
            self.lose()
        elif action == "promote":
            self.promote(self.chance.choice(self.servers))
        elif action == "demote" and len(self.primaries) > 1:
            self.demote(self.chance.choice(self.primaries))
        elif action == "fail over":
            old = self.primaries[0]
            self.promote(next(server for server in self.servers if server is not old))
            self.demote(old)
        elif action == "move":
            self.reached = self.chance.randrange(len(self.servers))
        elif action == "second":
            self.connections.demotions.another_second()

    async def quiet(self) -> None:
        """Whatever is under way comes to its end, and nobody waits for a connection that lies there."""
        for _ in range(60):
            await asyncio.sleep(0)
        lies_there = any(pool.has_idle() for pool in self.connections.pools)
        assert not (lies_there and any(client.waits for client in self.clients))

    async def settle(self) -> None:
        """One server is the primary and is reached, clients give back what they have and write, and a second passes."""
        for server in self.primaries[1:]:
            self.demote(server)
        self.reached = self.servers.index(self.primaries[0])
        await self.quiet()
        while any(client.waits or client.held is not None for client in self.clients) or self.write():
            for client in self.clients:
                client.give_back()
            await self.quiet()
        for _ in range(2):
            self.connections.demotions.another_second()
            await self.quiet()


def play(case: Callable[[World], Coroutine[Any, Any, None]], *, tells: bool = True) -> None:
    async def plays() -> None:
        for seed in range(PLAYS):
            with pytest.MonkeyPatch.context() as monkeypatch:
                world = World(monkeypatch, random.Random(seed), tells=tells)
                world.connections.supply.begin()
                await case(world)
                world.connections.close()

    asyncio.run(plays())


@pytest.mark.parametrize("tells", [True, False])
def test_no_connection_stays_with_a_server_that_has_been_replaced(tells: bool) -> None:
    """Where Redis does not tell its run_id, an error must say it."""

    async def case(world: World) -> None:
        for _ in range(40):
            world.act(world.chance.choice(ACTIONS))
            if world.chance.random() < 0.2:
                await world.quiet()
            await world.some_turns()
        await world.settle()
        if tells or world.events["retired"] > world.retired_before:
            assert {world.leads_to[upstream] for upstream in world.pooled()} == {*world.primaries}

    play(case, tells=tells)


def test_nobody_reads_from_the_old_primary_once_writes_go_to_the_new_one() -> None:
    """That is, once a new connection leads there: without waiting for the next second."""

    async def case(world: World) -> None:
        for _ in range(40):
            action = world.chance.choice(PLANNED)
            if action == "fail over":
                await world.quiet()
            world.act(action)
            if world.chance.random() < 0.2:
                await world.quiet()
                new = [upstream for upstream in world.shared() if upstream not in world.from_before]
                if any(world.leads_to[upstream] in world.primaries for upstream in new):
                    assert {world.leads_to[upstream] for upstream in world.pooled()} == {*world.primaries}
            await world.some_turns()

    play(case)


def test_replicas_on_purpose_stay() -> None:
    """A balancer leads to one replica after the other. They are asked, and stay; so do their clients' connections."""

    async def case() -> None:
        with pytest.MonkeyPatch.context() as monkeypatch:
            world = World(monkeypatch, random.Random(1), tells=True, servers=3)
            world.servers[0].replica = True
            world.connections.supply.begin()
            for number, client in enumerate(world.clients):
                world.reached = number % 3
                client.want()
                await world.quiet()
            for client in world.clients:
                client.give_back()
            for _ in range(3):
                world.connections.demotions.another_second()
                await world.quiet()
            assert {world.leads_to[upstream] for upstream in world.pooled()} == {*world.servers}
            assert world.events["retired"] == world.events["connect_failures"] == 0
            world.connections.close()

    asyncio.run(case())


def test_where_there_is_no_primary_errors_cost_nobody_a_connection() -> None:
    """The one server of an address becomes a replica. Writes fail, and are tried again and again; reads still work, so
    no connection is retired or refused. When a primary is there, all lead to it without another error."""

    async def case(world: World) -> None:
        only = world.servers[0]
        await world.quiet()
        world.demote(only)
        for _ in range(30):
            world.act(world.chance.choice(REPLICA))
            if world.chance.random() < 0.2:
                await world.quiet()
            await world.some_turns()
        await world.quiet()
        world.write()
        await world.quiet()
        assert world.events["retired"] == world.events["connect_failures"] == 0
        staying = world.connections.demotions.staying
        assert staying.reason.endswith("it is a replica")
        if world.chance.random() < 0.5:
            world.reached = 1
        world.promote(world.servers[world.reached])
        for client in world.clients:
            client.give_back()
        for _ in range(3):
            world.connections.demotions.another_second()
            await world.quiet()
        assert {world.leads_to[upstream] for upstream in world.pooled()} == {world.servers[world.reached]}
        assert staying.reason == ""

    play(case)


def test_the_new_primary_is_used_while_the_old_one_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.net.pool.demotions._ANSWER_SECONDS", 0.01)

    async def case() -> None:
        world = World(monkeypatch, random.Random(1), tells=True)
        old, new = world.servers
        client = world.clients[0]
        world.connections.supply.begin()
        client.want()
        await world.quiet()
        client.give_back()
        old.hangs, new.replica, world.reached = True, False, 1
        for upstream in world.connections.pools.of(HOME).lanes[Lane.FAST]:
            upstream.abort()
        await world.quiet()
        assert [world.leads_to[each] for each in world.connections.pools.of(HOME).lanes[Lane.FAST]] == [new]
        await until(lambda: old not in map(world.leads_to.get, world.connections.all.members.values()))
        world.connections.close()

    asyncio.run(case())


@pytest.mark.parametrize("when", ["used", "opened", "asked"])
def test_what_is_busy_when_the_others_are_asked_is_asked_later(monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """However late that is, and where Redis does not tell its run_id."""
    monkeypatch.setattr("proxy.net.pool.demotions._UNSETTLED_SECONDS", 0.0)

    async def case() -> None:
        world = World(monkeypatch, random.Random(1), tells=False)
        old, new = world.servers
        client = world.clients[0]
        opens = asyncio.Event()

        async def learn(_: object) -> None:
            if client.waits:
                await opens.wait()

        monkeypatch.setattr(world.connections.supply._policies, "learn", learn)
        world.connections.supply.begin()
        await world.quiet()
        client.want()
        if when != "opened":
            opens.set()
            await until(lambda: client.held is not None)
        if when == "asked":
            world.answers.clear()
            assert client.held is not None
            client.held.suspect_role()
            client.give_back()
        await world.quiet()
        world.promote(new)
        world.demote(old)
        world.reached = 1
        assert world.write()
        await world.quiet()
        opens.set()
        world.answers.set()
        if when == "opened":
            await until(lambda: client.held is not None)
        client.give_back()
        await world.quiet()
        assert {world.leads_to[upstream] for upstream in world.pooled()} == {new}
        world.connections.close()

    asyncio.run(case())


def test_what_a_login_leaves_and_what_is_opened_to_learn_are_asked_first(monkeypatch: pytest.MonkeyPatch) -> None:
    async def case() -> None:
        world = World(monkeypatch, random.Random(1), tells=True)
        old, new = world.servers
        world.promote(new)
        world.demote(old)
        world.reached = 1
        world.connections.supply.begin()
        await world.quiet()
        world.reached = 0
        login = await world._open(UpstreamAddress(), None, world.connections, HOME._replace(user="app"), world.loop)
        world.connections.all.add(login.upstream)
        world.checkout.give_back(login.upstream)
        assert await world.connections.supply.open_to_learn(world.connections.topology.nodes[0]) is None
        await world.quiet()
        assert {world.leads_to[upstream] for upstream in world.connections.all.members.values()} == {new}
        world.connections.close()

    asyncio.run(case())
