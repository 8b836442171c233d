"""How many seeds generators try is one setting: `--seeds`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import SeedBudget
from tests.quick import TESTS


@pytest.mark.parametrize(("times", "number", "tried"), [(1.0, 40, 40), (0.01, 40, 1), (2.5, 3, 8), (0.0, 1, 1)])
def test_so_many_are_tried(times: float, number: int, tried: int) -> None:
    budget = SeedBudget()
    budget.times = times
    assert budget.of(number) == tried


def test_the_option_counts_for_each_generator() -> None:
    """This one has ten by default, and fifty at night."""
    generator = "tests/session/test_owned_replies.py::test_each_reply_is_the_one_of_its_command"
    told = subprocess.run(
        [sys.executable, "-m", "pytest", generator, "--seeds", "0.5", "--collect-only", "-q", "-n", "0"],
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert [line.rpartition("[")[2] for line in told.splitlines() if "::" in line] == [f"{n}]" for n in range(5)]
