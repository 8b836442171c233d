"""What Keyrail answers to CLUSTER …, READONLY, READWRITE and ASKING itself: no client ever hears of a node.

As one plain Redis (``--present single``) it answers as an engine without cluster support. As a cluster of Keyrails
(``--present cluster``) it speaks of the advertised addresses alone. Shapes are those of Redis 7.0 and Valkey 9.1
(cluster.c): RESP2 has flat lists where RESP3 has maps, and ``$`` where RESP3 has verbatim text.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from proxy.cluster.shares import Advertised, Share
from proxy.commands.row import ClusterAnswer
from proxy.commands.slots import SLOTS, slot_of
from proxy.wire.encode import OK, encode_bulk, encode_error, encode_lines, encode_value

DISABLED = b"-ERR This instance has cluster support disabled\r\n"


class Presented(NamedTuple):
    """A cluster of Keyrails, as one address of it shows it. ``healthy``: a majority of the nodes behind it says that
    its state is ok. ``unowned`` counts slots without a node."""

    own: Advertised
    shares: Sequence[Share]
    healthy: bool = True
    unowned: int = 0

    def nodes(self) -> Iterator[tuple[Advertised, Share, int]]:
        """All addresses: each with its share, and that share's number from 1 on."""
        for number, share in enumerate(self.shares, 1):
            for address in (share.primary, *share.replicas):
                yield address, share, number

    def own_share(self) -> Share:
        """The share whose keys keyless commands to this address speak of."""
        return next((share for address, share, _ in self.nodes() if address == self.own), self.shares[0])

    def is_replica(self) -> bool:
        """Whether the address is shown as a replica: no node is behind it alone."""
        return any(self.own in share.replicas for share in self.shares)


def as_single(answer: ClusterAnswer, argv: Sequence[bytes], *, valkey: bool) -> bytes:
    """The reply of an engine without cluster support; Valkey answers some of it all the same."""
    if valkey and answer == "keyslot":
        return b":%d\r\n" % slot_of(argv[2])
    if valkey and answer == "read mode":
        return OK
    return DISABLED


def as_cluster(answer: ClusterAnswer, argv: Sequence[bytes], presented: Presented, protocol: int) -> bytes:
    """The reply of a cluster of Keyrails."""
    return _ANSWERS[answer](argv, presented, protocol)


def _ok(argv: Sequence[bytes], presented: Presented, protocol: int) -> bytes:
    return OK


def _keyslot(argv: Sequence[bytes], presented: Presented, protocol: int) -> bytes:
    return b":%d\r\n" % slot_of(argv[2])


def _slots(argv: Sequence[bytes], presented: Presented, protocol: int) -> bytes:
    rows = []
    for share in presented.shares:
        shown = [[each.host, each.port, each.id, {}] for each in (share.primary, *share.replicas)]
        rows += [[first, last, *shown] for first, last in share.ranges]
    return encode_value(sorted(rows, key=lambda row: int(str(row[0]))), protocol)


def _shards(argv: Sequence[bytes], presented: Presented, protocol: int) -> bytes:
    shards = []
    for share in presented.shares:
        nodes = [_member(address, "replica" if address in share.replicas else "master") for address in _all(share)]
        shards.append({"slots": [slot for each in share.ranges for slot in each], "nodes": nodes})
    return encode_value(shards, protocol)


def _member(address: Advertised, role: str) -> dict[str, object]:
    return {
        "id": address.id,
        "port": address.port,
        "ip": address.host,
        "endpoint": address.host,
        "role": role,
        "replication-offset": 0,
        "health": "online",
    }


def _all(share: Share) -> tuple[Advertised, ...]:
    return (share.primary, *share.replicas)


def _line(address: Advertised, share: Share, number: int, own: Advertised) -> str:
    role, primary = ("master", "-") if address == share.primary else ("slave", share.primary.id)
    flags = f"myself,{role}" if address == own else role
    shown = [str(first) if first == last else f"{first}-{last}" for first, last in share.ranges]
    where = f"{address.host}:{address.port}@{address.bus_port}"
    return " ".join(
        [address.id, where, flags, primary, "0", "0", str(number), "connected", *(shown if role == "master" else [])]
    )


