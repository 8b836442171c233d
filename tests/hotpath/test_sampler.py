"""The sampler traces a bounded number of commands, at random, and what it traces stands for all of them."""

from itertools import pairwise

import pytest

from proxy.hotpath.counting.sampler import Sampler


def run(sampler: Sampler, commands: int) -> list[tuple[int, int]]:
    """The position and the weight of each trace."""
    return [(i, sampler.weight) for i in range(commands) if sampler.due()]


def test_without_traces_nothing_is_due() -> None:
    sampler = Sampler(0)
    assert run(sampler, 10_000) == []
    sampler.another_second()
    assert run(sampler, 10_000) == []


def test_few_commands_are_all_traced() -> None:
    sampler = Sampler(50)
    for commands in (1, 0, 0, 3, 40, 40, 0, 0, 0, 12):
        assert run(sampler, commands) == [(i, 1) for i in range(commands)]
        sampler.another_second()


def test_traces_are_not_in_step() -> None:
    sampler = Sampler(200)
    for _ in range(2):
        run(sampler, 300)
        sampler.another_second()
    found = run(sampler, 300)
    assert {weight for _, weight in found} == {2}
    assert len({later - earlier for (earlier, _), (later, _) in pairwise(found)}) > 1


@pytest.mark.parametrize("commands", [5_000, 300_000])
def test_a_burst_costs_a_bounded_number_of_traces_and_is_estimated(commands: int) -> None:
    found = run(Sampler(200, seed=7), commands)
    assert len(found) <= 200 + 8 * 12
    assert sum(weight for _, weight in found) == pytest.approx(commands, rel=0.25)


def test_bursts_are_estimated_all_but_what_came_after_the_last_trace() -> None:
    seeds = range(7919, 200 * 7919, 7919)
    bursts = [[weight for _, weight in run(Sampler(50, seed), 20_000)] for seed in seeds]
    after = sum(weights[-1] for weights in bursts) / 3
    assert sum(map(sum, bursts)) + after == pytest.approx(20_000 * len(seeds), rel=0.03)


def test_what_was_busy_a_moment_ago_costs_few_traces_when_it_comes_back() -> None:
    sampler = Sampler(50, seed=3)
    run(sampler, 500_000)
    for _ in range(4):
        sampler.another_second()
    assert len(run(sampler, 500_000)) <= 70


def test_when_nothing_came_for_long_the_first_commands_are_traced_again() -> None:
    sampler = Sampler(50)
    run(sampler, 500_000)
    for _ in range(20):
        sampler.another_second()
    assert len(run(sampler, 20)) >= 5


def test_the_next_second_traces_as_often_as_it_should() -> None:
    sampler = Sampler(200, seed=3)
    for _ in range(3):
        run(sampler, 100_000)
        sampler.another_second()
    found = run(sampler, 100_000)
    assert 150 <= len(found) <= 250
    assert sum(weight for _, weight in found) == pytest.approx(100_000, rel=0.1)


def test_after_a_burst_few_commands_are_seen_again() -> None:
    sampler = Sampler(200)
    run(sampler, 300_000)
    for _ in range(4):
        sampler.another_second()
        run(sampler, 10)
    sampler.another_second()
    assert len(run(sampler, 100)) >= 30


@pytest.mark.parametrize("traces", [0, 50])
def test_every_command_is_traced_while_a_policy_says_so(traces: int) -> None:
    sampler = Sampler(traces, every=True)
    for _ in range(3):
        assert run(sampler, 5_000) == [(i, 1) for i in range(5_000)]
        sampler.another_second()
    sampler.take_all(False)
    assert len(run(sampler, 5_000)) <= 3 * traces
    sampler.take_all(True)
    assert run(sampler, 100) == [(i, 1) for i in range(100)]
