"""What Keyrail tells of the replicas that it reads from."""

from __future__ import annotations

import json
from typing import Any

from tests.keyrail_process import Keyrail


def nodes_of(keyrail: Keyrail) -> list[dict[str, Any]]:
    """What `/nodes` has of its only route."""
    (nodes,) = json.loads(keyrail.http("/nodes")[1])["routes"].values()
    found: list[dict[str, Any]] = nodes
    return found


def serving(keyrail: Keyrail, *keys: str) -> int:
    """How many replicas answer reads now; the first reads of these keys open the connections to them."""
    with keyrail.wire() as wire:
        for key in keys or ("a:1",):
            wire.ask("GET", key)
    return sum(node["serves"] for node in nodes_of(keyrail))


def moved(keyrail: Keyrail) -> float:
    """How many reads replicas have answered."""
    return keyrail.metric("keyrail_replica_reads_total", outcome="moved")
