"""A reply that is under way while an earlier command is sent elsewhere, on real nodes, one of which moves a slot."""

from __future__ import annotations

from collections.abc import Callable

from hiredis import pack_command

from proxy.commands.slots import slot_of
from tests.cluster.nodes import STEADY, RealCluster
from tests.engines import Engine
from tests.keyrail_process import Keyrail
from tests.resp import decode, eventually


def keys_at(cluster: RealCluster, node: Engine, count: int) -> list[str]:
    """So many keys of this node."""
    names = (f"owned:{number}" for number in range(1000))
    found = (name for name in names if cluster.owner(slot_of(name.encode())) is node)
    return [next(found) for _ in range(count)]


def test_a_command_over_slots_behind_one_that_is_sent_elsewhere_gets_its_own_reply(
    cluster_name: str, new_cluster: Callable[..., RealCluster], new_keyrail: Callable[..., Keyrail]
) -> None:
    """Reads of two nodes are answered and held back in between: what awaited them must not await the next reply."""
    cluster = new_cluster(cluster_name, STEADY, replicas=0)
    url = f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}"
    running = new_keyrail(url, workers=1, extra=("--upstream-connections", "1", "--traces", "0"))
    eventually(lambda: running.http("/readyz")[0] == 200)
    first, second, third = cluster.primaries()
    own = {node: keys_at(cluster, node, 5) for node in (first, second, third)}
    moving = own[third][0]
    with running.wire() as client, running.wire() as other:
        for node, keys in own.items():
            for key in keys[:4] if node is not third else keys[1:4]:
                assert client.ask("SET", key, f"value of {key}") == b"+OK\r\n"
        cluster.open_slot(slot_of(moving.encode()), third, first)
        third.freeze()
        try:
            reads = [("MGET", moving, own[first][0]), ("GET", own[first][1]), ("GET", own[second][1])]
            client.send(b"".join(map(pack_command, reads)))
            for node in (first, second):  # they share the connections
                other.ask("GET", own[node][1])
            second.freeze()
            behind = [("DEL", own[first][2], own[second][2]), ("GET", own[first][3])]
            client.send(b"".join(map(pack_command, behind)))
            other.ask("GET", own[first][1])
        finally:
            third.thaw()
        eventually(lambda: first.calls("asking") == 1)
        other.ask("GET", own[first][1])
        second.thaw()
        replies = [decode(client.frame()) for _ in (*reads, *behind)]
    kept = [f"value of {own[node][at]}".encode() for node, at in ((first, 0), (first, 1), (second, 1), (first, 3))]
    assert replies == [[None, kept[0]], kept[1], kept[2], 2, kept[3]]
