"""Who has to log in again when a user's connections are lost: who used them, or needs one, and nobody else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from proxy.net.pool.connection_set import ConnectionSet
from proxy.net.pool.user_logins import UserLogins
from proxy.session.ports.pool_key import UNAUTHENTICATED, Node, PoolKey
from tests.session.given import Upstream

FIRST, SECOND = NODES = [Node(0), Node(1)]
APP = PoolKey("app", 0, 2)


class Client:
    """A session of a user, which has used some connections. ``looks`` counts how often its user was looked at."""

    def __init__(self, *used: Any, user: str | None = "app") -> None:
        self.looks = 0
        self._key = APP._replace(user=user)
        self.gone = False
        self.cause = ""
        self.sender = SimpleNamespace(upstream=None, nodes=[each.pipeline for each in used])

    @property
    def key(self) -> PoolKey:
        self.looks += 1
        return self._key

    def close(self, cause: str) -> None:
        self.gone, self.cause = True, cause

    close_when_drained = close


class Connection:
    """A shared connection of a user."""

    retiring = apart = False
    shared = True

    def __init__(self, key: PoolKey) -> None:
        self.key = key
        self.pipeline = Upstream(key)


class Bench:
    """Two nodes, connections of users to them, and the time."""

    def __init__(self, *, router: bool = True) -> None:
        self.clients: list[Any] = []
        self.timers: list[Callable[[], object]] = []
        self.down: set[Node] = set()
        self.forgotten: list[str] = []
        topology: Any = SimpleNamespace(router=object() if router else None, nodes=NODES, place=lambda node: node)
        loop: Any = SimpleNamespace(
            call_later=lambda _seconds, act, *arguments: self.timers.append(lambda: act(*arguments))
        )
        self.connections = ConnectionSet(APP, lambda node: node, loop, self.clients, Counter())
        capabilities: Any = SimpleNamespace(rights=SimpleNamespace(forget=self.forgotten.append))
        self.logins = UserLogins(
            topology, loop, self.connections, capabilities, lambda node: node not in self.down, self.clients
        )

    def connect(self, node: Node, user: str | None = "app") -> Any:
        key = APP._replace(user=user, node=node)
        made: Any = Connection(key)
        self.connections.add(made)
        return made

    def lose(self, upstream: Any) -> None:
        self.connections.remove(upstream)
        self.logins.lost(upstream)

    def client(self, *used: Any, user: str | None = "app") -> Client:
        self.clients.append(Client(*used, user=user))
        made: Client = self.clients[-1]
        self.enter(made)
        return made

    def enter(self, client: Any) -> None:
        self.logins.entered(client)

    def go_on(self, turns: int = 10) -> None:
        for _ in range(turns):
            timers, self.timers = self.timers, []
            for act in timers:
                act()


def test_before_one_server_all_clients_of_the_user_are_closed() -> None:
    bench = Bench(router=False)
    upstream, other = bench.connect(FIRST), bench.connect(FIRST)
    clients = [bench.client(), bench.client(user=None), bench.client(user="ops")]
    bench.lose(upstream)
    assert [client.cause for client in clients] == ["", "", ""]
    bench.lose(other)
    assert [client.cause for client in clients] == ["login_lost", "", ""]
    assert bench.forgotten == ["app"]


def test_with_a_cluster_upstream_those_are_closed_that_have_used_it() -> None:
    bench = Bench()
    shared, idle, elsewhere = bench.connect(SECOND), bench.connect(SECOND), bench.connect(FIRST)
    used, unused = bench.client(shared, elsewhere), bench.client(elsewhere)
    bench.lose(shared)
    bench.lose(idle)
    assert (used.cause, unused.cause) == ("", ""), "whether the node is lost shows in a moment"
    bench.go_on()
    assert (used.cause, unused.cause) == ("login_lost", "")
    assert bench.forgotten == [], "it is still known what the user may run"
    bench.lose(elsewhere)
    assert bench.forgotten == ["app"]


def test_nobody_is_closed_where_another_connection_goes_on() -> None:
    bench = Bench()
    shared, _ = bench.connect(SECOND), bench.connect(SECOND)
    used = bench.client(shared)
    bench.lose(shared)
    bench.go_on()
    assert (used.cause, bench.timers) == ("", [])


def test_nobody_is_closed_with_a_node_but_who_needs_it_when_it_is_back() -> None:
    bench = Bench()
    shared = bench.connect(SECOND)
    bench.connect(FIRST)
    clients = [bench.client(shared), bench.client(shared)]
    bench.down = {SECOND}
    bench.lose(shared)
    bench.go_on()
    assert [client.cause for client in clients] == ["", ""]
    key = APP._replace(node=SECOND)
    assert not bench.logins.must_log_in(key), "a login would bring nothing"
    bench.down = set()
    assert bench.logins.must_log_in(key)
    assert not bench.logins.must_log_in(APP._replace(node=FIRST))
    assert not bench.logins.must_log_in(key._replace(user=None))
    bench.logins.under_way[SECOND, "app"] += 1
    assert not bench.logins.must_log_in(key), "one may be there in a moment"
    bench.logins.under_way[SECOND, "app"] -= 1
    bench.logins.refused[SECOND, "app"] = "WRONGPASS no"
    assert not bench.logins.must_log_in(key), "the client gets the error"


def test_where_a_node_has_come_one_after_the_other_is_closed_until_one_has_logged_in() -> None:
    bench = Bench()
    bench.connect(FIRST)
    clients = [bench.client() for _ in range(4)]
    others = [bench.client(user=None), bench.client(user=UNAUTHENTICATED)]
    bench.logins.reached(SECOND)
    bench.go_on(2)
    assert [client.cause for client in clients] == ["login_lost", "login_lost", "", ""]
    bench.logins.under_way[SECOND, "app"] += 1
    bench.go_on(3)
    bench.logins.under_way[SECOND, "app"] -= 1
    bench.connect(SECOND)
    bench.go_on()
    assert [client.cause for client in clients] == ["login_lost", "login_lost", "", ""]
    assert [client.cause for client in others] == ["", ""]
    assert bench.timers == []


@pytest.mark.parametrize(("connections", "clients", "lacks"), [(1, 2, True), (2, 2, False), (3, 2, False)])
def test_fewer_connections_than_clients_were_lost(connections: int, clients: int, *, lacks: bool) -> None:
    bench = Bench()
    for _ in range(connections):
        bench.connect(SECOND)
    for _ in range(clients):
        bench.client()
    assert bench.logins.lacks(APP._replace(node=SECOND)) is lacks
    bench.down = {SECOND}
    assert not bench.logins.lacks(APP._replace(node=SECOND))


def looks_for_losses(clients: int, *, users: int, router: bool) -> int:
    """How often clients are looked at when the connection of each of them is lost."""
    bench = Bench(router=router)
    everyone = [bench.client(user=f"u{number % users}") for number in range(clients)]
    lost = [bench.connect(FIRST, user=f"u{number % users}") for number in range(clients)]
    for each in lost:
        each.shared = False
    before = sum(client.looks for client in everyone)
    for each in lost:
        bench.lose(each)
    assert bench.logins.logged_in("u0") == (clients // users if router else 0)
    assert [client.cause for client in everyone] == ["" if router else "login_lost"] * clients
    return sum(client.looks for client in everyone) - before


@pytest.mark.parametrize("router", [False, True], ids=["one server", "cluster"])
@pytest.mark.parametrize("same", [True, False], ids=["one user", "a user each"])
def test_each_lost_connection_costs_the_same_however_many_clients_there_are(*, same: bool, router: bool) -> None:
    few, many = (looks_for_losses(n, users=1 if same else n, router=router) for n in (10, 100))
    assert few <= 2 * 10
    assert many <= 2 * 100


def test_connections_that_take_no_more_commands_bring_no_logins_and_their_clients_are_closed_once() -> None:
    bench = Bench(router=False)
    upstreams = [bench.connect(FIRST) for _ in range(10)]
    clients = [bench.client() for _ in range(10)]
    for each in upstreams:
        each.pipeline.retire()
    bench.lose(upstreams[0])
    assert {client.cause for client in clients} == {"login_lost"}
    for client in clients:
        client.cause = ""
    bench.lose(upstreams[1])
    assert {client.cause for client in clients} == {""}


def test_a_connection_is_its_users_from_the_login_on() -> None:
    bench = Bench(router=False)
    upstream = bench.connect(FIRST, user=None)
    client, other = bench.client(), bench.client(user="ops")
    upstream.pipeline.key = upstream.key = APP._replace(node=FIRST)
    bench.lose(bench.connect(FIRST))
    assert client.cause == ""
    upstream.pipeline.key = upstream.key = APP._replace(node=FIRST, user="ops")
    bench.lose(bench.connect(FIRST))
    assert (client.cause, other.cause) == ("login_lost", "")


def test_who_has_left_or_has_another_user_is_none_of_the_users_clients() -> None:
    bench = Bench(router=False)
    left, moved, closed = bench.client(), bench.client(), bench.client()
    assert bench.logins.logged_in("app") == 3
    bench.clients.remove(left)
    bench.logins.left(cast("Any", left))
    bench.enter(left)  # a reply to its login has come late
    moved._key = APP._replace(user="ops")
    bench.enter(moved)
    closed.close("limited")
    bench.enter(closed)
    assert (bench.logins.logged_in("app"), bench.logins.logged_in("ops")) == (0, 1)
