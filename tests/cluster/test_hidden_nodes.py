"""No reply of any command names a node: a real node answers, and no port of any node is in the edited reply."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from proxy.cluster.hidden_nodes import Shown, hidden, hidden_redirect
from proxy.commands.over_nodes import Destination
from proxy.commands.rows import ROWS
from proxy.commands.spec import ConnectionState, Spec
from proxy.commands.table import STANDARD
from proxy.wire.encode import encode_command
from tests.cluster.node_ports import NodePorts
from tests.cluster.nodes import RealCluster
from tests.commands.invocations import INVOCATIONS, split
from tests.engines import Engine
from tests.resp import Closed, decode

SHOWN = Shown("keyrail.example.com", 6399)
ARGUMENTS = {
    "CONFIG|GET": [["*"], ["*port*", "bind"], ["cluster*"]],
    "INFO": [[], ["everything"], ["replication"], ["server", "cluster"]],
    "CLIENT|LIST": [[], ["TYPE", "replica"], ["TYPE", "master"]],
    "SLOWLOG|GET": [["-1"]],
    "COMMANDLOG|GET": [["-1", "slow"], ["-1", "large-request"]],
    "HELLO": [["2"], ["3"]],
}
LEFT_OUT = {
    *(
        "SHUTDOWN",
        "DEBUG",
        "MONITOR",
        "SYNC",
        "PSYNC",
        "REPLCONF",
        "FLUSHALL",
        "FLUSHDB",
        "CLIENT|REPLY",
        "CLIENT|PAUSE",
    ),
    *("CLIENT|KILL", "BGREWRITEAOF", "BGSAVE", "SAVE", "QUIT", "AUTH", "FAILOVER", "CONFIG|REWRITE", "RESET", "SELECT"),
    *("ACL|LOAD", "ACL|SAVE", "MODULE|LOAD", "MODULE|LOADEX", "MODULE|UNLOAD", "WAIT", "WAITAOF", "SCRIPT|DEBUG"),
    *("POST", "HOST:", "CLIENT|TRACKING", "PFSELFTEST", "REPLICAOF", "SLAVEOF", "ACL|DELUSER", "CLIENT|NO-EVICT"),
    *("MULTI", "SLOWLOG|RESET", "COMMANDLOG|RESET"),
}
"""What ends or changes a node, or a connection: their replies are OK or errors."""
SUBSCRIBING = (ConnectionState.SUBSCRIBE, ConnectionState.UNSUBSCRIBE, ConnectionState.BLOCKING)


def invocations() -> Iterator[tuple[Spec, list[bytes]]]:
    """Each command that may reach a node: with real arguments where there are some, else with as many as it takes."""
    real: dict[str, list[list[bytes]]] = {}
    for line, _ in INVOCATIONS:
        real.setdefault(STANDARD.spec_of(split(line)).name, []).append(split(line))
    for spec in STANDARD.specs[1:]:
        goes = spec.over_nodes.destination is not Destination.HERE and not spec.over_nodes.destination.refusal
        if not goes or spec.name in LEFT_OUT or spec.state in SUBSCRIBING or not spec.engines:
            continue
        words = [word.encode() for word in spec.display.split()]
        if spec.name in ARGUMENTS:
            for arguments in ARGUMENTS[spec.name]:
                yield spec, [*words, *(argument.encode() for argument in arguments)]
        for argv in real.get(spec.name, [[*words, *[b"1"] * (abs(spec.arity) - len(words))]]):
            yield spec, argv


FIGURES = {"MEMORY|MALLOC-STATS"}
"""Replies full of numbers, which may be those of ports by chance."""


@pytest.fixture(scope="module")
def busy(cluster: RealCluster) -> RealCluster:
    """Each node has a slow log, and a denied command in its ACL log."""
    for node in cluster.nodes:
        node.do("CONFIG", "SET", "slowlog-log-slower-than", "0", "slowlog-max-len", "100000")
        with node.wire() as wire:
            for words in (
                ["MIGRATE", "127.0.0.1", str(cluster.nodes[1].port), "k", "0", "1"],
                ["CLUSTER", "MEET", "127.0.0.1", str(cluster.nodes[1].port), str(cluster.nodes[1].port + 10_000)],
                ["REPLICAOF", "127.0.0.1", str(cluster.nodes[1].port)],
                ["CONFIG", "SET", "cluster-announce-port", str(node.port)],
                ["ACL", "SETUSER", "nobody", "on", "nopass", "-@all"],
                ["AUTH", "nobody", "x"],
                ["PING"],
            ):
                wire.ask(*words)
    return cluster


def test_a_slow_log_does_not_tell_who_the_primary_is() -> None:
    frame = b"*1\r\n*6\r\n:1\r\n:1700000000\r\n:20000\r\n*1\r\n$4\r\nping\r\n$13\r\n10.0.0.7:7001\r\n$0\r\n\r\n"
    assert decode(hidden("slow log", SHOWN, frame)) == [[1, 1_700_000_000, 20000, [b"ping"], b"?:0", b""]]


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("single", [True, False])
def test_no_reply_names_a_node(busy: RealCluster, protocol: int, single: bool) -> None:
    ports, leaks, named = NodePorts(busy), [], set()
    shown = Shown(SHOWN.host, SHOWN.port, single)
    for node in (busy.nodes[0], busy.nodes[-1]):
        wire = node.wire(protocol)
        for spec, argv in invocations():
            try:
                frame = wire.ask(*argv)
            except Closed:
                wire = node.wire(protocol)
                continue
            if argv[0] == b"HELLO" and len(argv) > 1 and argv[1] != str(protocol).encode():
                wire.ask("HELLO", str(protocol))
            signs = ROWS[spec.name].shows_nodes if spec.name in ROWS else None
            edited = hidden_redirect(frame if signs is None else hidden(signs, shown, frame))
            assert type(decode(edited)) is type(decode(frame)), argv
            if ports.told_by(frame):
                named.add(spec.name)
            if spec.name not in FIGURES and (told := ports.told_by(edited)):
                leaks.append((spec.name, told))
        wire.close()
    assert leaks == []
    assert {"INFO", "ROLE", "CLIENT|LIST", "CLIENT|INFO", "CONFIG|GET", "SLOWLOG|GET", "ACL|LOG", "GET"} <= named


def test_one_plain_redis_is_no_cluster(busy: RealCluster) -> None:
    with busy.nodes[0].wire(3) as wire:
        info = hidden("info", SHOWN, wire.ask("INFO"))
        assert b"cluster_enabled:0\r\n" in info
        assert b"mode:standalone\r\n" in info
        assert b"tcp_port:6399\r\n" in info
        assert b"connected_slaves:0\r\n" in info
        assert b"laddr=keyrail.example.com:6399" in hidden("clients", SHOWN, wire.ask("CLIENT", "INFO"))
        assert hidden("hello", SHOWN, wire.ask("HELLO", "3")).count(b"standalone") == 1
        config = decode(hidden("config", SHOWN, wire.ask("CONFIG", "GET", "cluster-enabled", "port", "maxmemory")))
        assert isinstance(config, list)
        options = dict(zip(config[::2], config[1::2], strict=True))
        assert options == {b"cluster-enabled": b"no", b"port": b"6399", b"maxmemory": b"0"}


@pytest.mark.parametrize(
    "name", ["dir", "logfile", "dbfilename", "appendfilename", "aclfile", "pidfile", "syslog-ident"]
)
def test_names_of_files_and_folders_are_hidden(name: str) -> None:
    frame = encode_command([name.encode(), b"/nodes/7001/7001.conf", b"maxmemory", b"7001"])
    assert hidden("config", SHOWN, frame) == encode_command([name.encode(), b"", b"maxmemory", b"7001"])


def test_as_a_cluster_it_stays_one(busy: RealCluster) -> None:
    shown = Shown("::1", 6399, single=False)
    with busy.nodes[0].wire(2) as wire:
        info = hidden("info", shown, wire.ask("INFO"))
        assert b"cluster_enabled:1\r\n" in info
        assert b"mode:cluster\r\n" in info
        assert b"laddr=[::1]:6399" in hidden("clients", shown, wire.ask("CLIENT", "LIST"))
        assert b"cluster" in hidden("hello", shown, wire.ask("HELLO", "2"))


def test_links_of_replication_are_not_listed(busy: RealCluster) -> None:
    def listed(node: Engine) -> tuple[bytes, bytes]:
        with node.wire() as wire:
            frame = wire.ask("CLIENT", "LIST")
        return frame, hidden("clients", SHOWN, frame)

    for node, flag in ((busy.nodes[0], b"flags=S"), (busy.nodes[-1], b"flags=M")):
        frame, edited = listed(node)
        assert flag in frame
        assert flag not in edited
        assert b"cmd=client|list" in edited


def test_a_role_has_no_others(busy: RealCluster) -> None:
    with busy.nodes[0].wire() as primary, busy.nodes[-1].wire() as replica:
        told, following = (decode(hidden("role", SHOWN, wire.ask("ROLE"))) for wire in (primary, replica))
    assert isinstance(told, list)
    assert isinstance(following, list)
    assert (told[0], told[2]) == (b"master", [])
    assert (following[0], following[1:3]) == (b"slave", [b"", 0])


@pytest.mark.parametrize(
    "error", [b"-MOVED 1 127.0.0.1:7000\r\n", b"-ASK 1 :7000\r\n", b"-REDIRECT 127.0.0.1:7000\r\n"]
)
def test_no_redirect_leaves(error: bytes) -> None:
    assert hidden_redirect(error).startswith(b"-CLUSTERDOWN keyrail: ")
    assert hidden("info", SHOWN, b"-NOPERM no\r\n") == b"-NOPERM no\r\n"
    for other in (b"-ERR MOVED 1\r\n", b"+MOVED 1 h:1\r\n", b"$-1\r\n"):
        assert hidden_redirect(other) == other
