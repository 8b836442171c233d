"""How the slots of a cluster are shared out over the addresses of Keyrail that clients see.

Cluster clients add up what keyless commands say (``dbsize()``, ``keys()``, ``scan_iter()``), so each address that is
shown as a primary stands for whole nodes, and each node for one address: neighbours by their slots, in parts as even
as that allows. Addresses beyond the number of nodes are shown as replicas.
"""

import hashlib
from collections.abc import Collection, Sequence
from typing import NamedTuple, TypeAlias

from proxy.commands.slots import SLOTS

_BUS_OFFSET = 10_000
_LARGEST_PORT = 65_535

Range: TypeAlias = tuple[int, int]
"""The first and the last slot, both included."""


class Advertised(NamedTuple):
    """An address of Keyrail that clients are shown."""

    host: str
    port: int

    @property
    def id(self) -> str:
        """Its node id: the same from whichever Keyrail, and after each restart."""
        return hashlib.sha1(f"{self.host}:{self.port}".encode(), usedforsecurity=False).hexdigest()

    @property
    def bus_port(self) -> int:
        """Where a node of this port has its cluster bus; Keyrail has none, and no client connects there."""
        return self.port + _BUS_OFFSET if self.port + _BUS_OFFSET <= _LARGEST_PORT else 0


class Share(NamedTuple):
    """What one address is shown to own: ``ranges`` of slots, which are those of ``nodes``; ``replicas`` follow it. Each
    primary of the upstream is among the ``nodes`` of exactly one share."""

    primary: Advertised
    ranges: tuple[Range, ...]
    nodes: tuple[int, ...]
    replicas: tuple[Advertised, ...] = ()

    @property
    def shard_id(self) -> str:
        """Unlike the id of any address."""
        return hashlib.sha1(f"shard {self.primary.id}".encode(), usedforsecurity=False).hexdigest()


def shared_out(
    owners: Sequence[int], addresses: Sequence[Advertised], primaries: Collection[int] = ()
) -> tuple[Share, ...]:
    """Share the slots out; ``owners`` has the number of a node for each slot, and a negative one where there is none.

    A slot without an owner is shown with the one before it: clients refuse a map with gaps, and its commands are
    answered CLUSTERDOWN in any case. Those of the ``primaries`` that have no slots belong to the last share: they have
    subscribers and settings, too.
    """
    owned = _without_gaps(owners)
    nodes = list(dict.fromkeys(owned))
    parts = _in_parts([(node, owned.count(node)) for node in nodes], min(len(nodes), len(addresses)))
    place = {node: number for number, part in enumerate(parts) for node in part}
    parts[-1] += sorted(set(primaries).difference(nodes))
    ranges: list[list[Range]] = [[] for _ in parts]
    for slot, node in enumerate(owned):
        mine = ranges[place[node]]
        if mine and mine[-1][1] == slot - 1:
            mine[-1] = (mine[-1][0], slot)
        else:
            mine.append((slot, slot))
    shown = addresses[: len(parts)]
    replicas = addresses[len(parts) :]
    return tuple(
        Share(address, tuple(ranges[number]), tuple(parts[number]), tuple(replicas[number :: len(parts)]))
        for number, address in enumerate(shown)
    )


def _without_gaps(owners: Sequence[int]) -> list[int]:
    last = next((owner for owner in owners if owner >= 0), 0)
    result = []
    for owner in owners:
        last = owner if owner >= 0 else last
        result.append(last)
    return result


def _in_parts(sizes: list[tuple[int, int]], count: int) -> list[list[int]]:
    # Neighbouring nodes; a part ends where it comes closest to its end if all were even, and each part has a node.
    parts: list[list[int]] = [[]]
    before = 0
    for place, (node, size) in enumerate(sizes):
        end = len(parts) * SLOTS / count
        nodes_left, parts_left = len(sizes) - place, count - len(parts)
        past = before + size / 2 > end
        if parts[-1] and parts_left > 0 and (past or nodes_left <= parts_left):
            parts.append([])
        parts[-1].append(node)
        before += size
    return parts
