"""``tenants``: what the prefix of a tenant costs, without rules and under strict.yaml, beside the same commands of a
client of no tenant; and beside a client of no tenant that writes the prefix itself. For the last Keyrail does nothing
about the prefix: what it costs more is the price of longer names.

All keys of a MGET have one hash tag, since strict.yaml asks for it.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import redis as redis_py
import yaml

from loadtest import benchmark, targets, workloads
from loadtest.benchmark import RunError
from loadtest.limits import KEYRAIL_STRICT
from loadtest.quick import CLIENTS, Course, Sample, Workload, sampled, spent, told
from loadtest.targets import REPOSITORY, Redis, Target

NO_RULES = "keyrail, no rules"
TENANT_NO_RULES = "keyrail, no rules, a tenant"
TENANT_STRICT = "keyrail strict, a tenant"
WRITTEN = "keyrail strict, the client writes the prefix"
MGET_KEYS = 10
WORKLOADS = [
    Workload(name, pipeline, commands)
    for pipeline, commands in ((1, 60_000), (16, 400_000))
    for name in ("GET", "SET", "MGET")
]
_WITHOUT_RULES = "keyrail: 1\nrules: {}\n"
_PREFIX = "acme:"
_KEY = "bench:{tenants}:"
_AT_ONCE = 1000


@contextlib.contextmanager
def all_targets(redis_program: str, program: list[str]) -> Iterator[tuple[Redis, list[Target]]]:
    """A Redis with the keys of both names, and a Keyrail in front of it for each policy, ended with the block."""
    strict = (REPOSITORY / "policies" / "strict.yaml").read_text("utf-8")
    with contextlib.ExitStack() as stack:
        folder, redis = stack.enter_context(targets.preloaded(redis_program))
        _preload(redis)
        ways: list[Target] = []
        for name, text in (
            (NO_RULES, _WITHOUT_RULES),
            (TENANT_NO_RULES, of_a_tenant(_WITHOUT_RULES)),
            (KEYRAIL_STRICT, strict),
            (TENANT_STRICT, of_a_tenant(strict)),
        ):
            file = folder / f"{len(ways)}.yaml"
            file.write_text(text, "utf-8")
            ways.append(stack.enter_context(targets.keyrail(name, program, redis, str(file))))
        for way in ways:
            _check(redis, way)
        strict_way = next(way for way in ways if way.name == KEYRAIL_STRICT)
        yield redis, [*ways, dataclasses.replace(strict_way, name=WRITTEN)]


def of_a_tenant(text: str) -> str:
    """The policy where every client is the tenant ``acme``."""
    policy: dict[str, Any] = targets.as_written(text)
    policy["apps"] = {"acme": {"match": {"address": ["127.0.0.0/8"]}}, **policy.get("apps", {})}
    policy["tenants"] = {"prefix": "{app}:", "apps": ["acme"]}
    return yaml.safe_dump(policy, sort_keys=False)


def rounds(redis: Redis, ways: Sequence[Target], course: Course, say: Callable[[str], None]) -> Iterator[Sample]:
    """In each round every workload runs on every way, in an order that rotates. Raises RunError."""
    if not benchmark.available():
        raise RunError("tenants are measured with redis-benchmark, which is not installed")
    for number in range(course.rounds):
        for workload in WORKLOADS:
            for way in targets.rotated(ways, number):
                sample = _measure(redis, way, workload, number, course)
                say(told(sample, course.rounds))
                yield sample


def _measure(redis: Redis, way: Target, workload: Workload, number: int, course: Course) -> Sample:
    commands = max(CLIENTS * workload.pipeline, int(workload.commands * course.scale))
    key = f"{_PREFIX if way.name == WRITTEN else ''}{_KEY}__rand_int__"
    argv = {
        "GET": ["GET", key],
        "SET": ["SET", key, workloads.VALUE.decode(), "EX", str(workloads.LIFETIME)],
        "MGET": ["MGET", *[key] * MGET_KEYS],
    }[workload.name]
    begun = spent(way, [redis])
    with course.placement.loading():
        measured = benchmark.run(
            way.port,
            argv,
            clients=CLIENTS,
            pipeline=workload.pipeline,
            commands=commands,
            keyspace=workloads.KEYSPACE,
        )
    run = (workload.name, workload.pipeline, way.name, number)
    return sampled(run, measured, commands, begun, spent(way, [redis]))


def _preload(redis: Redis) -> None:
    with redis_py.Redis(port=redis.port, protocol=2) as connection:
        for first in range(0, workloads.KEYSPACE, _AT_ONCE):
            names = [f"{_KEY}{number:012d}" for number in range(first, first + _AT_ONCE)]
            connection.mset({prefix + name: workloads.VALUE for name in names for prefix in ("", _PREFIX)})


def _check(redis: Redis, way: Target) -> None:
    # A way that adds no prefix, or one too many, would be measured for something else.
    prefix = _PREFIX if way.name in (TENANT_NO_RULES, TENANT_STRICT) else ""
    name = f"{_KEY}check"
    with redis_py.Redis(port=redis.port, protocol=2) as direct, redis_py.Redis(port=way.port, protocol=2) as through:
        through.set(name, way.name, ex=workloads.LIFETIME)
        if direct.get(prefix + name) != way.name.encode() or through.mget([name]) != [way.name.encode()]:
            raise RunError(f"{way.name}: a SET of {name} is not at {prefix + name} in Redis")
