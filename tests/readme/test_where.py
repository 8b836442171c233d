"""The hand-over map, docs/where-to-change.md, has its twenty questions and names existing files."""

import re
from collections.abc import Sequence
from pathlib import Path

import proxy
from tests.readme.blocks import DOCS, REPOSITORY

ROOTS = REPOSITORY, Path(proxy.__file__).parents[1]
"""The second is another one where the compiled program is tested, beside no source."""
MAP = DOCS / "where-to-change.md"
NAMED = re.compile(r"`((?:proxy|tests|policies|docs|loadtest)/[\w./-]*|README\.md)(?:::(\w+))?`")
ROW = re.compile(r"^\| (\d+)\. (.+\?) \| (.+) \|$", re.MULTILINE)


def missing(text: str, roots: Sequence[Path] = ROOTS) -> list[str]:
    """The files that a text names and that are below none of the roots, and the names that are not in their file."""
    found = []
    for name, inside in NAMED.findall(text):
        file = next((root / name for root in roots if (root / name).exists()), None)
        if file is None:
            found.append(name)
        elif inside and not re.search(rf"\b{inside}\b", file.read_text("utf-8")):
            found.append(inside)
    return found


def test_twenty_questions_are_answered_with_files_that_are_there() -> None:
    rows = ROW.findall(MAP.read_text("utf-8"))
    assert [int(number) for number, _, _ in rows] == list(range(1, 21))
    for _, question, answer in rows:
        assert NAMED.search(answer), f"no file answers: {question}"
    assert missing(MAP.read_text("utf-8")) == []


def test_a_file_that_is_gone_is_found(tmp_path: Path) -> None:
    (tmp_path / "proxy").mkdir()
    (tmp_path / "proxy/one.py").write_text("def here(): ...")
    text = "`proxy/one.py::here`, `proxy/one.py::gone`, `proxy/two.py`, `README.md`, `keyrail top`"
    assert missing(text, [tmp_path]) == ["gone", "proxy/two.py", "README.md"]
