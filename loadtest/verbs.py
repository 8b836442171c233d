"""Each verb of the command line: what it measures, and the page that it writes."""

import argparse
import datetime as dt
import os
import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from loadtest import (
    benchmark,
    builds,
    cluster,
    connects,
    crowd,
    failover,
    failover_primary,
    kernel,
    latency,
    limits,
    local_cache,
    logins,
    memory,
    published,
    quick,
    reload,
    replicas,
    report,
    rules,
    scan,
    soak,
    staleness,
    targets,
    tenants,
    traces,
    workloads,
)
from loadtest.placement import PLACEMENTS
from loadtest.quick import Course
from loadtest.targets import KEYRAIL_NONE, Target

_SHARE_TIMES = 40


def measure(program: list[str], chosen: argparse.Namespace) -> None:
    """Run the chosen verb on this program, and write its page. Raises RunError and StartError."""
    if chosen.verb == "memory":
        return _memory(program, chosen.redis, chosen.connections)
    if chosen.verb == "reload":
        return _reload(program, chosen.redis, chosen.reloads)
    if chosen.verb == "staleness":
        return _staleness(program, chosen.redis, chosen.writes)
    if chosen.verb == "failover":
        return _failover(program, chosen.redis, chosen.failovers)
    if chosen.verb == "soak":
        given = (chosen.seconds, chosen.commands, 20, chosen.keys, chosen.every, chosen.traffic_memory)
        return _soak(program, chosen.redis, soak.Plan(*given, chosen.reload_every))
    course = Course(chosen.rounds, chosen.scale, PLACEMENTS[chosen.processors](frozenset(os.sched_getaffinity(0))))
    course.placement.settle()
    if chosen.verb == "rules":
        return _rules(program, chosen.redis, chosen.policy, course)
    if chosen.verb == "crowd":
        return _crowd(program, chosen.redis, chosen.connections, course)
    if chosen.verb == "builds":
        return _builds(shlex.split(chosen.before), program, chosen.redis, course)
    if chosen.verb == "limits":
        before = shlex.split(chosen.before) if chosen.before else None
        return _limits(program, before, chosen.peer, chosen.redis, course)
    return _OF_A_COURSE[chosen.verb](program, chosen.redis, course)


def _quick(program: list[str], redis_program: str, course: Course) -> None:
    tool = "redis-benchmark" if benchmark.available() else "a small asyncio generator (redis-benchmark is missing)"
    _say(f"load from {tool}; mixes from a small asyncio generator")
    with quick.all_targets(redis_program, program) as (redis, ways):
        samples = list(quick.rounds(redis, ways, course, _say))
    form = next(way.about for way in ways if way.name == targets.KEYRAIL_BENCH)
    about = {
        "Keyrail": f"{form}, one worker",
        "beside it": ", ".join(way.about for way in ways if way.name in {targets.DIRECT, targets.NUTCRACKER}),
        **_machine(course),
        "load": f"{tool} (mixes: our own generator), {quick.CLIENTS} clients, 64-byte values, {course.rounds} rounds",
        "SET": "with EX 300, but bare to Keyrail under bench.yaml, which adds it",
        "again": _again("quick", course),
    }
    page = report.markdown(samples, about)
    _finish(_named("quick", course, form), page, about, samples)


def _rules(program: list[str], redis_program: str, policy: Path, course: Course) -> None:
    with rules.all_variants(redis_program, program, policy) as (redis, ways):
        samples = list(rules.rounds(redis, ways, course, _say))
    form = ways[0].about
    about = {
        "Keyrail": f"{form}, one worker, the rules of {policy.name}, each alone and all together",
        **_machine(course),
        "load": f"{quick.CLIENTS} clients, 64-byte values, {course.rounds} rounds",
        "SET": "bare to a policy that gives it a lifetime, with EX to the others",
        "again": _again("rules", course, f" --policy policies/{policy.name}"),
    }
    page = report.rules_markdown(samples, about)
    _finish(_named(f"rules-{policy.stem}", course, form), page, about, samples)


