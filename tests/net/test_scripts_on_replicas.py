"""Read-only scripts of one client on replicas: only those that the primary knows, too, and no error of theirs counts as
one of the server."""

from __future__ import annotations

from hashlib import sha1

import pytest

from proxy.commands.table import Lane
from tests.net.replica_stage import OK, VALUE, Stage
from tests.session.given import Client, Upstream, call

TEXT = "return redis.call('GET', KEYS[1])"
SHA = sha1(TEXT.encode(), usedforsecurity=False).hexdigest()
LOADED = b"$40\r\n%s\r\n" % SHA.encode()


def slow(stage: Stage) -> Upstream:
    """The primary's connection for commands that may take long."""
    return stage.route.upstream(lane=Lane.SLOW)


def known(stage: Stage) -> Client:
    """A client that has run the script at the primary."""
    client = stage.client()
    client.say("EVAL_RO", TEXT, 1, "a:1")
    assert stage.taken() == (call("EVAL_RO", TEXT, 1, "a:1"), b""), "the primary has to know it, too"
    slow(stage).answer(VALUE)
    assert client.heard() == VALUE
    stage.look(200)
    return client


def test_a_script_that_the_primary_knows_runs_on_a_replica(stage: Stage) -> None:
    client = known(stage)
    for number in range(2):
        client.say("EVAL_RO", TEXT, 1, f"a:{number}")
        assert stage.taken() == (b"", call("EVAL_RO", TEXT, 1, f"a:{number}"))
        stage.reader_of(client).answer(VALUE)
        assert client.heard() == VALUE
    client.say("GET", "a:1")
    assert stage.taken() == (b"", call("GET", "a:1"))


def test_the_primary_knows_also_the_first_command_of_a_client(stage: Stage) -> None:
    client = Client(stage.route)
    for _ in range(2):
        client.say("EVAL_RO", TEXT, 1, "a:1")
        assert stage.taken() == (call("EVAL_RO", TEXT, 1, "a:1"), b"")
        slow(stage).answer(VALUE)


def test_one_that_is_called_by_its_sha1_is_loaded_there_first(stage: Stage) -> None:
    client = known(stage)
    for before in (call("SCRIPT", "LOAD", TEXT), b""):
        client.say("EVALSHA_RO", SHA.upper(), 1, "a:1")
        assert stage.taken() == (b"", before + call("EVALSHA_RO", SHA.upper(), 1, "a:1"))
        stage.reader_of(client).answer(*([LOADED] if before else []), VALUE)
        assert client.heard() == VALUE


def test_one_that_nobody_has_seen_is_called_at_the_primary(stage: Stage) -> None:
    client = stage.client()
    client.say("EVALSHA_RO", SHA, 1, "a:1")
    assert stage.taken() == (call("EVALSHA_RO", SHA, 1, "a:1"), b"")


def test_such_a_call_is_none_that_a_replica_answers(stage: Stage) -> None:
    client = stage.client()
    group = stage.primary.group
    before = group.moved, group.behind, group.unfit
    client.say("EVALSHA_RO", SHA, 1, "a:1")
    assert stage.taken() == (call("EVALSHA_RO", SHA, 1, "a:1"), b"")
    assert (group.moved, group.behind, group.unfit) == before


def test_a_replica_that_takes_no_scripts_is_asked_once(stage: Stage) -> None:
    client = known(stage)
    client.say("EVALSHA_RO", SHA, 1, "a:1")
    stage.taken()
    stage.reader_of(client).answer(b"-NOPERM no SCRIPT\r\n", b"-NOSCRIPT No matching script. Please use EVAL.\r\n")
    assert stage.taken()[0] == call("EVALSHA_RO", SHA, 1, "a:1")
    slow(stage).answer(VALUE)
    assert client.heard() == VALUE
    stage.look(300)
    client.say("EVALSHA_RO", SHA, 1, "a:1")
    assert stage.taken() == (call("EVALSHA_RO", SHA, 1, "a:1"), b"")


def test_what_is_flushed_is_not_known(stage: Stage) -> None:
    client = known(stage)
    client.say("SCRIPT", "FLUSH")
    slow(stage).answer(OK)
    client.heard()
    stage.look(300)
    stage.taken()
    client.say("EVAL_RO", TEXT, 1, "a:1")
    assert stage.taken() == (call("EVAL_RO", TEXT, 1, "a:1"), b"")


def test_another_primary_knows_no_script(stage: Stage) -> None:
    client = known(stage)
    stage.readers.moved()
    client.say("EVAL_RO", TEXT, 1, "a:1")
    assert stage.taken() == (call("EVAL_RO", TEXT, 1, "a:1"), b"")


@pytest.mark.parametrize(
    "words",
    [
        ("EVAL_RO", TEXT, 1, "x"),
        ("EVAL_RO", TEXT, 2, "a:1", "x"),
        ("EVAL_RO", TEXT, 0),
        ("EVAL_RO", TEXT, 9, "a:1"),
        ("EVAL_RO", TEXT, "x", "a:1"),
        ("EVAL", TEXT, 1, "a:1"),
        ("EVALSHA", SHA, 1, "a:1"),
        ("FCALL", "f", 1, "a:1"),
    ],
    ids=lambda words: " ".join(map(str, (words[0], *words[2:]))),
)
def test_others_run_at_the_primary(stage: Stage, words: tuple[str | int, ...]) -> None:
    client = known(stage)
    client.say(*words)
    assert stage.taken() == (call(*words), b"")


def test_functions_run_on_replicas(stage: Stage) -> None:
    client = stage.client()
    client.say("FCALL_RO", "f", 1, "a:1")
    assert stage.taken() == (b"", call("FCALL_RO", "f", 1, "a:1"))


@pytest.mark.parametrize("error", [b"-LOADING x\r\n", b"-MASTERDOWN x\r\n", b"-BUSY x\r\n", b"-NOAUTH x\r\n"])
def test_an_error_of_a_script_says_nothing_of_the_replica(stage: Stage, error: bytes) -> None:
    client = stage.client()
    client.say("FCALL_RO", "f", 1, "a:1")
    stage.taken()
    replica = stage.reader_of(client)
    replica.answer(error)
    assert not replica.closed
    assert stage.taken() == (call("FCALL_RO", "f", 1, "a:1"), b"")
    slow(stage).answer(error)
    assert client.heard() == error


def test_what_a_script_owed_is_asked_of_the_primary_when_its_replica_is_lost(stage: Stage) -> None:
    client = known(stage)
    client.say("EVALSHA_RO", SHA, 1, "a:1")
    stage.taken()
    stage.members[stage.reader_of(client)].lose()
    assert stage.taken()[0] == call("EVALSHA_RO", SHA, 1, "a:1")
    slow(stage).answer(VALUE)
    assert client.heard() == VALUE


def test_reads_that_take_long_run_on_replicas_too(stage: Stage) -> None:
    client = stage.client()
    client.say("SUNION", "a:1", "a:2")
    assert stage.taken() == (b"", call("SUNION", "a:1", "a:2"))
    stage.reader_of(client).answer(b"*0\r\n")
    client.say("GET", "a:1")
    assert stage.taken() == (b"", call("GET", "a:1"))
