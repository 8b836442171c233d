"""Traces of one route's commands: measurements of sessions become traces, and traces become statistics.

Each second's figures are an ``IntervalStats``, which the supervisor adds to those of the other workers.
"""

import logging
import time
from typing import Any

from proxy.commands.command import Command
from proxy.commands.table import ConnectionState, Lane, Spec
from proxy.hotpath.counting.counter_snapshot import CounterSnapshot
from proxy.hotpath.counting.sampler import Sampler
from proxy.net.downstream.client_label import client_label, label_of
from proxy.net.policy.command_times import CommandTimesAtRedis
from proxy.net.policy.evidence_recorder import EvidenceRecorder
from proxy.net.policy.expiries import Expiries
from proxy.session.ports.client import ServedClient
from proxy.session.ports.client_identity import Names
from proxy.session.ports.open_trace import OpenTrace, TracePort
from proxy.traffic.cache_figures import CacheFigures
from proxy.traffic.interval_stats import IntervalStats, host_of
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

_MOST_SLOW = 100
"""Commands of the slow lane that are traced each second, whatever the sampler says: they are few, and they hinder
others."""

_MOST_ENDED = 2000
"""Clients whose connections have ended in a second; those of all others are left out."""

_TOGETHER = 16
"""Measurements that are processed together: warm code is three times as fast."""


class Tracer(TracePort):
    """One route's traces, in one worker: commands that the `sampler` chooses, and the TTLs of a few of their keys."""

    # Not the loop's time: uvloop's has whole milliseconds, taken at the beginning of the turn.
    clock = staticmethod(time.monotonic)

    def __init__(
        self, sampler: Sampler, expiries: Expiries, times: CommandTimesAtRedis, evidence: EvidenceRecorder
    ) -> None:
        self._latencies = Latencies()
        self._observed: list[tuple[float, OpenTrace]] = []
        self._sampler = sampler
        self._expiries = expiries
        self._times = times
        self._evidence = evidence
        self._followable = 0
        self._each = 1
        self._interval = IntervalStats(time.time())
        self._commands = 0
        self._closed: list[IntervalStats] = []
        self._slow = 0
        self._slow_traced: list[Trace] = []
        self._ended: dict[tuple[str, str, Names, str], list[int]] = {}
        self._slowest = 0.0

    def follows_slow(self) -> bool:
        """Count a command of the slow lane that the sampler has not chosen; whether it is traced all the same."""
        self._slow += 1
        return self._slow <= _MOST_SLOW and self._sampler.traces > 0

    def left(self, client: ServedClient, commands: int) -> None:
        """A client has ended its connection, on which it has sent so many commands."""
        compiled = client.effective_policy.compiled
        if self._sampler.traces <= 0 or not compiled.policy.count_keys:
            return
        # This runs for each connection: the names are put in words once a second.
        key = compiled.app, client.user_name, client.shown_names, client.origin.host
        known = self._ended.get(key)
        if known is not None:
            known[0] += 1
            known[1] += commands
        elif len(self._ended) < _MOST_ENDED:
            self._ended[key] = [1, commands]

    def see_form(self, client: ServedClient, command: Command, weight: int) -> None:
        """Record the form of a command, under a policy that counts keys."""
        if client.effective_policy.compiled.policy.count_keys:
            self._evidence.see_form(command, client, weight, time.time())

    def observe(self, open_trace: OpenTrace) -> None:
        """Take the measurements of a command."""
        self._observed.append((time.time(), open_trace))
        if len(self._observed) >= _TOGETHER:
            self._count_finished()

    def observe_large(self, client: ServedClient, key: bytes, size: int, stored: int) -> None:
        """Count a large reply, of a command with or without a trace, under a policy that counts keys."""
        policy = client.effective_policy.compiled
        if self._sampler.traces > 0 and policy.policy.count_keys:
            owner = policy.policy.schema.owner_of(key.removeprefix(client.intake.prefix))
            pattern = shape(key) if owner is None else owner.name
            whose = (policy.app, *host_of(client_label(client)))
            self._interval.see_large(pattern, key, size, whose, stored=stored, schema=owner is not None)

    def _count_finished(self) -> None:
        observed, self._observed = self._observed, []
        for at, open_trace in observed:
            try:
                self._count_one(at, open_trace)
            except Exception:  # noqa: BLE001 - a fault in statistics must not reach an upstream
                _log.exception("a traced command is missing in the figures")

    def _count_one(self, at: float, open_trace: OpenTrace) -> None:
        client = open_trace.client
        trace, schema = _trace(at, open_trace)
        counts_keys = client.effective_policy.compiled.policy.count_keys
        if counts_keys and not trace.refused:
            self._see_time(trace, open_trace.command.spec)
        if not trace.weight:
            return  # the sampler has not chosen it
        self._latencies.add(trace)
        if not counts_keys:
            return  # latencies may be recorded, keys may not
        self._interval.see(trace, schema)
        self._expiries.wonder(trace, client.key, self._expires)

    def _see_time(self, trace: Trace, spec: Spec) -> None:
        if spec.state is not ConnectionState.POOL:
            return  # it may wait for others
        self._slowest = max(self._slowest, trace.at_redis)
        if spec.lane is Lane.SLOW:
            self._slow_traced.append(trace)
        else:
            self._interval.see_time(trace, trace.weight)

    def _close_times(self) -> None:
        # How many commands of the slow lane there were is known, also where not all were traced.
        traced, self._slow_traced = self._slow_traced, []
        each, rest = divmod(max(self._slow, len(traced)), max(1, len(traced)))
        for index, trace in enumerate(traced):
            self._interval.see_time(trace, each + (index < rest))
        self._slow = 0
        for (app, user, names, host), (connections, commands) in self._ended.items():
            self._interval.see_ended((app, *label_of(user, names, host)), connections, commands)
        self._ended = {}
        self._times.another_second(self._slowest)
        self._slowest = 0.0

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
        self._close_times()
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
        interval.close(self._times.seconds)
        self._closed = [*self._closed, interval][-_MOST_WAITING:]

    def intervals(self) -> list[IntervalStats]:
        """The intervals that were closed since the last call."""
        closed, self._closed = self._closed, []
        return closed


def _trace(at: float, open_trace: OpenTrace) -> tuple[Trace, frozenset[str]]:
    # The trace, and the names of its patterns that are schema entries.
    client = open_trace.client
    schema = client.effective_policy.compiled.policy.schema
    keys = open_trace.command.known_keys[:_MOST_KEYS]
    owners = [schema.owner_of(key.name) for key in keys]
    names = [open_trace.prefix + key.name for key in keys]
    patterns = (shape(name) if owner is None else owner.name for name, owner in zip(names, owners, strict=True))
    sent = open_trace.sent or open_trace.arrived
    trace = Trace(
        at=at,
        weight=open_trace.weight,
        command=open_trace.command.name,
        keys=tuple(names),
        writes=tuple(key.write for key in keys),
        patterns=tuple(patterns),
        app=client.effective_policy.compiled.app,
        who=client_label(client),
        bytes_in=open_trace.bytes_in,
        bytes_out=open_trace.bytes_out,
        stored_in=open_trace.stored_in,
        stored_out=open_trace.stored_out,
        first_line=open_trace.first_line,
        in_proxy=sent - open_trace.arrived,
        at_redis=max(0.0, open_trace.answered - sent),
        refused=open_trace.refused,
    )
    return trace, frozenset(owner.name for owner in owners if owner is not None)
