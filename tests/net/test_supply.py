"""A client that waits for a connection gets one as soon as there is one, whatever happens to other clients of the
route.

Proves, on a route with connections that a generator makes and loses: a lane backs off from its own failures alone; and
when no connection attempt is running, no client waits for a free connection of its own; a crowd's are opened some at a
time.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter, deque
from collections.abc import Callable
from operator import itemgetter
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.commands.table import Lane
from proxy.hotpath.upstream.in_flight import NOTE, ReplySink
from proxy.net.config.address import UpstreamAddress
from proxy.net.connection.failures import Failures
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.policy.capabilities import Capabilities
from proxy.net.pool.checkout import Checkout
from proxy.net.pool.connections import Connections
from proxy.net.pool.pool import Pool
from proxy.net.pool.supply import AT_ONCE
from proxy.net.topology.topology import Change
from proxy.session.ports.keyed_pipeline import PrivatePipeline
from proxy.session.ports.pool_key import SOLE_NODE, Node, PoolKey
from tests.conftest import seed_budget
from tests.net.still_topology import StillTopology

HOME = PoolKey(None, 0, 2)


class TwoNodes(StillTopology):
    """A topology of two nodes."""

    nodes = (SOLE_NODE, Node(1))
    router = None
    home = SOLE_NODE
    login = UpstreamAddress(port=7000)

    def address(self, node: Node) -> UpstreamAddress:
        return UpstreamAddress(port=7000 + node.number)


TOPOLOGY = TwoNodes()


class Loop:
    """A loop on which time passes when a test says so, and where nothing but futures is awaited."""

    def __init__(self) -> None:
        self.ready: deque[Callable[[], object]] = deque()
        self.timers: list[tuple[float, Callable[[], object]]] = []
        self.now = 0.0

    def time(self) -> float:
        return self.now

    def call_soon(self, act: Callable[..., object], *arguments: object) -> None:
        self.ready.append(lambda: act(*arguments))

    def call_later(self, seconds: float, act: Callable[..., object], *arguments: object) -> Any:
        timer = (self.now + seconds, lambda: act(*arguments))
        self.timers.append(timer)
        return SimpleNamespace(cancel=lambda: self.timers.remove(timer) if timer in self.timers else None)

    def create_task(self, work: Any) -> Any:
        task = Task()

        def step() -> None:
            try:
                work.send(None)
            except StopIteration:
                task.done(task)
            else:
                self.ready.append(step)

        self.ready.append(step)
        return task

    def run(self) -> None:
        """Everything that is under way comes to its end."""
        while self.ready:
            self.ready.popleft()()

    def wait(self, seconds: float) -> None:
        """So much time passes: what is under way goes on, and timers act when they are due."""
        end = self.now + seconds
        while self.now < end:
            self.now += 0.05
            for act in [*self.ready]:
                self.ready.popleft()
                act()
            for timer in sorted((each for each in self.timers if each[0] <= self.now), key=itemgetter(0)):
                if timer in self.timers:
                    self.timers.remove(timer)
                    timer[1]()


class Task:
    def __init__(self) -> None:
        self.done: Callable[[Task], object] = lambda _: None

    def add_done_callback(self, done: Callable[[Task], object]) -> None:
        self.done = done


class Client:
    """A session that wants a connection of its own; one that is passive does not take what it is offered."""

    gone = False

    def __init__(self, route: Route, key: PoolKey) -> None:
        self.route = route
        self.key = key
        self.sender = SimpleNamespace(upstream=None, nodes=None, reads=None)
        self.passive = False
        self.waits = False
        self.held: PrivatePipeline | None = None

    def want(self) -> None:
        """Take a connection, or wait for one."""
        self.waits = False
        if self.passive or self.held is not None:
            return
        self.held = self.route.checkout.private(self.key)
        if self.held is None:
            self.waits = True
            self.route.checkout.await_private(self, self.key)

    arrived = want

    def give_back(self) -> None:
        held, self.held = self.held, None
        if held is not None:
            self.route.checkout.release(held)

    def close(self, cause: str) -> None:
        self.waits = False
        self.gone = True

    def turn_away(self, error: bytes, cause: str) -> None:
        self.close(cause)


class Sharer(Client):
    """A session that wants a connection which others may use, too."""

    def want(self) -> None:
        self.waits = False
        if not self.passive and self.route.checkout.shared(self.key, Lane.FAST) is None:
            self.waits = True
            self.route.checkout.await_shared(self, self.key, Lane.FAST)

    arrived = want


def connect_to_nobody(upstream: UpstreamConnection, call_soon: Callable[..., object]) -> None:
    """Nobody answers what is written there."""
    transport: Any = SimpleNamespace(
        set_write_buffer_limits=lambda high: None,
        is_closing=lambda: upstream.closed,
        write=lambda data: None,
        pause_reading=lambda: None,
        resume_reading=lambda: None,
        close=upstream.abort,
        abort=lambda: call_soon(upstream.connection_lost, None),
    )
    upstream.connection_made(transport)


class Route:
    """A route without a network: connections open where the test lets them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, most_private: int = 3) -> None:
        self.loop = Loop()
        self.fails: Callable[[PoolKey], bool] = lambda _: False
        self.breaks = False
        """The next connection that is switched to another database is lost."""
        loop = cast("asyncio.AbstractEventLoop", self.loop)
        settings: Any = SimpleNamespace(
            client_output_limit=1,
            upstream_connections=4,
            private_connections=most_private,
            connect_timeout=5.0,
            pooling=True,
        )
        policies: Any = SimpleNamespace(learn=self._nothing, asks_about=lambda _user, _node: False)
        capabilities = Capabilities(loop, TOPOLOGY)
        capabilities.able["app"] = frozenset()
        self.clients: list[Any] = []
        self.connections = Connections(
            TOPOLOGY,
            settings,
            loop,
            capabilities,
            policies,
            self.clients,
            Counter(),
            Failures(lambda: 0.0),
            give_back=self._give_back,
            doubt=lambda _upstream, _line: None,
        )
        self.checkout = Checkout(self.connections, capabilities, policies, self.clients)
        for module in ("pool.supply", "pool.opening"):
            timeless = SimpleNamespace(timeout=lambda _seconds: contextlib.nullcontext())
            monkeypatch.setattr(f"proxy.net.{module}.asyncio", timeless)
        monkeypatch.setattr("proxy.net.pool.opening.open_upstream", self._open)
        monkeypatch.setattr("proxy.net.pool.supply.set_to", self._set_to)
        monkeypatch.setattr("proxy.net.pool.opening.set_to", self._set_to)
        monkeypatch.setattr(self.connections.restarts, "identify", self._nothing)

    def _give_back(self, upstream: UpstreamConnection) -> None:
        self.checkout.give_back(upstream)

    async def _nothing(self, *_: object) -> None:
        return None

    async def _open(self, address: UpstreamAddress, _tls: object, keeper: Any, key: PoolKey, loop: Any) -> Any:
        assert address == TOPOLOGY.address(key.node)
        if self.fails(key):
            raise ConnectionRefusedError
        return SimpleNamespace(upstream=self.connection(key), unauthenticated=False)

    async def _set_to(self, upstream: UpstreamConnection, key: PoolKey, *_rest: object) -> None:
        breaks, self.breaks = self.breaks, False
        for _turn in range(4):
            await _Turn()
        if breaks:
            raise ConnectionResetError
        upstream.key = key

    def connection(self, key: PoolKey) -> UpstreamConnection:
        """A new connection, logged in."""
        upstream = UpstreamConnection(self.connections, key, cast("asyncio.AbstractEventLoop", self.loop))
        upstream.identified = True
        connect_to_nobody(upstream, self.loop.call_soon)
        return upstream

    def shared(self, key: PoolKey) -> list[UpstreamConnection]:
        return [upstream for pool in self.connections.pools.of_login(key) for upstream in pool.lanes[Lane.FAST]]


