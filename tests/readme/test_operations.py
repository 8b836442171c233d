"""docs/operations.md: each line of "What happens when …" names a test that is there; its options are real."""

from __future__ import annotations

import ast
import re

from proxy.server.options import OPTIONS
from tests.readme.blocks import DOCS, REPOSITORY

TEXT = (DOCS / "operations.md").read_text("utf-8")
LINE = re.compile(r"^\| (?P<when>[^|]+) \| (?P<then>[^|]+) \| `(?P<file>[\w/]+\.py)::(?P<test>\w+)` \|$", re.MULTILINE)


def test_each_sentence_has_a_test() -> None:
    table = TEXT.partition("| when … |")[2].partition("\n## ")[0].splitlines()[2:]
    rows = [row for row in table if row.startswith("|")]
    found = list(LINE.finditer("\n".join(rows)))
    assert len(found) == len(rows) > 20
    for row in found:
        tree = ast.parse((REPOSITORY / "tests" / row["file"]).read_text())
        tests = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert row["test"] in tests, row[0]


def test_its_options_are_there() -> None:
    known = {option.flag for option in OPTIONS} | {"--upstream", "--policy", "--kill-who"}
    assert set(re.findall(r"--[a-z][a-z-]+", TEXT)) <= known
