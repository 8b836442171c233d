"""Makes a page from samples: medians with their spread, and each goal beside the measured figure."""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from loadtest import (
    builds,
    cluster,
    connects,
    crowd,
    latency,
    limits,
    local_cache,
    logins,
    replicas,
    soak,
    tenants,
    traces,
)
from loadtest.goals import (
    Goal,
    Spread,
    cluster_goals,
    goals,
    judge,
    limits_goals,
    local_cache_goals,
    proxy_cpu,
    rate,
    redis_cpu,
    spread,
    tenants_goals,
    whole_cpu,
)
from loadtest.memory import Measured
from loadtest.quick import Sample
from loadtest.rules import NO_RULE
from loadtest.targets import DIRECT, KEYRAIL_BENCH, KEYRAIL_NONE, NUTCRACKER

Result = Sample | Measured | connects.Sample | connects.Share | crowd.Sample | latency.Sample | soak.Sample


def markdown(samples: Sequence[Sample], about: Mapping[str, str]) -> str:
    """The report on Keyrail before one Redis, beside direct Redis and twemproxy."""
    order = (DIRECT, NUTCRACKER, KEYRAIL_NONE, KEYRAIL_BENCH)
    return _page("Keyrail under load", samples, about, order, goals())


def cluster_markdown(samples: Sequence[Sample], about: Mapping[str, str]) -> str:
    """The report on Keyrail with a cluster upstream, beside Keyrail with one Redis, and Envoy."""
    order = (KEYRAIL_BENCH, cluster.KEYRAIL_CLUSTER, cluster.ENVOY)
    return _page("Keyrail with a cluster upstream", samples, about, order, cluster_goals())


def local_cache_markdown(samples: Sequence[Sample], about: Mapping[str, str]) -> str:
    """The report on the local cache, beside Redis itself, Keyrail without it, and a responder that only answers."""
    own, to = local_cache.NOTHING_HOT, NO_RULE
    order = (DIRECT, KEYRAIL_NONE, local_cache.KEYRAIL_CACHE, local_cache.RESPONDER, to, own)
    beside = "a responder that only answers"
    page = _page("Hot keys answered from memory", samples, about, order, local_cache_goals(), beside)
    return page + _proxy_cpu_of_cells([sample for sample in samples if sample.target in {own, to}], own, to)


def limits_markdown(samples: Sequence[Sample], peers: Sequence[str], about: Mapping[str, str]) -> str:
    """The report on what is left of the way to what a machine allows."""
    order = (NUTCRACKER, KEYRAIL_NONE, limits.KEYRAIL_STRICT, limits.BEFORE, *peers)
    return _page("How near the limit", samples, about, order, limits_goals(peers))


RULE_GOAL = 1.05
"""Proxy CPU per command with a rule, of that without: the median of the cells, compiled."""


def replicas_markdown(samples: Sequence[Sample], about: Mapping[str, str]) -> str:
    """The report on reads from replicas, beside the same reads at the primary."""
    own, to = replicas.KEYRAIL_REPLICAS, KEYRAIL_NONE
    page = _page("Reads from replicas", samples, about, (to, own), ())
    return page + _proxy_cpu_of_cells(samples, own, to)


def tenants_markdown(samples: Sequence[Sample], about: Mapping[str, str]) -> str:
    """The report on what the prefix of a tenant costs."""
    order = (tenants.NO_RULES, tenants.TENANT_NO_RULES, limits.KEYRAIL_STRICT, tenants.TENANT_STRICT, tenants.WRITTEN)
    beside = "a client that writes the prefix itself"
    return _page("What the prefix of a tenant costs", samples, about, order, tenants_goals(), beside)


def _proxy_cpu_of_cells(samples: Sequence[Sample], own: str, to: str) -> str:
    # Lines of the table of goals: each cell, and their median.
    cells = dict.fromkeys((sample.workload, sample.pipeline) for sample in samples)
    ratios = [Goal(f"{cell[0]} P={cell[1]}", proxy_cpu, (*cell, own), (*cell, to), RULE_GOAL, True) for cell in cells]
    found = judge(samples, ratios)
    if not found:
        return ""
    median = statistics.median(each.ratio.median for each in found)
    verdict = "met" if round(median, 2) <= RULE_GOAL else "MISSED"
    rule = "of that without the rule"
    lines = [f"| {each.goal.what}: proxy CPU, {rule} | stated | {_told(each.ratio)} | | |" for each in found]
    lines.append(
        f"| proxy CPU of the {len(found)} cells, {rule}: median | ≤ {RULE_GOAL:g} | {median:.2f} | {verdict} | |"
    )
    return "\n".join([*lines, ""])


