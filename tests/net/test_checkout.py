"""A client that waits too long for an upstream is closed, and so is a client that waits too long for its probe."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from proxy.commands.table import Lane
from proxy.net.config.address import UpstreamAddress, parse_upstream
from proxy.net.policy.capabilities import Capabilities
from proxy.net.pool.checkout import Checkout
from proxy.net.pool.failover_wait import FailoverWait
from proxy.net.pool.pool import Pool, Wait
from proxy.net.pool.pools import Pools
from proxy.net.topology.primary import Primary
from proxy.net.topology.topology import Single, Topology
from proxy.session.ports.pool_key import ANY_NODE, Node, PoolKey

KEY = PoolKey(None, 0, 2)


class Clock:
    """A loop on which time passes when the test says so."""

    def __init__(self) -> None:
        self.timers: list[Callable[[], object]] = []
        self.seconds: list[float] = []
        self.now = 100.0

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, act: Callable[..., object], *arguments: object) -> None:
        self.seconds.append(seconds)
        self.timers.append(lambda: act(*arguments))

    def next(self) -> None:
        """The time of the next timer has come."""
        self.timers.pop(0)()

    def call_soon(self, act: Callable[[], object]) -> None:
        self.timers.append(act)


class Client:
    """A session that waits."""

    def __init__(self) -> None:
        self.gone = False
        self.cause = ""

    def arrived(self) -> None:
        raise AssertionError("there is nothing for it")

    def close(self, cause: str) -> None:
        self.gone, self.cause = True, cause

    def turn_away(self, error: bytes, cause: str) -> None:
        self.close(cause)


def checkout_from(
    pool: Pool,
    clock: Clock,
    *,
    alive: bool = False,
    topology: Topology | None = None,
    lost_at: float | None = None,
    must_log_in: bool = False,
    has_room: bool = True,
) -> tuple[Checkout, Capabilities]:
    """The checkout of a pool's connections, while Redis is there or not."""
    loop = cast("asyncio.AbstractEventLoop", clock)
    settings: Any = SimpleNamespace(connect_timeout=5.0, failover_wait=2.0)
    failover = FailoverWait(topology or Single(UpstreamAddress()), settings, loop)
    failover.lost_at = lost_at
    pools = SimpleNamespace(of=lambda _key: pool, home_of=lambda _node: KEY, of_login=lambda _key: [pool])
    pools.placed = lambda key: key
    of_users = SimpleNamespace(count=lambda _user, _node: 0)
    connections: Any = SimpleNamespace(
        pools=pools,
        all=SimpleNamespace(pools=pools, of_users=of_users),
        settings=settings,
        topology=topology or Single(UpstreamAddress()),
        loop=loop,
        logins=SimpleNamespace(must_log_in=lambda _key: must_log_in, lacks=lambda _key: must_log_in),
        supply=SimpleNamespace(
            supply=lambda _pool: None,
            alive=lambda _node: alive,
            lack_of_room=lambda: "",
            has_room=lambda: has_room,
            failover=failover,
        ),
        opening=SimpleNamespace(busy=Counter()),
    )
    capabilities = Capabilities(loop, Single(UpstreamAddress()))
    return Checkout(connections, capabilities, cast("Any", None), ()), capabilities


def test_whoever_waits_no_more_is_not_closed() -> None:
    """Woken by something else it may have found a connection, or its command may need none any more."""
    for shared in (True, False):
        clock, client, pool = Clock(), Client(), Pool(KEY)
        checkout, _ = checkout_from(pool, clock)
        wait = checkout.await_shared(client, KEY, Lane.FAST) if shared else checkout.await_private(client, KEY)
        wait.end()
        assert not pool.waiting_private
        assert not pool.waiting_shared[Lane.FAST]
        clock.next()
        assert (client.cause, clock.timers) == ("", [])
        wait.end()


def test_whoever_is_turned_away_may_end_the_waits_of_others() -> None:
    """A client that is closed waits for nothing any more, for which it may stand in the same line."""
    pool = Pool(KEY)
    first, second, third = (Client() for _ in range(3))
    waits = [Wait(client, pool, None, 0.0) for client in (first, second, third)]

    def close(cause: str) -> None:
        first.cause = cause
        waits[1].end()

    cast("Any", first).turn_away = lambda error, cause: close(cause)
    cast("Any", second).gone = True
    pool.failed(None, "ERR max number of clients reached")
    assert [each.cause for each in (first, second, third)] == ["upstream_refused", "", "upstream_refused"]


