"""``rules``: what each rule of a policy costs, alone and all together, compared with the same policy without rules.

GET and SET at P=16. A policy that adds a lifetime gets a bare SET, all others ``SET … EX``, so that Redis does the same
work for all of them. ``--policy none`` is measured, too.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import redis as redis_py
import yaml

from loadtest import targets, workloads
from loadtest.benchmark import RunError
from loadtest.quick import Course, Sample, Workload, measure, told
from loadtest.targets import Redis, Target

NO_RULE = "no rule"
ALL_RULES = "all rules"
WORKLOADS = [Workload("GET", 16, 400_000), Workload("SET", 16, 400_000)]

_OF_RULES = ("tests", "rollout", "exceptions")
"""Sections that name rules: a variant may not have these rules."""


def variants(text: str) -> dict[str, str]:
    """The policy without rules, with each of its rules alone, and with all of them; every rule enforced.

    In the variant with all rules, rules that are off in the policy stay off: they may contradict the others. Every
    variant has the rules about the schema, off if need be, since a schema without a rule is an error.
    """
    policy = targets.as_written(text)
    rules: dict[str, Any] = policy["rules"]
    rest = {key: value for key, value in policy.items() if key not in {"rules", *_OF_RULES}}
    rest["defaults"] = {**rest.get("defaults", {}), "mode": "enforce"}
    together = {name: rule for name, rule in rules.items() if rule.get("mode") == "off"}
    rules = {name: {key: value for key, value in rule.items() if key != "mode"} for name, rule in rules.items()}
    off = {name: {**rule, "mode": "off"} for name, rule in rules.items() if "schema" in rule}
    alone = {name: {**off, name: rule} for name, rule in rules.items()}
    chosen = {NO_RULE: off, **alone, ALL_RULES: {**rules, **together}}
    return {name: yaml.safe_dump({**rest, "rules": some}, sort_keys=False) for name, some in chosen.items()}


@contextlib.contextmanager
def all_variants(redis_program: str, keyrail_program: list[str], policy: Path) -> Iterator[tuple[Redis, list[Target]]]:
    """A Redis and a Keyrail in front of it for each variant, started and preloaded, ended with the block."""
    with contextlib.ExitStack() as stack:
        folder, redis = stack.enter_context(targets.preloaded(redis_program))
        found = [stack.enter_context(targets.keyrail(targets.KEYRAIL_NONE, keyrail_program, redis, "none"))]
        for number, (name, text) in enumerate(variants(policy.read_text(encoding="utf-8")).items()):
            file = folder / f"{number}.yaml"
            file.write_text(text, encoding="utf-8")
            target = stack.enter_context(targets.keyrail(name, keyrail_program, redis, str(file)))
            found.append(as_it_is(redis, target))
        yield redis, found


def as_it_is(redis: Redis, target: Target) -> Target:
    """The target, with a note whether it adds a TTL to a bare SET. Raises RunError if it refuses one."""
    key = f"{workloads.SET_PREFIX}check"
    with redis_py.Redis(port=redis.port, protocol=2) as straight, redis_py.Redis(port=target.port, protocol=2) as way:
        try:
            way.set(key, workloads.VALUE)
        except redis_py.RedisError as error:
            raise RunError(f"{target.name}: a SET cannot be measured under this rule: {error}") from None
        return Target(target.name, target.port, target.pid, target.about, int(str(straight.ttl(key))) > 0)


def rounds(redis: Redis, ways: Sequence[Target], course: Course, say: Callable[[str], None]) -> Iterator[Sample]:
    """In each round both workloads run on every variant, in an order that rotates."""
    for number in range(course.rounds):
        for workload in WORKLOADS:
            for target in targets.rotated(ways, number):
                sample = measure([redis], target, workload, number, course)
                say(told(sample, course.rounds))
                yield sample
