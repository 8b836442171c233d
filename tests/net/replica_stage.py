"""A route with a primary and two replicas, and the time.

The sockets are fakes: `ReplicaConnections` and the session are the real ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from proxy.hotpath.counting.error_counts import ErrorCounts
from proxy.hotpath.replicas.reader_place import Replica
from proxy.net.config.address import UpstreamAddress
from proxy.net.config.endpoint import Endpoint
from proxy.net.connection.own_commands import OwnCommands
from proxy.net.replicas.replica_connections import ReplicaConnections
from proxy.net.replicas.replica_history import Told
from proxy.net.replicas.watched_replicas import WatchedPrimary, WatchedReplica
from proxy.policy.zones import NO_ZONES
from proxy.session.ports.pool_key import SOLE_NODE, Node, PoolKey
from tests.session.given import HOME, Client, FakeRoute, Upstream, route_with

RULES = """
rules:
  shared: {replica_reads: {keys: ["a:*"], max_lag: 1s}, mode: enforce}
"""
VALUE = b"$1\r\nv\r\n"
OK = b"+OK\r\n"


def process(node: Node) -> str:
    """The run_id of the server that is this node."""
    return f"p{node.number}"


class NoLoop:
    """Makes futures of no event loop."""

    def create_future(self) -> Future[bytes]:
        return Future()


class Connection:
    """A connection to a replica, without a socket."""

    mixed_up = False

    def __init__(self, readers: ReplicaConnections, node: Node) -> None:
        self.pipeline = Upstream(HOME._replace(node=node))
        self.pipeline.reads_only = True
        self.pipeline.redirects = readers.redirects
        self.ask = OwnCommands(self.pipeline, cast("Any", NoLoop())).ask
        self.key = self.pipeline.key
        self.run_id = process(node).encode()
        self.reading, self.transport = True, None
        self._readers = readers

    def lose(self) -> None:
        if not self.pipeline.closed:
            self.pipeline.closed = True
            self.pipeline.usable = False
            self._readers.lost(cast("Any", self))

    abort = drop = lose


class Stage:
    """A route with a primary and two replicas, and the time."""

    def __init__(self, traces: int = 0, mode: str = "enforce", rules: str = RULES, *, pooling: bool = True) -> None:
        self.now = 0.0
        self.route: FakeRoute = route_with(rules.replace("enforce", mode), traces=traces, pooling=pooling)
        self.primary = WatchedPrimary(SOLE_NODE)
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.opening: list[Any] = []
        watch: Any = SimpleNamespace(
            primaries={SOLE_NODE: self.primary},
            report_to=lambda _: None,
            hurry=lambda: None,
            begin=lambda _: None,
            reads=dict,
            clock=lambda: self.now,
        )
        self.members: dict[Upstream, Connection] = {}
        connections: Any = SimpleNamespace(
            output_limit=1 << 20,
            known_scripts=None,
            errors=ErrorCounts(),
            opening=SimpleNamespace(tls=None, busy=Counter()),
            settings=SimpleNamespace(zone=None, connect_timeout=1.0, pooling=pooling),
            topology=SimpleNamespace(login=UpstreamAddress()),
            loop=SimpleNamespace(call_later=lambda seconds, act, *on: self.later.append((seconds, partial(act, *on)))),
            all=SimpleNamespace(
                members=self.members, start=self._opens, remove=lambda each: self.members.pop(each.pipeline, None)
            ),
            count=lambda _: None,
        )
        self.policies = SimpleNamespace(zones=NO_ZONES, replica_lags=[1.0], moves_reads=True)
        self.readers = ReplicaConnections(watch, connections, cast("Any", self.policies))
        self.route.ports = replace(self.route.ports, replicas=self.readers)
        self.route.upstream()
        self.replicas = [self._replica(number) for number in (1, 2)]
        self.look()

    def _opens(self, opening: Any) -> None:
        opening.close()
        self.opening.append(opening)

    def _replica(self, number: int) -> WatchedReplica:
        replica = WatchedReplica(Node(number), Endpoint("10.0.0.1", number), Replica())
        self.primary.replicas[replica.endpoint] = replica
        self.connect(replica)
        return replica

    def connect(self, replica: WatchedReplica, key: PoolKey = HOME) -> Upstream:
        """The connection that clients share, as if it had been opened."""
        connection: Any = Connection(self.readers, replica.node)
        self.members[connection.pipeline] = connection
        slot = self.readers._slot(replica, key)
        slot.fill(connection)
        slot.opening = False
        self.readers._open_slots[connection] = slot
        slot.since = self.readers._changed(replica)
        pipeline: Upstream = connection.pipeline
        return pipeline

    def look(
        self, offset: int = 100, applied: int | None = None, lags: Mapping[WatchedReplica, int] | None = None
    ) -> None:
        """Ask the primary for its offset, and the replicas for what they have applied: all, or as ``lags`` says."""
        self.primary.told(self.primary.group.begin_look(), self.now, Told(False, "s", offset))
        for replica in self.replicas:
            own = (lags or {}).get(replica, offset if applied is None else applied)
            told = Told(True, "s", own, process=process(replica.node))
            self.primary.measured(replica, told, self.now)

    def client(self) -> Client:
        """A client that reads from a replica."""
        client = Client(self.route)
        client.say("GET", "a:0")
        self.reader_of(client).answer(VALUE)
        assert client.heard() == VALUE
        self.taken()
        return client

    def reader_of(self, client: Client) -> Upstream:
        reads = client.sender.reads
        assert reads is not None
        assert isinstance(reads.places[0].upstream, Upstream)
        return reads.places[0].upstream

    def taken(self) -> tuple[bytes, bytes]:
        """What the primary and the replicas were sent since the last call."""
        replicas = b"".join(each.taken() for each in self.members)
        return b"".join(each.taken() for each in self.route.pools.values()), replicas
