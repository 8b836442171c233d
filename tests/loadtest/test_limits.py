"""What is compared with its limit, and who can be measured beside it."""

import argparse

import pytest

from loadtest import limits
from loadtest.goals import limits_goals
from loadtest.quick import Sample
from loadtest.report import limits_markdown
from loadtest.targets import KEYRAIL_NONE, NUTCRACKER


def test_ratios_stand_beside_their_bounds_and_peers_beside_all() -> None:
    def sample(target: str, cpu: float, number: int = 0, workload: str = "GET") -> Sample:
        return Sample(workload, 1, target, number, 1.0, 0.1, 0.2, cpu, 1.0)

    samples = [sample(NUTCRACKER, 10.0), sample(limits.KEYRAIL_STRICT, 8.0), sample("other", 4.0)]
    samples += [sample(NUTCRACKER, 10.0, 1), sample(limits.KEYRAIL_STRICT, 8.4, 1)]
    samples += [sample(NUTCRACKER, 10.0, 0, limits.CLIENT), sample(KEYRAIL_NONE, 31.0, 0, limits.CLIENT)]
    page = limits_markdown(samples, ["other"], {"machine": "test"})
    assert "| GET P=1: proxy CPU of keyrail strict, of nutcracker's | ≤ 0.86 | 0.82 (0.80–0.84) | met |" in page
    assert "| GET P=1: proxy CPU of keyrail strict, of other's | ≤ 1 | 2.00 (2.00–2.00) | MISSED |" in page
    assert f"| {limits.CLIENT} P=1: proxy CPU of keyrail none, of nutcracker's | ≤ 1.8 | 3.10" in page
    assert len(limits_goals([])) + 6 == len(limits_goals(["other"]))


def test_a_peer_is_named_by_its_address_and_its_process() -> None:
    found = limits.peer("predixy=127.0.0.1:7617,123")
    assert (found.name, found.port, found.pid) == ("predixy", 7617, 123)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("predixy", "'predixy': expected NAME=HOST:PORT,PID"),
        ("predixy=127.0.0.1:7617", "expected NAME=HOST:PORT,PID"),
        ("predixy=10.0.0.1:7617,5", "'10.0.0.1': expected 127.0.0.1"),
    ],
)
def test_another_text_says_what_was_expected(text: str, expected: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=expected):
        limits.peer(text)