LANES = [
    (PoolKey(None, database, 2, node), lane)
    for node in TOPOLOGY.nodes
    for database in (0, 1)
    for lane in (Lane.FAST, Lane.SLOW, None)
]
SPARE = [(key, lane) for key, lane in LANES if key.database or lane is not Lane.FAST]
"""Without the connection that is always wanted of a node: while that one can't be had, all of the node's wait."""


@given(st.lists(st.sampled_from(LANES), min_size=1, max_size=12), st.sets(st.sampled_from(SPARE)))
def test_a_lane_backs_off_from_its_own_failures_alone(
    wanted: list[tuple[PoolKey, Lane | None]], broken: set[tuple[PoolKey, Lane | None]]
) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        route = Route(monkeypatch, most_private=100)
        opening: list[tuple[PoolKey, Lane | None]] = []
        original = route.connections.supply._open_into

        async def open_into(pool: Pool, lane: Lane | None) -> None:
            opening.append((pool.key, lane))
            route.fails = lambda _: (pool.key, lane) in broken
            await original(pool, lane)

        monkeypatch.setattr(route.connections.supply, "_open_into", open_into)
        route.connections.supply.begin()
        route.loop.run()
        for key, lane in wanted:
            client = Client(route, key)
            if lane is None:
                client.want()
            elif route.checkout.shared(key, lane) is None:
                route.checkout.await_shared(client, key, lane)
            route.loop.run()
            if (key, lane) not in broken:
                pool = route.connections.pools.of(key)
                assert client.held is not None if lane is None else pool.alive(lane), "it waits for another lane"
        assert all(opening.count(each) == 1 for each in broken & set(wanted)), "a failed lane is tried again too soon"


