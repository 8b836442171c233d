"""Records what the nodes of real clusters tell: `python -m tests.cluster.record` writes `replies.json` anew.

The second primary is asked, of clusters in several states; ports and ids are those of the day.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.cluster.conftest import KINDS
from tests.cluster.nodes import RealCluster
from tests.engines import Engine, kinds
from tests.resp import eventually

FILE = Path(__file__).parent / "replies.json"
COMMANDS = ("NODES", "SLOTS", "SHARDS")


def record() -> dict[str, dict[str, str]]:
    """The replies by engine, state and protocol, then by subcommand."""
    found: dict[str, dict[str, str]] = {}
    for kind in KINDS:
        cluster = RealCluster(kinds()[kind])
        first, asked, failing = cluster.nodes[:3]
        cluster.open_slot(100, first, asked)
        for protocol in (2, 3):
            found[f"{kind} open RESP{protocol}"] = _ask(asked, protocol)
        for node in cluster.nodes:
            node.do("CONFIG", "SET", "cluster-preferred-endpoint-type", "hostname")
        first.do("CONFIG", "SET", "cluster-announce-hostname", "one.example")
        eventually(lambda: b"one.example" in asked.wire().ask("CLUSTER", "NODES"))  # noqa: B023  awaited at once
        for protocol in (2, 3):
            found[f"{kind} hostname RESP{protocol}"] = _ask(asked, protocol)
        for node in cluster.nodes:
            node.do("CONFIG", "SET", "cluster-preferred-endpoint-type", "unknown-endpoint")
        for protocol in (2, 3):
            found[f"{kind} unknown RESP{protocol}"] = _ask(asked, protocol)
        failing.kill()
        eventually(lambda: cluster.role(cluster.nodes[5]) == "master")  # noqa: B023 - it is called at once
        cluster.settle()
        found[f"{kind} failed RESP2"] = _ask(asked, 2)
        cluster.close()
    return found


def _ask(node: Engine, protocol: int) -> dict[str, str]:
    with node.wire(protocol) as wire:
        return {command: wire.ask("CLUSTER", command).decode() for command in COMMANDS}


if __name__ == "__main__":
    FILE.write_text(json.dumps(record(), indent=1) + "\n")
