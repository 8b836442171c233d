"""Finds out when Redis holds writes back (CLIENT PAUSE … WRITE, FAILOVER), and keeps them off shared connections then.

Redis pauses a client with all that its connection sends behind, so one paused write on a shared connection would hold
up the reads of all others. So while a node holds writes back, commands that may write wait here (``gate``).

    a client sends CLIENT PAUSE … WRITE   no worker sends more of them; those under way are answered first (``hold``);
                                          then the command goes to Redis
    shared connections stay silent while  the pause was set around Keyrail, or the node hands over: they get no more
    the node answers on another one       commands until they are drained, others are opened (``suspect``), and the
                                          reads that wait there move to these (``held_reads``)

A user who may not pause writes must not hold up those of others by trying: until such a command of a user has
succeeded, the next ones are not announced for a while.

The end is the moment in which Redis answers what it holds back like a write (``write_probe``), on a connection of its
own. Where Keyrail's user may not run that, the end cannot be told: nothing waits here then.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from typing import Any

from proxy.hotpath.upstream.write_gate import WriteGate
from proxy.net.connection.connect import UpstreamRefusedError
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.downstream.waiting import bring_on
from proxy.net.pool.connections import Connections
from proxy.net.pool.held_reads import HeldReads
from proxy.net.pool.tenant_holds import TenantHolds
from proxy.net.pool.write_probe import runs_writes
from proxy.session.ports.counted_keys import CountedKeys
from proxy.session.ports.pause_port import PausePort
from proxy.session.ports.pool_key import Node
from proxy.session.ports.pool_waiter import UpstreamWait, Waiter
from proxy.session.session import Session

_SETTLE_SECONDS = 0.5
"""How long what is under way may take before a pause begins."""
_ANNOUNCED_SECONDS = 2.0
"""How long a pause may take to begin: longer than all workers need to settle."""
_UNPROVED_SECONDS = 10.0
_ANSWER_SECONDS = 0.2

TellOthers = Callable[[], Awaitable[object]]


class _Wait(UpstreamWait):
    """One client that waits for the end of a pause."""

    def __init__(self, waiter: Waiter, waiting: "dict[_Wait, None]") -> None:
        self.waiter = waiter
        self._waiting = waiting
        waiting[self] = None

    def end(self) -> None:
        """It waits no more."""
        self._waiting.pop(self, None)

    @property
    def gone(self) -> bool:
        """Whether it waits no more."""
        return self not in self._waiting or self.waiter.gone

    def arrived(self) -> None:
        """Bring its command on."""
        self.end()
        self.waiter.arrived()


class WritePauses(PausePort):
    """Of one route in one worker. ``hold_others`` lets the other workers ``hold``, and ``tell_others`` lets them
    ``look`` once Redis has answered."""

    def __init__(self, gate: WriteGate, connections: Connections, clients: Collection[Session]) -> None:
        self.gate = gate
        self.hold_others: TellOthers | None = None
        self.tell_others: Callable[[], object] | None = None
        self._connections = connections
        self._topology = connections.topology
        self._loop = connections.loop
        self._announced: list[asyncio.TimerHandle] = []
        self._probes: dict[Node, asyncio.Task[None]] = {}
        self._again: set[Node] = set()
        self._waiting: dict[_Wait, None] = {}
        self._unproved: dict[str | None, float] = {}
        self._moving: set[UpstreamConnection] = set()
        self.counted = CountedKeys()
        """Of tenants, until their keys are deleted."""
        start, settle, forget = connections.all.start, self._settle_shared, self.counted.forget
        self.tenants = TenantHolds(self._loop, clients, start, settle, self._tenants_changed, forget)
        connections.on_stuck(self.suspect)

    # For sessions

    def holds(self, node: Node | None) -> bool:
        """Whether this node, or any if it is None, holds writes back."""
        if self._announced:
            return True
        return bool(self._probes) if node is None or self._topology.router is None else node in self._probes

    def wait(self, waiter: Waiter) -> UpstreamWait:
        """Call ``arrived`` when a node holds none back any more."""
        return _Wait(waiter, self._waiting)

    def announces(self, user: str | None) -> bool:
        """Whether a command of this user that makes Redis hold writes back is announced: not so soon after one of which
        no success is known."""
        return self._loop.time() - self._unproved.get(user, float("-inf")) >= _UNPROVED_SECONDS

    def announce(self, waiter: Waiter, user: str | None) -> None:
        """A command is about to be sent that makes Redis hold writes back. Call ``arrived`` when it may be."""
        self._unproved = {each: since for each, since in self._unproved.items() if not self.announces(each)}
        self._unproved[user] = self._loop.time()
        self._connections.all.start(self._announce(waiter))

    def answered(self, user: str | None, announced: bool, reply: bytes) -> bytes:
        """The reply to that command: find out how long Redis does so."""
        succeeded = not reply.startswith(b"-")
        if succeeded:
            self._unproved.pop(user, None)
        if succeeded or announced:
            self.look()
            if self.tell_others is not None:
                self.tell_others()
        return reply

    # A pause that is announced

    async def _announce(self, waiter: Waiter) -> None:
        others = [] if self.hold_others is None else [self.hold_others()]
        await asyncio.gather(self.hold(), *others, return_exceptions=True)
        bring_on(self._loop, [waiter])

    async def hold(self) -> None:
        """Send no more writes on shared connections, and wait until those that were sent are answered."""
        self._announced.append(self._loop.call_later(_ANNOUNCED_SECONDS, self.look))
        self.gate.closed = True
        await self._settle_shared(_SETTLE_SECONDS)

    async def _settle_shared(self, seconds: float) -> bool:
        # Whether they have all been answered by then.
        try:
            async with asyncio.timeout(seconds):
                for _ in range(2):  # the second time, what has followed from them
                    await asyncio.gather(*map(_settle, self._shared()))
        except TimeoutError:
            return False
        return True

    def _shared(self) -> Iterator[UpstreamConnection]:
        return (each for each in self._connections.all.members.values() if each.shared and each.vacant())

    def look(self) -> None:
        """Redis has answered what was announced first, or is late: from now on, ask whether it holds writes back."""
        if self._announced:
            self._announced.pop(0).cancel()
        for node in self._topology.nodes:
            self._probe(node)
        self._settle_gate()

    # Whether Redis holds writes back

    def _probe(self, node: Node) -> "asyncio.Task[None]":
        if node in self._probes:
            self._again.add(node)  # what it has answered may be from before
        else:
            self._probes[node] = self._connections.all.start(self._ask(node))
            self._settle_gate()
        return self._probes[node]

    async def _ask(self, node: Node) -> None:
        try:
            self._again.add(node)
            while node in self._again:
                self._again.discard(node)
                with contextlib.suppress(OSError, UpstreamRefusedError):
                    await self._ask_once(node)
        finally:
            del self._probes[node]
            self._settle_gate()
            self._wake()

    async def _ask_once(self, node: Node) -> None:
        fresh = await self._connections.opening.open_apart(node)
        try:
            await runs_writes(fresh, self._topology)
        finally:
            fresh.abort()

    def _settle_gate(self) -> None:
        self.gate.closed = bool(self._announced or self._probes or self.tenants)

    def _tenants_changed(self) -> None:
        self._settle_gate()
        self._wake()

    def _wake(self) -> None:
        bring_on(self._loop, [*self._waiting])

    # A pause around Keyrail

    def suspect(self, node: Node, silent: Sequence[UpstreamConnection]) -> None:
        """These shared connections are silent, while the node answers on another one. Also where a pause is known:
        what holds them up was sent before, or this engine alone holds it back."""
        self._connections.all.start(self._relieve(node, silent))

    async def _relieve(self, node: Node, silent: Sequence[UpstreamConnection]) -> None:
        probe = self._probes.get(node) or self._probe(node)
        await asyncio.wait([probe], timeout=_ANSWER_SECONDS)
        if not probe.done():
            await asyncio.gather(*map(self._move_from, silent))

    async def _move_from(self, source: UpstreamConnection) -> None:
        if source in self._moving or not source.shared or source.pipeline.head is None:
            return
        self._moving.add(source)
        try:
            if not source.head_blocked:
                source.drain(source.reopen)
            await HeldReads(self._connections, source).move()
        finally:
            self._moving.discard(source)


async def _settle(upstream: UpstreamConnection) -> Any:
    with contextlib.suppress(OSError):
        await upstream.ask(["PING"])
