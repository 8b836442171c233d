"""Each break is found by the test that stands beside it, and that test is one of ``.ci/run``.

A copy of the program, as plain Python, has one change, and runs the test.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.breaks import cluster, hotpath, local_cache, net, session
from tests.breaks.given import Break
from tests.broken_program import Change, broken, stale
from tests.conftest import rest_is_long
from tests.keyrail_process import DIRECT

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.skipif(DIRECT, reason="a relay has no rules"),
    pytest.mark.source,
]

BREAKS: dict[str, Break] = {
    **local_cache.BREAKS,
    **hotpath.BREAKS,
    **session.BREAKS,
    **cluster.BREAKS,
    **net.BREAKS,
}


def test_no_break_is_stale() -> None:
    assert not stale(change for each in BREAKS.values() for change in each.changes)


def test_each_test_is_one_of_ci_run() -> None:
    tests = {f"tests/{each.test}" for each in BREAKS.values()}
    words = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        *sorted(tests),
    ]
    done = subprocess.run(words, cwd=ROOT, env=_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    found = done.stdout.splitlines()
    assert [test for test in tests if not any(line.startswith(test) for line in found)] == []


@pytest.mark.parametrize("name", rest_is_long(*BREAKS))
def test_what_is_broken_is_found(tmp_path: Path, name: str) -> None:
    if name in list(BREAKS)[:1]:
        assert _run(_copy(tmp_path / "right"), BREAKS[name].test) == 0, "the copy is right"
    wrong = _copy(tmp_path / "wrong", *BREAKS[name].changes)
    assert _run(wrong, BREAKS[name].test) == 1


def _copy(folder: Path, *changes: Change) -> Path:
    broken(folder, *changes)
    for name in ("tests", "policies", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def _run(folder: Path, test: str) -> int:
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", f"tests/{test}"]
    done = subprocess.run(words, cwd=folder, env=_environment(), capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout[-2000:]
    return done.returncode


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("KEYRAIL_", "PYTEST_"))}
