"""Scripts and WATCH before a real cluster: what has run is never sent again, whatever a script returns; a promoted node
knows the scripts, and nothing runs there that has watched the old one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha1
from itertools import count

import pytest

from proxy.commands.slots import slot_of
from tests.cluster.node_ports import NodePorts
from tests.cluster.nodes import RealCluster
from tests.keyrail_process import Keyrail
from tests.resp import Closed, Wire, eventually

RETURNED = "redis.call('incr', KEYS[1]); return redis.error_reply(ARGV[1])"
RAISED = "redis.call('incr', KEYS[1]); error({err = ARGV[1]})"
KEPT = "redis.call('incr', KEYS[1]); return {err = ARGV[1]}"
LIBRARY = f"#!lua name=keyrail_own_errors\nredis.register_function('own_error', function(KEYS, ARGV) {RETURNED} end)"
_NUMBERS = count()


@pytest.fixture(scope="module")
def keyrail(cluster: RealCluster) -> Iterator[Keyrail]:
    """Keyrail before the cluster that the tests of this file share."""
    cluster.nodes[0].do("PING")
    for node in cluster.nodes[:3]:
        node.do("FUNCTION", "LOAD", "REPLACE", LIBRARY)
        node.do("ACL", "SETUSER", "scripter", "on", ">secret", "~*", "&*", "+@all", "-multi")
    running = Keyrail(f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}")
    eventually(lambda: running.http("/readyz")[0] == 200)
    yield running
    running.close()


def own_errors(cluster: RealCluster, key: str) -> list[str]:
    """Errors that read as those of a node: the very ones that it could send for this key, and others."""
    slot, ports = slot_of(key.encode()), [node.port for node in cluster.nodes[:3]]
    names = [f"{word} {slot} 127.0.0.1:{port}" for word in ("MOVED", "ASK") for port in ports]
    return [*names, "MOVED 1 h:1", "TRYAGAIN own", "CLUSTERDOWN own", "REDIRECT 127.0.0.1:1", "EXECABORT own"]


@pytest.mark.parametrize("way", [RETURNED, RAISED, KEPT, "function"])
@pytest.mark.parametrize("user", ["", "scripter"])
def test_an_error_of_its_own_is_no_reason_to_run_it_again(
    cluster: RealCluster, keyrail: Keyrail, way: str, user: str
) -> None:
    ports = NodePorts(cluster)
    with keyrail.wire() as wire:
        if user:
            assert wire.ask("AUTH", user, "secret") == b"+OK\r\n"
        for key in ("a", "b", "c"):
            for error in own_errors(cluster, key):
                counted = f"{{{key}}}:{next(_NUMBERS)}"
                script = ("FCALL", "own_error") if way == "function" else ("EVAL", way)
                reply = wire.ask(*script, 1, counted, error)
                assert reply.startswith(b"-"), (error, reply)
                assert not ports.told_by(reply), reply
                assert not reply.startswith((b"-MOVED", b"-ASK"))
                assert wire.ask("GET", counted) == b"$1\r\n1\r\n", (error, reply)


NUMBERED = "return {number}"


def sha_of(text: str) -> str:
    return sha1(text.encode(), usedforsecurity=False).hexdigest()


def test_a_promoted_node_knows_the_scripts(cluster: RealCluster, keyrail: Keyrail) -> None:
    run, loaded, refused = (NUMBERED.format(number=number) for number in range(3))
    with keyrail.wire() as wire:
        assert wire.ask("EVAL", run, 1, "a") == b":0\r\n"
        assert wire.ask("SCRIPT", "LOAD", loaded) == b"$40\r\n%b\r\n" % sha_of(loaded).encode()
        assert wire.ask("EVAL", refused + " (", 1, "a").startswith(b"-ERR")
        cluster.failover(cluster.nodes[5])
        assert wire.ask("EVALSHA", sha_of(run), 1, "a") == b":0\r\n"
        assert wire.ask("EVALSHA", sha_of(loaded), 1, "a") == b":1\r\n"
        for number in (1, 2):
            assert cluster.nodes[number].do("SCRIPT", "EXISTS", sha_of(refused)) == [0]
        assert wire.ask("SCRIPT", "FLUSH") == b"+OK\r\n"
        cluster.settle()
        cluster.failover(cluster.nodes[2])
        assert wire.ask("EVALSHA", sha_of(loaded), 1, "a").startswith(b"-NOSCRIPT")
    cluster.settle()


def absent_key(tag: str) -> str:
    return f"{{{tag}}}:{next(_NUMBERS)}"


def run(wire: Wire, key: str) -> bytes:
    return wire.ask("EVAL", "return redis.call('incr', KEYS[1])", 1, key)


def test_scripts_follow_a_slot_that_moves(cluster: RealCluster, keyrail: Keyrail) -> None:
    slot = slot_of(b"moved")
    source = cluster.owner(slot)
    target = next(each for each in cluster.primaries() if each is not source)
    with keyrail.wire() as wire:
        there = absent_key("moved")
        assert run(wire, there) == b":1\r\n"
        cluster.open_slot(slot, source, target)
        assert run(wire, there) == b":2\r\n", "the key is at the source"
        absent = absent_key("moved")
        assert run(wire, absent) == b":1\r\n", "ASK"
        assert run(wire, absent) == b":2\r\n"
        cluster.move_keys(slot, source, target)
        assert run(wire, there) == b":3\r\n", "ASK"
        cluster.close_slot(slot, target)
        assert run(wire, there) == b":4\r\n", "MOVED"
        assert wire.ask("EVALSHA", "0" * 40, 1, there).startswith(b"-NOSCRIPT")
        assert wire.ask("EVAL", "return {KEYS[1], {1, ARGV[1]}}", 1, there, "x" * 100_000).endswith(b"x" * 9 + b"\r\n")
    cluster.settle()


@pytest.mark.parametrize("key", ["a", "b", "c"])
def test_a_script_without_keys_leaves_its_transaction_free_for_the_node_of_the_first_key(
    cluster: RealCluster, keyrail: Keyrail, key: str
) -> None:
    with keyrail.wire() as wire:
        assert wire.ask("MULTI") == b"+OK\r\n"
        for line in ("EVAL return(7) 0", "FCALL no_such 0", "UNWATCH", "WAIT 0 1", f"SET {key} 1"):
            assert wire.ask(*line.split()) == b"+QUEUED\r\n"
        reply = wire.ask("EXEC")
        assert reply.startswith(b"*5\r\n:7\r\n-ERR Function not found\r\n+OK\r\n:")
        assert reply.endswith(b"+OK\r\n")


def test_a_new_worker_has_the_scripts_that_others_have_seen(
    cluster_name: str, new_cluster: Callable[..., RealCluster], new_keyrail: Callable[..., Keyrail]
) -> None:
    cluster = new_cluster(cluster_name)
    keyrail = new_keyrail(f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}")
    eventually(lambda: keyrail.http("/readyz")[0] == 200)
    script = "return redis.call('exists', KEYS[1])"
    with keyrail.wire() as wire:
        assert wire.ask("EVAL", script, 1, "a") == b":0\r\n"
    keyrail.replace_worker()
    eventually(lambda: keyrail.http("/readyz")[0] == 200)
    cluster.failover(cluster.nodes[5])

    def answer() -> bytes:
        with keyrail.wire() as wire:
            return wire.ask("EVALSHA", sha_of(script), 1, "a")

    eventually(lambda: not answer().startswith(b"-CLUSTERDOWN"))
    assert answer() == b":0\r\n"


def transaction(wire: Wire, *commands: bytes) -> list[bytes]:
    """The replies to these commands in a transaction; empty if the connection is closed before."""
    try:
        wire.send(b"MULTI\r\n" + b"".join(command + b"\r\n" for command in commands) + b"EXEC\r\n")
        return wire.frames(2 + len(commands))
    except (Closed, OSError):
        return []


def test_what_watched_a_demoted_primary_is_closed_and_does_not_run(cluster: RealCluster, keyrail: Keyrail) -> None:
    idle, elsewhere, *busy = [keyrail.wire() for _ in range(5)]
    with keyrail.wire() as other:
        assert other.ask("SET", "c", "old") == b"+OK\r\n"
        assert elsewhere.ask("WATCH", "b") == b"+OK\r\n"
        for wire in (idle, *busy):
            assert wire.ask("WATCH", "c") == b"+OK\r\n"
        cluster.failover(cluster.nodes[4])
        at_once = transaction(busy[0], b"SET c stale", b"PING")
        assert other.ask("SET", "c", "new") == b"+OK\r\n"
        outcomes = [at_once, *(transaction(wire, b"SET c stale", b"PING") for wire in busy[1:])]
        for outcome in outcomes:
            assert not outcome or outcome[-1].startswith((b"*-1", b"-EXECABORT", b"-CLUSTERDOWN")), outcome
        assert other.ask("GET", "c") == b"$3\r\nnew\r\n"
        assert idle.remaining() == []
        assert transaction(elsewhere, b"SET b x", b"PING")[-1] == b"*2\r\n+OK\r\n+PONG\r\n"
    cluster.settle()
