"""Finds out what the nodes of a cluster agree on, and follows it: at the start, and for as long as the route lives.

No node says when something changes. So each is asked on a connection of its own:

    each second    CLUSTER INFO, which is short. Where it tells anything new, or once in ten seconds, all are looked at
    a look         CLUSTER NODES and CLUSTER SLOTS of all primaries, of those too that such a look has shown first
    at once        where a client met MOVED or CLUSTERDOWN, or a connection was lost: one look for all who ask

While something is not as it should be (a node is silent, slots have no owner, or a change was a moment ago) the next
look comes after a tenth of a second, so that a promotion is seen soon. A node that does not answer in time is not
waited for a second time until it has been silent for a while.
"""

import asyncio
import contextlib
import logging
import os
import ssl
from collections.abc import Callable, Container, Iterable, Iterator

from proxy.commands.slots import SLOTS
from proxy.net.cluster import Change, Cluster
from proxy.net.connect import UpstreamRefusedError, open_upstream
from proxy.net.own_connections import OwnConnections
from proxy.net.slot_map import Endpoint, NoQuorumError, SlotMap, View, ViewError, agreed, read_view
from proxy.net.tls import FollowedContext, reason_of
from proxy.net.upstream import UpstreamConnection
from proxy.session.pool_key import PoolKey
from proxy.wire.decode import read_reply

POLL_SECONDS = 1.0
_UNSETTLED_SECONDS = 0.1
_LEAST_SECONDS = 0.02
_CALM_SECONDS = 2.0
_TROUBLE_SECONDS = 15.0
"""How long after a change the nodes are looked at more often; the second one while there is a problem."""
_FULL_LOOK_SECONDS = 10.0
_ANSWER_SECONDS = 0.5
_SILENT_SECONDS = 2.0
_MOST_ROUNDS = 3
_FIGURES = (b"cluster_state:", b"cluster_slots_", b"cluster_known_nodes:", b"cluster_size:", b"cluster_current_epoch:")

_log = logging.getLogger("keyrail.route")


