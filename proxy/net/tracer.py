"""Traces of one route's commands: measurements of sessions become traces, and traces become statistics.

Each second's figures are an ``IntervalStats``, which the supervisor adds to those of the other workers.
"""

import logging
import time
from typing import Any

from proxy.hotpath.counter_snapshot import CounterSnapshot
from proxy.hotpath.sampler import Sampler
from proxy.net.client_label import client_label
from proxy.net.expiries import Expiries
from proxy.session.ports import ReportedClient, TracedCommand, TracePort
from proxy.traffic.cache_figures import CacheFigures
from proxy.traffic.interval_stats import IntervalStats
from proxy.traffic.latency import Latencies
from proxy.traffic.shapes import shape
from proxy.traffic.trace import Trace

_log = logging.getLogger("keyrail.tracing")

_MOST_WAITING = 10
"""Intervals that are kept while the supervisor does not take them."""
_MOST_KEYS = 16
"""Keys of one command that a trace has; more are left out."""

_MOST_FOLLOWED = 4
"""Clients that are followed each second. Each of their next commands costs half as much as a trace."""

_TOGETHER = 16
"""Measurements that are processed together: warm code is three times as fast."""


class Tracer(TracePort):
    """One route's traces, in one worker: commands that the `sampler` chooses, and the TTLs of a few of their keys."""

    # Not the loop's time: uvloop's has whole milliseconds, taken at the beginning of the turn.
    clock = staticmethod(time.monotonic)

    def __init__(self, sampler: Sampler, expiries: Expiries) -> None:
        self._latencies = Latencies()
        self._observed: list[tuple[float, TracedCommand]] = []
        self._sampler = sampler
        self._expiries = expiries
        self._followable = 0
        self._each = 1
        self._interval = IntervalStats(time.time())
        self._commands = 0
        self._closed: list[IntervalStats] = []

    def observe(self, open_trace: TracedCommand) -> None:
        """Take the measurements of a command."""
        self._observed.append((time.time(), open_trace))
        if len(self._observed) >= _TOGETHER:
            self._count_finished()

    def observe_large(self, client: ReportedClient, key: bytes, size: int) -> None:
        """Count a large reply, of a command with or without a trace, under a policy that counts keys."""
        policy = client.effective_policy.compiled
        if self._sampler.traces > 0 and policy.policy.count_keys:
            owner = policy.policy.schema.owner_of(key)
            pattern = shape(key) if owner is None else owner.name
            self._interval.see_large(pattern, key, size, policy.app, schema=owner is not None)

    def _count_finished(self) -> None:
        observed, self._observed = self._observed, []
        for at, open_trace in observed:
            try:
                self._count_one(at, open_trace)
            except Exception:  # noqa: BLE001 - a fault in statistics must not reach an upstream
                _log.exception("a traced command is missing in the figures")

    def _count_one(self, at: float, open_trace: TracedCommand) -> None:
        client = open_trace.client
        trace, schema = _trace(at, open_trace)
        self._latencies.add(trace)
        if not client.effective_policy.compiled.policy.count_keys:
            return  # latencies may be recorded, keys may not
        self._interval.see(trace, schema)
        self._expiries.wonder(trace, client.key, self._expires)

    def latencies(self) -> dict[str, dict[str, Any]]:
        """Latencies since the start, as numbers that can be added over workers."""
        self._count_finished()
        return self._latencies.figures()

    def _expires(self, pattern: str, key: bytes, seconds: float) -> None:
        self._interval.see_expiry(pattern, key, time.time() + seconds)

    def start_n_plus_one(self, weight: int) -> int:
        """How many reads this one stands for if its client is followed, else 0. Few are followed each second."""
        self._followable += 1
        if self._followable % self._each > 0 or self._followable > _MOST_FOLLOWED * self._each:
            return 0
        return weight * self._each

    def found_n_plus_one(self, pattern: str, weight: int) -> None:
        """Count runs of single reads of a pattern."""
        self._interval.see_run(pattern, weight)

    def another_second(self, commands: int, counts: CounterSnapshot, cached: CacheFigures | None = None) -> None:
        """Close the second; `commands` counts since the start, the `counts` of keys and what was `cached` since the
        last second."""
        self._count_finished()
        self._sampler.another_second()
        self._expiries.another_second()
        self._each = max(1, -(-self._followable // _MOST_FOLLOWED))
        self._followable = 0
        now = time.time()
        interval, self._interval = self._interval, IntervalStats(now)
        interval.seconds = now - interval.began
        interval.commands, self._commands = commands - self._commands, commands
        interval.counter_snapshots = [counts]
        interval.cached = cached
        interval.close()
        self._closed = [*self._closed, interval][-_MOST_WAITING:]

    def intervals(self) -> list[IntervalStats]:
        """The intervals that were closed since the last call."""
        closed, self._closed = self._closed, []
        return closed


def _trace(at: float, open_trace: TracedCommand) -> tuple[Trace, frozenset[str]]:
    # The trace, and the names of its patterns that are schema entries.
    client = open_trace.client
    schema = client.effective_policy.compiled.policy.schema
    keys = open_trace.command.known_keys[:_MOST_KEYS]
    owners = [schema.owner_of(key.name) for key in keys]
    patterns = (shape(key.name) if owner is None else owner.name for key, owner in zip(keys, owners, strict=True))
    sent = open_trace.sent or open_trace.arrived
    trace = Trace(
        at=at,
        weight=open_trace.weight,
        command=open_trace.command.name,
        keys=tuple(key.name for key in keys),
        writes=tuple(key.write for key in keys),
        patterns=tuple(patterns),
        app=client.effective_policy.compiled.app,
        who=client_label(client),
        bytes_in=open_trace.bytes_in,
        bytes_out=open_trace.bytes_out,
        first_line=open_trace.first_line,
        in_proxy=sent - open_trace.arrived,
        at_redis=max(0.0, open_trace.answered - sent),
        refused=open_trace.refused,
    )
    return trace, frozenset(owner.name for owner in owners if owner is not None)
