"""Whether a reply tells a port of a node, or of its bus.

A figure may be the same number by chance, so those are left out that are no ports by their names: lines of INFO such as
``mem_replication_backlog:20508``, fields of CLIENT LIST such as ``tot-mem=20508``, and integers behind their names, as
in MEMORY STATS.
"""

from __future__ import annotations

import re

from tests.cluster.nodes import RealCluster

_FIGURES = re.compile(
    rb"^(?!\w*(?:port|addr|host|listener))\w+:\d+\r$"
    rb"|(?<=[ \n$])(?!\w*(?:port|addr))[\w-]+=\d+(?=[ \r\n])"
    rb"|^\$\d+\r\n(?![\w.-]*(?:port|addr|host))[a-z][a-z_.-]+\r\n:\d+\r$",
    re.MULTILINE,
)


class NodePorts:
    """Those of a cluster's nodes."""

    def __init__(self, cluster: RealCluster) -> None:
        ports = [str(port) for node in cluster.nodes for port in (node.port, node.port + 10_000)]
        self._pattern = re.compile(rb"(?<![0-9a-f.])(?:%b)(?![0-9a-f])" % "|".join(ports).encode())

    def told_by(self, reply: bytes) -> bytes:
        """Where the reply tells one, with what stands around it; nothing if it tells none."""
        told = _FIGURES.sub(b"", reply)
        found = self._pattern.search(told)
        return b"" if found is None else told[max(0, found.start() - 60) : found.end() + 20]
