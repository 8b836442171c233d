"""Finds out what the nodes of a cluster agree on, and follows it: at the start, and for as long as the route lives.

No node says when something changes. So each is asked on a connection of its own:

    each second    CLUSTER INFO, which is short. Where it tells anything new, or once in ten seconds, all are looked at
    a look         CLUSTER NODES and CLUSTER SLOTS of all primaries, of those too that such a look has shown first
    at once        where a client met MOVED or CLUSTERDOWN, or a connection was lost: one look for all who ask
"""

import asyncio
from collections.abc import Callable, Container, Iterator

from proxy.commands.slots import SLOTS
from proxy.net.config.endpoint import Endpoint
from proxy.net.connection.deadline import unanswered
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.follow.watch import Looking, Watch
from proxy.net.topology.cluster import Cluster
from proxy.net.topology.links import ANSWER_SECONDS, Links
from proxy.net.topology.slot_map import NoQuorumError, SlotMap, View, agreed, read_view
from proxy.net.topology.topology import Change
from proxy.session.ports.pool_key import PoolKey
from proxy.wire.decode import read_reply

_FULL_LOOK_SECONDS = 10.0
_MOST_ROUNDS = 3
_NOWHERE = "has no name, or the other nodes know no address of it: see its cluster-announce-hostname"
_OK = b"cluster_state:ok"
_FIGURES = (b"cluster_state:", b"cluster_slots_", b"cluster_known_nodes:", b"cluster_size:", b"cluster_current_epoch:")


class ClusterWatch(Watch):
    """Asks the nodes of one cluster. ``adopted`` hears of each change, ``looked`` of each look.

    What is new is logged as of the route ``log_as``, if that is not empty.
    """

    def __init__(
        self,
        cluster: Cluster,
        loop: asyncio.AbstractEventLoop,
        connect_seconds: float,
        adopted: Callable[[Change], None],
        looked: Callable[[], None],
        count: Callable[[str], None],
        log_as: str = "",
    ) -> None:
        self._settled = False
        self._cluster = cluster
        self._seconds = min(connect_seconds, ANSWER_SECONDS)
        self._connect_seconds = connect_seconds
        self._adopted = adopted
        self._looked = looked
        well = "all slots have a node that answers"
        looking = Looking(str(cluster.login), loop, cluster.doubted, count, log_as=log_as, well=well)
        key = PoolKey(None, 0, 2, cluster.home)
        super().__init__(loop, looking, Links(cluster.login.at, key, loop, connect_seconds, cluster.doubt, count))
        self._figures: dict[Endpoint, bytes] = {}

    @property
    def settled(self) -> bool:
        """Whether a majority of the primaries tells the map that is in force."""
        return self._settled

    async def _has_news(self) -> bool:
        return self._loop.time() - self._looking.looked_at > _FULL_LOOK_SECONDS or await self._tells_news()

    async def _tells_news(self) -> bool:
        asked = {endpoint: link.ask(["CLUSTER", "INFO"]) for endpoint, link in self._links.open().items()}
        for question in asked.values():
            question.add_done_callback(_figures_of)  # its exception has been seen, whoever ends first
        await unanswered({*asked.values()}, self._seconds)
        news = len(asked) < len(self._cluster.nodes)
        for endpoint, question in asked.items():
            figures = _figures_of(question)
            if not question.done():
                question.cancel()
                self._links.drop(endpoint)
            news = news or figures is None or self._figures.get(endpoint, figures) != figures
            self._figures[endpoint] = figures or b""
        well = sum(figures.startswith(_OK) for figures in self._figures.values())
        self._cluster.serves = 2 * well > len(self._cluster.nodes)
        return news

    # A look at all

    async def _look(self) -> None:
        views = await self._ask_from(self._targets())
        if not views and not self._cluster.version and self._cluster.last_known:
            # What other workers know leads on where no seed does.
            views = await self._ask_from({self._cluster.reachable(each.endpoint) for each in self._cluster.last_known})
        self._conclude(views)
        self._looked()

    async def _ask_from(self, targets: set[Endpoint]) -> dict[Endpoint, View]:
        """The views of these nodes, and of those that they tell of."""
        views: dict[Endpoint, View] = {}
        tried: set[Endpoint] = set()
        first = self._seconds if self._cluster.version else self._connect_seconds
        for _ in range(_MOST_ROUNDS):
            views |= await self._links.ask_all(targets - tried, _ask, first)
            tried |= targets
            targets = {
                self._cluster.reachable(node.endpoint)
                for view in views.values()
                for node in view.nodes.values()
                if node.is_primary and not node.failed and node.endpoint is not None
            }
            if targets <= tried:
                break
        return views

    def _targets(self) -> set[Endpoint]:
        # Without a majority of the known primaries, replicas may lead to those that have taken their places.
        nodes = self._cluster.map.primaries() if self._settled else self._cluster.map.nodes.values()
        known = [node.endpoint for node in nodes]
        targets = {self._cluster.reachable(endpoint) for endpoint in known if endpoint is not None}
        return targets if targets and not self.problem else targets | set(self._cluster.login.seeds)

    def _conclude(self, views: dict[Endpoint, View]) -> None:
        try:
            found = agreed(views.values())
        except NoQuorumError as error:
            self._settled = self._cluster.serves = False
            self._looking.report({"; ".join([str(error), *self._reasons()])})
            return
        unreached = {*self._reasons(self._links.unreached)}
        self._settled = True
        liars = dict(self._lies(found, views))
        nameless = [node for node in found.primaries() if node.endpoint is None]
        change = self._cluster.adopt(found.without(liars))
        wanted = {self._cluster.reachable(n.endpoint) for n in found.primaries() if n.endpoint is not None}
        self._links.forget_all_but(wanted)
        self._figures = {endpoint: figures for endpoint, figures in self._figures.items() if endpoint in wanted}
        problems = {*self._reasons(), *liars.values()}
        problems |= {f"node {node.id[:8]} {_NOWHERE}" for node in nameless}
        if self._cluster.map.unowned():
            problems.add(f"{self._cluster.map.unowned()} of {SLOTS} slots have no owner that can be reached")
        # The health of a node without a connection is told with its other figures.
        self._looking.report(problems, problems & unreached)
        if change.new:
            self._looking.changed()
            self._adopted(change)

    def _lies(self, found: SlotMap, views: dict[Endpoint, View]) -> Iterator[tuple[str, str]]:
        # A node that announces an address at which another one answers: commands for it would come back for ever.
        for node in found.primaries():
            answers = None if node.endpoint is None else views.get(self._cluster.reachable(node.endpoint))
            if answers is not None and answers.by != node.id:
                there = f"node {node.id[:8]} announces {node.endpoint}, where node {answers.by[:8]} answers"
                yield node.id, f"{there}: set its cluster-announce-ip and cluster-announce-port, or give ?map=FILE"

    def _reasons(self, of: Container[Endpoint] | None = None) -> list[str]:
        found = sorted(self._links.failures.items())
        return [f"node {target}: {reason}" for target, reason in found if of is None or target in of]


async def _ask(link: UpstreamConnection, target: Endpoint) -> View:
    nodes, slots = await asyncio.gather(link.ask(["CLUSTER", "NODES"]), link.ask(["CLUSTER", "SLOTS"]))
    return read_view(read_reply(nodes), read_reply(slots), target.host)


def _figures_of(question: "asyncio.Future[bytes]") -> bytes | None:
    if not question.done() or question.cancelled() or question.exception() is not None:
        return None
    return b"".join(line for line in question.result().splitlines() if line.startswith(_FIGURES))
