"""The tests of applications that docs/schema.md shows: they pass with the keys that it exports, and fail without."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from proxy.policy.load import load_policy
from proxy.policy.schema_export import schema_export
from tests.readme.blocks import DOCS, blocks_of

PAGE = DOCS / "schema.md"
NODE_MODULES = os.environ.get("NODE_PATH", "")


@pytest.fixture(params=["cart", "basket"])
def exported(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, bool]:
    """A folder with keys.json, and whether the application's keys are as the schema has them."""
    (policy,) = blocks_of("yaml", PAGE)
    (tmp_path / "keys.yaml").write_text(policy.text.replace('"cart:', f'"{request.param}:'))
    (tmp_path / "keys.json").write_text(json.dumps(schema_export(load_policy(tmp_path / "keys.yaml"))))
    return tmp_path, request.param == "cart"


def passes(folder: Path, *command: str) -> bool:
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode in {0, 1}, ended.stdout + ended.stderr
    return ended.returncode == 0


def test_with_pytest(exported: tuple[Path, bool]) -> None:
    folder, right = exported
    (tests,) = blocks_of("python", PAGE)
    (folder / "test_keys.py").write_text(tests.text)
    assert passes(folder, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_keys.py") == right


@pytest.mark.skipif(
    shutil.which("node") is None or not Path(NODE_MODULES, "jest").is_dir(), reason="needs Jest on NODE_PATH"
)
def test_with_jest(exported: tuple[Path, bool]) -> None:
    folder, right = exported
    (tests,) = blocks_of("javascript", PAGE)
    (folder / "package.json").write_text("{}")
    (folder / "keys.test.js").write_text(tests.text)
    assert passes(folder, "node", f"{NODE_MODULES}/jest/bin/jest.js") == right