def _traces(program: list[str], redis_program: str, course: Course) -> None:
    with traces.both(redis_program, program) as (redis, ways):
        samples = list(traces.rounds(redis, ways, course, _say))
    form = ways[0].about
    about = {
        "Keyrail": f"{form}, one worker, under bench.yaml: keys counted, commands traced, a reader on the page's "
        "events, against none of it",
        **_machine(course),
        "load": f"{quick.CLIENTS} clients, 64-byte values, {course.rounds} rounds",
        "again": _again("traces", course),
    }
    page = report.traces_markdown(samples, about)
    _finish(_named("traces", course, form), page, about, samples)


def _cluster(program: list[str], redis_program: str, course: Course) -> None:
    with cluster.all_targets(redis_program, program) as (servers, ways):
        samples = list(cluster.rounds(servers, ways, course, _say))
    form = ways[0].about
    about = {
        "Keyrail": f"{form}, one worker, under bench.yaml, before one Redis and before three primaries",
        "beside it": ", ".join(way.about for way in ways if way.name == cluster.ENVOY)
        or "nothing: no envoy is installed",
        "Redis": servers[ways[0].name][0].version,
        **_machine(course),
        "load": f"{quick.CLIENTS} clients, 64-byte values, random keys of all slots, {course.rounds} rounds; "
        f"an MGET is of {workloads.MGET_KEYS} keys",
        "SET": "bare to Keyrail, which adds a lifetime, with EX 300 to Envoy",
        "again": _again("cluster", course),
    }
    page = report.cluster_markdown(samples, about)
    _finish(_named("cluster", course, form), page, about, samples)


def _local_cache(program: list[str], redis_program: str, course: Course) -> None:
    with local_cache.all_targets(redis_program, program) as (redis, ways, responders):
        samples = list(local_cache.rounds(redis, ways, responders, course, _say))
    form = next(way.about for way in ways if way.name == local_cache.KEYRAIL_CACHE)
    about = {
        "Keyrail": f"{form}, one worker, without the rule, and with `local_cache`, `when: hot`",
        "GET, SET": "of random keys, of which none is hot: with that rule, and with a policy without rules",
        "Redis": redis.version,
        **_machine(course),
        "load": f"{quick.CLIENTS} clients, {course.rounds} rounds; Zipf({local_cache.EXPONENT}) over "
        f"{workloads.KEYSPACE:,} keys of 64 bytes, {local_cache.WRITES:.0%} SET, from our own generator",
        "responder": "one Python process that counts bytes and answers: the load generator's ceiling",
        "again": _again("local-cache", course),
    }
    page = report.local_cache_markdown(samples, about)
    _finish(_named("local-cache", course, form), page, about, samples)


def _replicas(program: list[str], redis_program: str, course: Course) -> None:
    with replicas.all_targets(redis_program, program) as (servers, ways):
        samples = list(replicas.rounds(servers, ways, course, _say))
    form = ways[0].about
    about = {
        "Keyrail": f"{form}, one worker, without a policy, without and with `--read-from replicas`",
        "Redis": f"{servers[0].version}; a primary and two replicas",
        **_machine(course),
        "load": f"{quick.CLIENTS} clients, 64-byte values, {course.rounds} rounds; an MGET is of "
        f"{workloads.MGET_KEYS} keys",
        "again": _again("replicas", course),
    }
    page = report.replicas_markdown(samples, about)
    _finish(_named("replicas", course, form), page, about, samples)


def _scan(program: list[str], redis_program: str, course: Course) -> None:
    form, measured = scan.measured(program, redis_program, course, _say)
    about = {
        "Keyrail": f"{form}, `keyrail scan` under default.yaml, on the reader's processor, to which it yields",
        **_machine(course),
        "load": f"{scan.KEYS:,} keys of 64 bytes with a TTL; GETs of {scan.CLIENTS} clients, {course.rounds} rounds",
        "again": _again("scan", course),
    }
    page = report.measurements_markdown("What a scan costs", measured, about)
    _finish(_named("scan", course, form), page, about, measured)


def _connects(program: list[str], redis_program: str, course: Course) -> None:
    with connects.all_policies(redis_program, program) as (_, ways):
        samples = list(connects.rounds(ways, course, _say))
        form = ways[0].about
    shares = connects.shares(program, redis_program, _SHARE_TIMES, _say)
    about = {
        "Keyrail": f"{form}; one worker for what a client costs, two for how they share clients",
        **_machine(course),
        "load": f"{connects.BATCH} clients at once, {course.rounds} rounds",
        "again": _again("connects", course),
    }
    page = report.connects_markdown(samples, shares, about)
    _finish(_named("connects", course, form), page, about, [*samples, *shares])


