"""CI fails on a known vulnerability of a locked dependency, and never because the data cannot be reached."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.readme.blocks import REPOSITORY

FINE = {"name": "redis", "version": "1.0", "vulns": []}
VULNERABLE = {"name": "aiohttp", "version": "3.0", "vulns": [{"id": "PYSEC-1"}, {"id": "PYSEC-2"}]}
SKIPPED = {"name": "hiredis", "skip_reason": "Dependency not found on PyPI"}


def audited(tmp_path: Path, said: str, status: int) -> tuple[int, str]:
    """Exit status and output where pip-audit says this."""
    program = tmp_path / "pip-audit"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{said}\nEND\nexit {status}\n")
    program.chmod(0o755)
    return run(program)


def run(program: Path) -> tuple[int, str]:
    ended = subprocess.run(
        [sys.executable, str(REPOSITORY / ".ci/audit"), str(program), "a.lock"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stderr == ""
    return ended.returncode, ended.stdout


@pytest.mark.parametrize(
    ("dependencies", "status", "told"),
    [
        ([FINE], 0, "ci: a.lock: 1 dependencies audited, 0 vulnerable\n"),
        ([FINE, VULNERABLE], 1, "aiohttp 3.0 is vulnerable: PYSEC-1, PYSEC-2; lock a later version"),
        ([FINE, SKIPPED], 0, "not audited, since pip-audit has no data about them: hiredis\n"),
        ([VULNERABLE, SKIPPED], 1, "ci: a.lock: 1 dependencies audited, 1 vulnerable\n"),
    ],
)
def test_a_vulnerability_fails_and_missing_data_are_told(
    tmp_path: Path, dependencies: list[object], status: int, told: str
) -> None:
    ended, text = audited(tmp_path, json.dumps({"dependencies": dependencies, "fixes": []}), status)
    assert ended == status
    assert told in text


def test_no_result_is_told_and_passes(tmp_path: Path) -> None:
    for ended, text in (audited(tmp_path, "", 1), audited(tmp_path, "ConnectionError", 1), run(tmp_path / "none")):
        assert ended == 0
        assert "a.lock: not audited: pip-audit has no result" in text
