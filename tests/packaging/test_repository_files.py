"""The files that people and GitHub expect agree with the tools that they name, and are part of the source package."""

from __future__ import annotations

import ast
import configparser
import fnmatch
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

pytestmark = pytest.mark.source
REPOSITORY = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
WORKFLOWS = sorted((REPOSITORY / ".github/workflows").iterdir())
SCHEMAS = {
    "vendor.github-workflows": WORKFLOWS,
    "vendor.github-issue-config": [REPOSITORY / ".github/ISSUE_TEMPLATE/config.yml"],
    "vendor.github-issue-forms": sorted((REPOSITORY / ".github/ISSUE_TEMPLATE").glob("[!c]*.yml")),
}
IGNORED = [
    *(".git", "MANIFEST.in", "PKG-INFO", "setup.cfg"),  # the others are in an unpacked source package
    *(line.strip("/") for line in (REPOSITORY / ".gitignore").read_text().splitlines() if not line.startswith("#")),
]


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def is_ignored(path: Path) -> bool:
    name = path.relative_to(REPOSITORY).as_posix()
    return any(fnmatch.fnmatch(name, each) or fnmatch.fnmatch(path.name, each) for each in IGNORED)


def texts(folder: Path = REPOSITORY) -> list[Path]:
    """All text files that are not ignored."""
    found = []
    for path in sorted(folder.iterdir()):
        if is_ignored(path):
            continue
        if path.is_dir():
            found += texts(path)
        elif path.suffix != ".png":
            found.append(path)
    return found


@pytest.mark.parametrize("schema", SCHEMAS)
def test_what_github_reads_has_its_form(schema: str) -> None:
    pytest.importorskip("check_jsonschema", reason="not installed here: pip install 'keyrail[deploy]'")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, SCHEMAS[schema])]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_call_scripts_that_are_there_and_actions_that_cannot_change(workflow: Path) -> None:
    steps = [step for job in read(workflow)["jobs"].values() for step in job["steps"]]
    scripts = [step["run"].split()[0] for step in steps if "run" in step]
    assert scripts
    assert [script for script in scripts if not os.access(REPOSITORY / script, os.X_OK)] == []
    used = re.findall(r"uses: (.*)", workflow.read_text())
    assert [action for action in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", action)] == []


def test_the_hooks_are_what_lint_runs_and_come_with_the_tests() -> None:
    (local,) = read(REPOSITORY / ".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local"
    hooks = {hook["entry"] for hook in local["hooks"]}
    script = (REPOSITORY / ".ci/run").read_text()
    assert hooks == set(re.findall(r"^    (\.venv/bin/(?!python).*)", script, re.MULTILINE))
    wanted = {Requirement(each).name for each in PYPROJECT["project"]["optional-dependencies"]["test"]}
    tools = {Path(hook.split()[0]).name.replace("lint-imports", "import-linter") for hook in hooks}
    assert tools <= wanted


def test_the_editor_is_told_what_ruff_checks() -> None:
    config = configparser.ConfigParser()
    config.read_string("[top]\n" + (REPOSITORY / ".editorconfig").read_text())
    assert config["*.{py,pxd}"].getint("max_line_length") == PYPROJECT["tool"]["ruff"]["line-length"]


def test_every_file_is_as_the_editor_is_told() -> None:
    found = {path: path.read_bytes() for path in texts()}
    assert len(found) > 1000
    assert [path for path, text in found.items() if text and not text.endswith(b"\n")] == []
    assert [path for path, text in found.items() if re.search(rb"[ \t\r]\n|\t", text)] == []


def test_the_source_package_has_every_file() -> None:
    (shipped,) = (
        ast.literal_eval(node.value)
        for node in ast.parse((REPOSITORY / ".packaging/backend.py").read_text()).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SHIPPED"
    )
    assert set(shipped) == {path.name for path in REPOSITORY.iterdir() if not is_ignored(path)}
