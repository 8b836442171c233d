"""Before a real cluster, too, a command that ends what others wait for never waits behind it.

As `failures/test_unblocking.py` does before one Redis: while writes are paused on all nodes, a script or a function
runs on one of them, or nothing is wrong, for clients without a connection of their own, with WATCH, and logged in.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.cluster.conftest import KINDS
from tests.cluster.nodes import RealCluster
from tests.conftest import kind_named, seeds
from tests.failures.test_unblocking import ADMINISTRATIVE, FUNCTION, LOOP, PAUSE_MS, have_left
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Wire, eventually, pack

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay knows no cluster")

KEYS = ["a", "b", "c"]
"""One of each node."""
COMMANDS = [["CLIENT", "UNPAUSE"], ["SCRIPT", "KILL"], ["FUNCTION", "KILL"], ["CLIENT", "UNBLOCK", "999999"]]
CLIENTS = ("pooled", "own", "user")
READS = [["GET", "a"], ["CLIENT", "LIST"], ["PING"], ["GET", "b"], ["CONFIG", "GET", "maxmemory"], ["STRLEN", "c"]]


class Stage:
    """A cluster, a Keyrail in front of it, and clients that hold it up."""

    def __init__(self, cluster: RealCluster, keyrail: Keyrail) -> None:
        self.cluster = cluster
        self.keyrail = keyrail
        self.held = ExitStack()
        self.direct = [self.held.enter_context(node.wire()) for node in cluster.nodes]

    def client(self, *, user: bool) -> Wire:
        """A client of Keyrail that has sent something to each node."""
        wire = self.held.enter_context(self.keyrail.wire())
        if user:
            assert wire.ask("AUTH", "app", "secret") == b"+OK\r\n"
        for key in KEYS:
            assert wire.ask("SET", key, "v") == b"+OK\r\n"
        return wire

    def paused(self) -> None:
        """Writes are paused on all nodes, and clients of both users have sent some to each."""
        writers = [self.client(user=user) for user in (False, True)]
        for direct in self.direct:
            assert direct.ask("CLIENT", "PAUSE", PAUSE_MS, "WRITE") == b"+OK\r\n"
        for writer in writers:
            for key in KEYS:
                writer.say("SET", key, "w")
        eventually(lambda: all(b"blocked_clients:2" in direct.ask("INFO", "clients") for direct in self.direct))

    def busy(self, *command: str) -> None:
        """The second node runs a script, and clients of both users have sent commands behind it."""
        runner, *others = (self.client(user=user) for user in (False, False, True))
        runner.say(*command)
        busy = self.busy_node()
        eventually(lambda: busy.ask("GET", "c").startswith(b"-BUSY"))
        for other in others:
            other.say("GET", "c")

    def busy_node(self) -> Wire:
        return self.direct[1]

    def clear(self) -> None:
        """Everything goes on."""
        for direct in self.direct:
            for command in ("CLIENT UNPAUSE", "SCRIPT KILL", "FUNCTION KILL"):
                direct.ask(*command.split())
        eventually(lambda: not any(direct.ask("PING").startswith(b"-BUSY") for direct in self.direct))
        self.held.close()


SITUATIONS: dict[str, Callable[[Stage], None]] = {
    "nothing is wrong": lambda stage: None,
    "writes are paused": lambda stage: stage.paused(),
    "a script runs": lambda stage: stage.busy("EVAL", LOOP, "1", "c"),
    "a function runs": lambda stage: stage.busy("FCALL", "loop", "1", "c"),
}


@pytest.fixture(scope="module", params=KINDS)
def cluster(request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    """A cluster whose nodes say soon that they are busy."""
    options = {"lua-time-limit": "20", "cluster-node-timeout": "60000"}
    started = RealCluster(kind_named(request.param), options, replicas=0)
    for node in started.nodes:
        node.do("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all")
        node.do("FUNCTION", "LOAD", FUNCTION)
    yield started
    started.close()


@pytest.fixture(scope="module")
def keyrail(cluster: RealCluster) -> Iterator[Keyrail]:
    started = Keyrail(f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}")
    eventually(lambda: started.http("/readyz")[0] == 200)
    yield started
    started.close()


@pytest.fixture(scope="module")
def clients(cluster: RealCluster, keyrail: Keyrail) -> Iterator[dict[str, Wire]]:
    """A client of each kind, after its login."""
    stage = Stage(cluster, keyrail)
    made = {kind: stage.client(user=kind == "user") for kind in CLIENTS}
    assert have_left(*made.values())
    assert made["own"].ask("WATCH", "x") == b"+OK\r\n"
    yield made
    stage.held.close()


def direct_reply(stage: Stage, situation: str, command: list[str]) -> bytes:
    """What the node says that has most to say."""
    SITUATIONS[situation](stage)
    reply = stage.busy_node().ask(*command)
    stage.clear()
    return reply


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_it_is_answered_as_on_a_direct_connection(
    cluster: RealCluster, keyrail: Keyrail, clients: dict[str, Wire], command: list[str], situation: str
) -> None:
    expected = direct_reply(Stage(cluster, keyrail), situation, command)
    for kind, wire in clients.items():
        stage = Stage(cluster, keyrail)
        SITUATIONS[situation](stage)
        reply = wire.ask(*command)
        assert reply.startswith(expected[:-2]) or command[1] == "UNBLOCK", kind
        stage.clear()


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("count", [1, 20])
def test_it_does_not_wait_behind_reads_of_its_own_client(
    cluster: RealCluster, keyrail: Keyrail, clients: dict[str, Wire], situation: str, count: int
) -> None:
    command = ["FUNCTION" if "function" in situation else "SCRIPT", "KILL"] if "runs" in situation else COMMANDS[0]
    reads = [READS[i % len(READS)] for i in range(count)]
    for kind, wire in clients.items():
        if kind == "own":
            reads = [["PING"]] * count  # its connection is to one node
        stage = Stage(cluster, keyrail)
        SITUATIONS[situation](stage)
        wire.send(b"".join(pack(*each) for each in (*reads, command, ["PING"])))
        replies = wire.frames(count + 2)
        assert replies[-2:] == [b"+OK\r\n", b"+PONG\r\n"], kind
        stage.clear()


@pytest.mark.parametrize("seed", seeds(8, 16))
def test_it_does_not_wait_behind_commands_of_administrators(
    cluster: RealCluster, keyrail: Keyrail, clients: dict[str, Wire], seed: int
) -> None:
    """Nor do these wait behind other clients' writes, in one write and in several, also for a named node."""
    chance = random.Random(seed)
    commands = [ADMINISTRATIVE[name] for name in chance.sample(sorted(ADMINISTRATIVE), chance.randint(1, 6))]
    commands = [
        ["KEYRAIL", "NODE", f"n{chance.randint(1, 3)}", *each] if chance.random() < 0.3 else each for each in commands
    ]
    commands += [["CLIENT", "UNPAUSE"], ["GET", "a"]]
    cut = chance.randint(0, len(commands) - 2)
    stage = Stage(cluster, keyrail)
    stage.paused()
    wire = clients[CLIENTS[0] if seed % 2 else CLIENTS[2]]
    try:
        for part in (commands[:cut], commands[cut:]):
            wire.send(b"".join(pack(*each) for each in part))
        replies = wire.frames(len(commands))
    finally:
        stage.clear()
    assert replies[-2] == b"+OK\r\n"
    assert replies[-1].startswith(b"$1")
    assert not any(reply.startswith(b"-CLUSTERDOWN") for reply in replies)


def test_an_endless_script_of_a_user_is_ended_by_another_client_of_that_user(
    cluster: RealCluster, keyrail: Keyrail
) -> None:
    stage = Stage(cluster, keyrail)
    runner, other = stage.client(user=True), stage.client(user=True)
    runner.say("EVAL", LOOP, "1", "c")
    eventually(lambda: stage.busy_node().ask("GET", "c").startswith(b"-BUSY"))
    assert other.ask("KEYRAIL", "NODE", "n2", "SCRIPT", "KILL") == b"+OK\r\n"
    assert b"killed by user" in runner.frame()
    stage.clear()
