"""What becomes of reads when a replica fails or lags, and who reads from which one afterwards."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from proxy.commands.table import STANDARD
from proxy.hotpath.upstream.in_flight import NOTE
from proxy.net.connection.own_commands import InternalClient
from proxy.net.replicas import replica_connections
from proxy.net.replicas.replica_history import Told
from proxy.net.replicas.watched_replicas import WatchedReplica
from tests.net.replica_stage import OK, VALUE, Connection, Stage
from tests.session.given import HOME, Client, Upstream, call

REFUSALS = [
    (b"-LOADING Redis is loading the dataset in memory\r\n", 1.0),
    (b"-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n", 1.0),
    (b"-BUSY Redis is busy running a script.\r\n", 1.0),
    (b"-NOAUTH Authentication required.\r\n", 30.0),
]


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


@pytest.mark.parametrize(
    "refusal",
    [
        b"-NOPERM this user has no permissions to run the 'get' command\r\n",
        b"-NOSCRIPT No matching script. Please use EVAL.\r\n",
    ],
    ids=["NOPERM", "NOSCRIPT"],
)
def test_a_command_that_a_replica_refuses_goes_to_the_primary_and_those_of_others_stay(refusal: bytes) -> None:
    stage = Stage()
    client, other = stage.client(), stage.client()
    while stage.reader_of(client) is not stage.reader_of(other):
        other = stage.client()
    replica = stage.reader_of(client)
    for number in (1, 2):
        client.say("GET", f"a:{number}")
        other.say("GET", f"a:{number}")
    stage.taken()
    replica.answer(refusal, VALUE)
    assert (replica.closed, other.heard(), client.heard()) == (False, VALUE, b"")
    assert stage.taken() == (call("GET", "a:1") + call("GET", "a:2"), b""), "the primary may answer newer"
    replica.answer(b"$3\r\nold\r\n", VALUE)
    assert (other.heard(), client.heard()) == (VALUE, b"")
    client.say("GET", "a:3")
    assert stage.taken()[1] == b""
    stage.route.upstream().answer(refusal, VALUE)
    assert client.heard() == refusal + VALUE
    stage.route.upstream().answer(VALUE)
    assert client.heard() == VALUE
    assert (client.gone, stage.readers.failed.total(), stage.readers.resent.total()) == (False, 0, 2)


def test_a_refused_question_of_keyrails_own_is_no_failure(stage: Stage) -> None:
    replica = stage.reader_of(stage.client())
    asked = InternalClient()
    replica.send_commands(asked, call("PING"))
    frames: list[bytes] = []
    replica.enqueue(asked, 1, NOTE, frames.append)
    replica.answer(b"-NOPERM this user has no permissions to run the 'ping' command\r\n")
    assert (replica.closed, len(frames)) == (False, 1)


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


@pytest.mark.parametrize("end", ["killed", "-LOADING Redis is loading the dataset in memory\r\n"])
def test_a_lost_connection_is_opened_again_for_clients_that_stay(end: str) -> None:
    stage = Stage()
    client = stage.client()
    lost = stage.reader_of(client)
    if end == "killed":
        stage.members[lost].lose()
    else:
        client.say("GET", "a:1")
        lost.answer(end.encode())
        stage.route.upstream().answer(VALUE)
    opened = len(stage.opening)
    for seconds, act in sorted(stage.later, key=lambda each: each[0]):
        stage.now = seconds
        act()
    client.say("GET", "a:1")
    assert len(stage.opening) == opened + 1


def test_nothing_is_kept_of_replicas_that_have_gone(stage: Stage) -> None:
    readers = stage.readers
    stage.client()
    for number in range(3, 30):
        replica = stage._replica(number)
        stage.replicas.append(replica)
        stage.look()
        stage.client()
        stage.members[readers_of(stage, replica)].lose()
        stage.connect(replica)
        stage.replicas.remove(replica)
        del stage.primary.replicas[replica.endpoint]
        readers.gone(replica.node)
    known = {replica.node for replica in stage.replicas}
    assert {node for node, _, _ in readers._slots} == known
    assert readers._open_slots.keys() == set(stage.members.values())
    assert {connection.key.node for connection in stage.members.values()} == known
    assert (readers.resent.keys() | readers.failed.keys()) <= known


def test_a_connection_that_is_open_when_its_replica_has_gone_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    (replica, _) = stage.replicas
    connection: Any = Connection(stage.readers, replica.node)

    async def opened(*_: object) -> Any:
        stage.readers.gone(replica.node)
        return SimpleNamespace(upstream=connection)

    async def nothing(*_: object) -> None:
        """It is set as it should be."""

    monkeypatch.setattr(replica_connections, "open_upstream", opened)
    monkeypatch.setattr(replica_connections, "set_to", nothing)
    connection.check = lambda: None
    slot = stage.readers._slots[replica.node, HOME.database, HOME.protocol]
    asyncio.run(stage.readers._open(slot, HOME._replace(node=replica.node)))
    assert connection.pipeline.closed


# Another replica is as good, or better


def test_a_client_leaves_a_replica_that_lags_for_one_that_does_not(stage: Stage) -> None:
    client = stage.client()
    left = stage.reader_of(client)
    stage.now += 0.5
    stage.look(200)
    stage.now += 1.5
    lagging = next(each for each in stage.replicas if stage.members[left].key.node is each.node)
    stage.look(300, lags={lagging: 100})
    for _ in range(2):
        client.say("GET", "a:1")
        assert stage.taken() == (call("GET", "a:1"), b"")
        stage.route.upstream().answer(VALUE)
    assert stage.reader_of(client) is not left
    stage.look(300, lags={lagging: 100})
    client.say("GET", "a:1")
    assert stage.taken() == (b"", call("GET", "a:1"))


def test_clients_of_a_replica_that_was_away_come_back_in_part() -> None:
    stage = Stage()
    clients = [stage.client() for _ in range(40)]
    replica = stage.replicas[0]
    stage.members[readers_of(stage, replica)].lose()
    for each in clients:
        read_at_the_primary(stage, each)
    assert len({stage.reader_of(each) for each in clients}) == 1
    stage.connect(replica)
    for each in clients:
        read_at_the_primary(stage, each)
    back = Counter(stage.reader_of(each) for each in clients)
    assert min(back.values()) >= 5
    assert len(back) == 2


def readers_of(stage: Stage, replica: WatchedReplica) -> Upstream:
    return next(each for each, connection in stage.members.items() if connection.key.node is replica.node)


def read_at_the_primary(stage: Stage, client: Client) -> None:
    """It looks for a replica anew, and reads wherever."""
    client.say("GET", "a:1")
    for upstream in (*stage.members, stage.route.upstream()):
        if upstream.owes(client.sender) or upstream.head is not None:
            upstream.answer(VALUE)
    client.heard()
