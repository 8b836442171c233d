"""While nodes of a real cluster are missing, nothing that clients are told names a node."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from proxy.commands.slots import slot_of
from tests.cluster.node_ports import NodePorts
from tests.cluster.nodes import RealCluster
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay knows no cluster")


def test_neither_errors_nor_keyrail_s_own_answers_have_an_address(
    cluster_name: str, new_cluster: Callable[..., RealCluster], new_keyrail: Callable[..., Keyrail]
) -> None:
    cluster = new_cluster(cluster_name, {"cluster-require-full-coverage": "no"}, replicas=0)
    ports = NodePorts(cluster)
    for node in cluster.nodes:
        node.do("ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all")
    keyrail = new_keyrail(f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}")
    eventually(lambda: keyrail.http("/readyz")[0] == 200)
    key = next(key for key in "abcdef" if cluster.owner(slot_of(key.encode())) is cluster.nodes[2])
    with keyrail.wire(3) as wire, keyrail.wire() as app:
        cluster.nodes[2].kill()
        assert app.ask("AUTH", "app", "pw") == b"+OK\r\n"
        error = app.ask("GET", key)
        assert error.startswith(b"-CLUSTERDOWN ")
        assert not ports.told_by(error)
        cluster.nodes[1].kill()

        def told() -> bytes:
            answer = wire.ask("KEYRAIL", "INFO")
            assert not ports.told_by(answer)
            return answer

        eventually(lambda: b"$5\r\nready\r\n#f\r\n" in told())
        assert b"$6\r\nreason\r\n$0\r\n" not in told()
        assert ports.told_by(keyrail.http("/info")[1].encode()), "operators are told which nodes"
        for words in (("GET", key), ("DBSIZE",), ("KEYRAIL", "NODE", "n2", "INFO"), ("SCAN", "0"), ("WAIT", 1, 10)):
            assert not ports.told_by(wire.ask(*words)), words