def test_a_command_that_finds_no_upstream_waits_a_quarter_of_a_second() -> None:
    for shared in (True, False):
        clock, client = Clock(), Client()
        checkout, _ = checkout_from(Pool(KEY), clock)
        if shared:
            checkout.await_shared(client, KEY, Lane.FAST)
        else:
            checkout.await_private(client, KEY)
        assert (clock.seconds, client.cause) == ([0.25], "")
        clock.next()
        assert (client.cause, clock.timers) == ("no_upstream", [])


def test_where_only_a_login_brings_a_connection_nobody_waits() -> None:
    for shared in (True, False):
        clock, client = Clock(), Client()
        pool = Pool(KEY._replace(user="app"))
        checkout, _ = checkout_from(pool, clock, alive=True, must_log_in=True)
        if shared:
            checkout.await_shared(client, pool.key, Lane.FAST)
        else:
            checkout._abandon_private_wait(Wait(client, pool, None, 0.0))
        if shared:
            assert clock.seconds == [0.0]
            clock.next()
        assert client.cause == "login_lost"
        assert not pool.waiting_private
        assert not pool.waiting_shared[Lane.FAST]


def test_where_another_primary_can_come_a_command_waits_for_it() -> None:
    for shared in (True, False):
        clock, client, old, new = Clock(), Client(), Pool(KEY), Pool(KEY)
        checkout, _ = checkout_from(old, clock, topology=Primary(UpstreamAddress()))
        if shared:
            checkout.await_shared(client, KEY, Lane.FAST)
        else:
            checkout.await_private(client, KEY)
        clock.now += 0.25
        clock.next()
        assert clock.seconds == [0.25, 1.75], "nobody looks after it meanwhile"
        clock.now += 1.7
        new.take_over(old)
        clock.next()
        assert client.cause == "", "its wait goes on in the pool of the new primary"
        clock.now += 0.2
        clock.next()
        assert (client.cause, clock.timers) == ("no_upstream", [])
        assert not new.waiting_private
        assert not new.waiting_shared[Lane.FAST]


def test_behind_a_name_nobody_waits_for_a_server_that_has_been_down_for_long() -> None:
    """A new primary has --failover-wait from the loss on. Sentinels may promote one at any time."""
    sentinels = parse_upstream("redis+sentinel://s1,s2/mymaster")
    for upstream, waits in ((UpstreamAddress(), False), (sentinels, True)):
        for shared in (True, False):
            clock, client = Clock(), Client()
            checkout, _ = checkout_from(Pool(KEY), clock, topology=Primary(upstream), lost_at=clock.now - 1.9)
            if shared:
                checkout.await_shared(client, KEY, Lane.FAST)
            else:
                checkout.await_private(client, KEY)
            clock.now += 0.25
            clock.next()
            assert client.cause == ("" if waits else "no_upstream")


def test_nobody_waits_for_another_server_while_one_refuses_connections() -> None:
    for lane in (Lane.FAST, None):
        for refused in {lane, Lane.FAST}:
            clock, client, pool = Clock(), Client(), Pool(KEY)
            checkout, _ = checkout_from(pool, clock, topology=Primary(UpstreamAddress()))
            if lane is None:
                checkout.await_private(client, KEY)
            else:
                checkout.await_shared(client, KEY, lane)
            pool.refusal[refused] = "WRONGPASS"
            clock.now += 0.25
            clock.next()
            assert client.cause == ("upstream_refused" if refused is lane else "no_upstream")


def test_a_crowd_that_has_got_connections_costs_nothing_more() -> None:
    """Each of them would search all others, several times a second."""

    class Queue(deque[Wait]):
        def __contains__(self, _: object) -> bool:
            raise AssertionError("it is searched")

    clock, pool = Clock(), Pool(KEY)
    pool.waiting_shared[Lane.FAST], pool.waiting_private = Queue(), Queue()
    checkout, _ = checkout_from(pool, clock, topology=Primary(UpstreamAddress()))
    clients: list[Any] = [SimpleNamespace(gone=False, arrived=lambda: None, close=None) for _ in range(10)]
    for client in clients:
        checkout.await_shared(client, KEY, Lane.FAST)
        checkout.await_private(client, KEY)
    clock.next()
    for queue in (pool.waiting_shared[Lane.FAST], pool.waiting_private):
        pool.wake(queue)
    while clock.timers:
        clock.next()
    assert len(clock.seconds) == 21


def test_whoever_waits_for_a_node_waits_for_its_heir() -> None:
    old, new, last = Node(1), Node(2), Node(3)
    current = [ANY_NODE]
    pools = Pools(PoolKey(None, 0, 2, ANY_NODE), lambda node: current[0] if node is ANY_NODE else node)
    for lane in (Lane.FAST, None):
        current[0] = ANY_NODE
        before = pools.of(pools.home)
        wait = Wait(Client(), before, lane, 1.0)  # whose client must not be told to look again
        for node, gone in ((old, None), (new, old), (last, new)):
            current[0] = node
            if gone is not None:
                pools.leave(gone, node)
            pools.join(node)
            now = pools.of(pools.home)
            assert now is wait.pool
            assert now.key.node is node
            assert wait in (now.waiting_private if lane is None else now.waiting_shared[lane])


