"""No client that relies on a server process stays connected if a connection leads to an unknown process."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from proxy.net.config.address import UpstreamAddress
from proxy.net.pool.restarts import Restarts
from proxy.net.pool.server_processes import ServerProcesses
from proxy.net.topology.topology import Single
from proxy.session.ports.pool_key import SOLE_NODE, Node, PoolKey


class Connection:
    """A connection to a server process, which tells its run_id, or refuses to, or is busy."""

    identified = False
    retiring = False
    closed = False
    run_id: bytes | None = None

    def __init__(self, process: int, answer: str, node: Node = SOLE_NODE) -> None:
        self.key = PoolKey(None, 0, 2, node)
        self.process = process
        self.answer = answer

    async def ask(self, argv: list[str]) -> bytes:
        assert argv == ["INFO", "server"]
        if self.answer == "told":
            return b"$50\r\nredis_version:7.0.15\r\nrun_id:abc%d\r\nport:1\r\n\r\n" % self.process
        return b"-BUSY Redis is busy\r\n" if self.answer == "busy" else b"-NOPERM no INFO\r\n"


class Client:
    gone = False
    cause = ""

    def arrived(self) -> None:
        raise AssertionError("it does not wait")

    def close(self, cause: str) -> None:
        self.cause = cause

    def turn_away(self, error: bytes, cause: str) -> None:
        self.close(cause)


class Given:
    """A route's connections over time: Redis restarts, connections come and go."""

    def __init__(self) -> None:
        self.connections: list[Any] = []
        self.processes = ServerProcesses()
        self.restarts = Restarts(Single(UpstreamAddress()), self.processes, lambda _: None)

    def connect(self, process: int, answer: str, node: Node = SOLE_NODE) -> Any:
        connection: Any = Connection(process, answer, node)
        self.connections.append(connection)
        asyncio.run(self.restarts.identify(connection))
        return connection

    def lose(self, connection: Any) -> None:
        self.connections.remove(connection)
        self.processes.remove(connection)

    def lose_all(self) -> None:
        for connection in [*self.connections]:
            self.lose(connection)


STEPS = st.lists(st.sampled_from(("connect", "lose one", "lose all", "restart")), max_size=30)


@given(STEPS)
def test_clients_are_closed_when_the_process_is_another_and_only_then(steps: list[str]) -> None:
    route = Given()
    process, met = 0, set[int]()
    for step in ["connect", *steps]:
        if step == "connect":
            client = Client()
            route.restarts.relies(client)
            route.connect(process, "told")
            assert (client.cause == "redis_restarted") is bool(met and process not in met)
            met = {process}
        elif step == "lose one" and route.connections:
            route.lose(route.connections[0])
        elif step in ("lose all", "restart"):
            route.lose_all()
            process += step == "restart"


@given(STEPS, st.sampled_from(("busy", "refused")))
def test_where_no_process_tells_its_name_the_loss_of_all_connections_is_a_restart(
    steps: list[str], answer: str
) -> None:
    route = Given()
    connected = False
    for step in ["connect", *steps]:
        if step == "connect":
            client = Client()
            route.restarts.relies(client)
            lost_all = connected and not route.connections
            route.connect(0, answer)
            assert (client.cause == "redis_restarted") is lost_all
            connected = True
        elif step == "lose one" and route.connections:
            route.lose(route.connections[0])
        elif step in ("lose all", "restart"):
            route.lose_all()


def test_two_servers_behind_one_name_are_each_met_once() -> None:
    route = Given()
    route.connect(1, "told")
    route.connect(2, "told")
    client = Client()
    route.restarts.relies(client)
    for process in (1, 2, 1, 2):
        route.connect(process, "told")
    assert client.cause == ""
    route.connect(3, "told")
    assert client.cause == "redis_restarted"


def test_the_nodes_of_a_topology_are_told_apart() -> None:
    route = Given()
    other = Node(1)
    client = Client()
    route.restarts.relies(client)
    for process, node in ((1, SOLE_NODE), (2, other), (1, SOLE_NODE), (2, other)):
        route.connect(process, "told", node)
    assert client.cause == ""
    route.connect(1, "told", other)
    assert client.cause == "redis_restarted"


def test_a_server_that_was_left_is_met_anew() -> None:
    route = Given()
    demoted = route.connect(1, "told")
    route.connect(2, "told")
    demoted.retiring = True
    route.restarts.retired(demoted)
    client = Client()
    route.restarts.relies(client)
    route.connect(1, "told")
    assert client.cause == "redis_restarted"


def test_a_connection_that_is_being_identified_is_no_witness_for_another() -> None:
    route = Given()
    route.connect(1, "refused")
    route.lose_all()
    client = Client()
    route.restarts.relies(client)

    async def identify_both() -> None:
        both: list[Any] = [Connection(2, "refused"), Connection(2, "refused")]
        await asyncio.gather(*map(route.restarts.identify, both))

    asyncio.run(identify_both())
    assert client.cause == "redis_restarted"


def test_info_that_is_not_allowed_is_asked_once() -> None:
    route = Given()
    route.connect(1, "refused")
    assert route.restarts.off == ["Keyrail does not know a restarted Redis by its run_id (INFO: NOPERM no INFO)"]
    asked = Connection(1, "told")
    route.connections.append(asked)
    asyncio.run(route.restarts.identify(asked))  # type: ignore[arg-type]  # all that is asked of a connection
    assert asked.run_id is None
    route.lose_all()
    route.connect(1, "told")
    assert route.restarts.off == []
    route.lose_all()
    route.connect(1, "refused")
    route.restarts.leave(SOLE_NODE, Node(1))
    assert route.restarts.off == [], "the server has gone"
