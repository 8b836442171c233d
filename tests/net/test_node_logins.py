"""One node has accepted a login, and the others are asked: what becomes of a refusal."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from proxy.net.logins.node_logins import NodeLogins
from proxy.session.ports.login_port import Credentials
from proxy.session.ports.pool_key import Node, PoolKey

OK, WRONG = b"+OK\r\n", b"-WRONGPASS no such user\r\n"
FIRST, SECOND, THIRD = NODES = [Node(0), Node(1), Node(2)]
COMMAND = [b"AUTH", b"ann", b"pw"]


class Cluster:
    """Three nodes; ``replies`` has what each answers to a login."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.replies = dict.fromkeys(NODES, OK)
        self.down: set[Node] = set()
        self.given_back: list[Any] = []
        self.tasks: list[asyncio.Task[None]] = []
        connections: Any = SimpleNamespace(
            loop=SimpleNamespace(time=lambda: self.time),
            topology=SimpleNamespace(nodes=NODES, place=lambda node: node, address=lambda node: f"h{node.number}:1"),
            all=SimpleNamespace(start=lambda coroutine: self.tasks.append(asyncio.ensure_future(coroutine))),
            opening=SimpleNamespace(open_for_login=self.open, busy=Counter()),
            settings=SimpleNamespace(connect_timeout=5.0),
            logins=SimpleNamespace(refused={}, under_way=Counter()),
        )
        self.refused: dict[tuple[Node, str], str] = connections.logins.refused
        self.under_way: Counter[tuple[Node, str]] = connections.logins.under_way
        self.logins = NodeLogins(connections, self.given_back.append)

    async def open(self, node: Node) -> Any:
        if node in self.down:
            raise ConnectionRefusedError(111, "Connect call failed ('10.0.0.2', 7001)")

        async def ask(_: list[bytes]) -> bytes:
            return self.replies[node]

        return SimpleNamespace(ask=ask, key=PoolKey(None, 0, 2, node), abort=lambda: None)

    async def log_in(self, user: str, accepted: Node) -> None:
        self.logins.begin(COMMAND, Credentials(user.encode(), b"pw"), PoolKey(user, 0, 2, accepted))
        await asyncio.gather(*self.tasks)
        self.tasks.clear()


def test_errors_can_name_the_node_until_it_accepts_a_login() -> None:
    async def case() -> None:
        cluster = Cluster()
        cluster.replies[THIRD] = WRONG
        await cluster.log_in("ann", FIRST)
        refused = cluster.refused
        assert refused == {(THIRD, "ann"): "WRONGPASS no such user"}
        assert [each.key for each in cluster.given_back] == [PoolKey("ann", 0, 2, SECOND)]
        await cluster.log_in("ann", THIRD)
        assert refused == {}
        await cluster.log_in("ann", FIRST)
        cluster.replies[THIRD] = OK
        await cluster.log_in("ann", FIRST)
        assert refused == {}

    asyncio.run(case())


def test_the_log_says_where_a_node_cannot_be_reached_and_clients_are_not_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def case() -> None:
        cluster = Cluster()
        cluster.down = {SECOND}
        await cluster.log_in("ann", FIRST)
        assert cluster.refused == {}, "it has refused nothing"
        assert cluster.under_way.total() == 0

    asyncio.run(case())
    assert "10.0.0.2" in caplog.text


def test_the_log_has_one_line_a_second_for_each_node(caplog: pytest.LogCaptureFixture) -> None:
    async def case() -> None:
        cluster = Cluster()
        cluster.replies |= {SECOND: WRONG, THIRD: WRONG}
        for moment in (0.0, 0.5, 0.9, 1.0):
            cluster.time = 1000.0 + moment
            await cluster.log_in("ann", FIRST)

    asyncio.run(case())
    line = "user ann: another node has accepted the login, and h{}:1 does not: WRONGPASS no such user{}"
    more = " (and 2 more since the last line)"
    assert caplog.messages == [line.format(node, end) for end in ("", more) for node in (1, 2)]


def test_refusals_are_bounded() -> None:
    async def case() -> None:
        cluster = Cluster()
        cluster.replies[THIRD] = WRONG
        for number in range(1030):
            await cluster.log_in(f"user{number}", FIRST)
        assert len(cluster.refused) == 1024
        assert (THIRD, "user1029") in cluster.refused

    asyncio.run(case())