def test_while_redis_is_there_an_attempt_under_way_is_waited_for() -> None:
    clock, client, pool = Clock(), Client(), Pool(KEY)
    pool.opening[Lane.FAST] = 1
    checkout, _ = checkout_from(pool, clock, alive=True)
    checkout.await_shared(client, KEY, Lane.FAST)
    clock.next()
    assert client.cause == ""
    pool.opening[Lane.FAST] = 0
    clock.next()
    assert client.cause == "no_upstream"


def test_in_a_crowd_an_attempt_that_is_still_to_come_is_waited_for() -> None:
    """While those before it get theirs; where nobody gets one any more, the time is over."""
    clock, client, pool = Clock(), Client(), Pool(KEY)
    checkout, _ = checkout_from(pool, clock, alive=True)
    pool.opening[None] = 64
    checkout.await_private(client, KEY)
    for seconds in (4.0, 3.0, 2.0):
        pool.kept_at = clock.now + seconds
        clock.now += 5.0
        clock.next()
        assert (clock.seconds.pop(), client.cause) == (seconds, "")
    clock.now += 2.0
    clock.next()
    assert (client.cause, clock.timers) == ("no_upstream", [])


@pytest.mark.parametrize("before", ["nobody", "as many as attempts"])
@pytest.mark.parametrize("attempts", [0, 1])
@pytest.mark.parametrize("backs_off", [False, True])
@pytest.mark.parametrize("room", [False, True])
@pytest.mark.parametrize("lack", ["", "refused", "not reached", "logins"])
def test_in_a_crowd_who_waits_for_an_attempt_waits_on(
    before: str, attempts: int, backs_off: bool, room: bool, lack: str
) -> None:
    clock, client, pool = Clock(), Client(), Pool(KEY)
    checkout, _ = checkout_from(pool, clock, alive=lack != "not reached", has_room=room)
    if before != "nobody":
        for _ in range(attempts):
            Wait(Client(), pool, None, 0.0)
    checkout.await_private(client, KEY)
    pool.opening[None] = attempts
    pool.kept_at = clock.now + 4.0
    clock.now += 5.0
    if backs_off:
        pool.backing_off[None] = cast("Any", None)
    if lack == "refused":
        pool.refusal[None] = "ERR max number of clients reached"
    if lack == "logins":
        cast("Any", checkout)._connections.logins.lacks = lambda _key: True
    clock.next()
    under_way = attempts > 0 and before == "nobody"
    waits = not lack and (under_way or (room and (attempts > 0 or backs_off)))
    assert (client.gone, len(clock.timers)) == (not waits, waits)


def test_who_has_got_one_meanwhile_is_left_alone() -> None:
    clock, client, pool = Clock(), Client(), Pool(KEY)
    checkout, _ = checkout_from(pool, clock)
    checkout.await_shared(client, KEY, Lane.FAST)
    cast("Any", client).arrived = lambda: None
    pool.wake(pool.waiting_shared[Lane.FAST])
    clock.next()
    assert client.cause == ""


def test_a_crowd_that_wants_to_know_one_thing_gives_up_together() -> None:
    clock = Clock()
    checkout, capabilities = checkout_from(Pool(KEY), clock)
    asking, *others = (Client() for _ in range(5))
    capabilities.begin_probe(asking, (b"MY.OWN",))
    for each in others:
        capabilities.await_probe(each, (b"MY.OWN",))
    checkout.await_private(asking, KEY)
    assert checkout.private(KEY) is None
    for act in clock.timers[:]:
        act()
    capabilities.end_probe((b"MY.OWN",), lacking=False)
    for act in clock.timers[1:]:
        act()
    assert [each.cause for each in (asking, *others)] == ["no_upstream"] * 5


def test_a_question_waits_for_the_end_of_a_transaction_on_the_users_only_connection() -> None:
    """It has arrived whole, so it is over when the loop comes round."""
    clock, pool = Clock(), Pool(PoolKey("ann", 0, 2))
    client: Any = SimpleNamespace(arrived=list, close=None)
    in_unit: Any = SimpleNamespace(takes_work=lambda: False, in_unit=lambda: True)
    pool.lanes[Lane.FAST].append(in_unit)
    checkout, _ = checkout_from(pool, clock)
    assert pool.shared(Lane.FAST) is None
    assert checkout.await_questions(client, pool.key)
    assert clock.timers == [client.arrived]
    assert not pool.waiting_shared[Lane.FAST]
