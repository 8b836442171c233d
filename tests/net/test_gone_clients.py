"""A client that has gone leaves no cycle of references, however it and its connections to Redis end: no collection may
ever visit it, since the collector is told not to visit what is alive when a policy is bound.

Each beginning is a client with something under way. Each end is an order in which the client leaves and the connections
are lost. The sockets are fakes; the sessions, and what is done about a lost connection, are the real ones.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import cast

import pytest

from proxy.hotpath.upstream.pipeline_listener import UNHEARD
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.net.connection.upstream import UpstreamConnection
from proxy.policy.model import TRANSPARENT
from proxy.session.ports.pool_key import PoolKey
from tests.net.test_faults import Wire
from tests.net.test_upstream import Shared
from tests.policy.given import policy
from tests.session.clustered import ClusterRoute, Routed
from tests.session.given import LARGE, RULES, Client, FakeRoute, Upstream, call

TTLS = """
rules:
  lifetimes: {lifetime: {default: 5m, types: all}, mode: enforce}
"""
ASKS = """
rules:
  reads: {whole_collections: {max: 100}, mode: enforce}
  sizes: {collections: {members: 50, sample: 99%}, mode: enforce}
"""


class TakenWire(Wire):
    """A transport that takes everything at once."""

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None:
        self.closed = True


class LosingRoute(FakeRoute):
    """A route whose connections can be lost as real ones are."""

    def __init__(self, *, rules: str = "", traces: int = 0) -> None:
        self.net = Shared()
        self.connections: dict[UpstreamPipeline, UpstreamConnection] = {}
        super().__init__(policy(rules) if rules else TRANSPARENT, traces=traces)

    def connect(self, key: PoolKey) -> Upstream:
        pipeline = super().connect(key)
        connection = UpstreamConnection(self.net.keeper, key, cast("asyncio.AbstractEventLoop", self.net.loop))
        connection.pipeline.listener = UNHEARD
        connection.pipeline.release()
        connection.pipeline, connection.transport = pipeline, TakenWire()
        pipeline.listener = connection
        self.connections[pipeline] = connection
        self.net.keeper.all.add(connection)
        return pipeline

    def drop(self) -> None:
        """All connections are about to be lost."""
        for connection in self.connections.values():
            connection.drop()

    def lose(self, most: int | None = None) -> None:
        """All connections are lost, or so many of them."""
        for pipeline in list(self.connections)[:most]:
            self.pools = {place: each for place, each in self.pools.items() if each is not pipeline}
            self.connections.pop(pipeline).connection_lost(None)

    def settle(self) -> None:
        """All time limits are over, and nobody asks any more what has been."""
        while self.asked:
            self.asked.pop()[-1](None)
        connections = (self.lent, self.idle, self.released, self.discarded, self.closed_gracefully)
        acts = (self.waiting, self.lingering, self.timers, self.asked, self.observed, self.net.loop.timers)
        for kept in (*connections, *acts):
            cast("list[object]", kept).clear()
        self.pools.clear()
        self.probes.clear()


class LosingNodes(LosingRoute, ClusterRoute):
    """Such a route to the nodes of a cluster."""


def met(client: Client) -> Client:
    client.connected(TakenWire(), "", "")
    return client


def sends(*commands: tuple[str | int, ...], rules: str = "", traces: int = 0) -> Callable[[], Client]:
    def begin() -> Client:
        client = met(Client(LosingRoute(rules=rules, traces=traces)))
        client.send(b"".join(call(*command) for command in commands))
        return client

    return begin


def starving(*commands: tuple[str | int, ...]) -> Callable[[], Client]:
    def begin() -> Client:
        client = met(Client(LosingRoute()))
        client.route.starving = True
        client.route.private_connections = 0
        client.send(b"".join(call(*command) for command in commands))
        return client

    return begin


def answered(command: tuple[str | int, ...], reply: bytes, *behind: tuple[str | int, ...]) -> Callable[[], Client]:
    def begin() -> Client:
        client = sends(command)()
        source = client.sender.upstream
        assert isinstance(source, Upstream)
        source.taken()
        source.answer(reply)
        client.send(b"".join(call(*each) for each in behind))
        return client

    return begin


def reads_a_large_reply() -> Client:
    client = sends(("GET", "k"), ("GET", "l"))()
    client.route.upstream().taken()
    client.route.upstream().answer(b"$500\r\n" + b"v" * 50)
    return client


def waits_behind_another() -> Client:
    route = LosingRoute()
    other = met(Client(route))
    other.say("GET", "x")
    client = met(Client(route))
    client.say("GET", "y")
    other.close("killed")
    other.connection_lost()
    return client


def of_nodes(*commands: tuple[str | int, ...]) -> Callable[[], Client]:
    def begin() -> Client:
        client = met(Routed(LosingNodes()))
        client.send(b"".join(call(*command) for command in commands))
        return client

    return begin


def streams(*before: tuple[str | int, ...], rules: str = "", middle: bool = False) -> Callable[[], Client]:
    def begin() -> Client:
        client = sends(*before, rules=rules)()
        whole = call("HSET", "k", "f", b"v" * (2 * LARGE), *(("g", "w") if middle else ()))
        client.send(whole[: LARGE + 100])
        client.send(whole[LARGE + 100 : -LARGE // 2])
        return client

    return begin


def streams_to_a_node() -> Client:
    client = of_nodes()()
    client.send(call("SET", "k", b"v" * (2 * LARGE))[: LARGE + 100])
    return client


def is_redirected(error: bytes) -> Callable[[], Client]:
    def begin() -> Client:
        client = of_nodes(("SET", "a", 1), ("GET", "b"), ("GET", "a"))()
        for upstream in list(cast("LosingRoute", client.route).connections):
            if isinstance(upstream, Upstream) and b"SET" in upstream.taken():
                upstream.answer(error)
        return client

    return begin


READS = (("GET", "a"), ("GET", "b"), ("GET", "c"), ("GET", "a"))
BEGINNINGS: dict[str, Callable[[], Client]] = {
    "nothing": sends(),
    "a read": sends(("GET", "k")),
    "a pipeline": sends(("GET", "k"), ("SET", "k", "v"), ("GET", "k")),
    "an answer of its own behind": sends(("GET", "k"), ("KEYRAIL", "HELP")),
    "an answer of its own between": sends(("GET", "k"), ("KEYRAIL", "HELP"), ("GET", "k")),
    "the slow lane": sends(("KEYS", "*")),
    "the slow lane behind the fast one": sends(("GET", "k"), ("KEYS", "*")),
    "another client that has left before": waits_behind_another,
    "a trace": sends(("GET", "k"), traces=1),
    "a follow-up": sends(("SET", "k", "v"), ("SET", "l", "v"), rules=RULES),
    "no connection": starving(("GET", "k")),
    "no connection of its own": starving(("BLPOP", "l", 0)),
    "blocked": sends(("BLPOP", "l", 0)),
    "blocked with more behind": sends(("BLPOP", "l", 0), ("GET", "k"), ("KEYRAIL", "HELP")),
    "a watch": answered(("WATCH", "k"), b"+OK\r\n"),
    "a watch that is not answered": sends(("WATCH", "k"), ("GET", "k")),
    "a follow-up that waits for a watch": sends(("WATCH", "k"), ("SET", "k", "v"), rules=RULES),
    "a transaction": sends(("MULTI",), ("GET", "k"), ("EXEC",)),
    "a transaction that is open": sends(("MULTI",), ("GET", "k")),
    "a transaction behind a watch": answered(("WATCH", "k"), b"+OK\r\n", ("MULTI",), ("GET", "k"), ("EXEC",)),
    "a subscriber": answered(("SUBSCRIBE", "c"), b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"),
    "a subscriber that is not confirmed": sends(("SUBSCRIBE", "c")),
    "a connection of its own": answered(("CLIENT", "ID"), b":1\r\n", ("GET", "k")),
    "silence": sends(("CLIENT", "REPLY", "OFF")),
    "an unfinished reply": reads_a_large_reply,
    "several nodes": of_nodes(*READS),
    "several nodes, and an answer of its own behind": of_nodes(*READS, ("KEYRAIL", "HELP")),
    "a command over slots": of_nodes(("MGET", "a", "b", "c")),
    "a command over nodes": of_nodes(("DBSIZE",)),
    "a transaction at a node": of_nodes(("MULTI",), ("GET", "a"), ("EXEC",)),
    "a transaction at no node": of_nodes(("MULTI",)),
    "blocked at a node": of_nodes(("GET", "b"), ("BLPOP", "a", 0)),
    "a value that is streamed": streams(),
    "a value that is streamed behind a read": streams(("GET", "k")),
    "a value that is streamed, with hidden commands": streams(rules=TTLS),
    "a value that is streamed and judged last": streams(rules=TTLS, middle=True),
    "a value that is streamed to a node": streams_to_a_node,
    "a subscriber at several nodes": of_nodes(("SUBSCRIBE", "c"), ("SSUBSCRIBE", "a"), ("SSUBSCRIBE", "b")),
    "a subscriber to patterns at all nodes": of_nodes(("PSUBSCRIBE", "c*"), ("GET", "a")),
    "a redirect": is_redirected(b"-MOVED 15495 127.0.0.1:7001\r\n"),
    "a redirect that asks": is_redirected(b"-ASK 15495 127.0.0.1:7001\r\n"),
    "a redirect to nobody": is_redirected(b"-TRYAGAIN later\r\n"),
    "a command with hidden ones": sends(("INCR", "k"), rules=TTLS),
    "a transaction with hidden commands": sends(("MULTI",), ("INCR", "k"), ("EXEC",), rules=TTLS),
    "an open transaction with hidden commands": sends(("MULTI",), ("INCR", "k"), rules=TTLS),
    "a watch with hidden commands": sends(("WATCH", "w"), ("INCR", "k"), rules=TTLS),
    "a rule that asks": sends(("HGETALL", "k"), rules=ASKS),
    "a rule that looks on": sends(("HSET", "k", "f", "v"), rules=ASKS),
    "replicas that are waited for": of_nodes(("SET", "a", 1), ("WAIT", 1, 0)),
}


def half_closes(client: Client) -> None:
    client.end_of_stream()


def is_killed(client: Client) -> None:
    client.close("killed")


def leaves(client: Client) -> None:
    client.connection_lost()


def loses(client: Client) -> None:
    cast("LosingRoute", client.route).lose()


def loses_one(client: Client) -> None:
    cast("LosingRoute", client.route).lose(1)


def drops(client: Client) -> None:
    cast("LosingRoute", client.route).drop()


ENDS = [
    (loses, leaves),
    (leaves, loses),
    (drops, leaves, loses),
    (drops, loses, leaves),
    (is_killed, loses, leaves),
    (is_killed, leaves, loses),
    (half_closes, loses, leaves),
    (loses_one, leaves, loses),
    (leaves, loses_one, loses),
]


def left_behind(act: Callable[[], None]) -> list[str]:
    """What Keyrail's objects are that only a collection frees after this."""
    gc.collect()
    gc.disable()
    try:
        act()
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        gc.set_debug(0)
        kinds = sorted(type(each).__name__ for each in gc.garbage if is_own(each))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    return kinds


def is_own(each: object) -> bool:
    return any(kind.__module__.startswith("proxy.") for kind in type(each).__mro__)


@pytest.mark.parametrize("ends", ENDS, ids=lambda ends: ", ".join(end.__name__ for end in ends))
@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_a_client_that_has_gone_leaves_no_cycle(beginning: str, ends: tuple[Callable[[Client], None], ...]) -> None:
    routes: list[LosingRoute] = []

    def act() -> None:
        client = BEGINNINGS[beginning]()
        routes.append(cast("LosingRoute", client.route))
        for end in ends:
            end(client)
        routes[0].settle()

    assert left_behind(act) == []
