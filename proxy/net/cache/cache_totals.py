"""Adds up what the local cache of one route in one worker has done: in all, by rule, and in the last second."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

from proxy.hotpath.cache.cache_use import CacheUse
from proxy.hotpath.counting.counter_snapshot import CounterSnapshot
from proxy.net.policy.command_cost import CommandCost
from proxy.net.policy.verdicts import Verdicts
from proxy.policy.decision import Hit
from proxy.policy.model import Mode
from proxy.traffic.cache_figures import CacheFigures


class CacheTotals:
    """``figures`` are of all rules since the start; what the caches themselves count is added by ``LocalCaches``.
    ``cost`` is that of a command; decisions of rules go to the ``verdicts``."""

    def __init__(self, cost: CommandCost, verdicts: Verdicts) -> None:
        self.figures = CacheFigures()
        self._cost = cost
        self._verdicts = verdicts
        self._rules: dict[str, CacheFigures] = {}
        self._before = CacheFigures()

    def follow(self, rules: Iterable[str]) -> None:
        """Other rules are in force; those that were before keep their figures."""
        self._rules = {rule: self._rules.get(rule, CacheFigures()) for rule in rules}

    def take(self, rule: str, use: CacheUse, app: str) -> None:
        """Add what was counted for a rule, and begin anew."""
        cost = self._cost.seconds
        more = CacheFigures(
            hits=use.hits,
            bytes=use.hit_bytes,
            saved_seconds=use.hits * cost,
            ages=use.ages,
            audited_hits=use.audited_hits,
            audited_bytes=use.audited_bytes,
            audited_saved_seconds=use.audited_hits * cost,
        )
        for mode, hits in ((Mode.ENFORCE, use.hits), (Mode.AUDIT, use.audited_hits)):
            if hits:
                self._verdicts.count(Hit(rule, mode, "answered"), hits, app)
        use.hits = use.hit_bytes = use.audited_hits = use.audited_bytes = 0
        use.ages = 0.0
        self.figures.add(more)
        self._rules.setdefault(rule, CacheFigures()).add(more)

    def second(self, totals: CacheFigures) -> CacheFigures:
        """What was added since the last call."""
        before, self._before = self._before, totals
        return totals.since(before)

    def by_rule(self) -> dict[str, dict[str, Any]]:
        """The figures of each rule."""
        return {rule: asdict(figures) for rule, figures in self._rules.items()}


def with_hits(counts: CounterSnapshot, hits: Mapping[bytes, int]) -> CounterSnapshot:
    """The counts of keys, with how many of their reads were answered from memory."""
    key_counts = (
        replace(each, cached=min(each.reads, hits[each.key])) if hits.get(each.key) else each
        for each in counts.key_counts
    )
    return replace(counts, key_counts=tuple(key_counts))
