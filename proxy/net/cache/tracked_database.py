"""The reply cache of one database, and the tracking connections that keep it true: one to the server of the route, or
one to each node of a cluster from which somebody reads."""

import asyncio
import select
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial

from proxy.hotpath.cache.reply_cache import ReplyCache
from proxy.local_cache.barrier import Barrier
from proxy.local_cache.expected import CacheBounds, CachedRequest
from proxy.local_cache.fills import Fills
from proxy.net.cache.cluster_slots import ClusterSlots
from proxy.net.cache.tracking import TrackedServer, TrackingListener
from proxy.net.connection.group_counts import GroupCount
from proxy.net.connection.upstream import Keeper, UpstreamConnection
from proxy.session.ports.pool_key import Node

_NAMED_AT_ONCE = 1000


class TrackedDatabase(TrackingListener):
    """``open_connection`` opens a connection of Keyrail's own to a node, for this keeper: logged in, in RESP3, in this
    database; ``forget`` is called when it is lost. What Redis has said before one of the ``user_changes`` counts no
    more. ``home`` is the node of all keys, where there are no ``slots`` of a cluster. ``count`` counts events for the
    metrics.
    """

    readable = staticmethod(select.poll)

    def __init__(
        self,
        open_connection: Callable[[Node, Keeper], Awaitable[UpstreamConnection]],
        forget: Callable[[UpstreamConnection], None],
        loop: asyncio.AbstractEventLoop,
        user_changes: GroupCount,
        count: Callable[[str], None],
        home: Node,
        slots: ClusterSlots | None = None,
    ) -> None:
        self.cache = ReplyCache(None if slots is None else slots.marks)
        self._open_connection = open_connection
        self._forget = forget
        self._loop = loop
        self._user_changes = user_changes
        self._users_known = user_changes.counts()
        self._count = count
        self._home = home
        self._slots = slots
        self._servers: dict[Node, TrackedServer] = {}
        self._by_descriptor: dict[int, TrackedServer] = {}
        self._within_push: set[TrackedServer] = set()
        self._readable = self.readable()
        self._poll = self._readable.poll
        self._barrier = Barrier(self.cache, self._connections)
        self._before = (0, 0, 0)

    # Servers

    def server_of(self, name: bytes) -> TrackedServer | None:
        """The one that has this key; None where it is not known."""
        node = self._home if self._slots is None else self._slots.node_of(name)
        if node is None:
            return None
        server = self._servers.get(node)
        if server is None:
            word = None if self._slots is None else self._slots.word_of(node)
            opening = partial(self._open_connection, node)
            server = TrackedServer(node, self.cache, self, opening, self._forget, self._loop, self._count, word)
            self._servers[node] = server
        return server

    @property
    def connected(self) -> int:
        """How many tracking connections there are."""
        return len(self._connections())

    @property
    def off(self) -> int:
        """To how many servers, from which somebody reads, there is none."""
        return sum(each.wanted and not each.connected for each in self._servers.values())

    @property
    def refused(self) -> set[str]:
        """Why there can be none."""
        return {each.refused for each in self._servers.values() if each.refused}

    @property
    def features_off(self) -> set[str]:
        """What the cache lacks."""
        return {text for each in self._servers.values() for text in each.features_off}

    def _connections(self) -> Sequence[Fills]:
        return [each.fills for each in self._servers.values() if each.fills is not None]

    def tick(self) -> None:
        """To be called every ``PING_EVERY`` seconds."""
        for server in list(self._servers.values()):
            if server.wanted:
                server.tick()
        self.settle()

    def settle(self) -> None:
        """Commands that hold the cache back may have been answered."""
        self._barrier.settle(self._loop.time())

    def renew(self) -> None:
        """Another server may be there, or the same one as another process: nothing may be trusted any more."""
        for server in self._servers.values():
            server.renew()

    def follow(self) -> None:
        """Other nodes of the cluster may own slots now."""
        if self._slots is None:
            self.renew()
            return
        for node in [node for node in self._servers if not self._slots.has(node)]:
            server = self._servers.pop(node)
            server.close()
            self._before = _sum(self._before, server.figures())
        self._slots.follow()

    def doubt(self, node: Node) -> None:
        """This node of the cluster has sent somebody elsewhere: it may have lost slots."""
        server = self._servers.get(node)
        if server is not None:
            server.doubt()

    def look_at_users(self) -> bool:
        """Whether users have changed, in any worker: Redis may refuse now what is in memory."""
        changes = self._user_changes.counts()
        if changes == self._users_known:
            return False
        self._users_known = changes
        self.renew()
        return True

    def close(self) -> None:
        """Close all connections, for good."""
        for server in self._servers.values():
            server.close()

    # What Redis has sent

    def unread(self) -> bool:
        """Take in what Redis has sent; whether something of it is left, or has not come to its end. Nothing is left
        where users have changed, but memory is empty now."""
        if self._user_changes.counts() != self._users_known:
            return self.look_at_users()
        for descriptor, _ in self._poll(0):
            server = self._by_descriptor.get(descriptor)
            if server is None or not server.take_in():
                return True
        return bool(self._within_push)

    def when_read(self, act: Callable[[], None]) -> None:
        """Call ``act`` once some of that has been read."""
        for server in self._servers.values():
            server.when_read(act)

    def opened(self, connection: TrackedServer, descriptor: int) -> None:
        self._by_descriptor[descriptor] = connection
        self._readable.register(descriptor, select.POLLIN)

    def received(self, connection: TrackedServer, *, within_push: bool) -> None:
        if within_push:
            self._within_push.add(connection)
        else:
            self._within_push.discard(connection)

    def closed(self, connection: TrackedServer, fills: Fills, descriptor: int) -> None:
        self._within_push.discard(connection)
        del self._by_descriptor[descriptor]
        self._readable.unregister(descriptor)
        if self._slots is not None:
            self._slots.leave(connection.node)
        self._barrier.passed(fills, self._loop.time())

    def fill(self, read: CachedRequest, bounds: CacheBounds, over: Callable[[], None]) -> bool:
        """Fill the reply to a read; ``over`` is called when that has ended. False if it cannot be filled now."""
        server = self.server_of(read.key)
        return server is not None and server.fill(read, bounds, over)

    def by_server(self, names: Sequence[bytes]) -> Iterator[tuple[Node, Sequence[Sequence[bytes]]]]:
        """These keys by their nodes, in parts that one command may name."""
        if self._slots is not None:
            yield from self._slots.by_node(names)
        elif names:
            yield self._home, [names[at : at + _NAMED_AT_ONCE] for at in range(0, len(names), _NAMED_AT_ONCE)]

    # Figures

    def take_changes(self) -> Counter[bytes]:
        """How often Redis has told of a change of each key since the last call."""
        changes: Counter[bytes] = Counter()
        for server in self._servers.values():
            changes.update(server.take_changes())
        return changes

    def figures(self) -> tuple[int, int, int]:
        """Since the start: fills, those of them that kept nothing, and invalidated keys."""
        total = self._before
        for server in self._servers.values():
            total = _sum(total, server.figures())
        return total


def _sum(one: tuple[int, int, int], other: tuple[int, int, int]) -> tuple[int, int, int]:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]