def _crowd(program: list[str], redis_program: str, connections: int, course: Course) -> None:
    with crowd.all_targets(redis_program, program) as ways:
        samples = list(crowd.rounds(ways, connections, course, _say))
        form = ways[-1].about
    about = {
        "Keyrail": f"{form}; one worker",
        **_machine(course),
        "load": f"{connections} clients, {crowd.RATE} commands per second, {course.rounds} rounds",
        "again": f"{_again('crowd', course)} --connections {connections}",
    }
    _finish(_named("crowd", course, form), report.crowd_markdown(samples, about), about, samples)


def _latency(program: list[str], redis_program: str, course: Course) -> None:
    with latency.all_targets(redis_program, program) as (redis, ways):
        samples = list(latency.rounds(ways, course, _say))
        starts = list(latency.starts(program, redis, course.rounds, _say))
        form = ways[-1].about
    about = {
        "Keyrail": f"{form}; one worker",
        **_machine(course),
        "load": f"one client; then {quick.CLIENTS} clients and {latency.RATE:,} commands per second, each sent when it "
        f"is due; {course.rounds} rounds",
        "again": _again("latency", course),
    }
    _finish(_named("latency", course, form), report.latency_markdown(samples, starts, about), about, samples)


def _logins(program: list[str], redis_program: str, course: Course) -> None:
    with logins.all_ways(redis_program, program) as (redis, ways):
        samples = list(logins.rounds(redis, ways, course, _say))
        form = ways[0].about
    about = {
        "Keyrail": f"{form}, one worker, three listeners; its own login is the user as whom clients log in",
        "Redis": redis.version,
        **_machine(course),
        "load": f"{connects.BATCH} clients at once, {course.rounds} rounds",
        "again": _again("logins", course),
    }
    page = report.logins_markdown(samples, about)
    _finish(_named("logins", course, form), page, about, samples)


def _tenants(program: list[str], redis_program: str, course: Course) -> None:
    with tenants.all_targets(redis_program, program) as (redis, ways):
        samples = list(tenants.rounds(redis, ways, course, _say))
        form = ways[0].about
    about = {
        "Keyrail": f"{form}, one worker; all clients are of one tenant, or of none",
        **_machine(course),
        "load": f"{quick.CLIENTS} clients, 64-byte values, {course.rounds} rounds; an MGET is of {tenants.MGET_KEYS} "
        "keys with one hash tag",
        "again": _again("tenants", course),
    }
    _finish(_named("tenants", course, form), report.tenants_markdown(samples, about), about, samples)


def _builds(before: list[str], after: list[str], redis_program: str, course: Course) -> None:
    with builds.side_by_side(redis_program, before, after) as (redis, pairs):
        samples = list(builds.rounds(redis, pairs, course, _say))
        form = pairs[0].after.about
    about = {
        "Keyrail": f"{form}, one worker; two builds in turn, each under its own packaged policies",
        **_machine(course),
        "load": f"{quick.CLIENTS} clients, 64-byte values, {course.rounds} rounds",
        "again": _again("builds", course, " --before PROGRAM --keyrail PROGRAM"),
    }
    page = report.builds_markdown(samples, about)
    _finish(_named("builds", course, form), page, about, samples)


def _limits(
    program: list[str], before: list[str] | None, peers: list[Target], redis_program: str, course: Course
) -> None:
    with limits.side_by_side(redis_program, program, before, peers) as (redis, ways):
        samples = list(limits.rounds(redis, ways, peers, course, _say))
        about = {
            **{way.name: way.about for way in ways},
            **_machine(course),
            "load": f"{quick.CLIENTS} clients, 64-byte values, {course.rounds} rounds",
            "again": _again("limits", course, " --before PROGRAM" if before else ""),
        }
        form = next(way.about for way in ways if way.name == KEYRAIL_NONE)
    page = report.limits_markdown(samples, [peer.name for peer in peers], about)
    _finish(_named("limits", course, form), page, about, samples)


def _named(verb: str, course: Course, form: str) -> str:
    usual = course.placement.name == "apart"
    return f"{verb}-{form}" if usual else f"{verb}-{course.placement.name}-{form}"