class ClusterWatch(OwnConnections):
    """Asks the nodes of one cluster. ``adopted`` hears of each change, ``looked`` of each look;
    ``attempted`` is set after the first.

    What is new is logged as of the route ``log_as``, if that is not empty.

    ``quorum`` says that a majority of the primaries tells the map that is in force. ``problem`` is why not, or what is
    not as it should be; it is empty where all is well.
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
        super().__init__(count)
        self.problem = f"connecting to {cluster.login}"
        self.quorum = False
        self.attempted = asyncio.Event()
        self._cluster = cluster
        self._loop = loop
        self._seconds = min(connect_seconds, _ANSWER_SECONDS)
        self._connect_seconds = connect_seconds
        self._adopted = adopted
        self._looked = looked
        self._tls: FollowedContext | None = None
        self._links: dict[Endpoint, UpstreamConnection] = {}
        self._figures: dict[Endpoint, bytes] = {}
        self._failures: dict[Endpoint, str] = {}
        self._silent: dict[Endpoint, float] = {}
        self._unreached: set[Endpoint] = set()
        self._told: set[str] = set()
        self._log_as = log_as
        self._wanted = cluster.doubted
        self._changed_at = self._looked_at = loop.time()
        self._task: asyncio.Task[None] | None = None

    def begin(self, tls: FollowedContext | None) -> None:
        """Begin to look."""
        self._tls = tls
        self._task = self._loop.create_task(self._run())

    def close(self) -> None:
        """End it."""
        if self._task is not None:
            self._task.cancel()
        for link in self._links.values():
            link.abort()

    # When to look

    async def _run(self) -> None:
        while True:
            self._wanted.clear()
            try:
                await self._look()
                self._looked()
            except Exception:  # noqa: BLE001 - whatever it is, the next look may go well
                self._count("periodic_failures")
                _log.exception("%s: looking at the cluster failed", self._cluster.login)
            self.attempted.set()
            await self._until_due()
            await asyncio.sleep(self._looked_at + _LEAST_SECONDS - self._loop.time())

    async def _until_due(self) -> None:
        while True:
            now = self._loop.time()
            unsettled = now - self._changed_at < (_TROUBLE_SECONDS if self.problem else _CALM_SECONDS)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), _UNSETTLED_SECONDS if unsettled else POLL_SECONDS)
                return
            if self.problem or unsettled or now - self._looked_at > _FULL_LOOK_SECONDS or await self._tells_news():
                return

    async def _tells_news(self) -> bool:
        asked = {endpoint: link.ask(["CLUSTER", "INFO"]) for endpoint, link in self._links.items() if not link.closed}
        for question in asked.values():
            question.add_done_callback(_figures_of)  # its exception has been seen, whoever ends first
        if asked:
            await asyncio.wait(asked.values(), timeout=self._seconds)
        news = len(asked) < len(self._cluster.nodes)
        for endpoint, question in asked.items():
            figures = _figures_of(question)
            if not question.done():
                question.cancel()
                self._drop(endpoint)
            news = news or figures is None or self._figures.get(endpoint, figures) != figures
            self._figures[endpoint] = figures or b""
        return news

    # A look at all

    async def _look(self) -> None:
        self._looked_at = self._loop.time()
        views: dict[Endpoint, View] = {}
        tried: set[Endpoint] = set()
        targets = self._targets()
        for _ in range(_MOST_ROUNDS):
            views |= await self._ask_all(targets - tried)
            tried |= targets
            targets = {
                self._cluster.reachable(node.endpoint)
                for view in views.values()
                for node in view.nodes.values()
                if node.is_primary and not node.failed and node.endpoint is not None
            }
            if targets <= tried:
                break
        self._conclude(views)

    def _targets(self) -> set[Endpoint]:
        known = [node.endpoint for node in self._cluster.map.primaries()]
        targets = {self._cluster.reachable(endpoint) for endpoint in known if endpoint is not None}
        return targets if targets and not self.problem else targets | set(self._cluster.login.seeds)

    async def _ask_all(self, targets: Iterable[Endpoint]) -> dict[Endpoint, View]:
        now = self._loop.time()
        asked = [target for target in targets if self._silent.get(target, now) <= now]
        tasks = {target: self._loop.create_task(self._ask(target)) for target in asked}
        if not tasks:
            return {}
        try:
            late = await self._await_most({*tasks.values()})
        except asyncio.CancelledError:
            for task in tasks.values():
                task.add_done_callback(_ended)
                task.cancel()
            raise
        found: dict[Endpoint, View] = {}
        for target, task in tasks.items():
            self._failures.pop(target, None)
            self._silent.pop(target, None)
            self._unreached.discard(target)
            if task in late:
                task.add_done_callback(_ended)
                task.cancel()
                self._unreached.add(target)
                self._failed(target, "it does not answer")
                self._silent[target] = self._loop.time() + _SILENT_SECONDS
            elif (error := task.exception()) is None:
                found[target] = task.result()
            else:
                if isinstance(error, OSError):
                    self._unreached.add(target)
                self._failed(target, _reason(error))
        return found

    async def _await_most(self, pending: set[asyncio.Task[View]]) -> set[asyncio.Task[View]]:
        # The first answer may take as long as a connection may; then the others have a moment.
        deadline = self._loop.time() + (self._seconds if self._cluster.version else self._connect_seconds)
        while pending and (left := deadline - self._loop.time()) > 0:
            done, pending = await asyncio.wait(pending, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if any(task.exception() is None for task in done):
                deadline = min(deadline, self._loop.time() + self._seconds)
        return pending

    def _failed(self, target: Endpoint, reason: str) -> None:
        self._failures[target] = reason
        self._drop(target)

    def _drop(self, target: Endpoint) -> None:
        self._figures.pop(target, None)
        if (link := self._links.pop(target, None)) is not None:
            link.abort()

    async def _ask(self, target: Endpoint) -> View:
        link = self._links.get(target)
        if link is None or link.closed:
            key = PoolKey(None, 0, 2, self._cluster.home)
            address = self._cluster.login.at(target)
            link = (await open_upstream(address, self._tls, self, key, self._loop)).upstream
            self._links[target] = link
        nodes, slots = await asyncio.gather(link.ask(["CLUSTER", "NODES"]), link.ask(["CLUSTER", "SLOTS"]))
        return read_view(read_reply(nodes), read_reply(slots), target.host)

    def _conclude(self, views: dict[Endpoint, View]) -> None:
        try:
            found = agreed(views.values())
        except NoQuorumError as error:
            self.quorum = False
            self._report({"; ".join([str(error), *self._reasons()])})
            return
        unreached = {*self._reasons(self._unreached)}
        self.quorum = True
        liars = dict(self._lies(found, views))
        nameless = [node for node in found.primaries() if node.endpoint is None]
        change = self._cluster.adopt(found.without(liars))
        self._forget_all_but({self._cluster.reachable(n.endpoint) for n in found.primaries() if n.endpoint is not None})
        problems = {*self._reasons(), *liars.values()}
        problems |= {f"node {node.id[:8]} has no name: set its cluster-announce-hostname" for node in nameless}
        if self._cluster.map.unowned():
            problems.add(f"{self._cluster.map.unowned()} of {SLOTS} slots have no owner that can be reached")
        self._report(problems, problems & unreached)
        if change.new:
            self._changed_at = self._loop.time()
            self._adopted(change)

    def _forget_all_but(self, wanted: set[Endpoint]) -> None:
        for gone in ({*self._links} | {*self._failures}) - wanted:
            self._failures.pop(gone, None)
            self._unreached.discard(gone)
            self._drop(gone)

    def _lies(self, found: SlotMap, views: dict[Endpoint, View]) -> Iterator[tuple[str, str]]:
        # A node that announces an address at which another one answers: commands for it would come back for ever.
        for node in found.primaries():
            answers = None if node.endpoint is None else views.get(self._cluster.reachable(node.endpoint))
            if answers is not None and answers.by != node.id:
                there = f"node {node.id[:8]} announces {node.endpoint}, where node {answers.by[:8]} answers"
                yield node.id, f"{there}: set its cluster-announce-ip and cluster-announce-port, or give ?map=FILE"

    def _reasons(self, of: Container[Endpoint] | None = None) -> list[str]:
        found = sorted(self._failures.items())
        return [f"node {target}: {reason}" for target, reason in found if of is None or target in of]

    def _report(self, problems: set[str], shown_by_nodes: Container[str] = ()) -> None:
        # One line for each that is new, but for nodes without a connection: the health of the node tells of those.
        for problem in sorted(problems - self._told):
            self._changed_at = self._loop.time()
            if self._log_as and problem not in shown_by_nodes:
                _log.warning("route %s: %s", self._log_as, problem)
        if self._log_as and any(problem not in shown_by_nodes for problem in self._told - problems) and not problems:
            _log.info("route %s: all slots have a node that answers", self._log_as)
        self._told = problems
        self.problem = "; ".join(f"{self._cluster.login}: {problem}" for problem in sorted(problems))

    # What its connections report

    def lost(self, upstream: UpstreamConnection) -> None:
        """A node may have ended."""
        super().lost(upstream)
        self._wanted.set()


def _figures_of(question: "asyncio.Future[bytes]") -> bytes | None:
    if not question.done() or question.cancelled() or question.exception() is not None:
        return None
    return b"".join(line for line in question.result().splitlines() if line.startswith(_FIGURES))


def _ended(task: "asyncio.Task[View]") -> None:
    # It was given up, and may still fail: its exception has been seen.
    if not task.cancelled():
        task.exception()


def _reason(error: BaseException) -> str:
    if isinstance(error, UpstreamRefusedError):
        return f"it refuses the connection: {error}"
    if isinstance(error, ViewError):
        return str(error)
    if isinstance(error, OSError) and error.errno is not None and not isinstance(error, ssl.SSLError):
        return os.strerror(error.errno)
    return reason_of(error) if isinstance(error, Exception) else repr(error)
