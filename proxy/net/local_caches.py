"""The local cache of one route in one worker: a tracked database for each database, and what its clients use of them.

While no rule of the policy in force is about the cache, there is none, and clients have no part in it. When another
policy comes into force, it is empty.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from dataclasses import asdict, replace
from functools import lru_cache, partial
from typing import Any

from proxy.commands.cached_reads import CACHED_READS, cache_role, depends_on_whole_hash, fields_read, reply_in_resp2
from proxy.commands.command import Command
from proxy.commands.table import Table
from proxy.hotpath.automaton import Automaton
from proxy.hotpath.cached_reads import UNREAD, CachedReads, CacheUse
from proxy.hotpath.command_sender import CommandSender
from proxy.hotpath.counter_snapshot import CounterSnapshot
from proxy.hotpath.reply_cache import ReplyCache, ReplyMemory
from proxy.local_cache.fills import PING_EVERY, CacheBounds, CachedRequest
from proxy.net.cache_scope import CacheScope, always_cached
from proxy.net.cache_totals import CacheTotals, with_hits
from proxy.net.command_cost import CommandCost
from proxy.net.missing_replies import MOST_WAIT, MissingReplies, Wait
from proxy.net.periodic import Periodic
from proxy.net.tracking import FieldTtls, TrackedDatabase
from proxy.net.unheld_commands import UnheldCommands
from proxy.net.upstream import Keeper, UpstreamConnection
from proxy.net.user_changes import UserChanges
from proxy.net.verdicts import Verdicts
from proxy.policy.decision import Step
from proxy.policy.model import Mode
from proxy.rules.context import Context
from proxy.rules.key_globs import none_fits
from proxy.rules.local_cache.rule import LocalCacheRule, LocalCacheSettings, When
from proxy.session.ports import AwaitedReply, CachePort, CachingClient, CachingWaiter, EffectivePolicy
from proxy.session.session import Session
from proxy.traffic.cache_figures import CacheFigures

HOT = 100
"""Reads of a key per second in this worker, from which on it is hot, until there are less than half as many."""
_BITS = 31
"""Uses under one policy that can be told apart: those under the next one have other bits."""
_TOUCHED_AT_ONCE = 1000


class _PolicyUses:
    """The rules of one effective policy, each with its use."""

    def __init__(self, effective_policy: EffectivePolicy, uses: list[tuple[Step, LocalCacheRule, CacheUse]]) -> None:
        self.compiled = effective_policy.compiled
        self.rules = uses
        self.uses = [use for _, _, use in uses]
        always = always_cached(rule.settings for _, rule, _ in uses)
        self.uncached: Automaton | None = none_fits(always) if always else None
        self.reads_hot = any(rule.settings.when is When.HOT for _, rule, _ in uses)
        self.roles = roles_of(effective_policy.table)


@lru_cache(maxsize=8)
def roles_of(table: Table) -> bytes:
    """The role of each command of a table."""
    return bytes(map(cache_role, table.specs))


class LocalCaches(CachePort):
    """``open_connection`` opens a connection of Keyrail's own to a database, in RESP3; ``forget`` is called when it is
    lost. ``touch`` tells Redis of keys of a database that were used. ``cost`` is that of a command. ``clients`` are
    those of the route; ``count`` counts events for the metrics."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        open_connection: Callable[[int, Keeper], Awaitable[UpstreamConnection]],
        forget: Callable[[UpstreamConnection], None],
        touch: Callable[[int, list[bytes]], None],
        cost: CommandCost,
        clients: Collection[Session],
        user_changes: UserChanges,
        verdicts: Verdicts,
        count: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._open_connection = open_connection
        self._forget = forget
        self._touch = touch
        self._cost = cost
        self._clients = clients
        self._user_changes = user_changes
        self._users_known = user_changes.total()
        self._count = count
        self._scope = CacheScope({}, (), None)
        self._caches: list[ReplyCache] = []
        self._databases: dict[int, TrackedDatabase] = {}
        self._by_cache: dict[ReplyCache, TrackedDatabase] = {}
        self._memories: dict[str, ReplyMemory] = {}
        self._uses: dict[int, _PolicyUses] = {}
        self._second_half = False
        self._missing = MissingReplies(loop, self._settle, count)
        self._hot: set[bytes] = set()
        self._counted = CacheTotals(cost, verdicts)
        self._unheld = UnheldCommands()
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
        self._uses.clear()
        self._second_half = not self._second_half
        self._memories = {name: ReplyMemory(settings.memory) for name, settings in scope.rules.items()}
        self._hot = set()
        for cache in self._caches:
            cache.concern(scope.uncached)
        for client in self._clients:
            self._unheld.note(client, self._caches)
        if scope.rules and not was_on:
            self._ticker.begin()
        elif was_on and not scope.rules:
            self.close()

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

    def renew(self) -> None:
        """Another server, or another process of it, takes the commands."""
        for database in self._databases.values():
            database.renew()

    def look_at_users(self) -> None:
        """If users have changed, in any worker, Redis may refuse now what is in memory."""
        changes = self._user_changes.total()
        if changes != self._users_known:
            self._users_known = changes
            self.renew()

    # Clients

    def reads_of(self, client: CachingClient, before: CachedReads | None) -> CachedReads | None:
        """The use of the cache of the client's database; ``before`` is its former one."""
        if not self._scope.rules:
            return None
        key = client.key
        database = self._database(key.database)
        policy = self._of(client.effective_policy)
        uses = policy.uses if key.user is None else []
        resp3 = key.protocol == 3
        if before is not None and before.cache is database.cache and before.uses == uses and before.resp3 == resp3:
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
        )
        if before is None or before.caches is not self._caches or (reads.mask != 0 and before.uses != uses):
            self._unheld.note(client, self._caches)
        return reads

    def _database(self, number: int) -> TrackedDatabase:
        database = self._databases.get(number)
        if database is None:
            opening = partial(self._open_connection, number)
            database = self._databases[number] = TrackedDatabase(opening, self._forget, self._loop, self._count)
            database.cache.concern(self._scope.uncached)
            database.cache.become_hot(self._hot, ())
            for client in self._clients:
                self._unheld.note(client, [database.cache])
            self._caches.append(database.cache)
            self._by_cache[database.cache] = database
        return database

    def _of(self, effective_policy: EffectivePolicy) -> _PolicyUses:
        known = self._uses.get(id(effective_policy.compiled))
        if known is None:
            steps = [
                (step, step.rule) for step in effective_policy.compiled.steps if isinstance(step.rule, LocalCacheRule)
            ]
            taken = sum(len(each.uses) for each in self._uses.values())
            first = taken + _BITS * self._second_half
            room = len(steps) if taken + len(steps) <= _BITS else 0
            uses = [(step, rule, CacheUse(1 << (first + i))) for i, (step, rule) in enumerate(steps[:room])]
            known = self._uses[id(effective_policy.compiled)] = _PolicyUses(effective_policy, uses)
        return known

    # Reads that memory lacks

    def seek(
        self, reads: CachedReads, command: Command, request: bytes, waiter: CachingWaiter, before: AwaitedReply | None
    ) -> tuple[AwaitedReply | None, bool]:
        """Fetch the reply to a read, and say whether the client waits for it, or whether its read holds the key."""
        database = self._by_cache.get(reads.cache)
        now = self._loop.time()
        if database is None or (isinstance(before, Wait) and (reads.outcome != UNREAD or now >= before.until)):
            return None, True
        name = command.known_keys[0].name
        bounds = self._bounds(command, name)
        if bounds is None or (bounds.served | bounds.audited) & reads.mask == 0:
            return None, False
        self._counted.figures.misses += before is None
        waits = bounds.served & reads.mask != 0
        database.wanted = True
        read = None if database.cache.held_back else _cached_request(database, command, name, request)
        if read is None or not database.connected or waiter.sender in database.cache.holders(name):
            return None, waits
        if not waits:
            database.fill(read, bounds, _nothing)
            return None, False
        if self._missing.is_contended(name):
            return None, True
        wait = Wait(waiter, before.until if isinstance(before, Wait) else now + MOST_WAIT)
        if reads.outcome == UNREAD:
            database.when_read(wait.end)
            self._loop.call_later(wait.until - now, wait.end)
            return wait, True
        return (wait, True) if self._missing.wait_for(wait, read, bounds, database) else (None, True)

    def look_again(self, sender: CommandSender) -> None:
        """Replies to this client have come: look which keys are not held any more."""
        self._unheld.look_again(sender, self._caches)
        self._missing.look_again()

    def _settle(self) -> None:
        for database in self._databases.values():
            if database.cache.held_back:
                database.settle()

    def _bounds(self, command: Command, name: bytes) -> CacheBounds | None:
        # For all clients: what one of them fetches, another may be sent.
        context = Context("", "", 0, False, time.time(), lambda: 0.0)
        served = audited = 0
        about: list[LocalCacheSettings] = []
        memory: ReplyMemory | None = None
        for policy in self._uses.values():
            for step, rule, use in policy.rules:
                settings = rule.settings
                if (settings.when is When.HOT and name not in self._hot) or not rule.fits(name):
                    continue
                mode = step.mode_for(command, context)
                if mode is Mode.OFF:
                    continue
                served |= use.bit * (mode is Mode.ENFORCE)
                audited |= use.bit * (mode is not Mode.ENFORCE)
                about.append(settings)
                memory = memory or self._memories.get(rule.name)
        if memory is None:
            return None
        max_age, max_value = min(each.max_age for each in about), min(each.max_value for each in about)
        return CacheBounds(max_age, max_value, memory, served, audited)

    # Every now and then

    def _tick(self) -> None:
        self.look_at_users()
        self._unheld.look_at_all(self._caches)
        for database in self._databases.values():
            if database.wanted:
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
            names = list(touched)
            self._counted.figures.touched += len(names)
            for start in range(0, len(names), _TOUCHED_AT_ONCE):
                self._touch(number, names[start : start + _TOUCHED_AT_ONCE])
            hits.update(touched)
        return hits

    def _tend_keys(self, counts: CounterSnapshot) -> None:
        self._cost.another_second()
        self._missing.another_second()
        hot = {
            count.key
            for count in counts.key_counts
            if count.reads >= (HOT / 2 if count.key in self._hot else HOT)
            and any(glob.fits(count.key) for glob in self._scope.hot)
        }
        if hot != self._hot:
            senders = self._unheld.besides_lasting(self._clients)
            self._hot = hot
            for cache in self._caches:
                cache.become_hot(hot, senders)

    # Figures

    def _count_uses(self) -> None:
        for policy in self._uses.values():
            for _, rule, use in policy.rules:
                self._counted.take(rule.name, use, policy.compiled.app)

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
            "hot_keys": len(self._hot),
            "connections": sum(database.connected for database in databases),
            "off": sum(database.wanted and not database.connected for database in databases),
        }
        return {
            "local_cache": asdict(self._totals()),
            "local_cache_rules": self._counted.by_rule(),
            "local_cache_now": now,
        }

    @property
    def features_off(self) -> list[str]:
        """Why there is no cache, where the policy has one."""
        refused = {database.refused for database in self._databases.values() if database.refused}
        return [f"the local cache, as Redis refuses its connection ({text})" for text in sorted(refused)]


def _cached_request(database: TrackedDatabase, command: Command, name: bytes, request: bytes) -> CachedRequest | None:
    read = CACHED_READS[command.spec.name]
    fields = fields_read(read, command.argv)
    if depends_on_whole_hash(read) or fields:
        if database.field_ttls is FieldTtls.UNTOLD:
            return None
        if database.field_ttls is FieldTtls.NONE:
            fields = ()
        elif depends_on_whole_hash(read):
            return None
    return CachedRequest(name, request, fields, partial(reply_in_resp2, read, len(command.argv)))


def _nothing() -> None:
    """Nobody waits for a reply that rules only audit."""