def _again(verb: str, course: Course, more: str = "") -> str:
    length = f"--rounds {course.rounds} --scale {course.scale:g}"
    return f"python -m loadtest {verb}{more} --processors {course.placement.name} {length}"


def _memory(program: list[str], redis_program: str, connections: int) -> None:
    form, measured = memory.measured(program, redis_program, connections, _say)
    about = {
        "Keyrail": f"{form}, one worker, supervisor included, under bench.yaml",
        **_machine(),
        "again": f"python -m loadtest memory --connections {connections}",
    }
    page = report.measurements_markdown("Keyrail's memory", measured, about)
    _finish(f"memory-{form}", page, about, measured)


def _reload(program: list[str], redis_program: str, reloads: int) -> None:
    form, measured = reload.measured(program, redis_program, reloads, _say)
    about = {
        "Keyrail": f"{form}, one worker; a client of each of the {reload.APPS} apps, and one that is measured",
        **_machine(),
        "again": f"python -m loadtest reload --reloads {reloads}",
    }
    page = report.measurements_markdown("Reload of a large policy", measured, about)
    _finish(f"reload-{form}", page, about, measured)


def _failover(program: list[str], redis_program: str, failovers: int) -> None:
    form, measured = failover.measured(program, redis_program, failovers, _say)
    _, more = failover_primary.measured(program, redis_program, failovers, _say)
    measured += more
    about = {
        "Keyrail": f"{form}, one worker, under bench.yaml: before three primaries with a replica each, and before one "
        "with two replicas that Sentinels or a name lead to",
        "cluster-node-timeout": f"{failover.NODE_TIMEOUT} ms",
        "down-after-milliseconds": f"{failover_primary.DOWN_AFTER} ms",
        **_machine(),
        "again": f"python -m loadtest failover --failovers {failovers}",
    }
    page = report.measurements_markdown("Failover of a primary", measured, about)
    _finish(f"failover-{form}", page, about, measured)


def _staleness(program: list[str], redis_program: str, writes: int) -> None:
    form, measured = staleness.measured(program, redis_program, writes, _say)
    about = {
        "Keyrail": f"{form}, {staleness.WORKERS} workers, `local_cache` with `when: always`, and without a policy",
        "load": f"{staleness.READERS} readers of one key, each with a read under way, and a writer directly at Redis",
        **_machine(),
        "again": f"python -m loadtest staleness --writes {writes}",
    }
    page = report.measurements_markdown("How late a write is seen", measured, about)
    _finish(f"staleness-{form}", page, about, measured)


def _soak(program: list[str], redis_program: str, plan: soak.Plan) -> None:
    form, samples = soak.run(program, redis_program, plan, _say)
    loads = [each.load for each in samples]
    about = {
        "Keyrail": f"{form}, two workers, observe.yaml, --traffic-memory {plan.traffic_memory}MB, the admin port on",
        **_machine(),
        "load": f"{plan.commands} commands a second from {plan.clients} clients, {plan.keys} keys, a fifth are SETs, "
        f"a reload each {plan.reload_every:g} s",
        "time": f"{samples[-1].at / 60:.1f} minutes",
        "load average": f"{min(loads):.1f} to {max(loads):.1f}, of this run and all other work of the machine",
        "again": f"python -m loadtest soak --seconds {plan.seconds:g} --every {plan.every:g} "
        f"--commands {plan.commands} --reload-every {plan.reload_every:g}",
    }
    page = soak.markdown(samples, about, plan.traffic_memory)
    _finish(f"soak-{form}", page, about, samples)


def _finish(name: str, page: str, about: Mapping[str, str], results: Sequence[report.Result]) -> None:
    report.write(published.RESULTS, name, page, about, results)
    print(page)


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def _machine(course: Course | None = None) -> dict[str, str]:
    processors = {} if course is None else {"processors": str(course.placement)}
    return {
        "machine": f"{kernel.machine()}; {platform.platform()}",
        "Python": platform.python_version(),
        "when": dt.datetime.now(dt.UTC).strftime("%Y-%m-%d"),
        **processors,
    }


_OF_A_COURSE = {
    "quick": _quick,
    "traces": _traces,
    "logins": _logins,
    "latency": _latency,
    "cluster": _cluster,
    "local-cache": _local_cache,
    "replicas": _replicas,
    "scan": _scan,
    "tenants": _tenants,
    "connects": _connects,
}
"""The verbs that take nothing else."""
