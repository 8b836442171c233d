"""Package docstrings list the modules of their folder, and nothing else."""

import ast
import re
from pathlib import Path

import pytest

import proxy

PACKAGE = Path(proxy.__file__).parent
PACKAGES = sorted(file.parent for file in PACKAGE.rglob("__init__.py"))

NAME = r"[a-z_]+(?:\.[a-z]+|/)"
ROW = re.compile(rf"\s*({NAME}(?:, {NAME})*)(?:,$|$|  )")
"""A row of a package map: names, two spaces, what they are about. A list of names alone may go on in the next row."""


def listed(docstring: str) -> set[str]:
    """The modules, packages and data files that a docstring names."""
    rows = (ROW.match(line) for line in docstring.splitlines())
    return {name for row in rows if row for name in re.findall(NAME, row[1])}


def modules(folder: Path) -> set[str]:
    """The modules and packages in a folder: `name.py` and `name/`."""
    files = {file.name for file in folder.glob("*.py") if not file.name.startswith("__")}
    return files | {f"{file.parent.name}/" for file in folder.glob("*/__init__.py")}


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda folder: str(folder.relative_to(PACKAGE.parent)))
def test_a_package_docstring_lists_what_is_in_the_folder(folder: Path) -> None:
    names = listed(ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))) or "")
    assert modules(folder) - names == set(), "in the folder, not in the docstring"
    assert {name for name in names if not (folder / name).exists()} == set(), "in the docstring, not in the folder"


def test_the_list_of_a_docstring_can_be_wrong(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    for file in ("__init__.py", "__main__.py", "one.py", "inner/__init__.py"):
        (tmp_path / file).touch()
    assert modules(tmp_path) == {"one.py", "inner/"}
    assert listed("Words, one.py among them.\n\none.py  about\ninner/, two.py  about\na.py, b.py,\nc.py") == {
        *("one.py", "inner/", "two.py"),
        *("a.py", "b.py", "c.py"),
    }
