"""Clients that log in as a user of their own before a real cluster reach the keys of all nodes with one password."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.cluster.nodes import RealCluster
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay knows no cluster")

KEYS = ["a", "b", "c", "d", "e", "f"]


@pytest.fixture(scope="module")
def keyrail(cluster: RealCluster) -> Iterator[Keyrail]:
    for node in cluster.nodes:
        node.do("ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all")
    for node in cluster.nodes[:2]:
        node.do("ACL", "SETUSER", "half", "on", ">pw", "~*", "&*", "+@all")
    started = Keyrail(f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}")
    eventually(lambda: started.http("/readyz")[0] == 200)
    yield started
    started.close()
    for node in cluster.nodes:
        node.do("ACL", "DELUSER", "app", "half")


@pytest.mark.parametrize("login", ["AUTH app pw", "HELLO 2 AUTH app pw", "HELLO 3 AUTH app pw"])
def test_one_login_is_for_all_nodes(keyrail: Keyrail, login: str) -> None:
    with keyrail.wire() as wire:
        assert wire.ask(*login.split())[:1] in b"+*%"
        assert wire.ask("ACL", "WHOAMI") == b"$3\r\napp\r\n"
        for key in KEYS:
            assert wire.ask("SET", key, "1") == b"+OK\r\n"
            assert wire.ask("BLPOP", f"{{{key}}}list", "0.01")[:1] in b"*_"
        assert wire.ask("DEL", *KEYS) == b":6\r\n"
        assert wire.ask("ACL", "WHOAMI") == b"$3\r\napp\r\n"
    with keyrail.wire() as wire:
        assert wire.ask("ACL", "WHOAMI") == b"$7\r\ndefault\r\n"


def test_reset_ends_the_login_on_all_nodes(keyrail: Keyrail) -> None:
    with keyrail.wire() as wire:
        assert wire.ask("AUTH", "app", "pw") == b"+OK\r\n"
        assert [wire.ask("EXISTS", key) for key in KEYS] == [b":0\r\n"] * 6
        assert wire.ask("RESET") == b"+RESET\r\n"
        for number in (1, 2, 3):
            assert wire.ask("KEYRAIL", "NODE", f"n{number}", "ACL", "WHOAMI") == b"$7\r\ndefault\r\n"


def test_a_node_that_refuses_the_password_is_named_in_the_log(keyrail: Keyrail, cluster: RealCluster) -> None:
    with keyrail.wire() as wire:
        assert wire.ask("AUTH", "half", "pw") == b"+OK\r\n"
        refusing = cluster.nodes[2].port
        keyrail.await_line(
            rf"user half: another node has accepted the login, and redis://127.0.0.1:{refusing} does not: WRONGPASS"
        )
        lacking = b"".join(wire.ask("GET", key) for key in KEYS[:3])
        assert lacking.count(b"-CLUSTERDOWN keyrail: n3 has not accepted this login: WRONGPASS ") == 1


def test_users_log_in_again_where_a_node_has_come(
    cluster_name: str, new_cluster: Callable[..., RealCluster], new_keyrail: Callable[..., Keyrail]
) -> None:
    cluster = new_cluster(cluster_name, replicas=0)
    for each in cluster.nodes:
        each.do("ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all")
    keyrail = new_keyrail(f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}")
    eventually(lambda: keyrail.http("/readyz")[0] == 200)
    with keyrail.wire() as other, keyrail.wire() as wire:
        assert wire.ask("AUTH", "app", "pw") == b"+OK\r\n"
        cluster.add()
        eventually(lambda: wire.socket.recv(1) == b"")
        assert other.ask("PING") == b"+PONG\r\n"
    eventually(lambda: keyrail.metric("keyrail_client_closes_total", cause="login_lost") == 1)
