"""Reads of one client from the replicas of three primaries: which connection each takes, and what becomes of them when
a replica fails, or says that a slot is another node's.

The sockets are fakes: `ReplicaConnections`, the map and the session are the real ones.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from proxy.compression.frames import STRING, Codec, pack
from proxy.hotpath.counting.error_counts import ErrorCounts
from proxy.hotpath.replicas.reader_place import Replica
from proxy.net.config.address import UpstreamAddress
from proxy.net.config.endpoint import Endpoint
from proxy.net.replicas.replica_connections import ReplicaConnections
from proxy.net.replicas.replica_history import Told
from proxy.net.replicas.watched_replicas import WatchedPrimary, WatchedReplica
from proxy.net.topology.cluster import Cluster
from proxy.net.topology.slot_map import ClusterNode, OwnSlots, SlotMap, SlotRange
from proxy.policy.model import Policy
from proxy.policy.zones import NO_ZONES
from proxy.session.commands.switching import HELD_SECONDS
from tests.hotpath.routed import owners
from tests.net.replica_stage import Connection, process
from tests.policy.given import policy as policy_of
from tests.session.clustered import NODES, ClusterRoute, Routed
from tests.session.given import HOME, Upstream, call

POLICY = policy_of('rules:\n  shared: {replica_reads: {keys: ["*"], max_lag: 1s}, mode: enforce}\n')
COMPRESSING = """
defaults: {mode: enforce}
rules:
  shared: {replica_reads: {keys: ["*"], max_lag: 1s}}
  docs: {compress: {keys: ["{a}"], above: 64B}}
