"""The load runs on its processors, and measured programs on theirs."""

import os
import subprocess
import sys

from loadtest.placement import PLACEMENTS, Placement, apart, together

ASK = [sys.executable, "-c", "import os; print(sorted(os.sched_getaffinity(0)))"]


def test_the_load_has_the_last_processor_for_itself() -> None:
    assert apart(frozenset({0, 1, 2, 5})) == Placement("apart", frozenset({5}), frozenset({0, 1, 2}))
    assert str(apart(frozenset({0, 1}))) == "the load has a processor for itself; the proxy and Redis have one other"
    assert str(apart(frozenset({0, 1, 2}))).endswith("the proxy and Redis have 2 others")


def test_one_processor_is_shared() -> None:
    assert apart(frozenset({3})) == together(frozenset({3}))
    assert str(together(frozenset({3}))) == "the kernel puts the load, the proxy and Redis where it likes"


def test_they_are_called_what_the_command_line_calls_them() -> None:
    assert all(place(frozenset({0, 1})).name == name for name, place in PLACEMENTS.items())


def test_what_is_started_stays_where_it_belongs() -> None:
    available = frozenset(os.sched_getaffinity(0))
    chosen = apart(available)

    def asked() -> str:
        return subprocess.run(ASK, capture_output=True, text=True, check=True).stdout.strip()

    try:
        chosen.settle()
        assert asked() == str(sorted(chosen.measured))
        with chosen.loading():
            assert asked() == str(sorted(chosen.load))
        assert asked() == str(sorted(chosen.measured))
    finally:
        os.sched_setaffinity(0, available)