def _page(
    title: str,
    samples: Sequence[Sample],
    about: Mapping[str, str],
    order: Sequence[str],
    promised: Sequence[Goal],
    beside: str = "Redis without a proxy",
) -> str:
    lines = [f"# {title}", ""]
    lines += [f"- {name}: {text}" for name, text in about.items()]
    lines += ["", "Medians of the rounds, with the least and the most of them.", ""]
    cases = dict.fromkeys((sample.workload, sample.pipeline) for sample in samples)
    for workload, pipeline in cases:
        lines += [f"## {workload}, P={pipeline}", ""]
        lines += ["| | commands/s | p50 ms | p99 ms | proxy µs | Redis µs | both µs |"]
        lines += ["|---|---|---|---|---|---|---|"]
        for target in order:
            rows = [s for s in samples if (s.workload, s.pipeline, s.target) == (workload, pipeline, target)]
            if rows:
                lines.append(_row(target, rows))
        lines.append("")
    outcomes = judge(samples, promised)
    lines += ["## Goals", "", f"Ratios within a round; that of {beside} beside them, where it has one.", ""]
    lines += [f"| | goal | measured | | {beside} |", "|---|---|---|---|---|"]
    for outcome in outcomes:
        goal, ratio = outcome.goal, outcome.ratio
        sign = "≤" if goal.at_most else "≥"
        lines.append(
            f"| {goal.what} | {sign} {goal.bound:g} | {_told(ratio)} "
            f"| {'met' if outcome.met else 'MISSED'} | {'' if outcome.best is None else _told(outcome.best)} |"
        )
    return "\n".join([*lines, ""])


def _told(ratio: Spread) -> str:
    return f"{ratio.median:.2f} ({ratio.least:.2f}–{ratio.most:.2f})"


def _row(target: str, rows: Sequence[Sample]) -> str:
    rates = spread([row.rate for row in rows])
    cells = [f"{rates.median:,.0f} ({rates.least:,.0f}–{rates.most:,.0f})"]
    for figure in (lambda s: s.p50, lambda s: s.p99, proxy_cpu, redis_cpu, whole_cpu):
        found = spread([figure(row) for row in rows])
        cells.append(f"{found.median:.2f} ({found.least:.2f}–{found.most:.2f})")
    if target == DIRECT:
        cells[3] = "–"
    return f"| {target} | {' | '.join(cells)} |"


def rules_markdown(samples: Sequence[Sample], about: Mapping[str, str]) -> str:
    """The report on what rules cost, beside the same policy without any."""
    lines = ["# What rules cost", "", *(f"- {name}: {text}" for name, text in about.items()), ""]
    lines += ["Medians of the rounds, with the least and the most of them; ratios are taken within a round.", ""]
    for workload, pipeline in dict.fromkeys((sample.workload, sample.pipeline) for sample in samples):
        rows = [sample for sample in samples if (sample.workload, sample.pipeline) == (workload, pipeline)]
        without = {row.round: row for row in rows if row.target == NO_RULE}
        transparent = {row.round: row for row in rows if row.target == KEYRAIL_NONE}
        lines += [f"## {workload}, P={pipeline}", ""]
        lines += ["| | throughput, of the one without rules | of `--policy none` | proxy CPU, more µs |"]
        lines += ["|---|---|---|---|"]
        for name in dict.fromkeys(row.target for row in rows if row.target not in {NO_RULE, KEYRAIL_NONE}):
            own = [row for row in rows if row.target == name]
            kept = spread([row.rate / without[row.round].rate for row in own])
            whole = spread([row.rate / transparent[row.round].rate for row in own])
            more = spread([row.proxy_cpu - without[row.round].proxy_cpu for row in own])
            lines.append(
                f"| {name} | {kept.median:.2f} ({kept.least:.2f}–{kept.most:.2f}) "
                f"| {whole.median:.2f} ({whole.least:.2f}–{whole.most:.2f}) "
                f"| {more.median:+.2f} ({more.least:+.2f} – {more.most:+.2f}) |"
            )
        lines.append("")
    return "\n".join(lines)


