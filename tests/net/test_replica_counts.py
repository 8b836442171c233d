"""Which reads count as moved to replicas."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from proxy.session.commands import switching
from tests.net.replica_stage import OK, VALUE, Stage
from tests.session.given import HOME, Client, call


def counted(client: Client) -> int:
    """How many reads the rule has moved, or would have, by the plan and by the rules themselves."""
    plan = client.intake.config.plan
    assert plan.replica_reads is not None
    judged = sum(what == "moved" for _, _, what in client.route.hits)
    return judged + sum(plan.changed[counter] for counter in plan.replica_reads.counters)


def test_a_read_is_counted_once_although_it_waits(stage: Stage) -> None:
    client = stage.client()
    before, keys = counted(client), client.intake.config.counters.total
    client.send(call("GET", "a:1"))
    stage.now += 2.0  # nobody knows any more how old the replicas are
    client.send(call("GET", "a:2") + call("MGET", "a:3", "x"))
    stage.taken()
    stage.reader_of(client).answer(VALUE)
    stage.route.upstream().answer(VALUE, b"*2\r\n$-1\r\n$-1\r\n")
    assert client.heard() == 2 * VALUE + b"*2\r\n$-1\r\n$-1\r\n"
    assert counted(client) - before == 2
    assert client.intake.config.counters.total - keys == 4


@pytest.mark.parametrize("mode", ["enforce", "audit"])
@pytest.mark.parametrize("traces", [0, 1], ids=["runs", "traced"])
def test_reads_that_no_replica_may_answer_are_not_counted(mode: str, traces: int) -> None:
    stage = Stage(traces, mode)
    client = Client(stage.route)
    before = counted(client)
    client.say("GET", "a:0")
    for upstream in (*stage.members, stage.route.upstream()):
        upstream.answer(*[VALUE] * sum(entry.due for entry in upstream.entries()))
    client.say("WATCH", "a:1")
    client.own.answer(OK)
    client.say("GET", "a:1")
    client.own.answer(VALUE)
    client.send(call("MULTI") + call("GET", "a:1") + call("EXEC"))
    assert client.own.taken().endswith(call("EXEC"))
    assert counted(client) - before == 1


def test_a_transaction_that_shares_a_connection_reads_from_the_primary_and_is_not_counted(stage: Stage) -> None:
    client = stage.client()
    before = counted(client)
    client.send(call("MULTI") + call("GET", "a:1") + call("GET", "a:2") + call("EXEC"))
    assert stage.taken() == (call("MULTI") + call("GET", "a:1") + call("GET", "a:2") + call("EXEC"), b"")
    assert counted(client) == before


def test_reads_of_users_of_their_own_are_the_primarys_and_not_counted() -> None:
    stage = Stage()
    client = stage.client()
    before = counted(client)
    switching.move(client, HOME._replace(user="else"))
    client.say("GET", "a:1")
    assert stage.taken()[1] == b""
    assert counted(client) == before


def answer_all(stage: Stage) -> None:
    """Each upstream answers what it owes, again and again."""
    upstreams = [*stage.members, *stage.route.pools.values(), *stage.route.lent]
    while any(upstream.head is not None for upstream in upstreams):
        for upstream in upstreams:
            upstream.answer(*[VALUE] * sum(entry.due for entry in upstream.entries()))


def say_all(stage: Stage, client: Client, *commands: str) -> None:
    for command in commands:
        client.say(*command.split())
        answer_all(stage)


def reads_as_anybody(stage: Stage, client: Client) -> None:
    say_all(stage, client, "GET a:1", "MGET a:1 a:2", "GET x", "MGET a:1 x")


def reads_far_from_replicas(stage: Stage, client: Client) -> None:
    say_all(stage, client, "GET a:1")
    stage.now += 9.0
    say_all(stage, client, "GET a:1", "GET a:2")


def reads_behind_a_write(stage: Stage, client: Client) -> None:
    say_all(stage, client, "GET a:1", "SET a:1 v", "GET a:1", "GET a:2")


def reads_as_a_user_of_its_own(stage: Stage, client: Client) -> None:
    switching.move(client, HOME._replace(user="else"))
    stage.route.upstream(client.key)
    say_all(stage, client, "GET a:1", "GET a:2", "GET a:3")


def becomes_a_user_of_its_own(stage: Stage, client: Client) -> None:
    say_all(stage, client, "GET a:1", "GET a:2")
    reads_as_a_user_of_its_own(stage, client)


def watches(stage: Stage, client: Client) -> None:
    say_all(stage, client, "GET a:1", "WATCH a:1", "GET a:1", "GET a:2")


KINDS = [
    reads_as_anybody,
    reads_far_from_replicas,
    reads_behind_a_write,
    reads_as_a_user_of_its_own,
    becomes_a_user_of_its_own,
    watches,
]


def all_counts(traces: int, mode: str, reads: Callable[[Stage, Client], None], *, pooling: bool) -> dict[str, int]:
    """What is counted of a client's reads, by rules and by replicas."""
    stage = Stage(traces, mode, pooling=pooling)
    client = Client(stage.route)
    before = counted(client)
    reads(stage, client)
    assert not client.gone
    group = stage.primary.group
    moved_keys = sum(each.moved for each in client.intake.config.counters.harvest(9).key_counts)
    return {
        "rule": counted(client) - before,
        "moved": group.moved,
        "behind": group.behind,
        "unfit": group.unfit,
        "moved keys": moved_keys,
    }


@pytest.mark.parametrize("mode", ["enforce", "audit"])
@pytest.mark.parametrize("pooling", [True, False], ids=["shared", "alone"])
@pytest.mark.parametrize("reads", KINDS)
def test_a_trace_of_a_read_changes_nothing_that_is_counted(
    reads: Callable[[Stage, Client], None], mode: str, *, pooling: bool
) -> None:
    plain, traced = (all_counts(traces, mode, reads, pooling=pooling) for traces in (0, 1))
    assert traced == plain
    if mode == "enforce" and pooling and reads is not reads_as_a_user_of_its_own:
        assert plain["rule"] > 0
    if not pooling or reads is reads_as_a_user_of_its_own:
        assert set(plain.values()) == {0}, "no replica may answer, and none is lacking"


def test_of_each_key_it_is_known_how_many_reads_replicas_answer(stage: Stage) -> None:
    client = stage.client()
    counters = client.intake.config.counters
    counters.harvest(0)
    reads = [("GET", "a:1"), ("GET", "a:1"), ("MGET", "a:1", "a:2"), ("GET", "x"), ("GET", "a:1")]
    for words in (*reads, ("SET", "a:2", "v")):
        client.say(*words)
        for upstream in (*stage.members, stage.route.upstream()):
            if upstream.head is not None:
                upstream.answer(OK)
    uses = {each.key: (each.reads, each.moved) for each in counters.harvest(9).key_counts}
    assert uses == {b"a:1": (4, 3), b"a:2": (1, 1), b"x": (1, 0)}


def test_it_is_told_that_reads_cannot_be_moved_while_rules_would_move_some() -> None:
    assert Stage().readers.off == []
    stage = Stage(pooling=False)
    (told,) = stage.readers.off
    assert "--pooling off" in told
    stage.policies.moves_reads = False
    assert stage.readers.off == []
