"""GET, SET and MGET over three real nodes of a cluster: one client, one pipeline, replies in order.

The connections are real, and so are the nodes and the slots that they own; the session is the test. What is sent and
what comes back goes through the intake, the router, the connections' queues and the client's reply order.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from functools import partial
from random import Random
from selectors import EVENT_READ, DefaultSelector

import pytest

from proxy.commands.slots import SLOTS, slot_of
from proxy.hotpath.upstream_pipeline import UpstreamPipeline
from tests.conftest import kind_named
from tests.engines import Engine
from tests.hotpath.gathering import OK, pack
from tests.hotpath.routed import Routed
from tests.resp import PATIENCE_SECONDS, eventually

NODES = 3


class Connection(UpstreamPipeline):
    """A connection to a node, on a socket that the test waits for."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.usable = True
        self.socket = socket.create_connection(("127.0.0.1", engine.port), PATIENCE_SECONDS)
        self.write = self.socket.sendall
        self.schedule = lambda: None

    def out_of_step(self) -> None:
        raise AssertionError("out of step")

    def uninvited(self, frame: bytes) -> None:
        raise AssertionError(frame)


@pytest.fixture(scope="module", params=["redis-7.0", "valkey-9.1"])
def nodes(request: pytest.FixtureRequest) -> Iterator[list[Engine]]:
    engines = [Engine(kind_named(request.param), {"cluster-enabled": "yes"}) for _ in range(NODES)]
    for number, engine in enumerate(engines):
        first, behind = number * SLOTS // NODES, (number + 1) * SLOTS // NODES
        engine.do("CLUSTER", "ADDSLOTSRANGE", first, behind - 1)
        engine.do("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
    for engine in engines[1:]:
        engine.do("CLUSTER", "MEET", "127.0.0.1", engines[0].port)
    for engine in engines:
        eventually(partial(knows_all, engine), 30)
    yield engines
    for engine in engines:
        engine.close()


def knows_all(engine: Engine) -> bool:
    """Whether the node knows an owner for each slot."""
    with engine.wire() as direct:
        return b"cluster_state:ok" in direct.ask("CLUSTER", "INFO")


@pytest.fixture
def client(nodes: list[Engine]) -> Iterator[Routed]:
    """A client whose slot map is the one that a node tells."""
    numbers = {engine.port: number for number, engine in enumerate(nodes)}
    slots = [-1] * SLOTS
    told = nodes[0].do("CLUSTER", "SLOTS")
    assert isinstance(told, list)
    for part in told:
        assert isinstance(part, list)
        first, last, owner = part[:3]
        assert isinstance(first, int)
        assert isinstance(last, int)
        assert isinstance(owner, list)
        assert isinstance(owner[1], int)
        slots[first : last + 1] = [numbers[owner[1]]] * (last + 1 - first)
    connections = [Connection(engine) for engine in nodes]
    yield Routed(connections, slots)
    for connection in connections:
        connection.socket.close()


def listen(client: Routed) -> None:
    """Until no reply is pending."""
    assert client.nodes is not None
    with DefaultSelector() as selector:
        for node in client.nodes:
            assert isinstance(node, Connection)
            selector.register(node.socket, EVENT_READ, node)
        while client.pending_replies:
            for key in selector.get_map().values():
                key.data.flush()
            ready = selector.select(PATIENCE_SECONDS)
            assert ready, "nothing came"
            for key, _ in ready:
                data = key.data.socket.recv(1 << 16)
                assert data
                key.data.receive(data)


def test_one_pipeline_over_three_nodes(nodes: list[Engine], client: Routed) -> None:
    random = Random(1)
    values = {b"key:%d" % i: random.randbytes(random.choice([0, 1, 30, 5000])) for i in range(500)}
    assert {client.slots[slot_of(key)] for key in values} == set(range(NODES))

    client.receive(b"".join(pack("SET", key, value) for key, value in values.items()))
    listen(client)
    assert client.heard == OK * len(values)
    assert sum(int(str(engine.do("DBSIZE"))) for engine in nodes) == len(values)
    client.heard = b""

    asked = expected = b""
    for key, value in values.items():
        several = [key, *random.sample(list(values), 4), b"missing"]
        asked += pack("GET", key) + pack("MGET", *several)
        expected += bulk(value) + b"*6\r\n" + b"".join(bulk(values.get(each)) for each in several)
    client.receive(asked)
    listen(client)
    assert client.heard == expected
    assert (client.pending_replies, client.order) == (0, None)


def bulk(value: bytes | None) -> bytes:
    return b"$-1\r\n" if value is None else b"$%d\r\n%b\r\n" % (len(value), value)
