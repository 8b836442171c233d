"""The traffic of one route in an interval, a second or more: the counts of its keys, and the sums of its traces.

Intervals can be added up: those of workers to the process group's, those of seconds to a window's. Everything in an
interval is bounded. If there are too many names, those with the least weight are folded into ``other``, which is shown.

Counts of keys come from the counters and have bounds (``traffic.merge``). All other figures are sums over traces. Each
trace stands for ``weight`` commands, so the sums are unbiased estimates; more traces make them more precise.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from operator import itemgetter
from types import MappingProxyType
from typing import Any

from proxy.commands.slots import hashed_part, slot_of
from proxy.hotpath.counting.counter_snapshot import CounterSnapshot
from proxy.traffic.cache_figures import CacheFigures
from proxy.traffic.client_figures import CommandOfClient, CommandTimes, EndedConnections, TimeAtRedis
from proxy.traffic.heaviest import Heaviest
from proxy.traffic.key_figures import KeyFigures, PatternFigures, Volume
from proxy.traffic.labels import Client, ClientLabel
from proxy.traffic.latency import Histogram
from proxy.traffic.merge import combined
from proxy.traffic.slot_counts import SlotCounts
from proxy.traffic.trace import Trace

MOST_KEYS, MOST_PATTERNS, MOST_CLIENTS, MOST_TAGS = 400, 200, 200, 100
MOST_SLOW = 20
READS_OF_RUN = 8
"""The number of consecutive reads of single keys that make a run."""
_SNAPSHOTS = 8
"""The most snapshots of counts that are kept before they are merged."""


@dataclass(slots=True)
class SlowCommand:
    """One command that took long; times in seconds, `at` since the epoch."""

    at: float
    command: str
    key: bytes
    at_redis: float
    in_proxy: float
    bytes_in: int
    bytes_out: int
    client: Client

    @property
    def took(self) -> float:
        """Seconds from the command to its reply."""
        return self.at_redis + self.in_proxy


class IntervalStats:
    """A stretch of time: it began at `began` (seconds since the epoch), and took `seconds`."""

    __slots__ = (
        "_times",
        "began",
        "cached",
        "clients",
        "commands",
        "counter_snapshots",
        "crossslot",
        "ended",
        "keys",
        "patterns",
        "proxy",
        "redis",
        "refused",
        "schema",
        "seconds",
        "slots",
        "slow",
        "tags",
        "times",
        "volume",
    )

    def __init__(self, began: float, seconds: float = 0.0) -> None:
        self.began = began
        self.seconds = seconds
        self.commands = 0
        """All commands, counted."""
        self.volume = Volume()
        self.proxy = Histogram()
        self.redis = Histogram()
        self.counter_snapshots: list[CounterSnapshot] = []
        self.keys: Heaviest[bytes, KeyFigures] = Heaviest(MOST_KEYS)
        self.patterns: Heaviest[str, PatternFigures] = Heaviest(MOST_PATTERNS)
        self.clients: Heaviest[Client, Volume] = Heaviest(MOST_CLIENTS)
        self.tags: Heaviest[bytes, Volume] = Heaviest(MOST_TAGS)
        self.ended: Heaviest[Client, EndedConnections] = Heaviest(MOST_CLIENTS)
        """Connections that have ended in this time."""
        self.times: Heaviest[CommandOfClient, TimeAtRedis] = Heaviest(MOST_CLIENTS)
        self._times = CommandTimes()
        self.slots = SlotCounts()
        self.schema: set[str] = set()
        """The patterns that are entries of the schema."""
        self.crossslot = 0
        self.slow: list[SlowCommand] = []
        self.cached: CacheFigures | None = None
        """What the local cache did; None if the route never had one."""

    # One trace

    def see(self, trace: Trace, schema: frozenset[str]) -> None:
        """Add a trace; `schema` are those of its patterns that are entries of the schema."""
        client: Client = (trace.app, *host_of(trace.who))
        volume = Volume.of(trace, any(trace.writes))
        self.volume.add(volume)
        self.clients.put(client, volume)
        if trace.measured:
            self.proxy.add(trace.in_proxy, trace.weight)
            self.redis.add(trace.at_redis, trace.weight)
            self._see_slow(trace, client)
        self.schema |= schema
        slots = [slot_of(key) for key in trace.keys]
        if len(slots) > 1 and len(set(slots)) > 1:
            self.crossslot += trace.weight
        if len(slots) > 1:
            volumes = {write: Volume.of(trace, write, len(slots)) for write in set(trace.writes)}
        else:
            volumes = dict.fromkeys(trace.writes, volume)
        for key, slot, write, pattern in zip(trace.keys, slots, trace.writes, trace.patterns, strict=True):
            volume = volumes[write]
            self.keys.of(key, KeyFigures).see(volume, pattern, client, trace.weight)
            self._see_pattern(trace, client, key, pattern, volume)
            self.slots.add(slot, trace.weight)
            tag = hashed_part(key)
            if tag is not key:
                self.tags.put(tag, volume)

    def _see_pattern(self, trace: Trace, client: Client, key: bytes, pattern: str, volume: Volume) -> None:
        figures = self.patterns.of(pattern, PatternFigures)
        figures.volume.add(volume)
        figures.app = trace.app or figures.app
        if trace.measured:
            figures.times.add(trace.at_redis, trace.weight)
        size, stored = max((trace.bytes_in, trace.stored_in), (trace.bytes_out, trace.stored_out))
        figures.see_largest(size // len(trace.keys), key, client, stored // len(trace.keys))

    def see_expiry(self, pattern: str, key: bytes, until: float) -> None:
        """Add that Keyrail has asked for a key's TTL, and when the key expires; infinity means never."""
        figures = self.patterns.of(pattern, PatternFigures)
        figures.asked += 1
        figures.expiring += isfinite(until)
        known = self.keys.found.get(key)
        if known is not None:
            known.until = until

    def see_large(self, pattern: str, key: bytes, size: int, client: Client, *, stored: int, schema: bool) -> None:
        """Add that a reply about this key was large, whether or not its command was traced."""
        figures = self.patterns.of(pattern, PatternFigures)
        figures.app = client[0] or figures.app
        figures.see_largest(size, key, client, stored)
        if schema:
            self.schema.add(pattern)

    def see_time(self, trace: Trace, count: int) -> None:
        """Add a command that stands for `count` ones, for its time."""
        self._times.see(trace.command, (trace.app, *host_of(trace.who)), count, trace.bytes_out, trace.at_redis)

    def see_ended(self, client: Client, connections: int, commands: int) -> None:
        """Add connections of a client that have ended, with so many commands on them."""
        self.ended.put(client, EndedConnections(connections, commands))

    def see_run(self, pattern: str, weight: int) -> None:
        """Add `weight` runs of reads of this pattern."""
        self.patterns.of(pattern, PatternFigures).read_in_runs += weight

    def _see_slow(self, trace: Trace, client: Client) -> None:
        if len(self.slow) == MOST_SLOW and trace.in_proxy + trace.at_redis <= self.slow[-1].took:
            return
        key = trace.keys[0] if trace.keys else b""
        sizes = trace.bytes_in, trace.bytes_out
        slow = SlowCommand(trace.at, trace.command, key, trace.at_redis, trace.in_proxy, *sizes, client)
        self._keep_slow([slow])

    def _keep_slow(self, more: list[SlowCommand]) -> None:
        self.slow = sorted((*self.slow, *more), key=lambda each: -each.took)[:MOST_SLOW]

    # Sums

    def add(self, more: "IntervalStats") -> None:
        """Add another worker's figures of the same time, or figures of another time."""
        self.commands += more.commands
        self.volume.add(more.volume)
        self.proxy.merge(more.proxy)
        self.redis.merge(more.redis)
        self.counter_snapshots += more.counter_snapshots
        if len(self.counter_snapshots) > _SNAPSHOTS:
            self.counter_snapshots = [combined(self.counter_snapshots)]
        self.slots.merge(more.slots)
        self.schema |= more.schema
        self.crossslot += more.crossslot
        self._keep_slow(more.slow)
        self.keys.add(more.keys)
        self.patterns.add(more.patterns)
        self.clients.add(more.clients)
        self.tags.add(more.tags)
        self.ended.add(more.ended)
        self.times.add(more.times)
        if more.cached is not None:
            self.cached = self.cached or CacheFigures()
            self.cached.add(more.cached)

    def counts(self) -> CounterSnapshot:
        """The counts of keys, as one snapshot."""
        if len(self.counter_snapshots) != 1:
            self.counter_snapshots = [combined(self.counter_snapshots)]
        return self.counter_snapshots[0]

    def memory(self) -> int:
        """About how many bytes it takes: not less than Python's allocator says (``tests/traffic/test_memory.py``)."""
        return self._fixed_memory() + sum(taken for taken, _ in self._memory_of_names())

    def _fixed_memory(self) -> int:
        counted = sum(len(snapshot.key_counts) for snapshot in self.counter_snapshots)
        return 8192 + 280 * counted + self.slots.memory() + 420 * len(self.slow) + 100 * len(self.schema)

    def _memory_of_names(self) -> list[tuple[int, Heaviest[Any, Any]]]:
        clients = sum(len(figures.clients) for figures in self.keys.found.values())
        return [
            (720 * len(self.keys.found) + 280 * clients, self.keys),
            (900 * len(self.patterns.found), self.patterns),
            (480 * len(self.clients.found), self.clients),
            (340 * len(self.tags.found), self.tags),
            (480 * len(self.ended.found), self.ended),
            (560 * len(self.times.found), self.times),
        ]

    def shrink(self, most: int) -> None:
        """Fold the lightest names, until it takes no more than ``most`` bytes.

        Keys, patterns, clients and so on each get an equal part of the memory, and the parts that the others leave. So
        many keys do not displace clients.
        """
        if self.memory() <= most:
            return
        self.counts()
        # Names differ in size. A little more is folded, so that the next second does not fold again.
        room = int(0.8 * max(0, most - self._fixed_memory()))
        by_size = sorted(self._memory_of_names(), key=itemgetter(0))
        for remaining, (taken, heaviest) in zip(range(len(by_size), 0, -1), by_size, strict=True):
            share = room // remaining
            if taken > share:
                heaviest.fold(len(heaviest.found) * share // taken)
            room -= min(taken, share)

    def close(self, costs: Mapping[str, float] = MappingProxyType({})) -> None:
        """Fold the names over the bounds, before the figures are sent to the supervisor. `costs` are the seconds that
        commands take at Redis, as far as they are known."""
        for name, figures in self._times.figures(costs):
            self.times.put(name, figures)
        self._times = CommandTimes()
        for heaviest in (self.keys, self.patterns, self.clients, self.tags, self.ended, self.times):
            if len(heaviest.found) > heaviest.most:
                heaviest.fold(heaviest.most)


def host_of(who: ClientLabel) -> ClientLabel:
    """The label of a client without the port, which is the same for all its connections."""
    return (*who[:3], who[3].rpartition(":")[0] or who[3])
