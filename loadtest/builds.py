"""``builds``: what a change costs. It compares two builds of Keyrail in front of one Redis, in interleaved rounds.

Each build runs without a policy, under its packaged bench.yaml and under its packaged strict.yaml: 18 cells with GET
and SET at three pipeline depths. It compares the proxy's CPU per command within a round.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from loadtest import targets
from loadtest.quick import WORKLOADS, Course, Sample, measure, told
from loadtest.rules import as_it_is
from loadtest.targets import Redis, Target

BEFORE = "before"
AFTER = "after"
POLICIES = ("none", "bench", "strict")


@dataclass(frozen=True, slots=True)
class Pair:
    """Both builds under one policy."""

    before: Target
    after: Target


def named(policy: str, build: str) -> str:
    """The name of one build under a policy."""
    return f"{policy} {build}"


@contextlib.contextmanager
def side_by_side(redis_program: str, before: list[str], after: list[str]) -> Iterator[tuple[Redis, list[Pair]]]:
    """A preloaded Redis and both builds under each policy, ended with the block. Raises StartError and RunError."""
    with contextlib.ExitStack() as stack:
        _, redis = stack.enter_context(targets.preloaded(redis_program))

        def started(policy: str, build: str, program: list[str]) -> Target:
            target = stack.enter_context(targets.keyrail(named(policy, build), program, redis, policy))
            return as_it_is(redis, target)

        yield redis, [Pair(started(each, BEFORE, before), started(each, AFTER, after)) for each in POLICIES]


def rounds(redis: Redis, pairs: Sequence[Pair], course: Course, say: Callable[[str], None]) -> Iterator[Sample]:
    """In each round every workload runs on every pair; the order of its builds alternates."""
    for number in range(course.rounds):
        for workload in (each for each in WORKLOADS if each.only is None):
            for pair in pairs:
                for target in targets.rotated((pair.before, pair.after), number):
                    sample = measure([redis], target, workload, number, course)
                    say(told(sample, course.rounds))
                    yield sample