@settings(max_examples=15)
@given(
    st.lists(st.sampled_from([key for key, lane in LANES if lane is None]), max_size=30), st.integers(1, 3 * AT_ONCE)
)
def test_a_crowd_gets_its_connections_some_at_once(wanted: list[PoolKey], alike: int) -> None:
    """Each of them gets one, and however many there are, their attempts leave each other the time for it."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        route = Route(monkeypatch, most_private=1000)
        route.connections.supply.begin()
        route.loop.run()
        clients = [Client(route, key) for key in (*wanted, *[HOME] * alike)]
        for client in clients:
            client.want()
        while route.loop.ready:
            assert all(pool.opening[None] <= AT_ONCE for pool in route.connections.pools)
            route.loop.ready.popleft()()
        assert all(client.held is not None for client in clients)


class Slow:
    """Attempts that take their time, each the same or up to that, and fail by chance."""

    def __init__(self, route: Route, seconds: float, failing: float, seed: int, *, alike: bool = False) -> None:
        self._open = route._open
        self._loop = route.loop
        self._random = random.Random(seed)
        self._seconds = seconds
        self._failing = failing
        self._alike = alike

    async def open(self, *arguments: Any) -> Any:
        due = self._loop.now + self._seconds * (1.0 if self._alike else self._random.random())
        while self._loop.now < due:
            await _Turn()
        if self._random.random() < self._failing:
            raise ConnectionRefusedError
        return await self._open(*arguments)


class _Turn:
    """One turn of the loop."""

    def __await__(self) -> Any:
        yield


@settings(max_examples=25, deadline=None)
@given(
    st.integers(AT_ONCE, 6 * AT_ONCE),
    st.sampled_from([1.15, 1.6, 2.4, 3.3, 4.9]),
    st.sampled_from([0.0, 0.02, 0.3]),
    st.integers(0, 99),
    st.booleans(),
)
def test_nobody_in_a_crowd_is_closed_while_others_get_connections(
    count: int, seconds: float, failing: float, seed: int, alike: bool
) -> None:
    """However slow attempts are, and whichever of them fail; and each gets a connection, or is closed in the end."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        route = Route(monkeypatch, most_private=1000)
        route.connections.supply.begin()
        route.loop.run()
        pool = route.connections.pools.of(HOME)
        monkeypatch.setattr(
            "proxy.net.pool.opening.open_upstream", Slow(route, seconds, failing, seed, alike=alike).open
        )
        clients = [Client(route, HOME) for _ in range(count)]
        closed_after: list[float] = []
        for client in clients:
            monkeypatch.setattr(client, "close", lambda _cause: closed_after.append(route.loop.now - pool.kept_at))
            client.want()
        for _ in range(100):
            if not pool.waiting_private:
                break
            route.loop.wait(1.0)
        assert not pool.waiting_private
        assert sum(client.held is not None for client in clients) + len(closed_after) == count
        assert all(seconds >= 5.0 for seconds in closed_after)


@pytest.mark.parametrize("room", [0, 8])
def test_where_there_is_no_room_the_time_limit_holds(room: int) -> None:
    """Also while some give theirs back, or lose it: for most, no attempt is to come."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        route = Route(monkeypatch, most_private=room)
        route.connections.supply.begin()
        route.loop.run()
        monkeypatch.setattr("proxy.net.pool.opening.open_upstream", Slow(route, 1.0, 0.0, 1).open)
        clients = [Client(route, HOME) for _ in range(60)]
        for client in clients:
            client.want()
        for _ in range(10):
            route.loop.wait(1.0)
            holding = next((client for client in clients if client.held is not None and not client.gone), None)
            if holding is not None:
                held, holding.held, holding.passive = holding.held, None, True
                assert held is not None
                route.connections.all.members[held].abort()
        assert sum(client.gone for client in clients) >= 60 - room - 10
        assert not any(client.waits and not client.gone for client in clients)


def test_a_server_that_is_back_is_tried_at_once() -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        route = Route(monkeypatch)
        route.fails = lambda _: True
        route.connections.supply.begin()
        route.loop.run()
        assert not any(map(route.connections.supply.alive, TOPOLOGY.nodes))
        since = route.connections.supply.failover.lost_at
        assert since == 0.0
        route.fails = lambda _: False
        route.connections.adopt(Change(back=True))
        route.loop.run()
        assert all(map(route.connections.supply.alive, TOPOLOGY.nodes))
        assert route.connections.supply.failover.lost_at is None
        assert not any(pool.backing_off for pool in route.connections.pools)


def test_an_error_on_a_private_connection_makes_the_topology_look() -> None:
    """Its client keeps the connection, so nobody asks on it for the server's role."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        doubts: list[None] = []
        monkeypatch.setattr(TOPOLOGY, "doubt", lambda: doubts.append(None))
        route = Route(monkeypatch)
        route.connection(HOME).doubt_role()
        assert doubts == [None]