def _nodes(argv: Sequence[bytes], presented: Presented, protocol: int) -> bytes:
    lines = [_line(*each, presented.own) for each in presented.nodes()]
    return _text("\n".join([*lines, ""]), protocol)


def _info(argv: Sequence[bytes], presented: Presented, protocol: int) -> bytes:
    number = next((number for address, _, number in presented.nodes() if address == presented.own), 1)
    fields = {
        "cluster_state": "ok" if presented.healthy else "fail",
        "cluster_slots_assigned": SLOTS - presented.unowned,
        "cluster_slots_ok": SLOTS - presented.unowned,
        "cluster_slots_pfail": 0,
        "cluster_slots_fail": 0,
        "cluster_known_nodes": sum(1 for _ in presented.nodes()),
        "cluster_size": len(presented.shares),
        "cluster_current_epoch": len(presented.shares),
        "cluster_my_epoch": number,
        "cluster_stats_messages_sent": 0,
        "cluster_stats_messages_received": 0,
        "total_cluster_links_buffer_limit_exceeded": 0,
    }
    return _text("".join(f"{name}:{value}\r\n" for name, value in fields.items()), protocol)


def _text(text: str, protocol: int) -> bytes:
    if protocol == 3:
        return b"=%d\r\ntxt:%b\r\n" % (len(text.encode()) + 4, text.encode())
    return encode_bulk(text.encode())


def _my_id(argv: Sequence[bytes], presented: Presented, protocol: int) -> bytes:
    return encode_bulk(presented.own.id.encode())


def _my_shard_id(argv: Sequence[bytes], presented: Presented, protocol: int) -> bytes:
    return encode_bulk(presented.own_share().shard_id.encode())


def _links(argv: Sequence[bytes], presented: Presented, protocol: int) -> bytes:
    links = [
        {
            "direction": direction,
            "node": address.id,
            "create-time": 0,
            "events": "r",
            "send-buffer-allocated": 0,
            "send-buffer-used": 0,
        }
        for address, _, _ in presented.nodes()
        for direction in ("to", "from")
        if address != presented.own
    ]
    return encode_value(links, protocol)


def _replicas(argv: Sequence[bytes], presented: Presented, protocol: int) -> bytes:
    name = argv[2].decode("utf-8", "replace")
    for address, share, number in presented.nodes():
        if address.id == name and address != share.primary:
            return b"-ERR The specified node is not a master\r\n"
        if address.id == name:
            return encode_value([_line(each, share, number, presented.own) for each in share.replicas], protocol)
    return encode_error(f"ERR Unknown node {name}")


def _failure_reports(argv: Sequence[bytes], presented: Presented, protocol: int) -> bytes:
    name = argv[2].decode("utf-8", "replace")
    known = any(address.id == name for address, _, _ in presented.nodes())
    return b":0\r\n" if known else encode_error(f"ERR Unknown node {name}")


def _help(argv: Sequence[bytes], presented: Presented, protocol: int) -> bytes:
    return encode_lines(["CLUSTER <subcommand> [<arg> [value] [opt] ...]. Keyrail answers:", *_HELP])


_HELP = (
    "COUNT-FAILURE-REPORTS <node-id>",
    "COUNTKEYSINSLOT <slot>",
    "GETKEYSINSLOT <slot> <count>",
    "INFO",
    "KEYSLOT <key>",
    "LINKS",
    "MYID",
    "MYSHARDID",
    "NODES",
    "REPLICAS <node-id>",
    "SHARDS",
    "SLOTS",
    "HELP",
)

_ANSWERS: dict[ClusterAnswer, Callable[[Sequence[bytes], Presented, int], bytes]] = {
    "read mode": _ok,
    "asking": _ok,
    "keyslot": _keyslot,
    "slots": _slots,
    "shards": _shards,
    "nodes": _nodes,
    "info": _info,
    "myid": _my_id,
    "myshardid": _my_shard_id,
    "links": _links,
    "replicas": _replicas,
    "failure reports": _failure_reports,
    "help": _help,
}
