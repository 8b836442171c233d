"""Scans all servers of an upstream: one, or the nodes of a cluster side by side, and again those that got slots."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from proxy.net.config.address import UpstreamAddress
from proxy.net.connection.connect import UpstreamRefusedError
from proxy.net.connection.tls import FollowedContext, TlsError
from proxy.net.topology.slot_map import ClusterNode, SlotMap
from proxy.server.stored.link import ServerLink, why_not
from proxy.server.stored.model import NodeFigures, Scan
from proxy.server.stored.node_run import Clock, NodeLostError, NodeRun
from proxy.server.stored.node_walk import Act, Judge, NodeWalk, Place, ScanRefusedError, Tally
from proxy.server.stored.sample import Sampling, estimate, in_keys
from proxy.server.stored.seen import SeenKeys
from proxy.server.stored.servers import Found, Servers
from proxy.server.stored.slot_moves import SlotMoves
from proxy.server.stored.totals import Totals
from proxy.server.stored.unfinished import Found as Earlier
from proxy.server.stored.unfinished import Unfinished

_PATIENCE = 60.0
"""Seconds for which a server may be lost."""
_NODE_PATIENCE = 5.0
"""The same of a node of a cluster: another one may have taken its place."""
_MOST_FAILURES = 12
"""So many times in a row a node may fail: a minute."""
_LOOK_AGAIN = 1.0
_LOOK_SECONDS = 2.0
"""Seconds between two looks at a cluster that is walked."""

Problems = (OSError, UpstreamRefusedError, TlsError, ScanRefusedError, NodeLostError)


class ScanError(Exception):
    """A server cannot be scanned; the text says which one and why."""


class WallClock:
    """The clock of this machine."""

    def now(self) -> float:
        """Seconds."""
        return time.monotonic()

    async def wait(self, seconds: float) -> None:
        """Let this time pass."""
        await asyncio.sleep(seconds)


@dataclass(frozen=True, slots=True)
class Options:
    """How to scan: at a ``share`` of each server's time, of ``replicas`` where there are some, and with commands that
    may change access times (``touches``). ``seconds`` for a connection, and for each reply. ``name`` is that of the
    connections, as CLIENT LIST shows it. With a ``sample``, that share of the keys is looked at."""

    share: float = 0.05
    replicas: bool = False
    touches: bool = False
    seconds: float = 10.0
    name: str = "keyrail-scan"
    sample: float | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a scan is: ``keys`` counted, ``shown`` of about ``expected``; ``states`` say why nodes wait. It has
    ``taken`` this share of the time of that of its ``servers`` of which it takes most."""

    keys: int
    shown: int
    expected: int
    states: Sequence[str]
    taken: float = 0.0
    servers: int = 1


class Acting(Protocol):
    """What is done with keys in place of counting them: with those that it ``concerns``, node by node."""

    def concerns(self, database: int, key: bytes) -> bool: ...
    def at(self, tally: Tally, figures: NodeFigures, moved: Callable[[int], None]) -> Act: ...


