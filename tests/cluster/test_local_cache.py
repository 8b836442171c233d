"""Reads of a cluster that are answered from memory.

Proves: reads of keys of all nodes are, and reads of several keys over slots; replies keep their order, however many
nodes send them, and each client reads its own writes. A client that never waits keeps nobody from reading from memory.
What a transaction changes is seen once EXEC is answered, also if its first commands had no node. Missing keys and keys
of slots that are open are read from Redis. A slot that moves is read from memory again, from its new node.
"""

from __future__ import annotations

import contextlib
import random
import select
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from proxy.cli import main
from proxy.commands.slots import slot_of
from tests.cluster.nodes import RealCluster
from tests.conftest import rest_is_long
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Wire, eventually, pack
from tests.server.running import serve

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay has no cache")
POLICY = """
keyrail: 1
cross_slot: split
rules:
  cached: {local_cache: {keys: ["*"], when: always, max_age: 60s}, mode: enforce}
"""
KINDS = (*["get"] * 6, "mget", "mget", "set", "del", "incr", "exec", "ping")
KEYS = [f"k{number}" for number in range(12)]


@pytest.fixture
def keyrail(cluster: RealCluster, tmp_path: Path, new_keyrail: Callable[..., Keyrail]) -> Keyrail:
    """With one worker, so that all clients use the same memory."""
    file = tmp_path / "cached.yaml"
    file.write_text(POLICY)
    for node in cluster.primaries():
        node.do("FLUSHALL")
    running = new_keyrail(f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}", policy=file, workers=1)
    assert {cluster.owner(slot_of(key.encode())) for key in KEYS} == set(cluster.primaries())
    return running


@pytest.fixture
def wire(keyrail: Keyrail) -> Iterator[Wire]:
    with keyrail.wire() as wire:
        yield wire


def calls(cluster: RealCluster, command: str) -> int:
    return sum(node.calls(command) for node in cluster.primaries())


def from_memory(cluster: RealCluster, wire: Wire, *words: str) -> bool:
    """Whether a read is answered without Redis."""
    before = calls(cluster, words[0])
    wire.ask(*words)
    return calls(cluster, words[0]) == before


def warm(cluster: RealCluster, wire: Wire, *words: str) -> bytes:
    """The reply to a read that memory has."""
    eventually(lambda: from_memory(cluster, wire, *words))
    return wire.ask(*words)


def hits(keyrail: Keyrail) -> float:
    return keyrail.metric("keyrail_local_cache_hits_total", mode="enforce")


def pipelined(wire: Wire, *commands: tuple[str, ...]) -> list[bytes]:
    wire.send(b"".join(pack(*words) for words in commands))
    return wire.frames(len(commands))


def bulk(value: str | None) -> bytes:
    return b"$-1\r\n" if value is None else f"${len(value)}\r\n{value}\r\n".encode()


def array(values: list[bytes]) -> bytes:
    return b"*%d\r\n%b" % (len(values), b"".join(values))


def test_keys_of_all_nodes_are_read_from_memory(cluster: RealCluster, wire: Wire) -> None:
    for key in KEYS:
        wire.ask("SET", key, f"v-{key}")
        assert warm(cluster, wire, "GET", key) == bulk(f"v-{key}")
    assert warm(cluster, wire, "MGET", *KEYS) == array([bulk(f"v-{key}") for key in KEYS])
    assert pipelined(wire, ("MSET", "k0", "a", "k1", "b"), ("MGET", "k1", "k0")) == [
        b"+OK\r\n",
        array([bulk("b"), bulk("a")]),
    ]


