"""The goals: bounds on ratios between two targets, and whether the samples of several rounds are within them.

A ratio between two targets is taken within each round, since the state of the machine changes; its median is reported.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from loadtest import cluster, limits, local_cache, tenants
from loadtest.quick import Sample
from loadtest.rules import NO_RULE
from loadtest.targets import DIRECT, KEYRAIL_BENCH, KEYRAIL_NONE, NUTCRACKER

Figure = Callable[[Sample], float]


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of several rounds between the smallest and the largest."""

    least: float
    median: float
    most: float


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound on the ratio between two targets (or workloads), or on a figure itself if ``to`` is None."""

    what: str
    figure: Figure
    of: tuple[str, int, str]
    to: tuple[str, int, str] | None
    bound: float
    at_most: bool
    best: tuple[str, int, str] | None = None
    """What does no work of a proxy, beside which the bound is seen."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A goal, and its result over the rounds."""

    goal: Goal
    ratio: Spread
    best: Spread | None
    """The same ratio for what does no work of a proxy, if it has one: no proxy is much better."""

    @property
    def met(self) -> bool:
        """Whether the median is within the bound."""
        if self.goal.at_most:
            return self.ratio.median <= self.goal.bound
        return self.ratio.median >= self.goal.bound


def spread(values: Sequence[float]) -> Spread:
    return Spread(min(values), statistics.median(values), max(values))


def rate(sample: Sample) -> float:
    return sample.rate


def proxy_cpu(sample: Sample) -> float:
    return sample.proxy_cpu


def redis_cpu(sample: Sample) -> float:
    return sample.redis_cpu


def whole_cpu(sample: Sample) -> float:
    return sample.proxy_cpu + sample.redis_cpu


def goals() -> list[Goal]:
    """The goals of Keyrail under bench.yaml, compiled."""
    promised = []
    for verb in ("GET", "SET"):
        alone = (verb, 1, KEYRAIL_BENCH), (verb, 1, NUTCRACKER)
        promised += [
            Goal(f"{verb} P=1: CPU of proxy and Redis, of nutcracker's", whole_cpu, *alone, 1.0, True),
            Goal(f"{verb} P=1: throughput, of nutcracker's", rate, *alone, 0.97, False),
        ]
        for pipeline in (16, 64):
            if (verb, pipeline) == ("SET", 16):
                continue  # Redis itself, on the proxy's processor, takes too much time for such a ratio
            deep = (verb, pipeline, KEYRAIL_BENCH), (verb, pipeline, NUTCRACKER)
            promised += [
                Goal(f"{verb} P={pipeline}: throughput, of nutcracker's", rate, *deep, 1.5, False),
                Goal(f"{verb} P={pipeline}: proxy CPU, of nutcracker's", proxy_cpu, *deep, 0.6, True),
            ]
    for pipeline in (1, 16, 64):
        own = ("GET", pipeline, KEYRAIL_BENCH), ("GET", pipeline, KEYRAIL_NONE)
        promised.append(Goal(f"GET P={pipeline}: throughput, of `--policy none`'s", rate, *own, 0.9, False))
    mixed = ("mix", 16, KEYRAIL_BENCH), ("GET (own generator)", 16, KEYRAIL_BENCH)
    promised.append(Goal("mix P=16: throughput, of GET's", rate, *mixed, 0.7, False))
    return promised


def cluster_goals() -> list[Goal]:
    """The goals of Keyrail with a cluster upstream, under bench.yaml, compiled."""
    one, envoy = (KEYRAIL_BENCH, "that before one Redis"), (cluster.ENVOY, "Envoy's")
    promised = []
    for workload, pipeline, (other, whose), bound in (
        ("GET", 1, one, 1.1),
        ("SET", 1, one, 1.1),
        ("GET", 16, one, 1.3),
        ("SET", 16, one, 1.3),
        ("GET", 16, envoy, 0.5),
        ("SET", 16, envoy, 0.5),
        ("MGET", 1, envoy, 0.4),
    ):
        own, to = (workload, pipeline, cluster.KEYRAIL_CLUSTER), (workload, pipeline, other)
        promised.append(Goal(f"{workload} P={pipeline}: proxy CPU, of {whose}", proxy_cpu, own, to, bound, True))
    return promised