class Scanner:
    """One scan. ``show`` is how keys may be shown. Its ``result`` is there at any time: of the part that is done. Keys
    of all databases are counted, or ``acting`` gets those of the one database that the address names."""

    def __init__(
        self,
        address: UpstreamAddress,
        tls: FollowedContext | None,
        judge: Judge,
        show: Callable[[bytes], str],
        options: Options,
        clock: Clock,
        acting: Acting | None = None,
    ) -> None:
        self.finished = False
        self._lacks_keys = False
        self._servers = Servers(address, tls, options.seconds, options.replicas)
        self._tls = tls
        self._options = options
        self._clock = clock
        self._started = time.time()
        seen = SeenKeys(self._expected)
        self._tally = Tally(judge, Totals(show), seen, *(() if acting is None else (acting.concerns,)))
        self._acting = acting
        self._show = show
        self._resumed: Earlier | None = None
        self._one: tuple[NodeWalk, ServerLink] | None = None
        self._use(Totals(show))
        self._measuring = asyncio.Lock()
        self._nodes: dict[str, NodeFigures] = {}
        self._runs: dict[str, NodeRun] = {}

    def keep(self, unfinished: Unfinished, policy: str) -> None:
        """Keep what was done so far, unless no walk has begun: what an earlier process has kept says more then. Raises
        OSError."""
        if not self._runs:
            return
        place = Place()
        if self._one is not None:
            walk, link = self._one
            place = replace(walk.place, run_id="" if link.run_id is None else link.run_id.decode())
        unfinished.write(self.result(policy), [*self._nodes], place, self._tally.seen, self._tally.totals)

    def resume(self, unfinished: Unfinished) -> None:
        """Go on with what an earlier process has kept. Raises UnfinishedError."""
        self._resumed = found = unfinished.read(self._tally.seen)
        self._started = found.scan.started
        self._nodes = dict(zip(found.ids, found.scan.nodes, strict=True))
        for note in found.scan.notes:
            self._tally.note(note)
        self._use(self._tally.totals)

    async def run(self) -> None:
        """Scan to the end. Raises ScanError; what was counted until then is in the result."""
        try:
            in_cluster = await self._servers.is_cluster()
        except Problems as error:
            raise ScanError(f"{self._servers.address}: {_reason(error)}") from None
        if self._resumed is not None and bool(self._resumed.slots) is not in_cluster:
            now = "a cluster" if in_cluster else "no cluster"
            raise ScanError(f"{self._servers.address}: it is {now} now: the unfinished scan of it cannot go on")
        if in_cluster:
            self._use(Totals(self._show, by_slot=self._options.sample is None))
            await self._scan_cluster()
        else:
            await self._scan_one()
        self.finished = True

    def _use(self, totals: Totals) -> None:
        self._tally.totals = totals
        if self._resumed is not None:
            totals.resume(self._resumed.scan, self._resumed.slots)
        if self._options.sample is not None:
            self._tally.sampling = Sampling(self._options.sample, lambda: Totals(self._show), random.random)

    def progress(self) -> Progress:
        """Where it is now."""
        nodes = self._nodes.values()
        states = [f"{name}: {run.state}" for name, run in self._runs.items() if run.state]
        taken = max((run.taken for run in self._runs.values()), default=0.0)
        counted, shown = sum(node.counted for node in nodes), sum(node.shown for node in nodes)
        expected = self._expected() if self._tally.sampling is None else sum(node.planned for node in nodes)
        return Progress(counted, shown, max(expected, counted), states, taken, len(self._runs))

    def result(self, policy: str) -> Scan:
        """What has been found so far."""
        totals, sampling = self._tally.totals, self._tally.sampling
        patterns, findings, faults, sample, forms = (
            (totals.patterns, totals.findings, totals.faults, None, totals.forms)
            if sampling is None
            else estimate(totals, sampling)
        )
        return Scan(
            upstream=str(self._servers.address),
            policy=policy,
            started=self._started,
            ended=time.time(),
            finished=self.finished,
            share=self._options.share,
            patterns=patterns,
            findings=findings,
            faults=faults,
            sample=sample,
            forms=forms,
            largest=totals.largest(),
            nodes=[each if sampling is None else in_keys(each) for each in self._nodes.values()],
            tags=totals.tags.unusual(),
            slots=totals.heaviest_slots(),
            used_slots=totals.used_slots(),
            expected_missed=self._tally.seen.expected_missed,
            notes=[*self._tally.notes],
            lacks_keys=self._lacks_keys,
        )

    def _expected(self) -> int:
        if self._servers.address.database:
            return sum(node.before for node in self._nodes.values())
        return sum(max(node.before, int(node.info.get("total_keys", 0))) for node in self._nodes.values())

    async def _scan_one(self) -> None:
        name = str(self._servers.address)
        figures = self._nodes.setdefault(name, NodeFigures(name))
        walk = self._walk(figures, self._servers.address.database or None)
        run_id = None
        if self._resumed is not None:
            figures.walks = max(figures.walks - 1, 0)  # it is the same one
            walk.place, run_id = self._resumed.place, self._resumed.place.run_id.encode()

        async def find() -> UpstreamAddress:
            return self._found(await self._servers.one(), figures, name)

        try:
            self._one = walk, self._link(find, run_id=run_id)
            await self._run(name, *self._one, _PATIENCE)
        except Problems as error:
            raise ScanError(f"{name}: {_reason(error)}") from None

    def _walk(
        self, figures: NodeFigures, database: int | None, moved: Callable[[int], None] = lambda _: None
    ) -> NodeWalk:
        if self._acting is None:
            return NodeWalk(self._tally, figures, database, moved)
        act = self._acting.at(self._tally, figures, moved)
        return NodeWalk(self._tally, figures, self._servers.address.database, moved, act)

    def _found(self, found: Found, figures: NodeFigures, name: str) -> UpstreamAddress:
        figures.name = f"replica {found.replica} of {name}" if found.replica else name
        if self._options.replicas and not found.replica:
            self._tally.note(f"{name} is walked itself: it has no replica, or is one")
        return found.address

    def _link(
        self, find: Callable[[], Awaitable[UpstreamAddress]], *, in_cluster: bool = False, run_id: bytes | None = None
    ) -> ServerLink:
        its = self._options
        return ServerLink(
            find, self._tls, its.seconds, in_cluster=in_cluster, touches=its.touches, name=its.name, run_id=run_id
        )

    async def _run(self, name: str, walk: NodeWalk, link: ServerLink, patience: float) -> None:
        its = self._options
        run = NodeRun(walk, link, its.share, self._clock, patience, self._measuring, for_primary=its.replicas)
        self._runs[name] = run
        await run.run()

    # Clusters

    async def _scan_cluster(self) -> None:
        moves, failures = SlotMoves(), dict[str, int]()
        seen = await self._look()
        while due := moves.due(seen):
            moves.begin(due)
            await self._walk_all(due, seen, moves, failures)
            seen = await self._look_for_owners()
            if self._tally.sampling is not None:
                if failures:
                    raise ScanError("a node was lost: a sample that is drawn twice from it would be wrong")
                if moves.due(seen):
                    self._tally.note("slots moved meanwhile: keys of these slots may be drawn too often, or never")
                break
        if moves.unsettled:
            self._lack("slots were open all the time: of these, keys may be missing")
        if lost := _slots_without_owner(seen):
            raise ScanError(f"{lost} slots belong to primaries that have failed: their keys are missing")
        if unowned := seen.unowned():
            self._lack(f"{unowned} slots have no owner that can be reached: their keys are missing")

    def _lack(self, why: str) -> None:
        self._lacks_keys = True
        self._tally.note(why)

    async def _look_for_owners(self) -> SlotMap:
        # Where a primary has failed, a replica may take its place at any moment: then it has the keys that were not
        # walked yet.
        since = self._clock.now()
        while _slots_without_owner(seen := await self._look()) and self._clock.now() - since <= _PATIENCE:
            await self._clock.wait(_LOOK_AGAIN)
        return seen

    async def _look(self) -> SlotMap:
        since = self._clock.now()
        while True:
            try:
                return await self._servers.slot_map()
            except OSError as error:
                if not self._nodes or self._clock.now() - since > _PATIENCE:
                    raise ScanError(f"{self._servers.address}: {_reason(error)}") from None
            await self._clock.wait(_LOOK_AGAIN)

    async def _walk_all(
        self, due: Sequence[ClusterNode], seen: SlotMap, moves: SlotMoves, failures: dict[str, int]
    ) -> None:
        loop = asyncio.get_running_loop()
        tasks = {node.id: loop.create_task(self._walk_node(node, seen, moves, failures)) for node in due}
        try:
            pending = set(tasks.values())
            while pending:
                done, pending = await asyncio.wait(pending, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_EXCEPTION)
                if pending and any(map(_is_final, done)):
                    await asyncio.wait(pending, timeout=_LOOK_AGAIN)  # the others may fail for the same reason
                    break
                if pending:
                    await self._look_aside(moves)
        finally:
            for task in tasks.values():
                task.cancel()
        final: list[str] = []
        for name, task in tasks.items():
            if not task.done():
                continue
            error = task.exception()
            if error is None:
                failures.pop(name, None)
                moves.end(name)
                continue
            failures[name] = failures.get(name, 0) + 1
            if not isinstance(error, Problems):
                raise error
            if _is_final(task) or failures[name] > _MOST_FAILURES:
                final.append(f"{self._name(seen.nodes[name])}: {_reason(error)}")
        if final:
            raise ScanError("; ".join(final))

    async def _look_aside(self, moves: SlotMoves) -> None:
        try:
            moves.look(await self._servers.slot_map())
        except OSError:
            pass  # nobody can say now; at the end of the walks somebody has to

    async def _walk_node(self, node: ClusterNode, seen: SlotMap, moves: SlotMoves, failures: Mapping[str, int]) -> None:
        name = self._name(node)
        figures = self._nodes.setdefault(node.id, NodeFigures(name))

        async def find() -> UpstreamAddress:
            found = await self._servers.of_node(node, seen, turn=failures.get(node.id, 0))
            return self._found(found, figures, name)

        walk = self._walk(figures, None, moves.moved)
        await self._run(name, walk, self._link(find, in_cluster=True), _NODE_PATIENCE)

    def _name(self, node: ClusterNode) -> str:
        return f"{node.id[:8]} ({node.endpoint})"


def _slots_without_owner(seen: SlotMap) -> int:
    return sum(last + 1 - first for first, last in seen.lost())


def _is_final(task: asyncio.Task[None]) -> bool:
    return task.done() and not isinstance(task.exception(), OSError | NodeLostError | None)


def _reason(error: BaseException) -> str:
    return str(error) if isinstance(error, NodeLostError | ScanRefusedError | TlsError) else why_not(error)
