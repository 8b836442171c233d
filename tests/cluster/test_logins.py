"""Clients that log in as a user of their own before a real cluster reach the keys of all nodes with one password."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from proxy.commands.slots import slot_of
from tests.cluster.nodes import RealCluster
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Closed, Wire, eventually

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


class Users:
    """A cluster of its own, and clients of one user."""

    def __init__(self, cluster: RealCluster, keyrail: Keyrail) -> None:
        self.cluster = cluster
        self.keyrail = keyrail
        self.stack = ExitStack()
        for node in cluster.nodes:
            node.do("ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all")
        eventually(lambda: keyrail.http("/readyz")[0] == 200)
        self.keys = {cluster.owner(slot_of(key.encode())).port: key for key in KEYS}

    def client(self) -> Wire:
        """One that has left the connections of its login to others."""
        wire = self.stack.enter_context(self.keyrail.wire())
        assert wire.ask("AUTH", "app", "pw") == b"+OK\r\n"
        return wire

    def key_of(self, node: Engine) -> str:
        return self.keys[node.port]

    def connections(self, node: Engine) -> int:
        return str(node.do("CLIENT", "LIST")).count(" user=app ")

    def disconnect(self, node: Engine, clients: int) -> None:
        """The node closes the connections that the logins of so many clients have opened, as its `timeout` does."""
        eventually(lambda: self.connections(node) == clients)
        node.do("CLIENT", "KILL", "USER", "app")
        eventually(lambda: self.connections(node) == 0)

    def lost(self) -> float:
        return self.keyrail.metric("keyrail_client_closes_total", cause="login_lost")


@pytest.fixture
def users(
    cluster_name: str, new_cluster: Callable[..., RealCluster], new_keyrail: Callable[..., Keyrail]
) -> Iterator[Users]:
    cluster = new_cluster(cluster_name, {"cluster-require-full-coverage": "no"})
    made = Users(cluster, new_keyrail(f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}"))
    yield made
    made.stack.close()


def is_closed(wire: Wire) -> bool:
    """Whether the client has been closed; nothing else is on its way to it."""
    return not wire.silent(0)


def test_who_has_not_used_a_lost_connection_stays_until_it_needs_one(users: Users) -> None:
    first, second, third = users.cluster.nodes[:3]
    user, other, fresh = users.client(), users.client(), users.client()
    assert user.ask("SET", users.key_of(third), "1") == b"+OK\r\n"
    for wire in (other, fresh):
        assert wire.ask("SET", users.key_of(first), "1") == b"+OK\r\n"
    users.disconnect(third, clients=3)
    eventually(lambda: is_closed(user))
    for wire in (other, fresh):
        assert wire.ask("GET", users.key_of(first)) == b"$1\r\n1\r\n"
        assert wire.ask("PING") == b"+PONG\r\n"
        assert wire.ask("ACL", "WHOAMI") == b"$3\r\napp\r\n"
    other.say("GET", users.key_of(third))
    assert other.remaining() == [], "only a login brings a connection"
    eventually(lambda: users.lost() == 2)
    again = users.client()
    assert again.ask("GET", users.key_of(third)) == b"$1\r\n1\r\n"
    assert fresh.ask("GET", users.key_of(third)) == b"$1\r\n1\r\n", "another client of the user has logged in"
    assert fresh.ask("SET", users.key_of(second), "1") == b"+OK\r\n"


def test_who_needs_a_connection_for_itself_and_cannot_have_one_logs_in_again(users: Users) -> None:
    third = users.cluster.nodes[2]
    key = users.key_of(third)

    def blocked() -> int:
        return str(third.do("CLIENT", "LIST")).count("cmd=blpop")

    one, other = users.client(), users.client()
    users.disconnect(third, clients=2)
    brought = users.client()
    brought.say("BLPOP", key, 30)
    eventually(lambda: blocked() == 1)
    one.say("BLPOP", key, 30)
    assert one.remaining() == []
    again = users.client()
    again.say("BLPOP", key, 30)
    eventually(lambda: blocked() == 2)
    assert users.client().ask("RPUSH", key, "1", "2") == b":2\r\n"
    assert [wire.frame()[:2] for wire in (brought, again)] == [b"*2", b"*2"]
    assert other.ask("EXISTS", key) == b":0\r\n"


def test_a_lost_node_closes_nobody_who_awaits_nothing_there_and_one_login_serves_all_on_its_heir(users: Users) -> None:
    cluster = users.cluster
    first, third, heir = cluster.nodes[0], cluster.nodes[2], cluster.nodes[5]
    clients = [users.client() for _ in range(4)]
    for wire in clients:
        for node in cluster.nodes[:3]:
            assert wire.ask("SET", users.key_of(node), "1") == b"+OK\r\n"
    assert clients[0].ask("WAIT", "1", "10000") == b":1\r\n"
    third.kill()
    while cluster.role(heir) != "master":
        for wire in clients:
            assert wire.ask("GET", users.key_of(first)) == b"$1\r\n1\r\n"
    eventually(lambda: any(map(is_closed, clients)))
    again = users.client()
    eventually(lambda: again.ask("GET", users.key_of(third)) == b"$1\r\n1\r\n")
    served = [wire for wire in clients if not is_closed(wire)]
    for wire in served:
        assert wire.ask("GET", users.key_of(third)) == b"$1\r\n1\r\n"
        assert wire.ask("ACL", "WHOAMI") == b"$3\r\napp\r\n"


def test_a_node_that_comes_back_is_logged_in_to_again(users: Users) -> None:
    third, replica = users.cluster.nodes[2], users.cluster.nodes[5]
    replica.do("CONFIG", "SET", "cluster-replica-no-failover", "yes")
    key = users.key_of(third)
    one = users.client()
    assert one.ask("SET", key, "1") == b"+OK\r\n"
    third.kill()
    early = users.client()  # its login finds that node away
    assert early.ask("GET", key).startswith(b"-CLUSTERDOWN")
    third.start()
    third.do("ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all")

    def answer(wire: Wire) -> bytes:
        try:
            return wire.ask("GET", key)
        except Closed:
            return b"closed"

    eventually(lambda: answer(early) == b"closed" or answer(one) == b"closed")
    late = users.client()
    eventually(lambda: answer(late) == b"$-1\r\n")
    for wire in (one, early):
        assert answer(wire) in (b"closed", b"$-1\r\n")
