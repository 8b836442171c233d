"""The address of a node that has ended belongs to another server: no command and no password goes there, and nothing is
acknowledged that the cluster does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from proxy.commands.slots import slot_of
from tests.cluster.nodes import RealCluster
from tests.conftest import rest_is_long
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay knows no cluster")

PATIENT = {"cluster-require-full-coverage": "no", "cluster-node-timeout": "60000"}
"""The other nodes do not take it for lost while the test runs."""


@pytest.mark.parametrize("form", rest_is_long("one server", "a node of another cluster", "an empty node"))
def test_another_server_at_the_address_of_a_node_gets_no_command(
    cluster_name: str, new_cluster: Callable[..., RealCluster], new_keyrail: Callable[..., Keyrail], form: str
) -> None:
    cluster = new_cluster(cluster_name, PATIENT, replicas=0)
    ended = cluster.nodes[0]
    keyrail = new_keyrail(f"redis+cluster://127.0.0.1:{cluster.nodes[1].port}")
    eventually(lambda: keyrail.http("/readyz")[0] == 200)
    key = next(key for key in "abcdef" if cluster.owner(slot_of(key.encode())) is ended)
    with keyrail.wire() as wire:
        assert wire.ask("SET", key, "1") == b"+OK\r\n"
    for node in cluster.nodes:
        node.do("ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all")
    ended.kill()
    options = {} if form == "one server" else {"cluster-enabled": "yes", "cluster-require-full-coverage": "no"}
    other = Engine(cluster.kind, options, port=ended.port)
    try:
        if form == "a node of another cluster":
            other.do("CLUSTER", "ADDSLOTS", *range(16384))
            eventually(lambda: b"cluster_state:ok" in cast("bytes", other.do("CLUSTER", "INFO")))
            other.do("SET", key, "theirs")
        other.do("ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all")
        before = other.do("DBSIZE")
        with keyrail.wire() as wire:
            assert wire.ask("AUTH", "app", "pw") == b"+OK\r\n"
        with keyrail.wire() as wire:
            assert wire.ask("SET", key, "2").startswith(b"-CLUSTERDOWN ")
        assert other.do("DBSIZE") == before
        assert not before or other.do("GET", key) == b"theirs"
        assert "cmdstat_auth" not in other.info("commandstats")
    finally:
        other.close()
    for node in cluster.nodes[1:]:
        node.do("CONFIG", "SET", "cluster-node-timeout", 500)  # what has failed is well again after twice that time
    ended.start()
    with keyrail.wire() as wire:
        eventually(lambda: wire.ask("SET", key, "3") == b"+OK\r\n")
