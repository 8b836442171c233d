"""WATCH before a real cluster whose primaries change: a transaction that watched the old primary never runs."""

from __future__ import annotations

from collections.abc import Callable

from tests.cluster.nodes import RealCluster
from tests.keyrail_process import Keyrail
from tests.resp import Closed, Wire, eventually


def transaction(wire: Wire, *commands: bytes) -> list[bytes]:
    """The replies to these commands in a transaction; empty if the connection is closed before."""
    try:
        wire.send(b"MULTI\r\n" + b"".join(command + b"\r\n" for command in commands) + b"EXEC\r\n")
        return wire.frames(2 + len(commands))
    except (Closed, OSError):
        return []


def test_after_a_planned_failover_it_is_closed_and_nothing_runs(
    cluster_name: str, new_cluster: Callable[..., RealCluster], new_keyrail: Callable[..., Keyrail]
) -> None:
    cluster = new_cluster(cluster_name)
    keyrail = new_keyrail(f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}")
    eventually(lambda: keyrail.http("/readyz")[0] == 200)
    idle, elsewhere, *busy = [keyrail.wire() for _ in range(5)]
    with keyrail.wire() as other:
        assert other.ask("SET", "a", "old") == b"+OK\r\n"
        assert elsewhere.ask("WATCH", "b") == b"+OK\r\n"
        for wire in (idle, *busy):
            assert wire.ask("WATCH", "a") == b"+OK\r\n"
        cluster.failover(cluster.nodes[5])
        at_once = transaction(busy[0], b"SET a stale", b"PING")
        assert other.ask("SET", "a", "new") == b"+OK\r\n"
        outcomes = [at_once, *(transaction(wire, b"SET a stale", b"PING") for wire in busy[1:])]
        for outcome in outcomes:
            assert not outcome or outcome[-1].startswith((b"*-1", b"-EXECABORT", b"-CLUSTERDOWN")), outcome
        assert other.ask("GET", "a") == b"$3\r\nnew\r\n"
        assert idle.remaining() == []
        assert transaction(elsewhere, b"SET b x", b"PING")[-1] == b"*2\r\n+OK\r\n+PONG\r\n"
