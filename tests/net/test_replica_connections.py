"""Reads of one client from replicas: from where it reads, and what it has seen meanwhile."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest

from proxy.commands.table import STANDARD
from proxy.net.policy.policy_generation import tells_no_keys
from proxy.net.pool.connection_set import ConnectionSet
from proxy.session.state import Awaited
from tests.net.replica_stage import OK, RULES, VALUE, Stage
from tests.policy.given import policy
from tests.session.given import HOME, call


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
    stage.route.upstream()  # it is there now
    client.send(call("GET", "a:1") + call("GET", "a:2"))
    assert stage.taken() == (b"", call("GET", "a:1") + call("GET", "a:2"))


@pytest.mark.parametrize("end", ["lost", "retired"])
def test_it_does_so_when_the_connection_to_the_primary_is_another_one(end: str) -> None:
    stage = Stage()
    client = stage.client()
    before = stage.route.upstream()
    before.usable, before.closed = False, end == "lost"
    stage.route.pools.clear()
    stage.route.upstream()
    client.say("GET", "a:1")
    stage.reader_of(client).answer(VALUE)
    stage.taken()
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


# What the client has read elsewhere


def test_a_read_of_the_primary_outside_the_rules_is_newer_than_what_the_replica_may_have(stage: Stage) -> None:
    client = stage.client()
    client.say("GET", "current")
    stage.route.upstream().answer(b"$2\r\n42\r\n")
    stage.taken()
    client.say("GET", "a:42")
    assert stage.taken() == (call("GET", "a:42"), b"")
    stage.route.upstream().answer(VALUE)
    stage.look(200)
    client.say("GET", "a:42")
    assert stage.taken() == (b"", call("GET", "a:42"))


def test_such_a_read_waits_for_reads_of_a_replica_that_are_pending(stage: Stage) -> None:
    # Else Redis could run it first, and the client would see it behind what is newer.
    client = stage.client()
    client.send(call("GET", "a:1") + call("GET", "current") + call("GET", "a:2"))
    assert stage.taken() == (b"", call("GET", "a:1"))
    stage.reader_of(client).answer(VALUE)
    assert stage.taken() == (call("GET", "current") + call("GET", "a:2"), b"")
    stage.route.upstream().answer(VALUE, VALUE)
    assert client.heard() == 3 * VALUE


def test_what_a_rule_has_asked_the_primary_and_told_is_newer_than_what_the_replica_may_have() -> None:
    stage = Stage(rules=RULES + "  walk: {keys_by_scan: {}, mode: enforce}\n")
    client = stage.client()
    client.say("KEYS", "a:*")
    _, _, answered = stage.route.asked.pop()
    answered([b"*2\r\n$1\r\n0\r\n*1\r\n$4\r\na:42\r\n"])
    assert client.heard() == b"*1\r\n$4\r\na:42\r\n"
    client.say("GET", "a:42")
    assert stage.taken() == (call("GET", "a:42"), b""), "its replica may not have the key yet"
    stage.route.upstream().answer(VALUE)
    stage.look(200)
    client.say("GET", "a:42")
    assert stage.taken() == (b"", call("GET", "a:42"))


@pytest.mark.parametrize(
    ("text", "tells"),
    [
        ("FT.SEARCH idx *", True),
        ("FT.AGGREGATE idx *", True),
        ("TS.MGET FILTER a=b", True),
        ("CLUSTER GETKEYSINSLOT 1 10", True),
        ("CLUSTER COUNTKEYSINSLOT 1", True),
        ("CLUSTER SLOT-STATS SLOTSRANGE 1 1", True),
        ("RANDOMKEY", True),
        ("DBSIZE", True),
        ("PING", False),
        ("TIME", False),
        ("CLUSTER KEYSLOT a", False),
    ],
)
def test_so_is_what_tells_of_keys_that_it_does_not_name(stage: Stage, text: str, tells: bool) -> None:
    client = stage.client()
    client.intake.config.beside = bytes(map(tells_no_keys, STANDARD.specs))
    client.say(*text.split())
    assert stage.taken() == (call(*text.split()), b"")
    for upstream in stage.route.pools.values():
        upstream.answer(*[VALUE] * sum(entry.due for entry in upstream.entries()))
    assert client.heard() == VALUE
    client.say("GET", "a:1")
    assert bool(stage.taken()[0]) is tells


@pytest.mark.parametrize(
    ("words", "moves"),
    [
        (("SORT_RO", "a:1"), True),
        (("SORT_RO", "a:1", "LIMIT", 0, 5, "ALPHA"), True),
        (("SORT_RO", "a:1", "BY", "x:*"), False),
        (("SORT_RO", "a:1", "get", "y:*"), False),
        (("SORT_RO", "x:1"), False),
    ],
    ids=str,
)
def test_keys_that_a_command_finds_by_patterns_are_none_of_the_rules(
    stage: Stage, words: tuple[str | int, ...], moves: bool
) -> None:
    client = stage.client()
    client.say(*words)
    assert stage.taken() == ((b"", call(*words)) if moves else (call(*words), b""))


@pytest.mark.parametrize(
    "others", ["", '  other: {replica_reads: {keys: ["b:*"]}, mode: enforce}\n'], ids=["no rule", "another rule"]
)
def test_a_read_that_waits_is_the_primarys_under_a_policy_that_leaves_it_there(stage: Stage, others: str) -> None:
    client = stage.client()
    client.say("SET", "a:1", "v")
    stage.route.upstream().answer(OK)
    stage.taken()
    stage.route.starving = True
    stage.route.upstream().usable = False
    client.say("GET", "a:1")
    assert len(stage.route.waiting) == 1
    stage.route.put_in_force(policy(RULES.replace("enforce", "audit") + others))
    client.adopt()
    stage.look(200)
    stage.route.upstream().usable = True
    stage.route.feed()
    assert stage.taken() == (call("GET", "a:1"), b"")
