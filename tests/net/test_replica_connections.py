"""Reads of one client from replicas: from where it reads, and what becomes of them when a replica fails.

The sockets are fakes: `ReplicaConnections` and the session are the real ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from proxy.commands.table import STANDARD
from proxy.hotpath.client_reads import Replica
from proxy.hotpath.error_counts import ErrorCounts
from proxy.net.connection_set import ConnectionSet
from proxy.net.replica_connections import ReplicaConnections
from proxy.net.replica_history import Told
from proxy.net.replica_watch import WatchedPrimary, WatchedReplica
from proxy.net.slot_map import Endpoint
from proxy.policy.zones import NO_ZONES
from proxy.session.pool_key import SOLE_NODE, Node, PoolKey
from proxy.session.state import Awaited
from tests.session.given import HOME, Client, FakeRoute, Upstream, call, route_with

RULES = """
rules:
  shared: {replica_reads: {keys: ["a:*"], max_lag: 1s}, mode: enforce}
"""
VALUE = b"$1\r\nv\r\n"
OK = b"+OK\r\n"
REFUSALS = [
    (b"-LOADING Redis is loading the dataset in memory\r\n", 1.0),
    (b"-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n", 1.0),
    (b"-BUSY Redis is busy running a script.\r\n", 1.0),
    (b"-NOPERM this user has no permissions to run the 'get' command\r\n", 30.0),
    (b"-NOAUTH Authentication required.\r\n", 30.0),
]


class Connection:
    """A connection to a replica, without a socket."""

    mixed_up = False

    def __init__(self, readers: ReplicaConnections, node: Node) -> None:
        self.pipeline = Upstream(HOME._replace(node=node))
        self.pipeline.reads_only = True
        self.pipeline.redirects = readers.redirects
        self.key = self.pipeline.key
        self._readers = readers

    def lose(self) -> None:
        if not self.pipeline.closed:
            self.pipeline.closed = True
            self.pipeline.usable = False
            self._readers.lost(cast("Any", self))

    abort = drop = lose


class Stage:
    """A route with a primary and two replicas, and the time."""

    def __init__(self, traces: int = 0) -> None:
        self.now = 0.0
        self.route: FakeRoute = route_with(RULES, traces=traces)
        self.primary = WatchedPrimary(SOLE_NODE)
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.opening: list[Any] = []
        watch: Any = SimpleNamespace(
            primaries={SOLE_NODE: self.primary},
            report_to=lambda left, moved: None,
            hurry=lambda: None,
            begin=lambda _: None,
            reads=dict,
        )
        self.members: dict[Upstream, Connection] = {}
        connections: Any = SimpleNamespace(
            output_limit=1 << 20,
            errors=ErrorCounts(),
            supply=SimpleNamespace(tls=None, busy=Counter()),
            settings=SimpleNamespace(zone=None),
            topology=SimpleNamespace(login="the upstream"),
            loop=SimpleNamespace(call_later=lambda seconds, act: self.later.append((seconds, act))),
            all=SimpleNamespace(
                members=self.members, start=self._opens, remove=lambda each: self.members.pop(each.pipeline, None)
            ),
            count=lambda _: None,
        )
        policies: Any = SimpleNamespace(zones=NO_ZONES, replica_lag=1.0)
        self.readers = ReplicaConnections(watch, connections, policies)
        self.readers.clock = lambda: self.now
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
        self.readers._connection(replica, key)
        slot = self.readers._slots[replica.node, key.database, key.protocol]
        slot.upstream, slot.opening = connection, False
        self.primary.group.changed()
        pipeline: Upstream = connection.pipeline
        return pipeline

    def look(self, offset: int = 100, applied: int | None = None) -> None:
        """Ask the primary for its offset, and the replicas for what they have applied."""
        self.primary.told(self.primary.group.begin_look(), self.now, Told(False, "s", offset))
        for replica in self.replicas:
            told = Told(True, "s", offset if applied is None else applied)
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
        return self.route.upstream().taken(), replicas


@pytest.fixture(params=[0, 1], ids=["runs", "traced"])
def stage(request: pytest.FixtureRequest) -> Stage:
    """Commands are traced or not: then the session handles each of them."""
    return Stage(request.param)


def test_reads_of_the_keys_go_to_one_replica_and_all_else_to_the_primary(stage: Stage) -> None:
    client = stage.client()
    for _ in range(3):
        client.say("GET", "a:1")
        assert stage.taken() == (b"", call("GET", "a:1"))
        stage.reader_of(client).answer(VALUE)
    client.say("GET", "x")
    assert stage.taken() == (call("GET", "x"), b"")
    stage.route.upstream().answer(VALUE)
    assert client.heard() == 4 * VALUE


def test_a_client_reads_its_own_write_from_the_primary_until_a_replica_has_it(stage: Stage) -> None:
    client = stage.client()
    client.say("SET", "a:1", "v")
    stage.route.upstream().answer(OK)
    stage.taken()
    for offset, applied, answers in ((200, 100, 0), (200, 199, 0), (200, 200, 1)):
        client.say("GET", "a:1")
        sent = stage.taken()
        assert sent[0] == call("GET", "a:1"), "the replica is not known to have the write"
        stage.route.upstream().answer(VALUE)
        stage.look(offset, applied)
        client.say("GET", "a:1")
        sent = stage.taken()
        assert bool(sent[1]) == bool(answers)
        (stage.reader_of(client) if answers else stage.route.upstream()).answer(VALUE)
    assert client.heard().endswith(VALUE)


@pytest.mark.parametrize("seconds", [0.91, 5.0])
def test_what_a_replica_told_long_ago_counts_for_nothing(stage: Stage, seconds: float) -> None:
    client = stage.client()
    stage.now += seconds
    client.say("GET", "a:1")
    assert stage.taken() == (call("GET", "a:1"), b"")


def test_a_replica_that_is_too_far_behind_answers_nothing(stage: Stage) -> None:
    client = stage.client()
    stage.now += 0.5
    stage.look(200)
    stage.now += 1.1
    stage.look(300, 200)
    client.say("GET", "a:1")
    assert stage.taken() == (call("GET", "a:1"), b"")


def test_nothing_in_a_transaction_or_with_a_watch_goes_to_a_replica(stage: Stage) -> None:
    client = stage.client()
    client.say("WATCH", "a:1")
    client.own.answer(OK)
    client.say("GET", "a:1")
    client.own.answer(VALUE)
    client.send(call("MULTI") + call("GET", "a:1") + call("EXEC"))
    assert stage.taken()[1] == b""
    assert client.own.taken() == b"".join(
        [call("WATCH", "a:1"), call("GET", "a:1"), call("MULTI"), call("GET", "a:1"), call("EXEC")]
    )


def test_behind_reset_nothing_is_read_in_the_database_of_before(stage: Stage) -> None:
    database = HOME._replace(database=1)
    there = stage.connect(stage.replicas[0], database)
    stage.route.upstream(database)
    client = stage.client()
    client.say("SELECT", 1)
    stage.route.upstream(database).answer(OK)
    client.say("GET", "a:1")
    stage.route.upstream(database).answer(VALUE)
    stage.look()
    client.say("GET", "a:1")
    assert there.taken() == call("GET", "a:1")
    there.answer(VALUE)
    client.say("RESET")
    stage.look()
    client.say("GET", "a:1")
    assert there.taken() == b""


def test_a_client_that_only_reads_sends_its_pipelines_as_runs() -> None:
    stage = Stage()
    stage.route.pools.clear()
    client = stage.client()
    client.send(call("GET", "a:1") + call("GET", "a:2"))
    assert stage.taken() == (b"", call("GET", "a:1") + call("GET", "a:2"))


def test_a_write_waits_for_reads_of_a_replica_that_are_pending(stage: Stage) -> None:
    client = stage.client()
    client.send(call("GET", "a:1") + call("SET", "a:1", "w"))
    assert stage.taken() == (b"", call("GET", "a:1"))
    stage.reader_of(client).answer(VALUE)
    assert stage.taken() == (call("SET", "a:1", "w"), b"")
    stage.route.upstream().answer(OK)
    assert client.heard() == VALUE + OK


# A replica fails


def test_pending_reads_of_a_lost_replica_are_answered_by_the_primary_in_order() -> None:
    stage = Stage()
    client = stage.client()
    lost = stage.reader_of(client)
    client.send(b"".join(call("GET", f"a:{n}") for n in range(3)) + call("SET", "b", "x"))
    lost.answer(b"$1\r\n0\r\n")
    stage.taken()
    stage.members[lost].lose()
    assert stage.taken()[0] == call("GET", "a:1") + call("GET", "a:2")
    assert client.heard() == b"$1\r\n0\r\n"
    stage.route.upstream().answer(b"$1\r\n1\r\n$1\r\n2\r\n")
    assert stage.taken()[0] == call("SET", "b", "x")
    stage.route.upstream().answer(OK)
    assert client.heard() == b"$1\r\n1\r\n$1\r\n2\r\n" + OK
    assert not client.gone


def test_a_reply_of_the_primary_waits_for_those_that_are_sent_again() -> None:
    stage = Stage()
    client = stage.client()
    config = client.intake.config
    config.beside = bytes(spec.name == "PING" for spec in STANDARD.specs)
    lost = stage.reader_of(client)
    client.send(call("GET", "a:1") + call("PING"))
    assert stage.taken() == (call("PING"), call("GET", "a:1"))
    stage.route.upstream().answer(b"+PONG\r\n")
    stage.members[lost].lose()
    assert client.heard() == b""
    assert stage.taken()[0] == call("GET", "a:1")
    stage.route.upstream().answer(VALUE)
    assert client.heard() == VALUE + b"+PONG\r\n"


def test_they_wait_for_a_primary_if_there_is_none(stage: Stage) -> None:
    client = stage.client()
    client.say("GET", "a:1")
    stage.taken()
    stage.route.starving = True
    stage.route.upstream().usable = False
    stage.members[stage.reader_of(client)].lose()
    assert len(stage.route.waiting) == 1
    stage.route.upstream().usable = True
    stage.route.feed()
    assert stage.taken()[0] == call("GET", "a:1")
    stage.route.upstream().answer(VALUE)
    assert client.heard() == VALUE


def test_a_client_is_closed_if_a_part_of_its_reply_has_come(stage: Stage) -> None:
    one, other = stage.client(), stage.client()
    while stage.reader_of(one) is not stage.reader_of(other):
        other = stage.client()
    lost = stage.reader_of(one)
    lost.large = 16
    one.say("GET", "a:large")
    other.say("GET", "a:1")
    stage.taken()
    lost.answer(b"$100\r\n" + b"x" * 50)
    stage.members[lost].lose()
    assert one.gone
    assert (one.cause, other.gone) == ("upstream_lost", False)
    assert stage.taken()[0] == call("GET", "a:1")
    stage.route.upstream().answer(VALUE)
    assert other.heard() == VALUE


@pytest.mark.parametrize(("refusal", "pause"), REFUSALS, ids=lambda each: str(each)[2:9])
def test_a_replica_that_cannot_answer_is_left_and_the_primary_answers(refusal: bytes, pause: float) -> None:
    stage = Stage()
    client = stage.client()
    left = stage.reader_of(client)
    client.send(call("GET", "a:1") + call("GET", "a:2"))
    stage.taken()
    left.answer(refusal, refusal)
    assert left.closed
    assert stage.taken() == (call("GET", "a:1") + call("GET", "a:2"), b"")
    stage.route.upstream().answer(VALUE, VALUE)
    assert client.heard() == 2 * VALUE
    assert pause in {seconds for seconds, _ in stage.later}
    (node,) = (each.node for each in stage.replicas if stage.readers.failed[each.node])
    assert stage.readers.resent[node] == 2
    opened = len(stage.opening)
    client.say("GET", "a:3")
    assert len(stage.opening) == opened, "it has a pause"


def test_an_error_of_the_command_itself_is_the_clients(stage: Stage) -> None:
    client = stage.client()
    client.say("GET", "a:1")
    error = b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
    stage.reader_of(client).answer(error)
    assert client.heard() == error
    assert not stage.reader_of(client).closed


def test_another_replica_is_read_once_it_has_what_the_client_has_seen(stage: Stage) -> None:
    client = stage.client()
    stage.members[stage.reader_of(client)].lose()
    client.say("GET", "a:1")
    assert stage.taken() == (call("GET", "a:1"), b""), "the other one may be older"
    stage.route.upstream().answer(VALUE)
    stage.look(300)
    client.say("GET", "a:1")
    assert stage.taken() == (b"", call("GET", "a:1"))


def test_another_primary_makes_all_void(stage: Stage) -> None:
    client = stage.client()
    stage.primary.told(stage.primary.group.begin_look(), stage.now, Told(False, "other", 5))
    client.say("GET", "a:1")
    assert stage.taken() == (call("GET", "a:1"), b"")


# Commands wait for a look


def test_commands_of_a_client_can_wait_for_a_look(stage: Stage) -> None:
    client = stage.client()
    assert client.hold_reads()
    assert client.awaited is Awaited.REPLICA
    client.send(call("GET", "a:1"))
    assert stage.taken() == (b"", b"")
    assert not client.hold_reads(), "it waits already"
    client.release_reads()
    assert stage.taken()[1] == call("GET", "a:1")
    client.release_reads()
    stage.reader_of(client).answer(VALUE)
    assert client.heard() == VALUE


def test_a_client_with_a_connection_of_its_own_is_not_held(stage: Stage) -> None:
    client = stage.client()
    client.say("WATCH", "a:1")
    assert not client.hold_reads()
    client.own.answer(OK)
    assert client.heard() == OK


def test_a_shared_connection_that_becomes_another_clients_is_used_no_more() -> None:
    stage = Stage()
    client = stage.client()
    client.say("GET", "a:1")
    stage.reader_of(client).answer(VALUE)
    taken: Any = SimpleNamespace(pipeline=stage.route.upstream(), shared=True)
    everything: Any = ConnectionSet(HOME, lambda node: node, cast("Any", None), [client], Counter())
    everything.pools = SimpleNamespace(take_spare=lambda *_, **__: taken)
    everything.account = lambda _: None
    everything.take_spare(HOME)
    stage.route.pools.clear()
    stage.taken()
    client.say("SET", "a:1", "w")
    assert taken.pipeline.taken() == b""
    assert stage.taken()[0] == call("SET", "a:1", "w")