def local_cache_goals() -> list[Goal]:
    """The goals of the local cache, compiled."""
    promised = []
    for workload, pipeline, bound in (
        ("hot GET, 64 B", 1, 1.1),
        ("hot GET, 64 B", 16, 1.3),
        ("hot GET, 64 B", 64, 1.0),
        ("hot GET, 10 KB", 1, 1.2),
    ):
        own, to = (workload, pipeline, local_cache.KEYRAIL_CACHE), (workload, pipeline, DIRECT)
        what, best = (
            f"{workload}, P={pipeline}: throughput, of Redis's own",
            (workload, pipeline, local_cache.RESPONDER),
        )
        promised.append(Goal(what, rate, own, to, bound, False, best))
    for pipeline, bound in ((1, 1.05), (16, 0.8), (64, 0.55)):
        cached = ("hot GET, 64 B", pipeline)
        what = f"hot GET, 64 B, P={pipeline}: CPU of proxy and Redis, of Redis's own"
        own, to, best = ((*cached, name) for name in (local_cache.KEYRAIL_CACHE, DIRECT, local_cache.RESPONDER))
        promised.append(Goal(what, whole_cpu, own, to, bound, True, best))
    hot = ("hot GET, 64 B", 1, local_cache.KEYRAIL_CACHE)
    promised.append(Goal("hot GET, 64 B, P=1: Redis's CPU per command, µs", redis_cpu, hot, None, 0.1, True))
    for pipeline in (1, 16):
        own = (local_cache.ZIPF, pipeline, local_cache.KEYRAIL_CACHE)
        to, best = (local_cache.ZIPF, pipeline, NO_RULE), ("hot GET, 64 B", pipeline, local_cache.RESPONDER)
        what = f"{local_cache.ZIPF}, P={pipeline}: CPU of proxy and Redis, of that without the cache"
        promised.append(Goal(what, whole_cpu, own, to, 0.83, True, best))
    return promised


def limits_goals(peers: Sequence[str]) -> list[Goal]:
    """The limits of Keyrail before one Redis, compiled. Peers have no bounds: their figures are shown."""
    none, strict, before = KEYRAIL_NONE, limits.KEYRAIL_STRICT, limits.BEFORE
    bounds = [
        *((verb, depth, none, before, 0.9 if depth == 1 else 0.95) for depth in (1, 16, 64) for verb in ("GET", "SET")),
        ("GET", 1, strict, NUTCRACKER, 0.86),
        ("SET", 1, strict, NUTCRACKER, 0.82),
        ("GET", 16, strict, NUTCRACKER, 0.23),
        ("SET", 16, strict, NUTCRACKER, 0.34),
        ("GET", 64, strict, NUTCRACKER, 0.10),
        ("SET", 64, strict, NUTCRACKER, 0.16),
        ("SET", 16, strict, none, 1.15),
        (limits.CLIENT, 1, none, NUTCRACKER, 1.8),
        (limits.CLIENT, 1, strict, NUTCRACKER, 2.1),
        *((verb, depth, strict, peer, 1.0) for peer in peers for depth in (1, 16, 64) for verb in ("GET", "SET")),
    ]
    return [_of_proxy_cpu(*each) for each in bounds]


def tenants_goals() -> list[Goal]:
    """The goals of a tenant's prefix, compiled: beside the same commands of a client of no tenant."""
    pairs = (
        (tenants.TENANT_NO_RULES, tenants.NO_RULES, 1.3, None),
        (tenants.TENANT_STRICT, limits.KEYRAIL_STRICT, 1.15, tenants.WRITTEN),
    )
    return [
        _of_proxy_cpu(each.name, each.pipeline, own, to, 1.05 if each.pipeline == 1 else piped, best)
        for own, to, piped, best in pairs
        for each in tenants.WORKLOADS
    ]


def _of_proxy_cpu(workload: str, pipeline: int, own: str, to: str, bound: float, best: str | None = None) -> Goal:
    what = f"{workload} P={pipeline}: proxy CPU of {own}, of {to}'s"
    case = (workload, pipeline)
    return Goal(what, proxy_cpu, (*case, own), (*case, to), bound, True, None if best is None else (*case, best))


def judge(samples: Sequence[Sample], promised: Sequence[Goal]) -> list[Outcome]:
    """The outcome of every goal whose two sides were measured."""
    by_case: dict[tuple[str, int, str], dict[int, Sample]] = {}
    for sample in samples:
        case = (sample.workload, sample.pipeline, sample.target)
        by_case.setdefault(case, {})[sample.round] = sample
    outcomes = []
    for goal in promised:
        ours = by_case.get(goal.of, {})
        if goal.to is None:
            if ours:
                outcomes.append(Outcome(goal, spread([goal.figure(each) for each in ours.values()]), None))
            continue
        theirs = by_case.get(goal.to, {})
        ratios = [goal.figure(ours[n]) / goal.figure(theirs[n]) for n in ours if n in theirs]
        if ratios:
            best = by_case.get(goal.best or (*goal.of[:2], DIRECT), {}) if goal.best or goal.figure is rate else {}
            bare = [goal.figure(best[n]) / goal.figure(theirs[n]) for n in best if n in theirs]
            outcomes.append(Outcome(goal, spread(ratios), spread(bare) if bare else None))
    return outcomes
