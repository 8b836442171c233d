"""What .ci/run does with a test that fails: that test alone is run again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.source,
    pytest.mark.skipif(shutil.which("xargs") is None, reason="xargs is not installed here"),
]
TESTS = """
from pathlib import Path

def note(name):
    with Path(name).open("a") as file:
        file.write("x")

def test_that_passes():
    note("passed")

def test_that_fails_once():
    known = Path("failed").exists()
    note("failed")
    assert known
"""


def test_what_failed_is_run_again_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    script = f". .ci/steps; suite plain '{tmp_path}' '{sys.executable}' -m pytest tests; echo status $status"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, env=kept, capture_output=True, text=True, check=False)
    assert done.stdout.endswith("status 0\n"), done.stdout + done.stderr
    assert [(tmp_path / name).read_text() for name in ("passed", "failed")] == ["x", "x" * 7]
