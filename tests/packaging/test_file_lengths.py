"""No file of the program has more than 400 lines, but for the tables, which are read row by row."""

from pathlib import Path

import pytest

from tests.program_source import PACKAGE

MOST = 400
TABLES = {"commands/error_texts.py", "commands/rows.py"}


def long_files(folder: Path) -> set[str]:
    """The modules with more lines than that, by their path in the folder."""
    sizes = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in folder.rglob("*.py")}
    return {file.relative_to(folder).as_posix() for file, lines in sizes.items() if lines > MOST}


@pytest.mark.source
def test_only_tables_are_long() -> None:
    assert long_files(PACKAGE) == TABLES, "part a long file where its subject changes, and name the part after it"


def test_a_long_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/short.py").write_text("pass\n" * MOST)
    (tmp_path / "inner/long.py").write_text("pass\n" * (MOST + 1))
    assert long_files(tmp_path) == {"inner/long.py"}
