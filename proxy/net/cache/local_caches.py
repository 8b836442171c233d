"""The local cache of one route in one worker: a tracked database for each database, and what its clients use of them.

With a cluster upstream, a database has a tracking connection to each node from which somebody reads. Its cache has the
replies of all of them, and the keys that clients' commands hold whichever node they go to:

    own writes     A key is held up to the reply that the client gets, also if its command was sent on to another node.
    moved slots    A reply is found only while both the map and the node itself say that the node owns the slot, and it
                   is not open. As soon as a node has sent a client elsewhere, nothing of it is found before it has said
                   again, behind that, which slots it owns.
    missing keys   That a key is missing is not remembered: Redis does not tell that another node has it now, and no
                   look at the cluster is in time. Of a key that is there it tells, as it deletes it when it moves.
    old primaries  A node is trusted for a second from when it was asked for its slots and its state last: one that is
                   cut off, or has a new primary, says so, or nothing. So what it has told is never older than that.

While no rule of the policy in force is about the cache, there is none, and clients have no part in it. When another
policy comes into force, it is empty.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from proxy.commands.command import Command
from proxy.hotpath.cache.cache_outcomes import UNREAD
from proxy.hotpath.cache.cached_reads import CachedReads
from proxy.hotpath.cache.cached_reply import ReplyMemory
from proxy.hotpath.cache.reply_cache import ReplyCache
from proxy.hotpath.counting.counter_snapshot import CounterSnapshot
from proxy.hotpath.intake.command_sender import CommandSender
from proxy.hotpath.upstream.in_flight import ReplySink
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.local_cache.fills import PING_EVERY
from proxy.net.cache.cache_totals import CacheTotals, with_hits
from proxy.net.cache.cache_uses import CacheUses
from proxy.net.cache.cached_request import request_for
from proxy.net.cache.cluster_slots import ClusterSlots
from proxy.net.cache.commands_without_invalidation import CommandsWithoutInvalidation
from proxy.net.cache.earlier_commands import EarlierCommands
from proxy.net.cache.missing_replies import MOST_WAIT, MissingReplies, Wait
from proxy.net.cache.often_read import OftenRead
from proxy.net.cache.tracked_database import TrackedDatabase
from proxy.net.cache.tracking import TrackedServer
from proxy.net.connection.group_counts import GroupCount
from proxy.net.connection.periodic import Periodic
from proxy.net.connection.upstream import Keeper, UpstreamConnection
from proxy.net.policy.cache_scope import CacheScope
from proxy.net.policy.command_cost import CommandCost
from proxy.net.policy.verdicts import Verdicts
from proxy.net.pool.connection_set import ConnectionSet
from proxy.net.topology.cluster import Cluster
from proxy.net.topology.topology import Topology
from proxy.rules.scripts.own_keys import OwnKeys
from proxy.session.ports.client import ServedClient
from proxy.session.ports.pool_key import Node
from proxy.session.ports.ports import AwaitedReply, CachePort
from proxy.session.session import Session
from proxy.traffic.cache_figures import CacheFigures

_NOBODY = ReplySink()


class LocalCaches(CachePort):
    """``open_connection`` opens a connection of Keyrail's own to a database of a node, in RESP3, which is one of
    ``connections``. ``touch`` tells a node of keys of a database that were used, part by part. ``cost`` is that of a
    command. ``clients`` are those of the route; ``count`` counts events for the metrics."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        topology: Topology,
        open_connection: Callable[[int, Node, Keeper], Awaitable[UpstreamConnection]],
        connections: ConnectionSet,
        touch: Callable[[int, Node, Sequence[Sequence[bytes]]], None],
        cost: CommandCost,
        clients: Collection[Session],
        user_changes: GroupCount,
        verdicts: Verdicts,
        count: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._topology = topology
        self._open_connection = open_connection
        self._connections = connections
        self._touch = touch
        self._cost = cost
        self._clients = clients
        self._user_changes = user_changes
        self._count = count
        self._scope = CacheScope({}, (), None)
        self._caches: list[ReplyCache] = []
        self._databases: dict[int, TrackedDatabase] = {}
        self._by_cache: dict[ReplyCache, TrackedDatabase] = {}
        self._memories: dict[str, ReplyMemory] = {}
        self._uses = CacheUses()
        self._missing = MissingReplies(loop, self._settle, count)
        self._hot = OftenRead()
        self._counted = CacheTotals(cost, verdicts)
        self._earlier = EarlierCommands()
        self._without_invalidation = CommandsWithoutInvalidation(loop.call_later)
        self.scripts = OwnKeys()
        self._was_on = False
        self._ticker = Periodic(loop, PING_EVERY, {"tending the local cache": self._tick}, count)

    # The policy

    def follow(self, scope: CacheScope) -> None:
        """Another policy comes into force: its clients are told one after the other."""
        was_on = bool(self._scope.rules)
        self._was_on = self._was_on or bool(scope.rules)
        self._count_uses()
        self._scope = scope
        self._counted.follow(scope.rules)
        self._uses.begin_anew()
        self._memories = {name: ReplyMemory(settings.memory) for name, settings in scope.rules.items()}
        self._hot.clear()
        for cache in self._caches:
            cache.concern(scope.uncached)
        for client in self._clients:
            self._earlier.note(client, self._caches)
        if scope.rules and not was_on:
            self._without_invalidation.pending_on(self._connections.shared_in_use(), self._has_run_without_invalidation)
            self._ticker.begin()
        elif was_on and not scope.rules:
            self.close()
        # What they wait for would be kept by the rules of the former policy.
        self._missing.end_all()

    def close(self) -> None:
        """Close all connections."""
        self._ticker.end()
        self._counted.figures = self._totals()
        for database in self._databases.values():
            database.close()
        self._missing.end_all()
        self._databases.clear()
        self._by_cache.clear()
        # Clients that have not been told yet still have the list.
        self._caches = []

    def server_changed(self) -> None:
        """Another server, or another process of it, takes commands."""
        for database in self._databases.values():
            database.follow()

    def sent_elsewhere(self, node: Node) -> None:
        """With a cluster upstream: this node has sent a client elsewhere."""
        for database in self._databases.values():
            database.doubt(node)

    def look_at_users(self) -> None:
        """If users have changed, in any worker, Redis may refuse now what is in memory."""
        for database in self._databases.values():
            database.look_at_users()

    # Clients

    def reads_of(self, client: ServedClient, before: CachedReads | None) -> CachedReads | None:
        """The use of the cache of the client's database; ``before`` is its former one."""
        if not self._scope.rules:
            return None
        key = client.key
        database = self._database(key.database)
        policy = self._uses.of(client.effective_policy)
        uses = policy.uses if key.user is None else []
        resp3 = key.protocol == 3
        prefix = client.intake.prefix
        asked = database.cache, policy.roles, uses, resp3, prefix
        if before is not None and (before.cache, before.roles, before.uses, before.resp3, before.prefix) == asked:
            return before
        reads = CachedReads(
            database.cache,
            self._caches,
            policy.roles,
            self._loop.time,
            database.unread,
            uses,
            policy.uncached,
            policy.reads_hot,
            resp3,
            client.sender,
            prefix,
        )
        if before is None or before.caches is not self._caches or (reads.mask != 0 and before.uses != uses):
            self._earlier.note(client, self._caches, untold=before is None)
        return reads

    def _database(self, number: int) -> TrackedDatabase:
        database = self._databases.get(number)
        if database is None:
            opening = partial(self._open_connection, number)
            slots = ClusterSlots(self._topology) if isinstance(self._topology, Cluster) else None
            database = self._databases[number] = TrackedDatabase(
                opening,
                self._connections.remove,
                self._loop,
                self._user_changes,
                self._count,
                self._topology.home,
                slots,
            )
            database.cache.concern(self._scope.uncached)
            database.cache.become_hot(self._hot.names, ())
            for client in self._clients:
                self._earlier.note(client, [database.cache])
            self._without_invalidation.hold_back(database.cache)
            self._caches.append(database.cache)
            self._by_cache[database.cache] = database
        return database

    # Reads that memory lacks

    def seek(
        self, reads: CachedReads, command: Command, request: bytes, waiter: ServedClient, before: AwaitedReply | None
    ) -> tuple[AwaitedReply | None, bool]:
        """Fetch the reply to a read, or its parts that are absent, and say whether the client waits for it, or whether
        its read holds the keys."""
        database = self._by_cache.get(reads.cache)
        now = self._loop.time()
        if database is None or (isinstance(before, Wait) and (reads.outcome != UNREAD or now >= before.until)):
            return None, True
        names = [key.name for key in command.known_keys]
        hot, memories, stored = self._hot.names, self._memories, self._scope.stored
        bounds = [self._uses.bounds(command, name, hot, memories, stored) for name in names]
        about = [each for each in bounds if each is not None and (each.served | each.audited) & reads.mask != 0]
        served = sum(each.served & reads.mask != 0 for each in about)
        if len(about) < len(names):
            return None, served > 0
        self._counted.figures.misses += before is None
        servers = self._wanted(database, names)
        if servers is None or database.cache.held_back or waiter.sender in database.cache.looking:
            return None, served > 0
        if any(waiter.sender is each or _lasts(each) for name in names for each in database.cache.holders(name)):
            return None, served > 0
        missing = [
            (request_for(server, command, name, request), each)
            for server, name, each in zip(servers, names, about, strict=True)
            if len(names) == 1 or name in reads.absent
        ]
        requests = [(read, each) for read, each in missing if read is not None]
        if len(requests) < len(missing):
            return None, served > 0
        if served < len(names):
            for read, each in requests:
                database.fill(read, each, _nothing)
            return None, served > 0
        if any(self._missing.is_contended(name) for name in names):
            return None, True
        wait = Wait(waiter, before.until if isinstance(before, Wait) else now + MOST_WAIT)
        if reads.outcome == UNREAD:
            database.when_read(wait.end)
            self._loop.call_later(wait.until - now, wait.end)
            return wait, True
        return (wait, True) if self._missing.wait_for(wait, requests, database) else (None, True)

    def _wanted(self, database: TrackedDatabase, names: Sequence[bytes]) -> list[TrackedServer] | None:
        # The servers of these keys, if all have a connection; those that have none get one.
        found = [database.server_of(name) for name in names]
        for server in found:
            if server is not None:
                server.wanted = True
        servers = [server for server in found if server is not None and server.connected]
        return servers if len(servers) == len(names) else None

    def hold_back_untold(
        self, reads: CachedReads, sender: CommandSender, upstream: UpstreamPipeline, *, relayed: bool
    ) -> None:
        """Answer nothing from memory until this client's command has run, whose changes Redis does not tell."""
        ran = partial(self._has_run_without_invalidation, sender)
        untold = self._without_invalidation
        running = untold.relayed(upstream) if relayed else untold.sent(upstream, ran)
        reads.hold_back(running, 1, True)

    def _has_run_without_invalidation(self, sender: CommandSender | None = None) -> None:
        # Memory of all workers is void, as after a change of users.
        self._user_changes.add()
        self.look_at_users()
        if sender is not None:
            self.look_again(sender)

    def keys_deleted(self) -> None:
        """Keyrail has deleted keys, on connections of its own: answer nothing before Redis has told which."""
        for cache in self._caches:
            cache.hold_back(_NOBODY, 0)
        self._settle()

    def look_again(self, sender: CommandSender) -> None:
        """Replies to this client have come: look which keys are not held any more."""
        self._earlier.look_again(sender, self._caches)
        self._missing.look_again()

    def _settle(self) -> None:
        for database in self._databases.values():
            database.settle()

    # Every now and then

    def _tick(self) -> None:
        self.look_at_users()
        self._earlier.look_at_all(self._caches)
        for database in self._databases.values():
            database.tick()

    def another_second(self, counts: CounterSnapshot) -> tuple[CounterSnapshot, CacheFigures | None]:
        """A second is over, in which keys were used so often: the same with the part of memory in it, and what the
        cache did; None if there never was one."""
        if not self._was_on:
            return counts, None
        if self._scope.rules:
            self._tend_keys(counts)
            counts = with_hits(counts, self._touch_keys())
        self._count_uses()
        return counts, self._counted.second(self._totals())

    def _touch_keys(self) -> dict[bytes, int]:
        # How many reads of each key were answered.
        hits: Counter[bytes] = Counter()
        for number, database in self._databases.items():
            touched = database.cache.take_touched()
            self._counted.figures.touched += len(touched)
            for node, parts in database.by_server(list(touched)):
                self._touch(number, node, parts)
            hits.update(touched)
        return hits

    def _tend_keys(self, counts: CounterSnapshot) -> None:
        self._cost.another_second()
        self._missing.another_second()
        changes: Counter[bytes] = Counter()
        for database in self._databases.values():
            changes.update(database.take_changes())
        mine = [count for count in counts.key_counts if self._scope.may_be_hot(count.key)]
        before = self._hot.names
        hot = self._hot.another_second(mine, changes, self._loop.time())
        if hot != before:
            senders = self._earlier.besides_lasting(self._clients)
            for cache in self._caches:
                cache.become_hot(hot, senders)

    # Figures

    def _count_uses(self) -> None:
        for rule, use, app in self._uses.each():
            self._counted.take(rule, use, app)

    def _totals(self) -> CacheFigures:
        total = replace(self._counted.figures)
        for database in self._databases.values():
            fills, in_vain, invalidations = database.figures()
            total.fills += fills
            total.fills_in_vain += in_vain
            total.invalidations += invalidations
            total.evictions += database.cache.evicted
        return total

    def figures(self) -> dict[str, Any]:
        """All figures since the start, those of each rule, and how much there is now; nothing if there never was a
        cache. Decisions of rules are counted, too."""
        if not self._was_on:
            return {}
        self._count_uses()
        memories, databases = self._memories.values(), self._databases.values()
        now = {
            "entries": sum(memory.entries for memory in memories),
            "memory_bytes": sum(memory.size for memory in memories),
            "memory_limit_bytes": sum(memory.limit for memory in memories),
            "hot_keys": len(self._hot.names),
            "changing_keys": self._hot.changing,
            "connections": sum(database.connected for database in databases),
            "off": sum(database.off for database in databases),
        }
        return {
            "local_cache": asdict(self._totals()),
            "local_cache_rules": self._counted.by_rule(),
            "local_cache_now": now,
        }

    @property
    def features_off(self) -> list[str]:
        """Why there is no cache, or what it lacks, where the policy has one."""
        refused = {text for database in self._databases.values() for text in database.refused}
        lacking = {text for database in self._databases.values() for text in database.features_off}
        told = [f"the local cache, as Redis refuses its connection ({text})" for text in sorted(refused)]
        return told or sorted(lacking)


def _lasts(holder: ReplySink) -> bool:
    # Whether Redis may hold its reply back for hours.
    return isinstance(holder, CommandSender) and holder.listener is not None and holder.listener.blocked


def _nothing() -> None:
    """Nobody waits for a reply that rules only audit."""