def test_a_connection_to_a_node_that_has_gone_is_not_kept() -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        route = Route(monkeypatch)
        upstream = route.connection(HOME._replace(node=Node(9)))
        route.checkout.give_back(upstream)
        route.loop.run()
        assert upstream.closed
        assert not any(pool.alive(Lane.FAST) for pool in route.connections.pools)


def test_a_connection_that_comes_back_is_read_again_before_it_is_asked_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its last client may have read slowly; without its bytes the server's role would never be known."""
    route = Route(monkeypatch)
    asked: list[bool] = []

    async def is_replica(upstream: UpstreamConnection) -> bool:
        asked.append(upstream.reading)
        return False

    monkeypatch.setattr("proxy.net.pool.demotions.is_replica", is_replica)
    route.connections.all.add(connection := route.connection(HOME))
    connection.hold()
    connection.pipeline.suspect_role()
    route.checkout.release(connection.pipeline)
    route.loop.run()
    assert (asked, connection.pipeline.read_only) == ([True], False)


def test_a_lost_connection_that_a_session_gives_back_stays_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    route = Route(monkeypatch)
    route.connections.all.add(connection := route.connection(HOME))
    connection.connection_lost(None)
    ports = route.checkout
    for give_back in (ports.release, ports.discard, ports.close_gracefully, ports.retire):
        give_back(connection.pipeline)
    assert not any(pool.connections() for pool in route.connections.pools)
    assert (route.connections.all.connection_counts()["private"], connection.retiring) == (0, False)


ACTIONS = ("want", "want", "want", "give back", "give back", "passive", "busy", "paid", "lose", "break")
ROUNDS = seed_budget.of(150)


@pytest.mark.parametrize("user", [None, "app"])
def test_nobody_waits_for_a_connection_that_lies_there(user: str | None) -> None:
    for seed in range(ROUNDS):
        chance = random.Random(seed)
        play(user, [(chance.choice(ACTIONS), chance.randrange(8)) for _ in range(60)])


def play(user: str | None, actions: list[tuple[str, int]]) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        route = Route(monkeypatch)
        route.connections.supply.begin()
        route.loop.run()
        keys = [PoolKey(user, database, 2, node) for node in TOPOLOGY.nodes for database in (0, 5)]
        clients = [(Sharer if number > 4 else Client)(route, keys[number % 4]) for number in range(8)]
        route.clients.extend(clients)
        for client in clients:
            route.checkout.entered(cast("Any", client))
        if user is not None:
            for client in clients:
                route.connections.all.add(connection := route.connection(client.key))
                route.checkout.give_back(connection)
        owing: list[UpstreamConnection] = []
        for action, number in actions:
            client = clients[number]
            if action == "want" and not client.waits:
                client.passive = False
                client.want()
            elif action == "give back":
                client.give_back()
            elif action == "passive":
                client.passive = True
            elif action == "lose" and client.held is not None and user is None:
                route.checkout.discard(client.held)
                client.held = None
            elif action == "break" and user is not None:
                route.breaks = True
            elif action == "busy":
                for upstream in route.shared(keys[0]):
                    upstream.pipeline.enqueue(ReplySink(), 1, NOTE, lambda _: None)
                    owing.append(upstream)
            elif action == "paid":
                while owing:
                    owing.pop().pipeline.receive(b"+OK\r\n")
            if user is None or number % 3:
                route.loop.run()
                check(route, clients, user)
            elif route.loop.ready:
                route.loop.ready.popleft()()  # the next action comes while something is under way


def check(route: Route, clients: list[Client], user: str | None) -> None:
    waiting = [client for client in clients if client.waits]
    pools = route.connections.pools
    if not waiting:
        return
    if user is not None:
        for client in waiting:
            assert pools.find_spare(client.key, anywhere=True) is None, "a connection of the user is free"
        return
    assert not any(pools.of(client.key).has_idle() for client in waiting), "one lies ready in their pool"
    assert not route.connections.supply.has_room(), "there is room for one more"
    idle = [pool for pool in pools if pool.idle]
    assert not idle, "another pool's idle ones take the room"
