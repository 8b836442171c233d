"""What operators call the nodes of a cluster: n1, n2 …, the same in all workers.

Each worker numbers nodes as it meets them, and one that starts later meets them in another order. The first name that a
node is told under stays for as long as any worker knows the node; then another node can get it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from proxy.server.control import NameNodes, WorkerReport


class GroupNodeNames:
    """The names of all routes' nodes."""

    def __init__(self, routes: int) -> None:
        self._routes = [NodeNames() for _ in range(routes)]

    def by_id(self) -> tuple[dict[str, str], ...]:
        """Those of each route."""
        return tuple(names.by_id for names in self._routes)

    def follow(self, told: WorkerReport, reports: Sequence[WorkerReport], rename: Callable[[NameNodes], None]) -> None:
        """Name the nodes of which a worker has told, and tell it, if it calls them otherwise."""
        for index, (names, snapshot) in enumerate(zip(self._routes, told.routes, strict=True)):
            if not names.fit(snapshot.get("nodes", ())):
                names.learn([report.routes[index].get("nodes", ()) for report in reports])
                rename(NameNodes(index, names.by_id))


class NodeNames:
    """The names of one route's nodes, by id."""

    def __init__(self) -> None:
        self.by_id: dict[str, str] = {}

    def fit(self, nodes: Sequence[Mapping[str, Any]]) -> bool:
        """Whether a worker that tells of these nodes calls all of them so. It may not know all: one worker alone asks
        for replicas."""
        return all(self.by_id.get(node["id"]) == node["node"] for node in nodes)

    def learn(self, told: Iterable[Sequence[Mapping[str, Any]]]) -> None:
        """Name the nodes that any of the workers tells of, and forget all others."""
        called: dict[str, str] = {}
        for nodes in told:
            for node in nodes:
                called.setdefault(node["id"], node["node"])
        self.by_id = {name: alias for name, alias in self.by_id.items() if name in called}
        for name, alias in called.items():
            if name not in self.by_id:
                self.by_id[name] = self._free(alias)

    def _free(self, wanted: str) -> str:
        taken = {*self.by_id.values()}
        numbered = (f"n{number}" for number in count(1))
        first = next(alias for alias in numbered if alias not in taken)
        return wanted if wanted not in taken and wanted.startswith("n") else first