@pytest.mark.parametrize("seed", rest_is_long("1", "2", "3"))
def test_replies_keep_their_order_and_show_what_was_written(cluster: RealCluster, keyrail: Keyrail, seed: str) -> None:
    chance, truth = random.Random(seed), dict[str, str | None]()
    with ExitStack() as stack:
        wires = [stack.enter_context(keyrail.wire()) for _ in range(3)]
        for key in KEYS:
            truth[key] = f"v-{key}"
            wires[0].ask("SET", key, f"v-{key}")
            warm(cluster, wires[0], "GET", key)
        for number in range(10_000):
            if number >= 150 and number % 50 == 0 and hits(keyrail) > 30:
                break
            commands: list[tuple[str, ...]] = []
            expected: list[bytes] = []
            for place in range(chance.choice((1, 2, 5, 20))):
                key, value = chance.choice(KEYS), f"{number}.{place}"
                several = chance.sample(KEYS, 3)
                match chance.choice(KINDS):
                    case "get":
                        commands.append(("GET", key))
                        expected.append(bulk(truth[key]))
                    case "mget":
                        commands.append(("MGET", *several))
                        expected.append(array([bulk(truth[each]) for each in several]))
                    case "set":
                        commands.append(("SET", key, value))
                        expected.append(b"+OK\r\n")
                        truth[key] = value
                    case "del":
                        commands.append(("DEL", *several))
                        expected.append(b":%d\r\n" % sum(truth[each] is not None for each in several))
                        truth |= dict.fromkeys(several)
                    case "incr":
                        commands.append(("APPEND", key, "+"))
                        truth[key] = (truth[key] or "") + "+"
                        expected.append(b":%d\r\n" % len(truth[key] or ""))
                    case "exec":
                        commands += [("MULTI",), ("PING",), ("SET", key, value), ("GET", key), ("EXEC",)]
                        truth[key] = value
                        done = array([b"+PONG\r\n", b"+OK\r\n", bulk(value)])
                        expected += [b"+OK\r\n", *[b"+QUEUED\r\n"] * 3, done]
                    case _:
                        commands.append(("PING",))
                        expected.append(b"+PONG\r\n")
            assert pipelined(chance.choice(wires), *commands) == expected, commands
        assert hits(keyrail) > 30


def may_have_moved(since: float) -> bool:
    """Whether the machine was so busy that a read behind a pause may have moved to another connection."""
    return time.monotonic() - since > 0.25


@pytest.mark.parametrize("by", ["UNLINK", "MSET", "SET"])
def test_a_write_that_may_still_run_holds_its_key(cluster: RealCluster, keyrail: Keyrail, wire: Wire, by: str) -> None:
    """The other commands of its pipeline, or other parts of it, have been answered by another node."""
    for key in KEYS:
        wire.ask("SET", key, "old")
    late = cluster.owner(slot_of(KEYS[0].encode()))
    soon = next(key for key in KEYS if cluster.owner(slot_of(key.encode())) is not late)
    beside = next(key for key in KEYS[1:] if cluster.owner(slot_of(key.encode())) is late)
    value = None if by == "UNLINK" else "new"
    writes: dict[str, list[tuple[str, ...]]] = {
        "UNLINK": [("UNLINK", soon, KEYS[0])],
        "MSET": [("MSET", soon, "new", KEYS[0], "new")],
        "SET": [*[("SET", soon, "new")] * 3, ("SET", KEYS[0], "new")],
    }
    request = b"".join(pack(*words) for words in writes[by])
    with contextlib.ExitStack() as ends:
        third, *others = [ends.enter_context(keyrail.wire()) for _ in range(4)]
        for _ in range(2):
            wire.ask("SET", KEYS[0], "old")
            warm(cluster, others[0], "GET", KEYS[0])
            late.do("CLIENT", "PAUSE", 60_000, "WRITE")
            since = time.monotonic()
            try:
                wire.send(request)
                eventually(lambda: third.ask("GET", soon) == bulk(value))
                for other in others:
                    warm(cluster, third, "GET", beside)  # now and then memory would not answer in any case
                    other.send(pack("GET", KEYS[0]))
                    for _ in range(20):
                        third.ask("GET", soon)
                answered = select.select([other.socket for other in others], [], [], 0)[0]
                assert not answered or may_have_moved(since), "Redis would answer it behind the write"
            finally:
                late.do("CLIENT", "UNPAUSE")
            assert not any(reply.startswith(b"-") for reply in wire.frames(len(writes[by])))
            allowed = {bulk(value), bulk("old")} if may_have_moved(since) else {bulk(value)}
            assert {other.frame() for other in others} <= allowed
            assert pipelined(wire, ("GET", KEYS[0]), ("GET", soon)) == [bulk(value)] * 2
            wire.ask("SET", soon, "old")