"""
VALUE = b"$1\r\nv\r\n"
OK = b"+OK\r\n"
MOVED = b"-MOVED 15495 127.0.0.1:7000\r\n"
B, C, A = "{b}", "{c}", "{a}"
"""Keys of the first, the second and the third node."""


def a_map() -> SlotMap:
    """Three primaries with a replica each."""
    slots = [SlotRange(owners(3).index(number), 16383 - owners(3)[::-1].index(number)) for number in range(3)]
    nodes = [ClusterNode(f"p{n}", Endpoint("10.0.0.1", n + 1), slots=(slots[n],)) for n in range(3)]
    nodes += [ClusterNode(f"r{n}", Endpoint("10.0.0.2", n + 1), is_primary=False, primary_id=f"p{n}") for n in range(3)]
    return SlotMap({node.id: node for node in nodes})


class Stage:
    """A route to the three primaries and a client that reads from their replicas."""

    def __init__(self, policy: Policy = POLICY) -> None:
        self.now = 100.0
        self.cluster = Cluster(UpstreamAddress())
        self.cluster.adopt(a_map())
        self.route = ClusterRoute(policy)
        self.primaries = {node: WatchedPrimary(node) for node in self.cluster.nodes}
        watch: Any = SimpleNamespace(
            primaries=self.primaries,
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
            settings=SimpleNamespace(zone=None),
            topology=self.cluster,
            loop=SimpleNamespace(call_later=lambda *_: None),
            all=SimpleNamespace(
                members=self.members,
                start=lambda opening: opening.close(),
                remove=lambda each: self.members.pop(each.pipeline, None),
            ),
            count=lambda _: None,
        )
        policies: Any = SimpleNamespace(zones=NO_ZONES, replica_lags=[1.0])
        self.readers = ReplicaConnections(watch, connections, policies)
        self.route.ports = replace(self.route.ports, replicas=self.readers)
        self.client = Routed(self.route)
        for each in NODES:
            self.client.at(each.number)  # opens the connection
        self.replicas = [self._connect(primary) for primary in self.primaries.values()]
        self.look()

    def _connect(self, primary: WatchedPrimary) -> Upstream:
        ((endpoint, node),) = self.cluster.replicas_of(primary.node).items()
        replica = primary.replicas[endpoint] = WatchedReplica(node, endpoint, Replica())
        connection: Any = Connection(self.readers, node)
        connection.pipeline.number = node.number
        self.members[connection.pipeline] = connection
        slot = self.readers._slot(replica, HOME)
        slot.fill(connection)
        slot.opening = False
        self.readers._open_slots[connection] = slot
        pipeline: Upstream = connection.pipeline
        return pipeline

    def look(self, offset: int = 100, applied: int | None = None) -> None:
        """Ask the primaries for their offsets, and the replicas for what they have applied."""
        for primary in self.primaries.values():
            primary.told(primary.group.begin_look(), self.now, Told(False, "s", offset))
            for replica in primary.replicas.values():
                told = Told(True, "s", offset if applied is None else applied, process=process(replica.node))
                primary.measured(replica, told, self.now)

    def taken(self) -> tuple[list[bytes], list[bytes]]:
        """What the primaries and their replicas were sent since the last call."""
        return [self.client.at(each.number).taken() for each in NODES], [each.taken() for each in self.replicas]

    def wrote(self, key: str) -> None:
        """The client has written this key, and is answered."""
        self.client.say("SET", key, "w")
        for each in NODES:
            if self.client.at(each.number).taken():
                self.client.at(each.number).answer(OK)
        assert self.client.heard() == OK


NOTHING = [b"", b"", b""]


def gets(*keys: str) -> bytes:
    return b"".join(call("GET", key) for key in keys)


def test_each_read_of_a_pipeline_goes_to_a_replica_of_its_owner_and_the_replies_come_in_order() -> None:
    stage = Stage()
    for _ in range(2):  # the first one as the session decides, the second one as the intake does
        stage.client.send(gets(A, B, C, B, A))
        assert stage.taken() == (NOTHING, [gets(B, B), gets(C), gets(A, A)])
        stage.replicas[0].answer(b"$1\r\n2\r\n", b"$1\r\n4\r\n")
        stage.replicas[2].answer(b"$1\r\n1\r\n", b"$1\r\n5\r\n")
        stage.replicas[1].answer(b"$1\r\n3\r\n")
        assert stage.client.heard() == b"".join(b"$1\r\n%d\r\n" % n for n in range(1, 6))


def test_pipelines_of_reads_stay_whole_when_the_connection_to_their_primary_is_another_one() -> None:
    stage = Stage()
    stage.client.send(gets(B, C))
    for replica in stage.replicas[:2]:
        replica.answer(VALUE)
    lost = stage.client.at(0)
    lost.usable, lost.closed = False, True
    stage.route.pools = {key: each for key, each in stage.route.pools.items() if each is not lost}
    stage.client.at(0)  # there is another one
    stage.client.send(gets(B))
    stage.replicas[0].answer(VALUE)
    stage.taken()
    stage.client.send(gets(B, C, B))
    assert stage.taken() == (NOTHING, [gets(B, B), gets(C), b""])


def test_a_write_keeps_the_reads_of_its_primary_there_and_no_others() -> None:
    stage = Stage()
    stage.wrote(B)
    stage.client.send(gets(A, B, C))
    assert stage.taken() == ([gets(B), b"", b""], [b"", gets(C), gets(A)])


def test_a_split_write_keeps_the_reads_of_all_primaries_there() -> None:
    stage = Stage()
    stage.client.send(gets(A))
    stage.replicas[2].answer(VALUE)
    stage.client.say("DEL", A, B, C)
    for each in NODES:
        stage.client.at(each.number).answer(b":1\r\n")
    stage.taken()
    stage.client.send(gets(A, B, C))
    assert stage.taken() == ([gets(B), gets(C), gets(A)], NOTHING)


def test_a_write_waits_for_reads_of_its_replicas_in_its_pipeline() -> None:
    stage = Stage()
    stage.client.send(gets(A, B) + call("SET", C, "w") + call("SET", B, "w") + gets(B))
    assert stage.taken() == ([b"", call("SET", C, "w"), b""], [gets(B), b"", gets(A)])
    stage.replicas[0].answer(VALUE)
    stage.replicas[2].answer(VALUE)
    assert stage.taken() == (NOTHING, NOTHING), "it waits for all, as it came to the session"
    stage.client.at(1).answer(OK)
    assert stage.taken() == ([call("SET", B, "w") + gets(B), b"", b""], NOTHING)


def test_a_write_waits_for_a_read_of_its_replica_that_has_not_left_yet() -> None:
    stage = Stage()
    stage.client.send(gets(A))
    stage.replicas[2].answer(VALUE)
    stage.taken()
    stage.client.send(gets(B, A) + call("SET", B, "w"))
    assert stage.taken() == (NOTHING, [gets(B), b"", gets(A)])


def test_after_another_map_the_primaries_answer_until_the_replicas_are_looked_at() -> None:
    stage = Stage()
    stage.client.send(gets(A, B))
    stage.replicas[0].answer(VALUE)
    stage.replicas[2].answer(VALUE)
    stage.taken()
    router = stage.client.intake.config.router
    assert router is not None
    router.version += 1
    stage.client.send(gets(A, C))
    assert stage.taken() == ([b"", gets(C), gets(A)], NOTHING)
    stage.client.at(1).answer(VALUE)
    stage.client.at(2).answer(VALUE)
    stage.look(200)
    stage.client.send(gets(A, C))
    assert stage.taken() == (NOTHING, [b"", gets(C), gets(A)])


def test_while_a_primary_gives_slots_away_it_answers_by_itself() -> None:
    stage = Stage()
    primary = next(iter(stage.primaries.values()))
    mine = (SlotRange(0, 5461),)
    for seconds, slots in ((0.0, OwnSlots(mine, gives=True)), (2.0, OwnSlots((SlotRange(0, 5460),), gives=False))):
        primary.owns(slots, stage.now)
        stage.look()
        stage.client.send(gets(B, C))
        assert stage.taken() == ([gets(B), b"", b""], [b"", gets(C), b""]), seconds
        stage.client.at(0).answer(VALUE)
        stage.replicas[1].answer(VALUE)
        stage.now += 2.0
        stage.look()
        stage.client.send(gets(B))
        assert stage.taken() == (NOTHING, [gets(B), b"", b""])
        stage.replicas[0].answer(VALUE)


def test_what_a_lost_replica_owes_is_asked_of_the_owners_of_its_slots() -> None:
    stage = Stage()
    stage.client.send(gets(A, B, A, C, B))
    stage.taken()
    stage.replicas[0].answer(b"$1\r\n2\r\n")
    stage.members[stage.replicas[0]].lose()
    stage.members[stage.replicas[2]].lose()
    assert stage.taken() == ([gets(B), b"", gets(A, A)], NOTHING)
    stage.client.at(2).answer(b"$1\r\n1\r\n", b"$1\r\n3\r\n")
    assert stage.client.heard() == b"$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n"
    stage.client.at(0).answer(b"$1\r\n5\r\n")
    stage.replicas[1].answer(b"$1\r\n4\r\n")
    assert stage.client.heard() == b"$1\r\n4\r\n$1\r\n5\r\n"


def test_a_replica_that_knows_another_owner_is_not_asked_and_the_cluster_looked_at() -> None:
    stage = Stage()
    stage.client.send(gets(A, A))
    stage.taken()
    stage.replicas[2].answer(MOVED, MOVED)
    assert stage.cluster.doubted.is_set()
    assert not stage.replicas[2].closed
    assert stage.taken()[0] == [b"", b"", gets(A, A)]
    stage.client.at(2).answer(VALUE, MOVED.replace(b"7000", b"7001"))
    assert stage.client.heard() == VALUE
    assert stage.taken()[0] == [b"", gets(A), b""], "the owner says where it is now"
    stage.client.at(1).answer(VALUE)
    assert stage.client.heard() == VALUE


def test_a_read_whose_slot_gets_no_owner_in_time_is_answered_and_the_client_stays() -> None:
    stage = Stage()
    stage.client.send(gets(A, B))
    stage.taken()
    stage.client.nodes.lost.add(2)
    stage.members[stage.replicas[2]].lose()
    stage.replicas[0].answer(VALUE)
    (waiter,) = stage.client.nodes.looking
    stage.client.nodes.looking.clear()
    stage.route.moment += HELD_SECONDS / 2
    waiter.arrived()
    assert stage.client.heard() == b""
    stage.route.moment += HELD_SECONDS
    stage.client.nodes.looking.pop().arrived()
    assert stage.client.heard() == b"-CLUSTERDOWN Hash slot not served\r\n" + VALUE
    assert not stage.client.gone


# Keys that a replica does not have

NIL = b"$-1\r\n"
ASK = b"-ASK 15495 127.0.0.1:7001\r\n"


class Doubting(Stage):
    """Replicas do not know which slots are on their way, as those of Redis."""

    def __init__(self, policy: Policy = POLICY) -> None:
        super().__init__(policy)
        for replica in self.replicas:
            replica.doubts = True


def test_that_a_key_does_not_exist_is_believed_where_its_owner_does_not_send_the_read_elsewhere() -> None:
    stage = Doubting()
    stage.client.send(gets(A, A, B, A))
    stage.taken()
    stage.replicas[2].answer(VALUE, NIL, VALUE)
    stage.replicas[0].answer(VALUE)
    assert stage.client.heard() == VALUE
    assert stage.taken() == ([b"", b"", gets(A)], NOTHING)
    stage.client.at(2).answer(b"$3\r\nnew\r\n")
    assert stage.client.heard() == NIL + VALUE + VALUE, "what the replica knows is not mixed with what is newer"
    stage.client.send(gets(A))
    assert stage.taken() == (NOTHING, [b"", b"", gets(A)]), "the client has learnt nothing"


def test_a_key_that_has_moved_is_read_at_its_new_node() -> None:
    stage = Doubting()
    stage.client.send(gets(A, A))
    stage.taken()
    stage.replicas[2].answer(NIL, VALUE)
    assert stage.taken()[0] == [b"", b"", gets(A)]
    stage.client.at(2).answer(ASK)
    assert stage.client.heard() == b""
    assert stage.taken()[0] == [b"", b"", gets(A)], "now its reply counts"
    stage.client.at(2).answer(ASK)
    assert stage.taken()[0] == [b"", call("ASKING") + gets(A), b""]
    stage.client.at(1).answer(OK, b"$5\r\nthere\r\n")
    assert stage.client.heard() == b"$5\r\nthere\r\n" + VALUE
    stage.client.send(gets(A))
    assert stage.taken()[1] == NOTHING, "the client has learnt of it"


def test_so_is_a_key_whose_values_are_compressed() -> None:
    value, stage = b"value " * 50, Doubting(policy_of(COMPRESSING))
    stored = pack(value, STRING, Codec.LZ4, 0, 64)
    stage.client.send(gets(A))
    assert stage.taken() == (NOTHING, [b"", b"", gets(A)])
    stage.replicas[2].answer(NIL)
    assert stage.client.heard() == b""
    assert stage.taken()[0] == [b"", b"", gets(A)]
    stage.client.at(2).answer(ASK)
    stage.taken()
    stage.client.at(2).answer(ASK)
    assert stage.taken()[0] == [b"", call("ASKING") + gets(A), b""]
    stage.client.at(1).answer(OK, b"$%d\r\n%b\r\n" % (len(stored), stored))
    assert stage.client.heard() == b"$300\r\n%b\r\n" % value


def test_an_error_of_the_owner_is_the_clients() -> None:
    stage = Doubting()
    stage.client.send(gets(A))
    stage.taken()
    stage.replicas[2].answer(NIL)
    stage.taken()
    error = b"-NOPERM this user has no permissions to run the 'get' command\r\n"
    stage.client.at(2).answer(error)
    assert stage.client.heard() == error


def test_of_several_missing_keys_one_is_asked_for_and_the_rest_is_read_at_the_owner() -> None:
    stage = Doubting()
    stage.client.send(gets(A, A, A))
    stage.taken()
    stage.replicas[2].answer(NIL, NIL, VALUE)
    assert stage.taken()[0] == [b"", b"", gets(A) + gets(A, A)]
    stage.client.at(2).answer(NIL, b"$3\r\nnew\r\n", VALUE)
    assert stage.client.heard() == NIL + b"$3\r\nnew\r\n" + VALUE
    stage.client.send(gets(A))
    assert stage.taken()[1] == NOTHING, "the client has read of the primary"


def test_a_read_of_several_keys_goes_to_their_owner() -> None:
    stage = Doubting()
    stage.client.say("MGET", A, A + "2")
    assert stage.taken() == ([b"", b"", call("MGET", A, A + "2")], NOTHING)


def test_what_a_large_value_is_at_the_owner_is_not_kept() -> None:
    stage = Doubting()
    stage.client.send(gets(A))
    stage.taken()
    stage.replicas[2].answer(NIL)
    owner = stage.client.at(2)
    owner.answer(b"$1000000\r\n")
    for _ in range(1000):
        owner.answer(b"x" * 1000)
        assert len(owner.rest) == 0
    assert stage.client.heard() == b""
    owner.answer(b"\r\n")
    assert stage.client.heard() == NIL


def test_a_client_that_leaves_meanwhile_gets_nothing() -> None:
    stage = Doubting()
    stage.client.send(gets(A, B))
    stage.taken()
    stage.replicas[2].answer(NIL)
    stage.client.on_close()
    stage.client.at(2).answer(NIL)
    stage.replicas[0].answer(VALUE)
    assert stage.client.heard() == b""
    for upstream in (stage.client.at(2), stage.replicas[0]):
        assert upstream.head is None
        assert not upstream.closed