def traces_markdown(samples: Sequence[Sample], about: Mapping[str, str]) -> str:
    """The report on what traffic statistics cost, on against off."""
    lines = ["# What traffic statistics cost", "", *(f"- {name}: {text}" for name, text in about.items()), ""]
    lines += ["Medians of the rounds, with the least and the most of them; on against off within a round.", ""]
    lines += ["| | throughput | proxy CPU | CPU of proxy and Redis |", "|---|---|---|---|"]
    for workload, pipeline in dict.fromkeys((sample.workload, sample.pipeline) for sample in samples):
        rows = [sample for sample in samples if (sample.workload, sample.pipeline) == (workload, pipeline)]
        off = {row.round: row for row in rows if row.target == traces.OFF}
        on = [row for row in rows if row.target == traces.ON]
        cells = [
            _told(spread([figure(row) / figure(off[row.round]) for row in on]))
            for figure in (rate, proxy_cpu, whole_cpu)
        ]
        lines.append(f"| {workload}, P={pipeline} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def builds_markdown(samples: Sequence[Sample], about: Mapping[str, str]) -> str:
    """The report on two builds: proxy CPU per command, after divided by before, in each cell."""
    lines = ["# One build beside another", "", *(f"- {name}: {text}" for name, text in about.items()), ""]
    lines += ["Ratios after/before are taken within a round; medians, with the least and the most.", ""]
    lines += ["| | proxy CPU | of it before, µs | throughput |", "|---|---|---|---|"]
    medians = []
    for policy in builds.POLICIES:
        for workload, pipeline in dict.fromkeys((sample.workload, sample.pipeline) for sample in samples):
            rows = [sample for sample in samples if (sample.workload, sample.pipeline) == (workload, pipeline)]
            before = {row.round: row for row in rows if row.target == builds.named(policy, builds.BEFORE)}
            after = [row for row in rows if row.target == builds.named(policy, builds.AFTER)]
            if not after:
                continue
            cpu = spread([row.proxy_cpu / before[row.round].proxy_cpu for row in after])
            rate = spread([row.rate / before[row.round].rate for row in after])
            then = spread([row.proxy_cpu for row in before.values()])
            medians.append(cpu.median)
            cells = [_told(cpu), f"{then.median:.2f}", _told(rate)]
            lines.append(f"| {policy}: {workload}, P={pipeline} | {' | '.join(cells)} |")
    if medians:
        whole = spread(medians)
        lines += ["", f"Proxy CPU over the {len(medians)} cells: median {whole.median:.2f}, largest {whole.most:.2f}."]
    return "\n".join([*lines, ""])


def connects_markdown(
    samples: Sequence[connects.Sample], shares: Sequence[connects.Share], about: Mapping[str, str]
) -> str:
    """The report on new clients: each policy beside none, and how two workers share clients."""
    lines = ["# What a new client costs", "", *(f"- {name}: {text}" for name, text in about.items()), ""]
    lines += [
        "Connect, GET, close. Ratios to `--policy none` with one worker, within a round; medians, with least and most.",
        "",
    ]
    lines += [
        "| policy | proxy CPU, µs | of `none`, at most 1.2 (two workers: 1.1) | clients/s, of `none` |",
        "|---|---|---|---|",
    ]
    without = {sample.round: sample for sample in samples if sample.target == KEYRAIL_NONE}
    for name in dict.fromkeys(sample.target for sample in samples):
        own = [sample for sample in samples if sample.target == name]
        cpu = spread([sample.proxy_cpu / without[sample.round].proxy_cpu for sample in own])
        rate = spread([sample.rate / without[sample.round].rate for sample in own])
        used = spread([sample.proxy_cpu for sample in own])
        lines.append(f"| {name} | {used.median:.1f} | {_told(cpu)} | {_told(rate)} |")
    lines += ["", "Clients that stay, on two workers: none has more than one above its share.", ""]
    lines += ["| clients | times | more than one above | at worst above |", "|---|---|---|---|"]
    lines += [f"| {each.clients} | {each.times} | {each.uneven} | {each.worst} |" for each in shares]
    return "\n".join([*lines, ""])


def crowd_markdown(samples: Sequence[crowd.Sample], about: Mapping[str, str]) -> str:
    """The report on many clients: each target beside direct."""
    lines = ["# Latency among thousands of clients", "", *(f"- {name}: {text}" for name, text in about.items()), ""]
    lines += ["Ratios to direct are taken within a round; medians, with least and most.", ""]
    lines += [
        "| target | p50, µs | of direct, at most 3 | p99, µs | of direct, at most 10 |",
        "|---|---|---|---|---|",
    ]
    direct = {sample.round: sample for sample in samples if sample.target == DIRECT}
    for name in dict.fromkeys(sample.target for sample in samples):
        own = [sample for sample in samples if sample.target == name]
        cells = []
        for what in ("p50", "p99"):
            ratio = spread([getattr(sample, what) / getattr(direct[sample.round], what) for sample in own])
            cells += [f"{spread([getattr(sample, what) for sample in own]).median:.0f}", _told(ratio)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def latency_markdown(samples: Sequence[latency.Sample], starts: Sequence[float], about: Mapping[str, str]) -> str:
    """The report on what a proxy adds to the time of a command: each target beside direct."""
    lines = ["# What a proxy adds to a command's time", "", *(f"- {name}: {text}" for name, text in about.items()), ""]
    lines += ["Taken within a round; medians, with the least and the most of the rounds.", ""]
    lines += [
        "| | one client, p50 added, µs | of nutcracker's | at a fixed rate, p99 added, ms |",
        "|---|---|---|---|",
    ]
    found = {each.target: each for each in latency.added(samples)}
    for each in found.values():
        ratio = _told(spread(each.of_nutcracker)) if each.of_nutcracker else ""
        lines.append(f"| {each.target} | {_told(spread(each.alone))} | {ratio} | {_told(spread(each.open_p99))} |")
    none, strict = found[KEYRAIL_NONE], found[limits.KEYRAIL_STRICT]
    lines += ["", "## Goals", "", "| | goal | measured | |", "|---|---|---|---|"]
    for what, bound, values in (
        ("one client: p50 added by keyrail none, of nutcracker's", 1.1, none.of_nutcracker),
        ("at a fixed rate: p99 added by keyrail none, ms", 0.5, none.open_p99),
        ("at a fixed rate: p99 added by keyrail strict, ms", 0.8, strict.open_p99),
        ("start of keyrail strict until PONG, s", 0.5, starts),
    ):
        if values:
            verdict = "met" if round(statistics.median(values), 2) <= bound else "MISSED"
            lines.append(f"| {what} | ≤ {bound:g} | {_told(spread(values))} | {verdict} |")
    return "\n".join([*lines, ""])


def logins_markdown(samples: Sequence[logins.Sample], about: Mapping[str, str]) -> str:
    """The report on clients that log in: each way beside no login."""
    lines = ["# What a client costs that logs in", "", *(f"- {name}: {text}" for name, text in about.items()), ""]
    lines += [
        "Connect, AUTH, GET, close, each reply awaited, beside connect, GET, close. Ratios to no AUTH are taken within",
        "a round; medians, with least and most. Redis counts its new connections in all rounds together.",
        "",
        "| | proxy CPU, µs | of no AUTH, at most 1.5 | clients/s, of no AUTH | clients | upstream connections |",
        "|---|---|---|---|---|---|",
    ]
    without = {sample.round: sample for sample in samples if sample.target == logins.WITHOUT}
    for name in dict.fromkeys(sample.target for sample in samples):
        own = [sample for sample in samples if sample.target == name]
        used = spread([sample.proxy_cpu for sample in own])
        cpu = spread([sample.proxy_cpu / without[sample.round].proxy_cpu for sample in own])
        rate = spread([sample.rate / without[sample.round].rate for sample in own])
        clients = sum(sample.clients for sample in own)
        upstream = sum(sample.upstream_connections for sample in own)
        lines.append(f"| {name} | {used.median:.1f} | {_told(cpu)} | {_told(rate)} | {clients:,} | {upstream} |")
    return "\n".join([*lines, ""])


def measurements_markdown(title: str, measured: Sequence[Measured], about: Mapping[str, str]) -> str:
    lines = [f"# {title}", "", *(f"- {name}: {text}" for name, text in about.items()), ""]
    lines += ["| | measured | goal | |", "|---|---|---|---|"]
    for each in measured:
        goal = "stated" if each.bound is None else f"≤ {each.bound:,g} {each.unit}"
        verdict = "" if each.bound is None else "met" if each.met else "MISSED"
        lines.append(f"| {each.what} | {each.value:,.1f} {each.unit} | {goal} | {verdict} |")
    return "\n".join([*lines, ""])


def write(
    folder: Path,
    name: str,
    page: str,
    about: Mapping[str, str],
    results: Sequence[Result],
) -> None:
    """Write the page and, beside it, every sample (which git ignores)."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(page)
    data = {"about": dict(about), "results": [asdict(result) for result in results]}
    (folder / f"{name}.json").write_text(json.dumps(data, indent=1) + "\n")