def test_a_client_that_never_waits_holds_no_key_for_ever(cluster: RealCluster, keyrail: Keyrail, wire: Wire) -> None:
    """Its replies come from several nodes all the time."""
    for key in KEYS:
        wire.ask("SET", key, "v")
    with keyrail.wire() as busy:
        request = b"".join(pack("APPEND", key, "") for key in KEYS[1:]) + pack("STRLEN", "k0")
        busy.send(pack("EVAL", "return redis.call('get', KEYS[1])", 1, "k0") + request)
        for number in range(1000):
            busy.send(request)
            busy.frames(len(KEYS))
            if number % 20 == 0 and from_memory(cluster, wire, "GET", "k0"):
                return
    pytest.fail("it was never answered from memory")


def test_what_a_transaction_changes_is_seen_once_it_has_run(cluster: RealCluster, keyrail: Keyrail, wire: Wire) -> None:
    """MULTI and commands without keys are kept until a key tells the node."""
    wire.ask("SET", "k1", "first")
    with keyrail.wire() as other:
        for number in range(10):
            value = f"new-{number}"
            old = warm(cluster, other, "GET", "k1")
            assert pipelined(wire, ("MULTI",), ("PING",), ("SET", "k1", value)) == [b"+OK\r\n", *[b"+QUEUED\r\n"] * 2]
            assert other.ask("GET", "k1") == old
            wire.ask("EXEC")
            assert wire.ask("GET", "k1") == bulk(value)
            assert other.ask("GET", "k1") == bulk(value)


@pytest.mark.parametrize("clear", rest_is_long("FLUSHALL", "FLUSHDB"))
def test_what_clears_all_nodes_is_seen_at_once(cluster: RealCluster, wire: Wire, clear: str) -> None:
    for _ in range(3):
        for key in KEYS:
            wire.ask("SET", key, "v")
        for key in KEYS:
            warm(cluster, wire, "GET", key)
        assert pipelined(wire, (clear,), *(("GET", key) for key in KEYS))[1:] == [bulk(None)] * len(KEYS)


def test_missing_keys_are_read_from_redis(cluster: RealCluster, wire: Wire) -> None:
    wire.ask("SET", "k0", "v")
    warm(cluster, wire, "GET", "k0")
    assert not any(from_memory(cluster, wire, "GET", "k0-missing") for _ in range(5))
    assert not any(from_memory(cluster, wire, "EXISTS", "k0-missing") for _ in range(5))


def test_a_slot_that_moves_is_read_from_memory_again(cluster: RealCluster, wire: Wire) -> None:
    slot = slot_of(b"k2")
    for turn in range(2):
        source = cluster.owner(slot)
        target = next(node for node in cluster.primaries() if node is not source)
        wire.ask("SET", "k2", f"at {source.port}")
        warm(cluster, wire, "GET", "k2")
        cluster.open_slot(slot, source, target)
        eventually(lambda: not from_memory(cluster, wire, "GET", "k2"))
        cluster.move_keys(slot, source, target)
        assert wire.ask("GET", "k2") == bulk(f"at {source.port}")
        wire.ask("SET", "k2", f"moved {turn}")
        assert wire.ask("GET", "k2") == bulk(f"moved {turn}")
        cluster.close_slot(slot, target)
        assert warm(cluster, wire, "GET", "k2") == bulk(f"moved {turn}")
        target.do("SET", "k2", "by others")
        eventually(lambda: wire.ask("GET", "k2") == bulk("by others"))


def test_a_remedy_answers_a_key_from_memory(cluster: RealCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.owner(slot_of(KEYS[0].encode())).do("SET", KEYS[0], "v")
    url = f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}"
    with serve("--upstream", url, "--workers", "1", "--policy", "none") as running:
        running.ready()
        words = ["remedy", KEYS[0], "--local-cache", "--for", "2h", "--because", "INC-9", "--admin", running.admin]
        assert main(words) == 0
        assert capsys.readouterr().out.startswith(
            f"remedy 1: reads of {KEYS[0]} are answered from memory for all until 20"
        )
        with running.wire() as wire:
            eventually(lambda: from_memory(cluster, wire, "GET", KEYS[0]))
